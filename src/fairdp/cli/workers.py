"""A command in one of several processes that torchrun has started: the first prints, and one says what failed."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress

import click

from fairdp._checks import InputError
from fairdp.team import ALONE, Team, WorkerLost, the_team, world_size

# What several processes do together; everything else they would do several times.
_TOGETHER = ("fit",)


@contextmanager
def among_workers(arguments: list[str]) -> Iterator[None]:
    """Run as one of the processes that a launcher has started; those that are not the first print nothing."""
    # Of a store that is gone, torch would print its own frames beside our line.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    try:
        team = the_team()
    except (InputError, WorkerLost) as error:
        raise click.ClickException(str(error)) from None
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


def may_speak() -> bool:
    """Whether this process says why the command ends: of several, the first that has a reason."""
    return _known_team().speaks()


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
