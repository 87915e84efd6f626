"""Demographic parity when the mix of groups and labels changes after certification, bounded from noisy counts.

The people of each group and label stay as they are, Pr(x | a, y), and only Pr(a, y) moves. Equal opportunity and
equalized odds condition on a and y and do not change under such a shift.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc

from fairdp import _checks
from fairdp._checks import ParameterError
from fairdp.certify.gaps import gap_bound
from fairdp.certify.noise import IntegerLaw, laplace_sum
from fairdp.certify.release import Counts, arms_of, per_group

# How the failure probability is spent, fixed in advance: the gap, the label gaps and the shares of two groups, and the
# number of all records. A share is known within about 1/√N, a label gap only within 1/√(its smaller cell): shares need
# far less than an equal part, and what they leave makes the other three bounds narrower.
_GAP, _LABEL_GAP, _SHARE, _TOTAL = 0.3, 0.3, 0.045, 0.01
_CELLS_OF_A_GROUP = 4
_ROOT = 1e-10
# Relative error allowed for in the tail of a binomial; it only lowers a share.
_ROUNDING = 1e-7


@dataclass(frozen=True, kw_only=True)
class ShiftBound:
    r"""Bound on the demographic parity gap after Pr(a, y) has moved by a total variation γ, for every γ at once.

    .. math::
        \tau(\gamma) = \tau + \gamma \max_{u \ne v} \left( \frac{d_u}{P_u} + \frac{d_v}{P_v} \right).

    Parameters
    ----------
    tau
        Bound on the gap where nothing has moved.
    slope
        The maximum in the formula; infinite when nothing is known about the share of a group.
    """

    tau: float
    slope: float

    def at(self, shift: float) -> float:
        """Bound after a shift of this size, at most one; an infinite slope says nothing except at no shift."""
        if not 0 <= shift <= 1:
            raise ParameterError("shift", shift, "must be in [0, 1]")
        return min(1.0, self.tau + shift * self.slope) if shift else self.tau


def shift_slope(label_gaps: NDArray[np.float64], group_shares: NDArray[np.float64]) -> float:
    r"""How fast the gap can grow with the shift, :math:`\max_{u \ne v} (d_u / P_u + d_v / P_v)`.

    In a group of share P a shift of size γ moves the share of positive labels by at most γ/P, and so the acceptance
    rate by at most d times that.

    Parameters
    ----------
    label_gaps
        Difference between the acceptance rates of the two labels in each group, :math:`d_a`, or a bound above it.
    group_shares
        Each group's share of the population before the shift, :math:`P_a`, or a bound below it.
    """
    if len(label_gaps) < 2:
        return 0.0  # one group has no gap, wherever it moves
    known = np.asarray(group_shares) > 0
    exposures = np.full(len(label_gaps), np.inf)
    exposures[known] = np.asarray(label_gaps)[known] / np.asarray(group_shares)[known]
    return float(np.sort(exposures)[-2:].sum())


def bound_under_shift(
    counts: Counts,
    *,
    epsilon: float | Sequence[float],
    failure_probability: float,
    score_box_groups: bool,
    score_box_cells: bool,
) -> ShiftBound:
    r"""Bound the gap under all shifts of all sizes at once; wrong with at most this probability.

    The true gap is the difference of one fixed pair of groups, and the true slope is set by one fixed pair, the two
    most exposed. So for any number of groups six bounds have to hold: on that gap, on the label gaps and the shares of
    these two groups, and on the size of the sample; other groups' bounds can only raise the result. The records must
    be independent draws from the population, not so many of each group: their numbers tell the shares.

    Parameters
    ----------
    counts
        Noisy counts per group, label and decision, shape (n_groups, 2, 2), each with its own discrete Laplace noise.
    epsilon
        Parameter of that noise, for all groups or one for each.
    score_box_groups, score_box_cells
        Whether groups, and cells of one label, are so small that they are bounded one by one; decided before looking.
    """
    _checks.in_unit_interval(failure_probability=failure_probability)
    epsilons = per_group(epsilon, len(counts))
    groups = arms_of(counts, "positive", epsilons)
    gap = gap_bound(groups, failure_probability=_GAP * failure_probability, score_box=score_box_groups)
    label_gaps = _label_gaps(counts, epsilons, _LABEL_GAP * failure_probability, score_box_cells)
    return ShiftBound(tau=gap.tau, slope=shift_slope(label_gaps, _shares(counts, epsilons, failure_probability)))


def _label_gaps(
    counts: Counts, epsilons: tuple[float, ...], failure_probability: float, score_box: bool
) -> NDArray[np.float64]:
    """Bound on each group's label gap: the larger of both directions, at the level of one, for the truth has one."""
    labels = [arms_of(counts, kind, epsilons) for kind in ("true_positive", "false_positive")]
    return np.array(
        [
            gap_bound(pair, failure_probability=failure_probability, score_box=score_box).tau
            for pair in zip(*labels, strict=True)
        ]
    )


def _shares(counts: Counts, epsilons: tuple[float, ...], failure_probability: float) -> NDArray[np.float64]:
    """Lower bound on each group's share, for the parts of the failure probability that shares and total have."""
    total = largest_total(int(counts.sum()), epsilons=epsilons, failure_probability=_TOTAL * failure_probability)
    failure = _SHARE * failure_probability
    return np.array(
        [
            smallest_share(int(group.sum()), total=total, epsilon=epsilon, failure_probability=failure)
            for group, epsilon in zip(counts, epsilons, strict=True)
        ]
    )


def largest_total(noisy_total: int, *, epsilons: Sequence[float], failure_probability: float) -> int:
    r"""Upper bound on the number of all records from the sum of all noisy counts, four of each group.

    Chernoff's bound, which with the noise X of a count of group k and :math:`a = e^{-\varepsilon_k}` adds

    .. math::
        t = \min_{\lambda} \frac{4 \sum_k \ln \mathrm{E} e^{\lambda X_k} + \ln(1/\beta)}{\lambda}, \qquad
        \mathrm{E} e^{\lambda X} = \frac{(1 - a)^2}{(1 - a e^{\lambda})(1 - a e^{-\lambda})}.

    It is a few records wider than the exact quantile, and no slower for many groups or a small ε.

    Parameters
    ----------
    epsilons
        Parameter of the noise in each group.
    """
    _checks.finite_positive(epsilon=min(epsilons))
    _checks.in_unit_interval(failure_probability=failure_probability)
    # Every λ below the smallest ε gives a valid bound, so a grid does.
    tilts = min(epsilons) * np.linspace(0.005, 0.995, 199)
    logs = np.sum([_log_mean_exponential(tilts, epsilon) for epsilon in epsilons], axis=0)
    reach = (_CELLS_OF_A_GROUP * logs - math.log(failure_probability)) / tilts
    return noisy_total + math.floor(float(reach.min()))


def _log_mean_exponential(tilts: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Logarithm of the mean of e^(λX), for one draw of discrete Laplace noise."""
    return 2 * math.log(-math.expm1(-epsilon)) - np.log(np.expm1(-epsilon - tilts) * np.expm1(tilts - epsilon))


def smallest_share(noisy_size: int, *, total: int, epsilon: float, failure_probability: float) -> float:
    r"""Lower bound on a group's share of the population from its noisy size; zero says nothing.

    .. math:: \inf\{ r : \Pr(\mathrm{Bin}(N^+, r) + X \ge \tilde n) \ge \beta \},

    X the noise of the group's four cells and :math:`N^+` the ``total``, an upper bound on the number of all records:
    more records make a large :math:`\tilde n` more likely, so the bound holds for fewer as well.
    """
    _checks.in_unit_interval(failure_probability=failure_probability)
    law = laplace_sum(epsilon, _CELLS_OF_A_GROUP)

    def excess(share: float) -> float:
        return _chance_of_size(noisy_size, total, share, law) - failure_probability

    # A size that even the whole population makes too unlikely is as rare as was allowed for: nothing is claimed then.
    if total <= 0 or excess(0.0) >= 0 or excess(1.0) < 0:
        return 0.0
    return max(0.0, float(brentq(excess, 0.0, 1.0, xtol=_ROOT)) - 2 * _ROOT)


def _chance_of_size(noisy_size: int, total: int, share: float, law: IntegerLaw) -> float:
    """Chance of a noisy size this large or larger, or a little more than it.

    A sum over the noise, whose terms are tails of the binomial in closed form: its length does not grow with the total.
    """
    needed = noisy_size - np.arange(law.first, law.last + 1)
    possible = np.clip(needed, 1, total)
    tails = betainc(possible, total - possible + 1, share)
    tails = np.where(needed <= 0, 1.0, np.where(needed > total, 0.0, tails))
    return float(tails @ law.probabilities) * (1 + _ROUNDING) + law.missing
