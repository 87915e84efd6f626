"""The command line, of which one process is killed in the first start: killed.py RANK MOMENT NOTE ….

A moment is a step of training; or ``module:function`` for before a call, and ``after:module:function`` for after it.
"""

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairdp.cli import main
from fairdp.training.loop import Trainer


def die(rank: int, note: Path) -> None:
    """The end of one worker, if this is it; when it came is noted."""
    own, start = (int(os.environ.get(name, "0")) for name in ("RANK", "TORCHELASTIC_RESTART_COUNT"))
    if (own, start) == (rank, 0):
        note.write_text(str(time.time()))
        os.kill(os.getpid(), signal.SIGKILL)


def dying_at_step(rank: int, at_step: int, note: Path) -> Callable[[Trainer], None]:
    """A step, or the end."""
    take_step = Trainer.step

    def step_or_die(trainer: Trainer) -> None:
        if trainer.state.step == at_step:
            die(rank, note)
        take_step(trainer)

    return step_or_die


def dying_at_call(rank: int, moment: str, note: Path) -> None:
    """The end before a call of a function by the name that it has in a module, or after it."""
    *after, module, name = moment.split(":")
    place = importlib.import_module(module)
    call = getattr(place, name)

    def call_and_die(*arguments: Any, **options: Any) -> Any:
        if not after:
            die(rank, note)
        result = call(*arguments, **options)
        die(rank, note)
        return result

    setattr(place, name, call_and_die)


if __name__ == "__main__":
    rank, moment, note = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    if moment.isdecimal():
        Trainer.step = dying_at_step(rank, int(moment), note)
    else:
        dying_at_call(rank, moment, note)
    main(sys.argv[4:])
