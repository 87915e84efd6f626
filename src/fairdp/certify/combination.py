"""How two independent p-values are combined, and the critical value of the combination for every direction."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

# Curvature of h: a little concave, so that a very large score of one arm cannot pay for the other.
_CURVATURE = 0.2
_N_ANGLES = 1441
# Scores beyond these are so rare that they are paid for outright, which bounds the slope of the combination.
_RARE = 2e-6
_RARE_SCORE = 4.9


def bent(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Concave increasing transform of a normal score, :math:`h(z) = (1 - e^{-kz}) / k`, :math:`k = 0.2`."""
    return -np.expm1(-_CURVATURE * scores) / _CURVATURE


def _straightened(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverse of `bent`; infinite above its supremum."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values < 1 / _CURVATURE, -np.log1p(-_CURVATURE * values) / _CURVATURE, np.inf)


@dataclass(frozen=True, eq=False)
class CriticalValues:
    r"""Critical values for all angles between the arms.

    .. math::
        \Pr(\cos\varphi\, h(Z_1) + \sin\varphi\, h(Z_2) \le -c(\varphi)) \le \alpha, \qquad \varphi \in [0, \pi/2].

    Kept as maxima over runs of 1, 2, 4, … table entries, so that the largest value over any range of angles is two
    look-ups.
    """

    maxima: tuple[NDArray[np.float64], ...]

    def largest(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
        """Largest critical value over each range of angles; the ranges are widened to table entries."""
        step = (math.pi / 2) / (_N_ANGLES - 1)
        first = np.clip(np.floor(low / step).astype(np.int64), 0, _N_ANGLES - 1)
        last = np.clip(np.ceil(high / step).astype(np.int64), 0, _N_ANGLES - 1)
        level = np.log2(last - first + 1).astype(np.int64)
        result = np.empty(np.broadcast(first, last).shape)
        for depth in np.unique(level):
            here = level == depth
            table = self.maxima[depth]
            result[here] = np.maximum(table[first[here]], table[last[here] - (1 << int(depth)) + 1])
        return result


@lru_cache(maxsize=64)
def critical_values(failure_probability: float) -> CriticalValues:
    """Table of c(φ), rounded up between its angles by a bound on how fast the combination turns."""
    angles = np.linspace(0, math.pi / 2, _N_ANGLES)
    half = angles[: _N_ANGLES // 2 + 1]  # symmetric about the diagonal
    solved = _solve(half, failure_probability - _RARE)
    values = np.concatenate([solved, solved[:-1][::-1]])
    radius = math.hypot(float(bent(np.array(-_RARE_SCORE))), float(bent(np.array(-_RARE_SCORE))))
    values = values + radius * (angles[1] / 2) + 1e-6
    maxima = [values]
    while 2 ** len(maxima) <= _N_ANGLES:
        width = 2 ** (len(maxima) - 1)
        maxima.append(np.maximum(maxima[-1][:-width], maxima[-1][width:]))
    return CriticalValues(tuple(maxima))


def _solve(angles: NDArray[np.float64], failure_probability: float) -> NDArray[np.float64]:
    """Critical value of each angle up to the diagonal, by secant steps on the logarithm of the chance.

    Given the second score, which weighs less, the first has a normal tail: a smooth integrand, for which equally
    spaced nodes are exact to many digits.
    """
    nodes = np.linspace(-9, 9, 401)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    second = np.sin(angles)[:, None] * bent(nodes)[None, :]

    def log_excess(values: NDArray[np.float64]) -> NDArray[np.float64]:
        reach = _straightened((-values[:, None] - second) / np.cos(angles)[:, None])
        return np.log((ndtr(reach) * weights).sum(1) / failure_probability)

    start = -float(bent(np.array(ndtri(failure_probability))))
    before, now = np.full(len(angles), start), np.full(len(angles), start + 0.1)
    old, new = log_excess(before), log_excess(now)
    for _ in range(20):
        unsolved = np.abs(new) > 1e-10
        if not unsolved.any():
            break
        # The chance falls with the value; where a step was nothing, a unit slope is as good as any.
        taken = now - before
        slope = np.divide(new - old, taken, out=np.full_like(taken, -1.0), where=taken != 0)
        before, old = now, new
        now = now - np.where(unsolved, new / np.minimum(slope, -0.1), 0.0)
        new = log_excess(now)
    if np.abs(new).max() > 1e-8:
        raise ArithmeticError(f"no critical value found for failure_probability={failure_probability!r}.")
    # A hair more than the root, and never on its wrong side.
    return now + np.maximum(new, 0.0) + 1e-8
