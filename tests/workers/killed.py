"""The command line, of which one process is killed at a step of the first attempt: killed.py RANK STEP NOTE …."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fairdp.cli import main
from fairdp.team import the_team
from fairdp.training.loop import Trainer


def dying(rank: int, at_step: int, note: Path) -> Callable[[Trainer], None]:
    """A step, or the end of one worker; when it came is noted."""
    take_step = Trainer.step

    def step_or_die(trainer: Trainer) -> None:
        first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        if trainer.state.step == at_step and the_team().rank == rank and first:
            note.write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        take_step(trainer)

    return step_or_die


if __name__ == "__main__":
    Trainer.step = dying(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    main(sys.argv[4:])
