"""How a command ends that is interrupted or terminated: what it leaves behind, and how to continue."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairdp.launch import starts_again
from fairdp.team import WorkerLost

INTERRUPTED, TERMINATED = 130, 143
_ASKED = threading.Event()


class Terminated(KeyboardInterrupt):
    """The system asks the process to end (SIGTERM): all that is right for Ctrl-C is right for it."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does, so that files are cleared away; the first one counts."""
    _ASKED.clear()

    def end(number: int, frame: object) -> None:
        _ASKED.set()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    # Only there are signals received.
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, end) if in_main_thread else None
    try:
        yield
    except Exception as error:
        # Whoever was at work may have made an error of its own of it: an import that is cut off can fail later.
        if is_ending():
            raise Terminated from error
        raise
    finally:
        if in_main_thread:
            signal.signal(signal.SIGTERM, before)


def is_ending() -> bool:
    """Whether the system has asked this process to end."""
    return _ASKED.is_set()


def end_workers() -> None:
    """End the processes that this one started: left alone, they would finish their tasks first, for nobody."""
    pool = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = None if pool is None else pool._executor
    if executor is not None:
        executor.shutdown(wait=True, kill_workers=True)


def ended_in_words(stop: BaseException, kept: str = "no file was left half-written") -> str:
    """Why a command ended before its time, and what is kept."""
    if isinstance(stop, WorkerLost):
        return f"{str(stop).rstrip('.')}: {kept}."
    return f"{'terminated' if isinstance(stop, Terminated) else 'interrupted'}: {kept}."


@contextmanager
def saying_what_is_kept(
    *, out: Path | None, checkpoint: Path | None, resume: bool, method: str | None
) -> Iterator[None]:
    """On interruption, or where a worker is lost, say which of a run's files were written, and how to continue."""
    model, state = _version(out), _version(checkpoint)
    try:
        yield
    except (KeyboardInterrupt, WorkerLost) as stop:
        if _version(out) not in (None, model):
            kept = f"the model had just been written to {str(out)!r}"
        elif _version(checkpoint) not in (None, None if resume else state):
            how = "torchrun starts it again" if starts_again() else "run the same command with --resume to continue"
            kept = f"the run is kept in {str(checkpoint)!r}: {how}"
        else:
            # Imported on use: only an interrupted run needs the names of the methods.
            from fairdp.methods import METHODS

            # A search, which names none, cannot be continued.
            continues = method is not None and method in METHODS and METHODS[method].is_one_run
            remedy = "" if checkpoint or not continues else "; with --checkpoint FILE a run can be continued"
            kept = f"no model was written{remedy}"
        raise type(stop)(ended_in_words(stop, kept)) from None


@contextmanager
def saying_which_trainings_are_kept(folder: Path) -> Iterator[None]:
    """On interruption, say how many training runs of a sweep are kept, and how to continue."""
    try:
        yield
    except KeyboardInterrupt as stop:
        n_kept = sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))
        kept = f"{n_kept} finished training runs are kept in {str(folder)!r}; run the same command again to continue"
        raise type(stop)(ended_in_words(stop, kept)) from None


def _version(path: Path | None) -> tuple[int, int] | None:
    """Changes whenever a file or folder is replaced; None if there is none, or only an empty one."""
    if path is None or not path.exists() or not path.stat().st_size:
        return None
    return path.stat().st_ino, path.stat().st_mtime_ns
