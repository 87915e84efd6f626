"""Expected widths of a certificate, its bound under a shift, and bounds for any input of a smoothed predictor.

Widths are estimated before there is any data: no guarantee, an aid to choosing sizes. The other bounds hold as stated.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, ndtr, ndtri

from fairdp import errors
from fairdp.certify.bounds import Counts, IntegerLaw, arms_of, gap_bound, laplace_sum, noise_variance, per_group
from fairdp.config import Preregistration
from fairdp.errors import ParameterError
from fairdp.parameters import CERTIFIABLE, METRICS, RATES

# How much wider the exact bound is than its normal approximation, measured where the noise is small.
_OVER_NORMAL = 1.05
# Fractions of the records are tried up to this one, in thousandths.
_LARGEST_FRACTION = 0.9
_STEPS = 1000
# How the failure probability is spent, fixed in advance: the gap, the label gaps and the shares of two groups, and the
# number of all records. A share is known within about 1/√N, a label gap only within 1/√(its smaller cell): shares need
# far less than an equal part, and what they leave makes the other three bounds narrower.
_GAP, _LABEL_GAP, _SHARE, _TOTAL = 0.3, 0.3, 0.045, 0.01
# Label by decision.
_CELLS_OF_A_GROUP = 4
# Precision of a root, by which a share is lowered.
_ROOT = 1e-10
# Relative error allowed for in the tail of a binomial; it only lowers a share.
_ROUNDING = 1e-7


def expected_slack(
    *,
    sizes: Sequence[float],
    rates: Sequence[float],
    epsilon: float | Sequence[float],
    failure_probability: float,
    n_noise_terms: int,
) -> float:
    r"""Estimate of how far the bound on a gap will lie above the observed gap.

    .. math::
        1.05\, z_{1-\alpha} \sqrt{\sum_{i=u,v} \left[ \frac{p_i(1-p_i)}{n_i}
        + m\nu \frac{p_i^2 + (1-p_i)^2}{n_i^2} \right]}, \qquad
        \nu = \frac{2e^{-\varepsilon}}{(1 - e^{-\varepsilon})^2},

    for the two groups with the largest terms, and at most one. Within 5 % of the certificate's where the smallest size
    times epsilon is 50 or more, 8 % at rates near 0.01; 20 to 28 % too small at epsilon 0.1 with cells of 118 to 236
    people, and a third too small or worse where arms are so small that they are bounded one by one.

    Parameters
    ----------
    sizes, rates
        Expected number of people in each group or cell, and their expected rates of positive decisions.
    n_noise_terms
        Draws of noise in each count: 1 for a cell, 2 for a group that adds up two cells.
    """
    errors.in_unit_interval(failure_probability=failure_probability)
    epsilons = per_group(epsilon, len(sizes))
    errors.finite_positive(sizes=min(sizes), epsilon=min(epsilons))
    n, p = np.asarray(sizes, dtype=np.float64), np.asarray(rates, dtype=np.float64)
    noise = n_noise_terms * np.array([noise_variance(group_epsilon) for group_epsilon in epsilons])
    variances = p * (1 - p) / n + noise * (p**2 + (1 - p) ** 2) / n**2
    deviation = math.sqrt(float(np.sort(variances)[-2:].sum()))
    return min(1.0, -_OVER_NORMAL * float(ndtri(failure_probability)) * deviation)


def expected_widths(
    *,
    group_sizes: Sequence[int],
    certify_fraction: float,
    epsilon: float | Sequence[float],
    confidence: float,
    positive_rate: float,
    label_rate: float,
    metrics: tuple[str, ...] = METRICS,
    n_looks: int = 1,
    score_share: float = 0.0,
) -> dict[str, float]:
    """Expected slack of each metric, were this fraction of the records kept for certification.

    Within a tenth of what the certificate gets where the smallest cell times epsilon is 50 or more.

    Parameters
    ----------
    group_sizes
        Number of records of each group, training and certification together.
    positive_rate, label_rate
        Expected rate of positive decisions and of positive labels, taken to be that of every group and cell.
    n_looks
        Looks that share epsilon. With more than one, a bound is required beforehand: the slack is then that of whether
        it is met, for which every metric is tested at the full level.
    score_share
        Share of epsilon that is kept for counts of scores.
    """
    errors.in_unit_interval(certify_fraction=certify_fraction, positive_rate=positive_rate, label_rate=label_rate)
    # Which bound is required does not change how wide it is.
    registered = Preregistration(
        confidence=confidence,
        metrics=metrics,
        require_tau=None if n_looks == 1 else 0.5,
        n_looks=n_looks,
        score_share=score_share,
    )
    sizes = [certify_fraction * size for size in group_sizes]
    return _widths(registered, sizes=sizes, epsilon=epsilon, positive_rate=positive_rate, label_rate=label_rate)


def cost_in_tau(
    registration: Preregistration,
    *,
    sizes: Sequence[float],
    epsilon: float | Sequence[float],
    positive_rate: float,
    label_rate: float,
) -> dict[str, float]:
    """Expected widening of each bound because a share of epsilon is kept for counts of scores.

    The expected slack of what is registered minus that of the same without such a share.

    Parameters
    ----------
    sizes
        Expected number of certification records of each group.
    epsilon
        Pure ε that a certification record spends in all.
    positive_rate, label_rate
        As for `expected_widths`.
    """
    known: dict[str, Any] = {
        "sizes": sizes,
        "epsilon": epsilon,
        "positive_rate": positive_rate,
        "label_rate": label_rate,
    }
    alone = _widths(replace(registration, score_share=0.0), **known)
    return {metric: width - alone[metric] for metric, width in _widths(registration, **known).items()}


def _widths(
    registration: Preregistration,
    *,
    sizes: Sequence[float],
    epsilon: float | Sequence[float],
    positive_rate: float,
    label_rate: float,
) -> dict[str, float]:
    """Expected slack of each metric with so many certification records of each group."""
    per_look = registration.per_look(per_group(epsilon, len(sizes)))
    shares = {(0, 1): 1.0, (1,): label_rate, (0,): 1 - label_rate}
    slacks = {}
    for kind, level in registration.levels().items():
        arms = [shares[RATES[kind].labels] * size for size in sizes]
        slack = expected_slack(
            sizes=arms,
            rates=[positive_rate] * len(arms),
            epsilon=per_look,
            failure_probability=level,
            n_noise_terms=len(RATES[kind].counted),
        )
        # At equal rates the worse of two directions counts: that in which the smallest group's skewness hurts.
        skew = float(ndtri(level)) ** 2 * abs(1 - 2 * positive_rate) / (2 * min(arms))
        slacks[kind] = min(1.0, slack + skew)
    return {metric: max(slacks[kind] for kind in CERTIFIABLE[metric].rates) for metric in registration.metrics}


def fraction_for_width(
    width: float,
    *,
    group_sizes: Sequence[int],
    epsilon: float | Sequence[float],
    confidence: float,
    positive_rate: float,
    label_rate: float,
    metrics: tuple[str, ...] = METRICS,
    n_looks: int = 1,
    score_share: float = 0.0,
) -> float | None:
    """Smallest fraction of the records, rounded up to a thousandth, whose expected widths are all at most ``width``.

    None if nine tenths are not enough. The other parameters are those of `expected_widths`.
    """
    errors.positive(width=width)

    def narrow(step: int) -> bool:
        widths = expected_widths(
            group_sizes=group_sizes,
            certify_fraction=step / _STEPS,
            epsilon=epsilon,
            confidence=confidence,
            positive_rate=positive_rate,
            label_rate=label_rate,
            metrics=metrics,
            n_looks=n_looks,
            score_share=score_share,
        )
        return max(widths.values()) <= width

    # More records never widen a bound, so the fractions that are enough are the last ones.
    steps = range(1, round(_LARGEST_FRACTION * _STEPS) + 1)
    found = bisect_left(steps, True, key=narrow)
    return steps[found] / _STEPS if found < len(steps) else None


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
    r"""Largest growth of the gap with the shift, :math:`\max_{u \ne v} (d_u / P_u + d_v / P_v)`.

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
    errors.in_unit_interval(failure_probability=failure_probability)
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
    errors.finite_positive(epsilon=min(epsilons))
    errors.in_unit_interval(failure_probability=failure_probability)
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
    errors.in_unit_interval(failure_probability=failure_probability)
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


def smoothed_probability(
    scores: NDArray[np.float64], embedding_norms: NDArray[np.float64], *, smoothing: float, bias: bool = True
) -> NDArray[np.float64]:
    r"""Chance of a positive decision when the head (w, b) is drawn anew for it with deviation s.

    .. math:: p(x) = \Phi\left( \frac{\langle w, \xi \rangle + b}{s \sqrt{\|\xi\|^2 + 1}} \right).

    Without a bias there is no 1 under the root, and where ξ is zero so is the score, whatever head is drawn: the
    decision is positive.
    """
    errors.finite_positive(smoothing=smoothing)
    lengths = smoothing * np.sqrt(embedding_norms**2 + bias)
    return np.where(lengths > 0, ndtr(scores / np.where(lengths > 0, lengths, 1.0)), 1.0)


def input_agnostic_bound(head: NDArray[np.float64], *, smoothing: float, nonnegative: bool, bias: bool = True) -> float:
    r"""Bound on the difference of any two decisions' chances, hence on every gap of the smoothed predictor.

    With an embedding that cannot be negative, :math:`\xi' = (\xi, 1) \ge 0`,
    :math:`\Phi(\|w'_+\|/s) - \Phi(-\|w'_-\|/s)` with the positive and negative parts of :math:`w' = (w, b)`; in general
    :math:`\mathrm{erf}(\|w'\| / (s\sqrt2))`. Without a bias a record may be embedded to zero, which is always decided
    positive, so that the larger chance is one.

    Parameters
    ----------
    head
        The head with its bias, if it has one, as last coordinate, :math:`w'`.
    nonnegative
        Whether embeddings are non-negative, as after a ReLU.
    """
    errors.finite_positive(smoothing=smoothing)
    if not nonnegative:
        reach = float(np.linalg.norm(head)) / smoothing
        return math.erf(reach / math.sqrt(2)) if bias else float(ndtr(reach))
    # Without an entry of one sign the cosine with a non-negative vector cannot reach zero: its ends are the entries'.
    top = float(np.linalg.norm(head.clip(min=0))) if (head > 0).any() else float(head.max())
    bottom = -float(np.linalg.norm(head.clip(max=0))) if (head < 0).any() else float(head.min())
    return float((ndtr(top / smoothing) if bias else 1.0) - ndtr(bottom / smoothing))


def smoothing_bound(distance: float, *, smoothing: float) -> float:
    r"""Most by which two smoothed classifiers can differ on any input, :math:`2 \Phi(\|\theta - \theta'\| / 2s) - 1`.

    It is the total variation of the two Gaussians around their parameters, hence valid for any decision in [0, 1]. It
    compares two models, not two groups.

    References
    ----------
    Jin, Zhang, Zhou, Wu (2022), in its tight form.

    >>> round(smoothing_bound(2.0, smoothing=1.0), 4)
    0.6827
    """
    return float(2 * ndtr(distance / (2 * smoothing)) - 1)


def utility_ceiling(minority_rate: float, *, tau: float) -> float:
    r"""Best accuracy of any predictor whose chances differ by at most τ over all inputs, :math:`1 - \pi + \pi\tau`.

    A right decision on both classes needs far-apart chances; the accuracy :math:`\pi(l + \tau) + (1 - \pi)(1 - l)` of
    chances between l and l + τ is linear in l and largest at l = 0.
    """
    errors.in_unit_interval(minority_rate=minority_rate)
    return 1 - minority_rate + minority_rate * tau
