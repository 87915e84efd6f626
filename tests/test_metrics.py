import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import accuracy_score, roc_auc_score

from fairdp.metrics import (
    area_under_roc,
    collapse_warning,
    confidence_intervals,
    decision_counts,
    evaluate_decisions,
    fairness_metrics,
    group_rates,
)
from statistical import assert_rate_at_most

NAMES = {2: ("a", "b"), 3: ("a", "b", "c")}


def sample(n: int, n_groups: int, rng: np.random.Generator, gap: float = 0.6):
    """Labels, scores and groups; the scores of the groups differ in the mean by the gap."""
    groups = rng.integers(n_groups, size=n)
    y = rng.integers(2, size=n)
    return y, rng.standard_normal(n) + 0.8 * y - 0.4 + gap * (groups == 0), groups


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_metrics_are_those_of_fairlearn_and_scikit_learn(n_groups, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from fairlearn import metrics as theirs
    y, scores, groups = sample(200, n_groups, np.random.default_rng(seed))
    ours = evaluate_decisions(y, scores, groups, NAMES[n_groups])
    y_pred = (scores >= 0).astype(int)
    for name in ("demographic_parity_difference", "demographic_parity_ratio", "equalized_odds_difference"):
        assert ours[name] == pytest.approx(getattr(theirs, name)(y, y_pred, sensitive_features=groups))
    opportunity = theirs.equal_opportunity_difference(y, y_pred, sensitive_features=groups)
    assert ours["equal_opportunity_difference"] == pytest.approx(opportunity)
    by_group = theirs.MetricFrame(
        metrics=theirs.false_positive_rate, y_true=y, y_pred=y_pred, sensitive_features=groups
    )
    assert ours["false_positive_rate_difference"] == pytest.approx(by_group.difference())
    assert ours["accuracy"] == pytest.approx(accuracy_score(y, y_pred))
    assert ours["auc"] == pytest.approx(roc_auc_score(y, scores))
    assert ours["positive_rate"] == pytest.approx(y_pred.mean())
    for code, name in enumerate(NAMES[n_groups]):
        assert ours["positive_rate_by_group"][name] == pytest.approx(y_pred[groups == code].mean())


def test_counts_by_hand():
    counts = decision_counts(np.array([0, 1, 1, 0]), np.array([1, 1, 0, 0]), np.array([0, 0, 1, 1]), 2)
    assert counts.tolist() == [[[0, 1], [0, 1]], [[1, 0], [1, 0]]]


def test_an_empty_cell_is_no_evidence_of_fairness():
    # Group 1 has no positive label, group 2 nobody at all.
    counts = np.array([[[5, 5], [5, 5]], [[4, 6], [0, 0]], [[0, 0], [0, 0]]])
    two = fairness_metrics(counts[:2])
    assert two["demographic_parity_difference"] == pytest.approx(0.1)
    assert np.isnan(two["equal_opportunity_difference"])
    assert np.isnan(two["equalized_odds_difference"])
    assert two["false_positive_rate_difference"] == pytest.approx(0.1)
    assert all(np.isnan(value) for value in fairness_metrics(counts).values())
    assert np.isnan(group_rates(counts).positive[2])


def test_nobody_positive_is_no_ratio():
    metrics = fairness_metrics(np.array([[[5, 0], [5, 0]], [[4, 0], [2, 0]]]))
    assert np.isnan(metrics["demographic_parity_ratio"])
    assert metrics["demographic_parity_difference"] == 0


@pytest.mark.parametrize(
    ("rate", "word"), [(0.0, "negative"), (0.009, "negative"), (0.995, "positive"), (1.0, "positive")]
)
def test_a_collapsed_model_is_named(rate, word):
    assert f"predicts the {word} class for nearly everybody" in collapse_warning(rate)


@pytest.mark.parametrize("rate", [0.011, 0.5, 0.98])
def test_other_models_are_not(rate):
    assert collapse_warning(rate) is None


def test_area_under_the_curve_with_ties():
    y = np.array([0, 0, 1, 1])
    # Pairs won: (2 > 1), (1 = 1: half), (2 > 0), (1 > 0), so 3.5 of 4.
    assert area_under_roc(y, np.array([1.0, 0.0, 2.0, 1.0]))[0] == pytest.approx(3.5 / 4)
    rng = np.random.default_rng(0)
    y, scores = rng.integers(2, size=300), rng.integers(5, size=300).astype(float)
    assert area_under_roc(y, scores)[0] == pytest.approx(roc_auc_score(y, scores))


def test_area_of_one_class_is_nan():
    assert all(np.isnan(area_under_roc(np.ones(4, int), np.arange(4.0))))


def test_delong_error_by_definition():
    rng = np.random.default_rng(0)
    y, scores, _ = sample(60, 2, rng)
    wins = (scores[y == 1][:, None] > scores[y == 0][None]).astype(float)
    variance = wins.mean(1).var(ddof=1) / len(wins) + wins.mean(0).var(ddof=1) / wins.shape[1]
    assert area_under_roc(y, scores)[1] == pytest.approx(np.sqrt(variance))


# True values of `sample` with two groups of equal size; decisions are 1[score ≥ 0].
_POSITIVE = [np.mean([norm.cdf(0.8 * y - 0.4 + shift) for y in (0, 1)]) for shift in (0.6, 0.0)]
TRUTH = {
    "demographic_parity_difference": _POSITIVE[0] - _POSITIVE[1],
    "positive_rate": np.mean(_POSITIVE),
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


def test_intervals_of_equal_groups_contain_a_gap_of_zero():
    """A bootstrap of the largest gap never does; ours may miss at the rate it states."""
    rng = np.random.default_rng(3)
    misses, trials = 0, 200
    for _ in range(trials):
        groups, y = rng.integers(2, size=400), rng.integers(2, size=400)
        intervals = confidence_intervals(y, rng.normal(size=400), groups, 2, confidence=0.95, rng=rng, n_draws=400)
        misses += intervals["demographic_parity_difference"][0] > 0
    assert_rate_at_most(misses, trials, 0.05)
