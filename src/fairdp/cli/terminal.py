"""A command at work in its terminal: lines on stderr, a progress bar, signals, exit codes, and flags in messages."""

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairdp.distributed import WorkerLost, starts_again
from fairdp.errors import InputError, bound_above, in_words
from fairdp.parameters import DECLARED

if TYPE_CHECKING:
    from fairdp.certify.certificate import Certificate, NotCertified
    from fairdp.data.columns import CellIssues
    from fairdp.frontier.verdict import Verdict
    from fairdp.ledger.ledger import Spending

# Exit codes.
DONE, MISSED, BAD_INPUT, INTERNAL, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143
# Set once the system has asked this process to end.
_ASKED = threading.Event()
_FLAGS = {name: declared.flag for name, declared in DECLARED.items() if declared.flag is not None}


def say(line: str) -> None:
    """A line that should not wait for the result; whoever reads it may be gone, but what was begun goes on."""
    try:
        print(line, file=sys.stderr, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def say_cell_issues(treated: Iterable["CellIssues"]) -> None:
    """Tell the data holder what became of cells that were not as declared."""
    from fairdp.data.columns import lines_for_holder

    for line in lines_for_holder(treated):
        say(line)


def say_spent(spending: "Spending") -> None:
    """Note that a release is done, and tell the data holder what the record that has spent most has spent."""
    line = spending.complete()
    if line:
        say(line)


@contextmanager
def progress_bar(label: str) -> Iterator[Any]:
    """A bar on a terminal's stderr from the first step on, silence elsewhere.

    Yields a function of the step and the number of steps.
    """
    if not sys.stderr.isatty():
        yield lambda step, n_steps: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    bar = Bar(console=Console(stderr=True), transient=True)
    job = bar.add_task(label)

    def observe(step: int, n_steps: int) -> None:
        bar.start()
        bar.update(job, completed=step, total=n_steps)

    try:
        yield observe
    finally:
        bar.stop()


@contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """Print to somebody who may have seen enough (`fairdp … | head`): no failure, and it hides no miss."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except SystemExit as stop:
        # By which rich says the same, having done the same.
        if not isinstance(stop.__context__, BrokenPipeError):
            raise


class Terminated(KeyboardInterrupt):
    """The system asks the process to end (SIGTERM): all that is right for Ctrl-C is right for it."""


@contextmanager
def graceful_shutdown() -> Iterator[None]:
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
    """True once the system has asked this process to end."""
    return _ASKED.is_set()


def end_workers() -> None:
    """End the processes that this one started: left alone, they would finish their tasks first, for nobody."""
    pool = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = None if pool is None else pool._executor
    if executor is not None:
        executor.shutdown(wait=True, kill_workers=True)


def ended_in_words(stop: BaseException, kept: str = "no file was left half-written") -> str:
    """The reason for which a command ended before its time, and what is kept."""
    if isinstance(stop, WorkerLost):
        return f"{str(stop).rstrip('.')}: {kept}."
    return f"{'terminated' if isinstance(stop, Terminated) else 'interrupted'}: {kept}."


@contextmanager
def explain_checkpoint(
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


def _version(path: Path | None) -> tuple[int, int] | None:
    """Changes whenever a file or folder is replaced; None if there is none, or only an empty one."""
    if path is None or not path.exists() or not path.stat().st_size:
        return None
    return path.stat().st_ino, path.stat().st_mtime_ns


@contextmanager
def saying_which_trainings_are_kept(folder: Path) -> Iterator[None]:
    """On interruption, say how many training runs of a sweep are kept, and how to continue."""
    try:
        yield
    except KeyboardInterrupt as stop:
        n_kept = sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))
        kept = f"{n_kept} finished training runs are kept in {str(folder)!r}; run the same command again to continue"
        raise type(stop)(ended_in_words(stop, kept)) from None


def exit_unless_met(certificate: "Certificate | NotCertified", *, required: float | None) -> None:
    """End with exit code 1 if a bound was required beforehand and the certificate does not reach it."""
    from fairdp.certify.certificate import NotCertified

    if required is None:
        return
    missed = f"missed: --require-tau {required:g}:"
    if isinstance(certificate, NotCertified):
        reason = in_flags(InputError(certificate.reason.explanation), click.get_current_context().command)
        say(f"{missed} not certified, because {reason}.")
    for metric, gap in certificate.gaps.items():
        if gap.claimed and gap.tau > required:
            say(f"{missed} {metric} is certified at {bound_above(gap.tau)}.")
    if not certificate.met:
        raise click.exceptions.Exit(MISSED)


def exit_unless_good(verdict: "Verdict", *, strict: bool) -> None:
    """End with exit code 1 if a target that the user stated is certainly missed, or if a good verdict was asked for."""
    target = verdict.target
    if target is not None and target.explicit and target.met == "no":
        flag = "--max-gap" if target.kind == "max_gap" else "--min-ratio"
        say(f"missed: {flag} {target.value:g}: estimated at {target.estimate:.3f}.")
        raise click.exceptions.Exit(MISSED)
    if strict and verdict.verdict != "good":
        say(f"missed: --strict: the verdict is {verdict.verdict}.")
        raise click.exceptions.Exit(MISSED)


def in_flags(error: InputError, command: click.Command) -> str:
    """The message of an error, with the flags of a command in place of the parameters it mentions."""
    typed = {str(option.name): option.opts[0] for option in command.params if isinstance(option, click.Option)}
    arguments = [argument for argument in command.params if isinstance(argument, click.Argument)]
    typed |= {str(argument.name): argument.human_readable_name for argument in arguments}
    return error.in_words_of(lambda name: typed.get(name, name))


def help_in_flags(text: str) -> str:
    """The text of a declaration, with flags for parameters.

    >>> help_in_flags("Not a guarantee: see `require_tau`. `fairdp methods` lists them; `fairdp` is one.")
    'Not a guarantee: see --require-tau. `fairdp methods` lists them; fairdp is one.'
    """
    return in_words(text, lambda name: _FLAGS.get(name, name))
