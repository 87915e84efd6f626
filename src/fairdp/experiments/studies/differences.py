"""Differences between the runs of two methods: relative reductions with their errors, and t-tests."""

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats


def relative_reduction(ours: Sequence[float], others: Sequence[float], *, paired: bool = False) -> tuple[float, float]:
    """1 − mean(ours) / mean(others), with its standard error by the delta method, for samples or for pairs.

    >>> relative_reduction([1.0, 1.0], [4.0, 4.0])
    (0.75, 0.0)
    >>> relative_reduction([1.0, 2.0], [4.0, 8.0], paired=True)
    (0.75, 0.0)
    """
    a, b, n = np.mean(ours), np.mean(others), len(ours)
    if not b:
        return math.nan, math.nan
    covariance = (
        np.cov(ours, others) / n
        if paired
        else np.diag([np.var(ours, ddof=1) / n, np.var(others, ddof=1) / len(others)])
    )
    slope = np.array([-1 / b, a / b**2])
    return float(1 - a / b), math.sqrt(max(0.0, float(slope @ covariance @ slope)))


def t_test(ours: Sequence[float], others: Sequence[float], *, paired: bool = False) -> dict[str, float]:
    """Two-tailed test of equal means, Welch's or that of pairs; without spread they differ for certain or not at all.

    >>> t_test([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])["p_value"]
    1.0
    >>> t_test([1.0, math.nan], [1.0, 2.0])
    {'difference': nan, 'p_value': nan}
    """
    difference = float(np.mean(ours) - np.mean(others))
    # A ratio of rates that are zero is no number, and neither is what is made from it.
    if math.isnan(difference):
        return {"difference": math.nan, "p_value": math.nan}
    spread = np.ptp(np.subtract(ours, others)) if paired else np.ptp(ours) + np.ptp(others)
    if not spread > 1e-15:
        return {"difference": difference, "p_value": float(abs(difference) < 1e-12)}
    if paired:
        return {"difference": difference, "p_value": float(stats.ttest_rel(ours, others).pvalue)}
    # From means and deviations: samples of which one has no spread are compared without a warning.
    (mean, deviation, n), (other_mean, other_deviation, n_others) = (
        (float(np.mean(sample)), float(np.std(sample, ddof=1)), len(sample)) for sample in (ours, others)
    )
    test = stats.ttest_ind_from_stats(mean, deviation, n, other_mean, other_deviation, n_others, equal_var=False)
    return {"difference": difference, "p_value": float(test.pvalue)}
