"""Who is told of a run while it goes on, and where its checkpoints go."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fairdp.data.grouped import GroupedData


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Who is told of each step and of the records that are trained on and held out, and where checkpoints go."""

    observe: Callable[[int, int], None] = lambda step, n_steps: None
    observe_parts: Callable[[GroupedData, GroupedData], None] = lambda train, held_out: None
    checkpoint: Path | None = None
    resume: bool = False
    seconds_between_checkpoints: float = 1.0
