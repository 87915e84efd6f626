"""What one check found, what it starts from, and how numbers that are computed twice are compared."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairdp.run.settings import RunSettings
from fairdp.saved.form import restored

# Numbers are computed again from the same inputs: they may differ by rounding, not by more.
SAME = 1e-9

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """One thing that was checked, whether it holds, and what was found."""

    name: str
    passed: bool
    found: str


def number(value: float | None) -> float:
    """JSON has no infinity: it is written as null."""
    return math.inf if value is None else value


def equal(recorded: float | None, computed: float | None, *, missing: float = math.inf) -> bool:
    first, second = (missing if value is None else value for value in (recorded, computed))
    # Everything is within a share of infinity.
    return first == second or (math.isfinite(second) and abs(first - second) <= SAME * abs(second))


def same(recorded: Any, computed: Any) -> bool:
    """Whether two plain values are the same all the way down, but for the rounding of numbers."""
    if isinstance(computed, dict):
        return recorded.keys() == computed.keys() and all(same(recorded[name], computed[name]) for name in computed)
    if isinstance(computed, list):
        return len(recorded) == len(computed) and all(same(*pair) for pair in zip(recorded, computed, strict=True))
    if isinstance(computed, float) and isinstance(recorded, float | int) and not isinstance(recorded, bool):
        return equal(recorded, computed)
    return type(recorded) is type(computed) and bool(recorded == computed)


def settings_of(model: Record) -> RunSettings:
    """What was chosen about the run; a module and a seed are not saved, and nothing that is checked needs them."""
    return RunSettings.of(**restored(model["parameters"]), module=None, random_state=None)


def cells_of(model: Record, group: str) -> list[str]:
    """The names under which a group's training records were sampled: its own, or one for each label."""
    if model["parameters"]["grouping"] == "attribute":
        return [group]
    return [f"{group}, label {label}" for label in (0, 1)]
