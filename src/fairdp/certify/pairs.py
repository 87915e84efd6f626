"""Upper bounds on the difference and the ratio of two rates, from two independent noisy arms.

A hypothesis (rates and sizes of both arms) is rejected if a size is out of range, if one arm alone rules out its rate,
or if a weighted sum of the two bent normal scores is too small; the weights follow from the hypothesis, never from the
data. The truth is rejected with at most the stated probability, so the largest difference among the hypotheses that
are not rejected is a valid bound. Grids only widen it: a cell counts as accepted unless all of it is rejected.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fairdp import _checks
from fairdp.certify.arms import ArmTable, NoisyArm, arm_table, largest_rate, scale_at, upper_p_values
from fairdp.certify.combination import CriticalValues, bent, critical_values

Floats = NDArray[np.float64]

# Parts into which a cell is cut in each direction when it is looked at more closely.
_PARTS = 4


@dataclass(frozen=True)
class PairLevels:
    """How the failure probability of one pair is spent: four size bounds, two guards, the combination."""

    size: float
    guard: float
    combination: float

    @classmethod
    def of(cls, failure_probability: float) -> "PairLevels":
        """One half of a percent for each size bound and about as much for each guard, the rest for the combination."""
        _checks.in_unit_interval(failure_probability=failure_probability)
        guard = 0.005 * 0.98 * failure_probability
        return cls(0.005 * failure_probability, guard, 0.98 * failure_probability - 2 * guard)


@dataclass(frozen=True, eq=False)
class Side:
    """An arm as one side of pairs: its table, or None when its counts rule out every size or every rate."""

    table: ArmTable | None

    @classmethod
    def of(cls, arm: NoisyArm, levels: PairLevels) -> "Side":
        """Table of the rates that the arm alone does not rule out."""
        sizes = arm.sizes(levels.size)
        return cls(None if sizes is None else arm_table(arm, sizes, levels.guard))


@dataclass(frozen=True)
class PairBound:
    """Bounds on two rates that hold together: both are read off the same region of hypotheses."""

    difference: float
    ratio: float


def pair_bound(high: NoisyArm, low: NoisyArm, *, failure_probability: float) -> PairBound:
    """Bounds on the rate of ``high`` minus, and over, the rate of ``low``; wrong with at most this probability.

    An infinite ratio says nothing.
    """
    levels = PairLevels.of(failure_probability)
    up, down = Side.of(high, levels), Side.of(low.mirrored(), levels)
    return PairBound(bound_of(up, down, levels, difference), bound_of(up, down, levels, ratio))


Objective = Callable[[Floats, Floats], Floats]


def difference(rates: Floats, mirrored: Floats) -> Floats:
    """Every upper rate minus every lower one, the latter given as one minus itself; shape (n_up, n_down)."""
    return rates[:, None] - (1 - mirrored)[None, :]


def ratio(rates: Floats, mirrored: Floats) -> Floats:
    """Every upper rate over every lower one; nothing over nothing is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        values = rates[:, None] / (1 - mirrored)[None, :]
    return np.where(np.isnan(values), np.inf, values)


def bound_of(up: Side, down: Side, levels: PairLevels, objective: Objective, *, rounds: int = 2) -> float:
    """Largest objective among the hypotheses that are not rejected; more rounds only tighten it.

    Parameters
    ----------
    up, down
        The upper arm, and the lower one mirrored.
    rounds
        How often the cells that set the bound are looked at more closely.
    """
    if up.table is None or down.table is None:
        return float(objective(np.ones(1), np.ones(1))[0, 0])
    critical = critical_values(levels.combination)
    upper, lower = up.table, down.table
    values, settled = _accepted_values(upper, lower, levels, critical, objective), -np.inf
    for _ in range(rounds):
        # The cells above what others reach at their near corner; the rest keep what they have.
        near = objective(upper.low, lower.low)
        limit = near[np.isfinite(values) & np.isfinite(near)].max(initial=-np.inf)
        rows, columns = np.flatnonzero((values > limit).any(1)), np.flatnonzero((values > limit).any(0))
        if not len(rows):
            break
        others = values.copy()
        others[np.ix_(rows, columns)] = -np.inf
        settled = max(settled, float(others.max()))
        upper, lower = upper.split(rows, _PARTS), lower.split(columns, _PARTS)
        values = _accepted_values(upper, lower, levels, critical, objective)
    best = max(settled, float(values.max()))
    # Nothing left means that the counts are as unlikely as was allowed for: then nothing is claimed.
    return best if best > -np.inf else float(objective(np.ones(1), np.ones(1))[0, 0])


def _accepted_values(
    up: ArmTable, down: ArmTable, levels: PairLevels, critical: CriticalValues, objective: Objective
) -> Floats:
    """Largest objective in each pair of cells that is not rejected, −∞ where it is; shape (n_up, n_down)."""
    accepted = np.zeros((len(up.low), len(down.low)), dtype=bool)
    for i in range(up.p_values.shape[1]):
        for j in range(down.p_values.shape[1]):
            accepted |= _accepted(up, i, down, j, levels, critical)
    return np.where(accepted, objective(up.high, down.high), -np.inf)


def _accepted(
    up: ArmTable, i: int, down: ArmTable, j: int, levels: PairLevels, critical: CriticalValues
) -> NDArray[np.bool_]:
    """Whether a pair of cells holds hypotheses, with sizes in these two ranges, that are not rejected."""
    guarded = (up.p_values[:, i] >= levels.guard)[:, None] & (down.p_values[:, j] >= levels.guard)[None, :]
    first, second = bent(ndtri(up.p_values[:, i]))[:, None], bent(ndtri(down.p_values[:, j]))[None, :]
    least = np.arctan2(down.scale_low[None, :, j], up.scale_high[:, None, i])
    most = np.arctan2(down.scale_high[None, :, j], up.scale_low[:, None, i])
    limit = -critical.largest(least, most)
    # A sum with weights cos φ, sin φ is convex in φ where it is negative: its largest value is at an end of the range.
    ends = [np.cos(angle) * first + np.sin(angle) * second >= limit for angle in (least, most)]
    return guarded & (ends[0] | ends[1])


def score_box_bound(arm: NoisyArm, *, failure_probability: float) -> float:
    """Upper bound on one rate, for arms too small for the pair: exact p-values at every size that is possible."""
    sizes = arm.sizes(0.005 * failure_probability)
    top = None if sizes is None else largest_rate(arm, sizes, 0.99 * failure_probability)
    return 1.0 if top is None else top


def truth_rejected(
    high: NoisyArm, low: NoisyArm, rates: tuple[float, float], sizes: tuple[int, int], *, failure_probability: float
) -> bool:
    """Whether one hypothesis is rejected, at the point itself: what the coverage of every bound rests on."""
    levels = PairLevels.of(failure_probability)
    arms = (high, low.mirrored())
    arm_rates = (rates[0], 1 - rates[1])
    for arm, size in zip(arms, sizes, strict=True):
        within = arm.sizes(levels.size)
        if within is None or not within[0] <= size <= within[1]:
            return True
    values = [upper_p_values(a, np.array([p]), n, n)[0] for a, p, n in zip(arms, arm_rates, sizes, strict=True)]
    if min(values) < levels.guard:
        return True
    scales = [scale_at(a, p, n) for a, p, n in zip(arms, arm_rates, sizes, strict=True)]
    angle = np.arctan2(np.array([scales[1]]), np.array([scales[0]]))
    scores = bent(ndtri(np.array(values)))
    total = np.cos(angle) * scores[0] + np.sin(angle) * scores[1]
    return bool(total[0] < -critical_values(levels.combination).largest(angle, angle)[0])
