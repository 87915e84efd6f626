"""Intervals of measured metrics: they cover the truth as often as they say, and never shrink to a point."""

import numpy as np
import pytest
from scipy.stats import norm

from fairdp.metrics.intervals import confidence_intervals
from fairdp.metrics.rates import evaluate_decisions
from metric_cases import NAMES, sample
from statistical import assert_rate_at_most

# True values of `sample` with two groups of equal size; decisions are 1[score ≥ 0].
_POSITIVE = [np.mean([norm.cdf(0.8 * y - 0.4 + shift) for y in (0, 1)]) for shift in (0.6, 0.0)]
TRUTH = {
    "demographic_parity_difference": _POSITIVE[0] - _POSITIVE[1],
    "positive_rate": np.mean(_POSITIVE),
    "equalized_odds_difference": max(norm.cdf(centre + 0.6) - norm.cdf(centre) for centre in (0.4, -0.4)),
    "demographic_parity_ratio": _POSITIVE[1] / _POSITIVE[0],
    "accuracy": np.mean([[norm.cdf(0.4 + s), 1 - norm.cdf(-0.4 + s)] for s in (0.6, 0.0)]),
    "equal_opportunity_difference": norm.cdf(0.4 + 0.6) - norm.cdf(0.4),
    # Differences of scores of the two labels: N(.8 ± .6 or 0, 2), the shift by chance in either, both or none.
    "auc": np.mean([norm.cdf((0.8 + shift) / np.sqrt(2)) for shift in (0.6, 0.0, 0.0, -0.6)]),
}


def misses(shrink: float, n_runs: int = 300) -> dict[str, int]:
    """How often each interval at 95 % misses the truth, shrunk about its middle by a factor."""
    rng = np.random.default_rng(0)
    missed = dict.fromkeys(TRUTH, 0)
    for _ in range(n_runs):
        y, scores, groups = sample(400, 2, rng)
        intervals = confidence_intervals(y, scores, groups, 2, confidence=0.95, rng=rng, n_draws=400)
        for name, truth in TRUTH.items():
            low, high = intervals[name]
            missed[name] += abs(truth - (low + high) / 2) > shrink * (high - low) / 2
    return missed


def test_intervals_miss_about_as_rarely_as_they_say():
    """At .05 promised, .08 is forgiven (draws, n = 400); 300 runs notice a true rate of .18."""
    for missed in misses(1.0).values():
        assert_rate_at_most(missed, 300, 0.08)


def test_that_check_notices_intervals_half_as_wide():
    for missed in misses(0.5).values():
        with pytest.raises(AssertionError):
            assert_rate_at_most(missed, 300, 0.08)


def test_an_interval_without_evidence_is_nan():
    y, groups = np.zeros(20, int), np.arange(20) % 2
    intervals = confidence_intervals(
        y, np.ones(20), groups, 2, confidence=0.9, rng=np.random.default_rng(0), n_draws=50
    )
    assert np.isnan(intervals["equal_opportunity_difference"]).all()
    assert np.isnan(intervals["auc"]).all()
    # Twenty of twenty: the rate whose twentieth power is the tail.
    assert intervals["positive_rate"] == pytest.approx((0.05 ** (1 / 20), 1.0))


Y = np.arange(40) % 2


@pytest.mark.parametrize("scores", [np.full(40, -0.5), np.full(40, 0.5), Y - 0.5], ids=["none", "all", "right"])
def test_no_interval_of_finitely_many_records_has_width_zero(scores):
    """Estimates at an end of what is possible: the truth may be a little off it."""
    groups = np.arange(40) // 20
    intervals = confidence_intervals(Y, scores, groups, 2, confidence=0.95, rng=np.random.default_rng(0))
    found = evaluate_decisions(Y, scores, groups, NAMES[2])
    for name, (low, high) in intervals.items():
        assert np.isnan([found[name], low, high]).all() or (low <= found[name] <= high and low < high), name


def misses_of_zero(*, confidence: float, trials: int = 200) -> int:
    """How often the interval of a gap that is zero leaves zero out."""
    rng, missed = np.random.default_rng(3), 0
    for _ in range(trials):
        groups, y = rng.integers(2, size=400), rng.integers(2, size=400)
        found = confidence_intervals(y, rng.normal(size=400), groups, 2, confidence=confidence, rng=rng, n_draws=400)
        missed += found["demographic_parity_difference"][0] > 0
    return missed


def test_intervals_of_equal_groups_contain_a_gap_of_zero():
    """A bootstrap of the largest gap never does; ours may miss at the rate it states. 200 runs notice .16 for .05."""
    assert_rate_at_most(misses_of_zero(confidence=0.95), 200, 0.05)


def test_that_check_notices_intervals_of_less_confidence():
    with pytest.raises(AssertionError):
        assert_rate_at_most(misses_of_zero(confidence=0.5), 200, 0.05)


@pytest.mark.parametrize("n_groups", [2, 12, pytest.param(30, marks=pytest.mark.more)])
def test_no_gap_of_equal_groups_is_missed_more_often_than_stated(n_groups):
    """All rates are equal, so that every pair may seem to differ; 200 runs notice a true rate of .16 against .05."""
    rng, trials = np.random.default_rng(1), 200
    names = ("demographic_parity_difference", "equal_opportunity_difference", "equalized_odds_difference")
    missed = dict.fromkeys((*names, "demographic_parity_ratio"), 0)
    for _ in range(trials):
        groups, y = np.arange(60 * n_groups) % n_groups, rng.integers(2, size=60 * n_groups)
        scores = rng.normal(size=60 * n_groups)
        found = confidence_intervals(y, scores, groups, n_groups, confidence=0.95, rng=rng, n_draws=400)
        for name in names:
            missed[name] += found[name][0] > 0
        missed["demographic_parity_ratio"] += found["demographic_parity_ratio"][1] < 1
    for count in missed.values():
        assert_rate_at_most(count, trials, 0.06)
