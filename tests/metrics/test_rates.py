"""Rates, their intervals, and metrics of scores."""

import itertools
import warnings
from functools import cache

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.metrics import accuracy_score, roc_auc_score

from classifier_cases import fitted, people
from fairdp.data.grouped import GroupedData
from fairdp.metrics import (
    area_under_roc,
    at_positive_rate,
    calibration_by_group,
    cells_of,
    confidence_intervals,
    decision_counts,
    evaluate_decisions,
    fairness_metrics,
    group_rates,
)
from fairdp.parameters import RATES
from fairdp.records import measure
from fairdp.statements.certificate import collapse_warning
from metric_cases import NAMES, sample
from statistical import assert_rate_at_most


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


def test_cells_of_every_rate_by_hand():
    found = {kind: cells_of(np.array([[[1, 2], [3, 4]]]), kind)[0].tolist() for kind in RATES}
    conditional = {"true_positive": [3, 4], "false_positive": [1, 2]}
    assert found == {"base": [3, 7], "positive": [4, 6], "accuracy": [5, 5], **conditional}


def test_an_empty_cell_is_no_evidence_of_fairness():
    # Group 1 has no positive label, group 2 nobody at all.
    counts = np.array([[[5, 5], [5, 5]], [[4, 6], [0, 0]], [[0, 0], [0, 0]]])
    two = fairness_metrics(counts[:2])
    assert two["demographic_parity_difference"] == pytest.approx(0.1)
    assert np.isnan(two["equal_opportunity_difference"])
    assert np.isnan(two["equalized_odds_difference"])
    assert two["false_positive_rate_difference"] == pytest.approx(0.1)
    assert all(np.isnan(value) for value in fairness_metrics(counts).values())
    assert np.isnan(group_rates(counts)["positive"][2])


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
    "equalized_odds_difference": max(norm.cdf(centre + 0.6) - norm.cdf(centre) for centre in (0.4, -0.4)),
    "demographic_parity_ratio": _POSITIVE[1] / _POSITIVE[0],
    "accuracy": np.mean([[norm.cdf(0.4 + s), 1 - norm.cdf(-0.4 + s)] for s in (0.6, 0.0)]),
    "equal_opportunity_difference": norm.cdf(0.4 + 0.6) - norm.cdf(0.4),
    # Differences of scores of the two labels: N(.8 ± .6 or 0, 2), the shift by chance in either, both or none.
    "auc": np.mean([norm.cdf((0.8 + shift) / np.sqrt(2)) for shift in (0.6, 0.0, 0.0, -0.6)]),
}


@cache
def drawn_intervals(n_runs: int = 300) -> dict[str, np.ndarray]:
    """Intervals at 95 % of each metric, from so many samples; shape (n_runs, 2)."""
    rng, found = np.random.default_rng(0), []
    for _ in range(n_runs):
        y, scores, groups = sample(400, 2, rng)
        found.append(confidence_intervals(y, scores, groups, 2, confidence=0.95, rng=rng, n_draws=400))
    return {name: np.array([intervals[name] for intervals in found]) for name in TRUTH}


def misses(shrink: float) -> dict[str, int]:
    """Miss rate of each interval, shrunk about its middle by a factor."""
    ends = {name: pairs.T for name, pairs in drawn_intervals().items()}
    return {
        name: int((np.abs(TRUTH[name] - (low + high) / 2) > shrink * (high - low) / 2).sum())
        for name, (low, high) in ends.items()
    }


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
    """Frequency with which the interval of a zero gap excludes zero."""
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


@pytest.mark.parametrize("n_groups", [4, *(pytest.param(n, marks=pytest.mark.more) for n in (12, 30))])
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


GROUP_NAMES = ("a", "b")
ERROR, EXCESS = "expected_calibration_error_by_group", "probability_excess_by_group"
# Best first: a, b, a, a, b, a, b, b.
LABELS = np.array([1, 0, 1, 0, 1, 0, 1, 0])
SCORES = np.array([4.0, 3.0, 2.0, 1.0, 3.5, 1.5, 0.5, 0.0])
GROUPS = np.array([0, 0, 0, 0, 1, 1, 1, 1])


def matched(rate, *, y=LABELS, scores=SCORES, groups=GROUPS, names=GROUP_NAMES):
    return at_positive_rate(y, scores, groups, names, positive_rate=rate)


def gaps(metrics):
    """Differences in demographic parity, equal opportunity, equalized odds and false positives."""
    names = ("demographic_parity", "equal_opportunity", "equalized_odds", "false_positive_rate")
    return [metrics[f"{name}_difference"] for name in names]


def scored_sample(n, rng):
    groups, y = rng.integers(2, size=n), rng.integers(2, size=n)
    return y, rng.normal(size=n) + y + 0.5 * groups, groups


@pytest.mark.parametrize(
    ("rate", "by_group", "expected", "ratio", "accuracy"),
    [
        (0.25, (1 / 4, 1 / 4), (0, 0, 0, 0), 1, 6 / 8),
        # Four tenths of the third best record, a negative of group a.
        (0.3, (1.4 / 4, 1 / 4), (0.1, 0, 0.2, 0.2), 1 / 1.4, 5.6 / 8),
        (0.5, (3 / 4, 1 / 4), (0.5, 0.5, 0.5, 0.5), 1 / 3, 6 / 8),
        (1.0, (1, 1), (0, 0, 0, 0), 1, 4 / 8),
    ],
)
def test_matched_metrics_by_hand(rate, by_group, expected, ratio, accuracy):
    found = matched(rate)
    assert found["positive_rate"] == pytest.approx(rate)
    assert tuple(found["positive_rate_by_group"].values()) == pytest.approx(by_group)
    assert gaps(found) == pytest.approx(expected)
    assert found["demographic_parity_ratio"] == pytest.approx(ratio)
    assert found["accuracy"] == pytest.approx(accuracy)
    assert found["majority_accuracy"] == 0.5


def test_a_rate_of_zero_accepts_nobody_and_has_no_ratio():
    found = matched(0)
    assert found["positive_rate"] == 0
    assert gaps(found) == [0, 0, 0, 0]
    assert np.isnan(found["demographic_parity_ratio"])
    assert found["accuracy"] == 0.5


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.99, 1.0])
def test_scores_that_are_all_equal_have_no_gap_at_any_rate(rate):
    found = matched(rate, scores=np.zeros(8))
    assert found["positive_rate"] == pytest.approx(rate)
    assert gaps(found) == pytest.approx([0, 0, 0, 0])


@pytest.mark.parametrize("n_positive", range(9))
def test_equal_scores_count_as_the_mean_over_all_ways_to_break_the_tie(n_positive):
    scores = np.array([1, 1, 0, -1, 1, 0, 0, -1.0])
    ways = []
    for chosen in itertools.combinations(range(8), n_positive):
        decisions = np.isin(np.arange(8), chosen).astype(np.int64)
        # A way to break the ties: nobody who is left out has a better score than somebody chosen.
        if scores[decisions == 1].min(initial=np.inf) >= scores[decisions == 0].max(initial=-np.inf):
            ways.append(group_rates(decision_counts(LABELS, decisions, GROUPS, 2))["positive"])
    assert len(ways) == (1, 3, 3, 1, 3, 3, 1, 2, 1)[n_positive]
    found = matched(n_positive / 8, scores=scores)
    assert tuple(found["positive_rate_by_group"].values()) == pytest.approx(tuple(np.mean(ways, axis=0)))


@pytest.mark.parametrize("seed", range(5))
def test_at_its_own_positive_rate_a_model_has_its_own_metrics(seed):
    y, scores, groups = scored_sample(300, np.random.default_rng(seed))
    own = evaluate_decisions(y, scores, groups, GROUP_NAMES)
    found = matched(own["positive_rate"], y=y, scores=scores, groups=groups)
    assert found.keys() == own.keys()
    for name, value in own.items():
        assert found[name] == pytest.approx(value), name


def test_a_smaller_gap_of_a_stricter_model_is_gone_at_the_same_positive_rate():
    """A model that refuses nearly everybody has a smaller gap than its control only until the rates are matched."""
    y, scores, groups = scored_sample(4000, np.random.default_rng(0))
    plain = evaluate_decisions(y, scores, groups, GROUP_NAMES)
    strict = evaluate_decisions(y, scores - 2.5, groups, GROUP_NAMES)
    control = matched(strict["positive_rate"], y=y, scores=scores, groups=groups)
    assert gaps(strict)[0] < gaps(plain)[0] / 2
    assert gaps(control) == pytest.approx(gaps(strict))
    assert control["accuracy"] == pytest.approx(strict["accuracy"])


def test_the_order_of_the_records_does_not_matter():
    rng = np.random.default_rng(0)
    y, scores, groups = scored_sample(200, rng)
    scores, order = np.round(scores), rng.permutation(200)
    found = matched(0.3, y=y, scores=scores, groups=groups)
    shuffled = matched(0.3, y=y[order], scores=scores[order], groups=groups[order])
    for name, value in found.items():
        assert shuffled[name] == pytest.approx(value), name


def test_only_the_order_of_the_scores_matters_to_the_decisions():
    moved = matched(0.3, scores=np.where(SCORES > 3.9, np.inf, SCORES / 100 - 7))
    assert gaps(moved) == pytest.approx(gaps(matched(0.3)))
    assert moved["auc"] == matched(0.3)["auc"]


def test_a_gap_without_evidence_stays_nan():
    negatives_only = np.where(GROUPS == 1, 0, LABELS)
    found = matched(0.5, y=negatives_only)
    assert np.isnan(gaps(found)).tolist() == [False, True, True, False]
    declared = matched(0.5, names=("a", "b", "nobody"))
    assert np.isnan(gaps(declared)).all()
    assert np.isnan([declared[name]["nobody"] for name in ("positive_rate_by_group", ERROR, EXCESS)]).all()
    assert declared["positive_rate"] == 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 37}, r"^positive_rate must be in \[0, 1\], got 37\. Did you pass a percentage\?$"),
        ({"rate": -0.1}, r"^positive_rate must be in \[0, 1\], got -0\.1\."),
        ({"rate": float("nan")}, r"^positive_rate must be in \[0, 1\], got nan\."),
        ({"rate": "0.1"}, r"^positive_rate must be in \[0, 1\], got '0\.1'\."),
        ({"scores": SCORES[1:]}, r"one value for each of the same records, got shapes \(8,\), \(7,\) and \(8,\)\.$"),
        ({"scores": np.zeros((8, 2))}, r"got shapes \(8,\), \(8, 2\) and \(8,\)\.$"),
        (
            {"y": LABELS[:0], "scores": SCORES[:0], "groups": GROUPS[:0]},
            r"got shapes \(0,\), \(0,\) and \(0,\)\.$",
        ),
        ({"scores": np.append(SCORES[1:], np.nan)}, "^scores must be numbers, got nan at position 7; leave such rec"),
        ({"y": 2 * LABELS - 1}, "^y_true must hold integers from 0 to 1, got -1; encode them first.$"),
        (
            {"y": LABELS.astype(float)},
            r"^y_true must hold integers from 0 to 1, got 1\.0; encode them first.$",
        ),
        ({"groups": GROUPS + 1}, "^groups must hold integers from 0 to 1, got 2; encode them first.$"),
        ({"groups": np.array(["f", "m"] * 4)}, "^groups must hold integers from 0 to 1, got 'f'; encode them first.$"),
    ],
)
def test_input_that_cannot_be_matched_is_refused_in_one_line(changes, message):
    with pytest.raises(ValueError, match=message):
        matched(**{"rate": 0.3, **changes})


def test_calibration_by_hand():
    # Group a: 4 records at 1/2, one of them positive, and 16 at 4/5, 14 of them positive. Group b: one negative.
    y = np.array([1] + 3 * [0] + 14 * [1] + 2 * [0] + [0])
    scores = logit(np.array(4 * [0.5] + 16 * [0.8] + [0.3]))
    found = calibration_by_group(y, scores, np.array(20 * [0] + [1]), GROUP_NAMES)
    assert found[ERROR] == pytest.approx({"a": (4 * 0.25 + 16 * 0.075) / 20, "b": 0.3})
    assert found[EXCESS] == pytest.approx({"a": (4 * 0.25 - 16 * 0.075) / 20, "b": 0.3})


def test_bins_hold_a_tenth_of_the_group_each():
    y, scores, _ = scored_sample(300, np.random.default_rng(0))
    groups = np.repeat([0, 1], [100, 200])
    found = calibration_by_group(y, scores, groups, GROUP_NAMES)
    for code, name in enumerate(GROUP_NAMES):
        own = np.flatnonzero(groups == code)
        bins = np.split(own[np.argsort(scores[own])], 10)
        expected = np.mean([abs(expit(scores[members]).mean() - y[members].mean()) for members in bins])
        assert found[ERROR][name] == pytest.approx(expected)
        assert found[EXCESS][name] == pytest.approx(expit(scores[own]).mean() - y[own].mean())


def test_scores_that_lie_close_together_hide_nothing():
    """Bins of fixed width would hold all probabilities in .49 … .51, half of the labels, and report no error."""
    scores, y = np.linspace(-0.04, 0.04, 100), (np.arange(100) >= 50).astype(np.int64)
    found = calibration_by_group(y, scores, np.zeros(100, np.int64), ("a",))
    assert found[EXCESS]["a"] == pytest.approx(0, abs=1e-12)
    assert found[ERROR]["a"] == pytest.approx(0.5, abs=0.01)


def test_a_group_with_one_label_has_a_calibration():
    found = calibration_by_group(np.zeros(4, np.int64), np.zeros(4), np.array([0, 0, 1, 1]), GROUP_NAMES)
    assert found == {ERROR: {"a": 0.5, "b": 0.5}, EXCESS: {"a": 0.5, "b": 0.5}}


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_chance_alone_makes_the_error_that_the_docstring_states(rate):
    """The mean of 400 errors has a relative deviation of .012, so 8 % are forgiven (false alarm below 1e-6)."""
    rng, n = np.random.default_rng(0), 2000
    scores = logit(rate) + np.linspace(-1e-6, 1e-6, n)
    labels = (rng.random((400, n)) < rate).astype(np.int64)
    errors = [calibration_by_group(y, scores, np.zeros(n, np.int64), ("a",))[ERROR]["a"] for y in labels]
    assert np.mean(errors) == pytest.approx(np.sqrt(6.4 * rate * (1 - rate) / n), rel=0.08)


def test_what_is_calibrated_is_the_probability_that_users_get():
    X, y, sex = people()
    model = fitted()
    groups = (sex == "m").astype(np.int64)
    found = measure(model, GroupedData(X, y, groups, ("f", "m")))
    probability = model.predict_proba(X)[:, 1]
    assert found[EXCESS]["f"] == pytest.approx(probability[groups == 0].mean() - y[groups == 0].mean())
    assert found[ERROR]["f"] >= abs(found[EXCESS]["f"])
    assert found[ERROR].keys() == found["positive_rate_by_group"].keys()
