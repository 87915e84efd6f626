"""Tests of random code: each fails correct code with probability at most FALSE_ALARM."""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FALSE_ALARM = 1e-6  # chance that correct code fails one statistical test; 200 tests → 2e-4 a run


def assert_rate_at_most(events: int, trials: int, limit: float) -> None:
    """Fail only if so many events are that unlikely at the promised rate."""
    test = stats.binomtest(events, trials, limit, alternative="greater")
    assert test.pvalue >= FALSE_ALARM, f"{events}/{trials} events, promised at most {limit}"


def assert_plausible(pvalue: float, what: str) -> None:
    """Fail only if the observation is that unlikely."""
    assert pvalue >= FALSE_ALARM, f"{what}: p-value {pvalue:.2g}"


def assert_normal(draws: NDArray[np.float64], std: float) -> None:
    """Fail if draws are not from N(0, std²): the scale by a chi-square test, the shape by Kolmogorov and Smirnov.

    20 000 draws notice a standard deviation that is 5 % off, either way, with a chance above 99.99 %.
    """
    draws = np.ravel(draws).astype(np.float64)
    statistic = float(np.sum((draws / std) ** 2))
    tail = min(stats.chi2.cdf(statistic, draws.size), stats.chi2.sf(statistic, draws.size))
    assert_plausible(2 * tail, f"scale of {draws.size} draws against std {std:.4g}")
    assert_plausible(stats.kstest(draws, "norm", args=(0, std)).pvalue, "shape")


def assert_binomial(counts: NDArray[np.int64], trials: int, rate: float) -> None:
    """Fail if independent counts are not from Binomial(trials, rate), by their total and by their dispersion."""
    counts = np.asarray(counts)
    total = stats.binomtest(int(counts.sum()), trials * counts.size, rate)
    assert_plausible(total.pvalue, f"mean of {counts.size} counts against {trials} × {rate}")
    dispersion = float(np.sum((counts - trials * rate) ** 2) / (trials * rate * (1 - rate)))
    tail = min(stats.chi2.cdf(dispersion, counts.size), stats.chi2.sf(dispersion, counts.size))
    assert_plausible(2 * tail, f"dispersion of {counts.size} counts")
