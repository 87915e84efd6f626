"""What it costs to read the columns of a table with noise: types, categories, ranges and groups."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fairdp import _checks
from fairdp.config.reading import DISTINCT, FEWEST, SHAPES, VALUES

# Beyond so many deviations nothing is left of a tail that counts beside δ.
_FAR = 40


@dataclass(frozen=True, kw_only=True)
class Reading:
    r"""One release about all columns of a table, with discrete Gaussian noise.

    Released are, for every column, how many rows have each kind and size, how many values are distinct, and which
    values are frequent: those with a noisy count of at least the threshold. A record adds at most one to one count of
    each, in every one of d columns: :math:`\Delta^2 = d (1 + 1/4 + 1/16)`, in units of the noise on values.

    Whether a value that only just enough people have is released at all is not hidden by the noise: that it passes the
    threshold has a probability that is added to δ.

    Parameters
    ----------
    n_columns
        Columns of the table, d, label and protected ones included.
    std
        Deviation of the noise on the counts of values, σ.
    threshold
        Noisy count from which on a value is released, T.

    References
    ----------
    Korolova, Kenthapadi, Mishra, Ntoulas (2009), Releasing search queries and clicks privately; Canonne, Kamath,
    Steinke (2020) for the noise.
    """

    n_columns: int
    std: float
    threshold: int

    def __post_init__(self) -> None:
        _checks.positive_integer(n_columns=self.n_columns, threshold=self.threshold)
        _checks.finite_positive(std=self.std)

    @property
    def multiplier(self) -> float:
        """Noise multiplier of all counts together."""
        return self.std / math.sqrt(self.n_columns * moved_squared())

    @property
    def delta(self) -> float:
        r"""Chance that a value is released which is so only with one record, :math:`d \Pr(X \ge T - 10)`, at most."""
        return min(1.0, self.n_columns * upper_tail(self.std, self.threshold - FEWEST))


def moved_squared() -> float:
    """Square of how far a record moves the counts of one column, in units of the noise on values."""
    return math.fsum(factor**-2 for factor in (VALUES, SHAPES, DISTINCT))


@lru_cache(maxsize=256)
def upper_tail(std: float, least: int) -> float:
    r"""Chance that discrete Gaussian noise is at least so much, rounded up.

    The sum of :math:`e^{-k^2 / (2 \sigma^2)}` over all whole numbers is at least :math:`\sqrt{2 \pi} \sigma`, by which
    it is divided here.

    >>> round(upper_tail(10.0, 20), 5)
    0.02554
    """
    if least <= 0:
        return 1.0
    terms = (math.exp(-(k**2) / (2 * std**2)) for k in range(least, least + math.ceil(_FAR * std) + 1))
    return math.fsum(terms) / (math.sqrt(2 * math.pi) * std) * (1 + 1e-12)


def threshold_for(std: float, n_columns: int, delta: float) -> int:
    """The least threshold at which the chance that counts is at most δ."""
    low, high = FEWEST, FEWEST + math.ceil(_FAR * std)
    while high - low > 1:
        middle = (low + high) // 2
        enough = n_columns * upper_tail(std, middle - FEWEST) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


@lru_cache(maxsize=256)
def reading_loss(reading: Reading, width: float) -> Any:
    """The privacy loss distribution of a reading, on a grid of this width.

    A record that moves every count by one tells most, and the counts have independent noise: the distributions of all
    of them are composed, as they are for discrete noise.
    """
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    passed = common.DifferentialPrivacyParameters(0.0, reading.delta)
    loss = pld.from_privacy_parameters(passed, width)
    for factor in (VALUES, SHAPES, DISTINCT):
        one = pld.from_discrete_gaussian_mechanism(
            factor * reading.std, value_discretization_interval=width, use_connect_dots=True
        )
        loss = loss.compose(one.self_compose(reading.n_columns))
    return loss
