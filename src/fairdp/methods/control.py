"""A controller that holds rates within a band by pulling on their cells, from noisy measurements."""

import bisect
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rates = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class BandControl:
    r"""Proportional and integral pulls that keep every two of some rates within :math:`g` of each other.

    The rates are within g if all lie in a band :math:`[b - g/2, b + g/2]` around some level b. The multipliers of
    these 2K constraints are one signed pull :math:`\nu_j` for each cell, positive where the rate is above the band; the
    level is free, so at a saddle point they sum to zero. One step of proximal ascent is

    .. math::
        s_j \leftarrow k_j\, S_{g/2}(s_j / k_j + R_j - b), \qquad \sum_j s_j = 0,

    with soft threshold S and the b that makes the sum zero: K numbers, not the K (K - 1) of all pairs. A proportional
    pull :math:`p_j = k'_j S_{g/2}(\bar R_j - b')` on smoothed rates damps the oscillation that the lag of the averaged
    model would cause. Gains are proportional to the share of the cell: a small cell answers strongly to the same pull.

    Parameters
    ----------
    shares
        Part of all records that is in each cell.
    width
        Allowed gap, :math:`g`.
    integral, proportional
        Gains for a cell with all the records, :math:`k` and :math:`k'`.
    """

    shares: Rates
    width: float
    integral: float
    proportional: float
    largest: float = 10.0

    def raised(self, pulls: Rates, rates: Rates) -> Rates:
        """Integral pulls after one more measurement."""
        gains = self.integral * self.shares
        if not self.integral:
            return pulls
        return np.clip(balanced(pulls / gains + rates, gains, self.width / 2), -self.largest, self.largest)

    def damping(self, smoothed: Rates) -> Rates:
        """Proportional pulls from smoothed rates."""
        return balanced(smoothed, self.proportional * self.shares, self.width / 2)


def allowed_gap(rates: NDArray[np.floating[Any]], max_gap: float, min_ratio: float) -> float:
    """The gap that a bound on it and a smallest ratio allow together: a ratio r allows (1 − r) times the largest."""
    return min(max_gap, (1 - min_ratio) * float(rates.max()))


def balanced(values: Rates, gains: Rates, threshold: float) -> Rates:
    r"""Pulls :math:`k_j S_h(x_j - b)` with the level b at which they sum to zero.

    The sum falls with b and is linear between the points :math:`x_j \pm h`, so the level is found exactly. With plain
    numbers, which is faster than NumPy for the few cells that there are.

    >>> balanced(np.array([0.5, 0.1]), np.array([1.0, 1.0]), 0.1)
    array([ 0.1, -0.1])
    """
    pairs = list(zip(values.tolist(), gains.tolist(), strict=True))

    def total(level: float) -> float:
        return sum(gain * _soft(value - level, threshold) for value, gain in pairs)

    points = sorted([value - threshold for value, _ in pairs] + [value + threshold for value, _ in pairs])
    last = bisect.bisect_right(points, 0.0, key=lambda point: -total(point)) - 1
    level, above = points[last], total(points[last])
    if above > 0:
        level += (points[last + 1] - level) * above / (above - total(points[last + 1]))
    pulls = [gain * _soft(value - level, threshold) for value, gain in pairs]
    # What rounding leaves in the sum would accumulate over the steps.
    rest = sum(pulls) / len(pulls)
    return np.array([pull - rest for pull in pulls])


def _soft(distance: float, threshold: float) -> float:
    """Soft threshold S_h."""
    return distance - min(max(distance, -threshold), threshold)
