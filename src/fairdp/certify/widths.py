"""How wide a certificate will be, estimated before there is any data: no guarantee, an aid to choosing sizes."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from fairdp import _checks
from fairdp.certify.noise import noise_variance
from fairdp.certify.release import per_group
from fairdp.config.certificate import CERTIFIABLE, METRICS
from fairdp.config.preregistration import Preregistration

# How much wider the exact bound is than its normal approximation, measured where the noise is small.
_OVER_NORMAL = 1.05
_LARGEST_FRACTION = 0.9
_STEPS = 1000


def expected_slack(
    *,
    sizes: Sequence[float],
    rates: Sequence[float],
    epsilon: float | Sequence[float],
    failure_probability: float,
    folds: int,
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
    folds
        Draws of noise in each count: 1 for a cell, 2 for a group that adds up two cells.
    """
    _checks.in_unit_interval(failure_probability=failure_probability)
    epsilons = per_group(epsilon, len(sizes))
    _checks.finite_positive(sizes=min(sizes), epsilon=min(epsilons))
    n, p = np.asarray(sizes, dtype=np.float64), np.asarray(rates, dtype=np.float64)
    noise = folds * np.array([noise_variance(group_epsilon) for group_epsilon in epsilons])
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
    _checks.in_unit_interval(certify_fraction=certify_fraction, positive_rate=positive_rate, label_rate=label_rate)
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
    """How much wider each bound is expected to be because a share of epsilon is kept for counts of scores.

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
    shares = {"positive": 1.0, "true_positive": label_rate, "false_positive": 1 - label_rate}
    slacks = {}
    for kind, level in registration.levels().items():
        arms = [shares[kind] * size for size in sizes]
        slack = expected_slack(
            sizes=arms,
            rates=[positive_rate] * len(arms),
            epsilon=per_look,
            failure_probability=level,
            folds=2 if kind == "positive" else 1,
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
    _checks.positive(width=width)

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
