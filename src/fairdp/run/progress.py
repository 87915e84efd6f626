"""Whom a run tells what, before and while it trains, and where its checkpoints go."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fairdp.data.grouped import GroupedData
from fairdp.ledger.spending import Spending
from fairdp.run.plan import PlannedRun


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Whom to tell about each step, the training and held-out records and the plan, and where checkpoints go.

    ``before_training`` is called before the first checkpoint of a run is written.
    """

    observe: Callable[[int, int], None] = lambda step, n_steps: None
    observe_parts: Callable[[GroupedData, GroupedData], None] = lambda train, held_out: None
    observe_plan: Callable[[PlannedRun], None] = lambda planned: None
    before_training: Callable[[], None] = lambda: None
    checkpoint: Path | None = None
    resume: bool = False
    seconds_between_checkpoints: float = 1.0


def paid_by(spending: Spending, table: str, known: Progress | None = None) -> Progress:
    """As known, and writes down what a run spends on the records of a table before it releases anything."""
    known = known or Progress()

    def parts(train: GroupedData, held_out: GroupedData) -> None:
        spending.charge(train, held_out)
        known.observe_parts(train, held_out)

    def plan(planned: PlannedRun) -> None:
        spending.spend(planned.privacy, table, resume=known.resume, run=planned.run)
        known.observe_plan(planned)

    return replace(known, observe_parts=parts, observe_plan=plan)
