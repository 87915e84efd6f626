"""The law of discrete Laplace noise and of sums of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from fairdp import _checks
from fairdp._checks import ParameterError

# Mass that may be cut off the tails of one draw; every p-value is raised by what was cut.
_CUT = 1e-14
# Shares of the smallest epsilon that are tried as the exponent of a moment.
_POWERS = np.arange(1, 200) / 200


@dataclass(frozen=True, eq=False)
class IntegerLaw:
    """Probabilities of consecutive whole numbers from ``first`` on; ``missing`` is the mass cut off outside."""

    first: int
    probabilities: NDArray[np.float64]
    missing: float

    @property
    def last(self) -> int:
        """The largest value with a probability."""
        return self.first + len(self.probabilities) - 1

    def times(self, factor: int) -> "IntegerLaw":
        """Law of a whole multiple."""
        if factor == 0:
            return IntegerLaw(0, np.ones(1), self.missing)
        spread = np.zeros((len(self.probabilities) - 1) * abs(factor) + 1)
        spread[:: abs(factor)] = self.probabilities if factor > 0 else self.probabilities[::-1]
        return IntegerLaw(min(self.first * factor, self.last * factor), spread, self.missing)

    def plus(self, other: "IntegerLaw") -> "IntegerLaw":
        """Law of the sum of independent values."""
        long, short = (self, other) if len(self.probabilities) >= len(other.probabilities) else (other, self)
        total = np.zeros(len(long.probabilities) + len(short.probabilities) - 1)
        # Shift and add over the values that occur: multiples leave most of an array empty.
        for offset in np.flatnonzero(short.probabilities):
            total[offset : offset + len(long.probabilities)] += short.probabilities[offset] * long.probabilities
        return IntegerLaw(self.first + other.first, total, self.missing + other.missing)

    def at_most(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Upper bound on the chance of being at most each value."""
        return self._from_below[np.clip(values - self.first + 1, 0, len(self.probabilities))]

    def at_least(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Upper bound on the chance of being at least each value."""
        return self._from_above[np.clip(values - self.first, 0, len(self.probabilities))]

    @cached_property
    def _from_below(self) -> NDArray[np.float64]:
        return np.minimum(np.concatenate([[0.0], np.cumsum(self.probabilities)]) + self.missing, 1.0)

    @cached_property
    def _from_above(self) -> NDArray[np.float64]:
        return np.minimum(np.concatenate([np.cumsum(self.probabilities[::-1])[::-1], [0.0]]) + self.missing, 1.0)


@lru_cache(maxsize=256)
def laplace_sum(epsilon: float, folds: int) -> IntegerLaw:
    r"""Law of a sum of independent draws of discrete Laplace noise.

    .. math:: \Pr(X = x) = \frac{1 - a}{1 + a}\, a^{|x|}, \qquad a = e^{-\varepsilon}.

    Parameters
    ----------
    epsilon
        Privacy parameter of one draw.
    folds
        Number of draws, :math:`m`.
    """
    _checks.finite_positive(epsilon=epsilon)
    _checks.positive_integer(folds=folds)
    a = math.exp(-epsilon)
    reach = max(1, math.ceil(math.log(_CUT * (1 + a) / 2) / -epsilon))
    values = np.abs(np.arange(-reach, reach + 1))
    one = IntegerLaw(-reach, (1 - a) / (1 + a) * a**values, 2 * a ** (reach + 1) / (1 + a))
    return one if folds == 1 else one.plus(laplace_sum(epsilon, folds - 1))


def noise_quantile(epsilon: float, folds: int, failure_probability: float) -> int:
    """Smallest t ≥ 0 such that a sum of draws exceeds t with at most this probability."""
    _checks.in_unit_interval(failure_probability=failure_probability)
    law = laplace_sum(epsilon, folds)
    above = np.concatenate([np.cumsum(law.probabilities[::-1])[::-1][1:], [0.0]]) + law.missing
    allowed = np.flatnonzero(above <= failure_probability)
    if not len(allowed):
        raise ParameterError("failure_probability", failure_probability, "is below the precision of the noise table")
    return max(0, law.first + int(allowed[0]))


def noise_variance(epsilon: float) -> float:
    r"""Variance of one draw, :math:`\nu = 2a / (1 - a)^2`."""
    a = math.exp(-epsilon)
    return 2 * a / (1 - a) ** 2


def noise_reach(epsilons: Sequence[float], failure_probability: float) -> int:
    r"""A t such that a sum of independent draws exceeds t with at most this probability, whatever their epsilons.

    One draw has :math:`\Pr(X > t) = a^{t+1} / (1 + a)`. For more, by Markov's inequality with
    :math:`E e^{\lambda X} = (\cosh\varepsilon - 1) / (\cosh\varepsilon - \cosh\lambda)`, the smallest over a grid of
    :math:`\lambda < \min\varepsilon` of :math:`(\sum_i \ln E e^{\lambda X_i} + \ln 1/\delta) / \lambda`: quick where
    the law of the sum would be long, and a little wider.
    """
    _checks.in_unit_interval(failure_probability=failure_probability)
    _checks.finite_positive(epsilon=min(epsilons))
    if len(epsilons) == 1:
        a = math.exp(-epsilons[0])
        return max(0, math.ceil(math.log(failure_probability * (1 + a)) / -epsilons[0]) - 1)
    kinds, draws = np.unique(np.asarray(epsilons, dtype=np.float64), return_counts=True)
    powers = min(epsilons) * _POWERS
    # 2 sinh² keeps small numbers apart where a difference of hyperbolic cosines would round.
    whole = np.sinh(kinds[:, None] / 2) ** 2
    moments = -np.log1p(-(np.sinh(powers / 2) ** 2) / whole)
    return math.floor(float(((draws @ moments - math.log(failure_probability)) / powers).min()))
