"""What a user sees while a command works: lines on stderr, and a progress bar if somebody can see it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fairdp.data.treatments import lines_for_holder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairdp.data.treatments import Treated
    from fairdp.ledger.spending import Spending


def say(line: str) -> None:
    """A line that should not wait for the result; whoever reads it may be gone, but what was begun goes on."""
    try:
        print(line, file=sys.stderr, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def say_treated(treated: "Iterable[Treated]") -> None:
    """Tell the data holder what became of cells that were not as declared."""
    for line in lines_for_holder(treated):
        say(line)


def say_spent(spending: "Spending") -> None:
    """Note that a release is done, and tell the data holder what the record that has spent most has spent."""
    line = spending.complete()
    if line:
        say(line)


@contextmanager
def progress_bar(label: str) -> Iterator[Any]:
    """A bar on a terminal's stderr, silence elsewhere; yields a function of the step and the number of steps."""
    if not sys.stderr.isatty():
        yield lambda step, n_steps: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        job = bar.add_task(label)
        yield lambda step, n_steps: bar.update(job, completed=step, total=n_steps)
