"""What an interrupted run leaves behind, and how to go on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def saying_what_is_kept(
    *, out: Path | None, checkpoint: Path | None, resume: bool, method: str | None
) -> Iterator[None]:
    """Let an interruption say which of the files of a run were written since it began, and how to go on if one can."""
    model, state = _version(out), _version(checkpoint)
    try:
        yield
    except KeyboardInterrupt:
        if _version(out) not in (None, model):
            kept = f"the model had just been written to {str(out)!r}"
        elif _version(checkpoint) not in (None, None if resume else state):
            kept = f"the run is kept in {str(checkpoint)!r}: give the same command with --resume to continue it"
        else:
            # On use: the names of the methods are needed by nobody who is not interrupted.
            from fairdp.methods import METHODS

            # A search, which names none, cannot be continued.
            continues = method is not None and method in METHODS and METHODS[method].is_one_run
            remedy = "" if checkpoint or not continues else "; with --checkpoint FILE a run can be continued"
            kept = f"nothing was written{remedy}"
        raise KeyboardInterrupt(f"interrupted: {kept}.") from None


@contextmanager
def saying_which_trainings_are_kept(folder: Path) -> Iterator[None]:
    """Let an interruption say how many trainings of a sweep are kept, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"{len(list(folder.glob('*.json')))} finished trainings are kept in {str(folder)!r}"
        raise KeyboardInterrupt(f"interrupted: {kept}; give the same command again to continue.") from None


def _version(path: Path | None) -> tuple[int, int] | None:
    """Another one whenever a file or folder is replaced; None without one, or for an empty one that tried the place."""
    if path is None or not path.exists() or not path.stat().st_size:
        return None
    return path.stat().st_ino, path.stat().st_mtime_ns
