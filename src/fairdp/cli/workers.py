"""A command in one of several processes that torchrun has started: the first prints, and one says what failed."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress

import click

from fairdp._checks import InputError
from fairdp.cli.exits import BAD_INPUT, DONE
from fairdp.cli.interruption import is_ending
from fairdp.launch import note, noted, world_size
from fairdp.team import ALONE, Disagreement, Team, WorkerLost, the_team

# What several processes do together; everything else they would do several times.
_TOGETHER = ("fit",)
# What a launch notes when a command has ended, and its exit code where that is not known yet.
_ENDED, _FAILED = "ended", BAD_INPUT


@contextmanager
def among_workers(arguments: list[str]) -> Iterator[None]:
    """Run as one of the processes that a launcher has started; those that are not the first print nothing."""
    # Of a store that is gone, torch would print its own frames beside our line.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    try:
        team = the_team()
    except (InputError, WorkerLost) as error:
        raise click.ClickException(str(error)) from None
    ended = noted(_ENDED)
    if ended is not None:
        # It was said then, and would be the same again.
        raise click.exceptions.Exit(int(ended))
    with _noting_the_end(team), _in_its_place(team, arguments):
        yield


@contextmanager
def _noting_the_end(team: Team) -> Iterator[None]:
    """To a launcher, whatever fails looks like a worker that was lost: what has ended by itself is not begun again."""
    try:
        yield
    except Exception as error:
        code = error.exit_code if isinstance(error, click.exceptions.Exit) else _FAILED
        if not is_ending() and not isinstance(error.__cause__ or error, WorkerLost):
            note(_ENDED, str(code))
        raise
    if team.is_first:
        note(_ENDED, str(DONE))


@contextmanager
def _in_its_place(team: Team, arguments: list[str]) -> Iterator[None]:
    if team.size == 1:
        yield
        return
    named = next((argument for argument in arguments if not argument.startswith("-")), "")
    if named and named not in _TOGETHER:
        raise click.UsageError(f"fairdp {named} is one process: torchrun is for fit, and sweeps take --scheduler.")
    if team.is_first:
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def may_speak(error: BaseException | None = None) -> bool:
    """Whether this process says why the command ends: of several, the first that has a reason."""
    team = _known_team()
    # With the first process the store may go: whoever knows that it knows the same need not ask.
    return team.is_first if isinstance(error, Disagreement) else team.speaks()


@contextmanager
def ending_at_once() -> Iterator[None]:
    """End one of several processes as soon as its command has: torch, taking connections down, was seen to abort."""
    try:
        yield
    except SystemExit as stop:
        if _is_launched():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(stop.code if isinstance(stop.code, int) else 0)
        raise


def _known_team() -> Team:
    """The team that this process has joined; alone, where it could not."""
    distributed = sys.modules.get("torch.distributed")
    return the_team() if _is_launched() and distributed is not None and distributed.is_initialized() else ALONE


def _is_launched() -> bool:
    """Whether there are several processes, as far as the environment makes sense."""
    with suppress(InputError):
        return world_size() > 1
    return False
