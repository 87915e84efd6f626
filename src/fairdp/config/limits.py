"""What values a parameter may have, where that takes more than one line to say."""

import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

from fairdp import _checks
from fairdp._checks import ParameterError
from fairdp.config.certificate import METRICS

# Sums of more records would round past their bound in single precision.
LARGEST_PHYSICAL_BATCH = 4_096

Check = Callable[..., None]


def fraction(**values: float) -> None:
    """Every value is a part of a whole, and not all of it."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 <= value < 1):
            raise ParameterError(name, value, "must be in [0, 1)")


def share(example: float) -> Check:
    """Every value is a part of a whole, from none to all."""

    def check(**values: float) -> None:
        for name, value in values.items():
            if not (isinstance(value, Real) and 0 <= value <= 1):
                raise ParameterError(name, value, f"must be in [0, 1], such as {example:g}")

    return check


def up_to_half(**values: float) -> None:
    """Every value is a part of a whole, and at most half of it."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 <= value <= 0.5):
            raise ParameterError(name, value, "must be in [0, 0.5]")


def not_negative(**values: float) -> None:
    """Every value is a finite number of at least zero."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 <= value < math.inf):
            raise ParameterError(name, value, "must be at least 0 and finite")


def confidence(**values: float) -> None:
    """Every value is a probability of at least one half."""
    _checks.in_unit_interval(**values)
    for name, value in values.items():
        # Below one half the pair construction has no proof, and nobody wants such a promise.
        if value < 0.5:
            raise ParameterError(name, value, "must be at least 0.5")


def metrics(**values: Any) -> None:
    """Every value names one metric or several."""
    for name, value in values.items():
        if isinstance(value, str) or not value:
            raise ParameterError(name, value, f"must name at least one of {', '.join(METRICS)}")
        for metric in value:
            _checks.one_of(METRICS, **{name: metric})


def step_sizes(**values: Any) -> None:
    """Every value is a finite step size, or several."""
    for name, value in values.items():
        sizes = tuple(value) if isinstance(value, Iterable) else (value,)
        if not sizes:
            raise ParameterError(name, sizes, "must hold at least one value")
        for size in sizes:
            _checks.finite_positive(**{name: size})


def layer_sizes(**values: Any) -> None:
    """Every value is a collection of whole numbers."""
    for name, value in values.items():
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ParameterError(name, value, "must be a tuple of layer sizes such as (32,)")
        for size in value:
            _checks.positive_integer(**{name: size})


def group_sizes(**values: Any) -> None:
    """Every value is the word "public", or a positive size for each of some groups."""
    for name, value in values.items():
        if isinstance(value, str) and value == "public":
            continue
        if not isinstance(value, Mapping) or not value:
            raise ParameterError(
                name,
                value,
                "must be 'public' or a size for each group, such as {'f': 900, 'm': 1100}",
                "Leave it out to count them with noise.",
            )
        for group, size in value.items():
            if isinstance(size, bool) or not (isinstance(size, Real) and 0 < float(size) < math.inf):
                raise ParameterError(name, {group: size}, "must give every group a positive size")


def group_weights(**values: Any) -> None:
    """Every value is a positive weight for each of some groups."""
    for name, value in values.items():
        if not isinstance(value, Mapping) or not value:
            example = "such as {'f': 2, 'm': 1}"
            raise ParameterError(name, value, f"must be a weight for each group, {example}", "Leave it out for equal.")
        for group, weight in value.items():
            if isinstance(weight, bool) or not (isinstance(weight, Real) and 0 < float(weight) < math.inf):
                raise ParameterError(name, {group: weight}, "must give every group a positive weight")


def yes_or_no(**values: Any) -> None:
    """Every value is true or false."""
    for name, value in values.items():
        if not isinstance(value, bool):
            raise ParameterError(name, value, "must be True or False")


def group_names(**values: Any) -> None:
    """Every value is a collection of different names."""
    for name, value in values.items():
        texts = [] if isinstance(value, str) or not isinstance(value, Iterable) else [str(one) for one in value]
        if not texts or len(set(texts)) < len(texts):
            raise ParameterError(name, value, "must be a tuple of different names such as ('f', 'm')")


def physical_batch(**values: int) -> None:
    """Every value is a number of records whose sum is exact enough."""
    _checks.positive_integer(**values)
    for name, value in values.items():
        if value > LARGEST_PHYSICAL_BATCH:
            raise ParameterError(
                name,
                value,
                f"must be at most {LARGEST_PHYSICAL_BATCH}",
                "Larger sums would round past their bound in single precision.",
            )
