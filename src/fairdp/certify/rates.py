"""One rate from sums of released counts, with an interval that holds whatever the noise was."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from scipy.special import betaincinv

from fairdp import _checks
from fairdp.certify.arms import NoisyArm
from fairdp.certify.noise import noise_reach
from fairdp.certify.pairs import score_box_bound

# Draws of noise over epsilon up to which exact p-values take no longer than about a second.
_AFFORDABLE = 25.0
# Of the failure probability where they are not taken: each of two noises, and the rest for the draw of the people.
_FOR_NOISE = 0.25


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A rate: its estimate from noisy counts, NaN where the noise left nothing, and bounds that hold with it."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class NoisySum:
    """A sum of released counts, and the epsilon of every draw of noise in it."""

    value: int
    epsilons: tuple[float, ...]

    @classmethod
    def of(cls, cells: Iterable[tuple[int, float]]) -> "NoisySum":
        """The sum of counts, each with the epsilon it was released with."""
        counts, epsilons = zip(*cells, strict=True)
        return cls(sum(counts), epsilons)


def rate_of(positive: NoisySum, negative: NoisySum, *, failure_probability: float, estimate: float) -> Rate:
    """The rate with an interval whose ends fail with half of this probability each."""
    high = upper_rate(positive, negative, failure_probability=failure_probability / 2)
    low = 1 - upper_rate(negative, positive, failure_probability=failure_probability / 2)
    return Rate(estimate=estimate, low=max(0.0, min(low, high)), high=high)


def upper_rate(positive: NoisySum, negative: NoisySum, *, failure_probability: float) -> float:
    r"""Upper bound on the rate behind two noisy sums of people; wrong with at most this probability.

    Where both sums have equally many draws of the same noise, and not too many, by exact p-values (`score_box_bound`).
    Else the true numbers lie, except for a quarter of the probability each, at :math:`A \le \tilde A + r_A` and
    :math:`B \ge \tilde B - r_B` (`noise_reach`), and the bound of Clopper and Pearson, which grows with A and falls
    with B, has the rest. Which of the two is taken follows from public numbers alone.
    """
    _checks.in_unit_interval(failure_probability=failure_probability)
    same = positive.epsilons == negative.epsilons and len(set(positive.epsilons)) == 1
    folds, epsilon = len(positive.epsilons), min(positive.epsilons)
    if same and folds / epsilon <= _AFFORDABLE:
        arm = NoisyArm(positive=positive.value, negative=negative.value, epsilon=epsilon, folds=folds)
        return score_box_bound(arm, failure_probability=failure_probability)
    for_noise = _FOR_NOISE * failure_probability
    most = positive.value + noise_reach(positive.epsilons, for_noise)
    fewest = max(0, negative.value - noise_reach(negative.epsilons, for_noise))
    if most < 0 or fewest == 0:
        # Nobody may be negative, or the counts are as unlikely as was allowed for: then nothing is claimed.
        return 1.0
    return float(betaincinv(most + 1, fewest, 1 - (failure_probability - 2 * for_noise)))


def share(part: float, rest: float) -> float:
    """What a part is of the whole, after counts below zero became zero; NaN of nothing."""
    part, rest = max(float(part), 0.0), max(float(rest), 0.0)
    return part / (part + rest) if part + rest else math.nan
