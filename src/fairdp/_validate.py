"""One-line checks whose messages name the parameter, the rule, the value and the remedy."""

import math
from collections.abc import Collection
from numbers import Real


def positive(**values: float) -> None:
    """Every value is a positive number; infinity counts."""
    for name, value in values.items():
        if not (isinstance(value, Real) and value > 0):
            raise ValueError(f"{name} must be positive, got {value!r}.")


def positive_integer(**values: int) -> None:
    """Every value is a whole number of at least one."""
    for name, value in values.items():
        real = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if not real or value != int(value) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}.")


def finite_positive(**values: float) -> None:
    """Every value is a positive finite number."""
    positive(**values)
    for name, value in values.items():
        if not math.isfinite(value):
            raise ValueError(f"{name} must be finite, got {value!r}.")


def in_unit_interval(**values: float) -> None:
    """Every value lies strictly between zero and one."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 < value < 1):
            raise ValueError(f"{name} must be in (0, 1), got {value!r}.")


def target(*, max_gap: float, min_ratio: float, positive_rate: float | None) -> None:
    """A gap, a ratio and a rate, each from none to all; the rate may be left open."""
    values = (("max_gap", max_gap, 0.03), ("min_ratio", min_ratio, 0.8), ("positive_rate", positive_rate, 0.2))
    for name, value, example in values:
        is_open = name == "positive_rate" and value is None
        if not is_open and not (isinstance(value, Real) and 0 <= value <= 1):
            raise ValueError(f"{name} must be in [0, 1], such as {example:g}, got {value!r}.")


def sample_rate(**values: float) -> None:
    """Every value is a probability above zero; one means every record at every step."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 < value <= 1):
            raise ValueError(f"{name} must be in (0, 1], got {value!r}. Did you pass a batch size?")


def one_of(choices: Collection[str], **values: str) -> None:
    """Every value is one of the choices."""
    for name, value in values.items():
        if value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(sorted(choices))}; got {value!r}.")
