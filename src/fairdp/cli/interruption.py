"""What an interrupted run leaves behind, and how to continue."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def saying_what_is_kept(
    *, out: Path | None, checkpoint: Path | None, resume: bool, method: str | None
) -> Iterator[None]:
    """On interruption, say which of a run's files were written since it began, and how to continue if possible."""
    model, state = _version(out), _version(checkpoint)
    try:
        yield
    except KeyboardInterrupt:
        if _version(out) not in (None, model):
            kept = f"the model had just been written to {str(out)!r}"
        elif _version(checkpoint) not in (None, None if resume else state):
            kept = f"the run is kept in {str(checkpoint)!r}: run the same command with --resume to continue"
        else:
            # Imported on use: only an interrupted run needs the names of the methods.
            from fairdp.methods import METHODS

            # A search, which names none, cannot be continued.
            continues = method is not None and method in METHODS and METHODS[method].is_one_run
            remedy = "" if checkpoint or not continues else "; with --checkpoint FILE a run can be continued"
            kept = f"nothing was written{remedy}"
        raise KeyboardInterrupt(f"interrupted: {kept}.") from None


@contextmanager
def saying_which_trainings_are_kept(folder: Path) -> Iterator[None]:
    """On interruption, say how many training runs of a sweep are kept, and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        n_kept = sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))
        kept = f"{n_kept} finished training runs are kept in {str(folder)!r}"
        raise KeyboardInterrupt(f"interrupted: {kept}; run the same command again to continue.") from None


def _version(path: Path | None) -> tuple[int, int] | None:
    """Changes whenever a file or folder is replaced; None if there is none, or only an empty one."""
    if path is None or not path.exists() or not path.stat().st_size:
        return None
    return path.stat().st_ino, path.stat().st_mtime_ns
