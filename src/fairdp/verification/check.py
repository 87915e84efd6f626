"""What one check found, and how numbers that are computed twice are compared."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    return first == second or (math.isfinite(second) and abs(first - second) <= SAME * max(1.0, abs(second)))
