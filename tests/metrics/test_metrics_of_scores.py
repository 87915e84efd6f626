"""Metrics that need scores, not decisions: gaps at a given positive rate, and calibration."""

import itertools

import numpy as np
import pytest
from scipy.special import expit, logit

from classifier_cases import fitted, people
from fairdp.commands.measuring import measure
from fairdp.data.grouped import GroupedData
from fairdp.metrics.rates import decision_counts, group_rates
from fairdp.metrics.scored_records import at_positive_rate, calibration_by_group, evaluate_decisions

NAMES = ("a", "b")
ERROR, EXCESS = "expected_calibration_error_by_group", "probability_excess_by_group"

# Best first: a, b, a, a, b, a, b, b.
Y = np.array([1, 0, 1, 0, 1, 0, 1, 0])
SCORES = np.array([4.0, 3.0, 2.0, 1.0, 3.5, 1.5, 0.5, 0.0])
GROUPS = np.array([0, 0, 0, 0, 1, 1, 1, 1])


def matched(rate, *, y=Y, scores=SCORES, groups=GROUPS, names=NAMES):
    return at_positive_rate(y, scores, groups, names, positive_rate=rate)


def gaps(metrics):
    """Differences in demographic parity, equal opportunity, equalized odds and false positives."""
    names = ("demographic_parity", "equal_opportunity", "equalized_odds", "false_positive_rate")
    return [metrics[f"{name}_difference"] for name in names]


def sample(n, rng):
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


def test_scores_that_are_all_equal_have_no_gap_at_any_rate():
    for rate in (0.0, 0.1, 0.3, 0.99, 1.0):
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
            ways.append(group_rates(decision_counts(Y, decisions, GROUPS, 2)).positive)
    assert len(ways) == (1, 3, 3, 1, 3, 3, 1, 2, 1)[n_positive]
    found = matched(n_positive / 8, scores=scores)
    assert tuple(found["positive_rate_by_group"].values()) == pytest.approx(tuple(np.mean(ways, axis=0)))


def test_the_order_of_the_records_does_not_matter():
    rng = np.random.default_rng(0)
    y, scores, groups = sample(200, rng)
    scores, order = np.round(scores), rng.permutation(200)
    found = matched(0.3, y=y, scores=scores, groups=groups)
    shuffled = matched(0.3, y=y[order], scores=scores[order], groups=groups[order])
    for name, value in found.items():
        assert shuffled[name] == pytest.approx(value), name


@pytest.mark.parametrize("seed", range(5))
def test_at_its_own_positive_rate_a_model_has_its_own_metrics(seed):
    y, scores, groups = sample(300, np.random.default_rng(seed))
    own = evaluate_decisions(y, scores, groups, NAMES)
    found = matched(own["positive_rate"], y=y, scores=scores, groups=groups)
    assert found.keys() == own.keys()
    for name, value in own.items():
        assert found[name] == pytest.approx(value), name


def test_only_the_order_of_the_scores_matters_to_the_decisions():
    moved = matched(0.3, scores=np.where(SCORES > 3.9, np.inf, SCORES / 100 - 7))
    assert gaps(moved) == pytest.approx(gaps(matched(0.3)))
    assert moved["auc"] == matched(0.3)["auc"]


def test_a_gap_without_evidence_stays_nan():
    negatives_only = np.where(GROUPS == 1, 0, Y)
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
        ({"y": Y[:0], "scores": SCORES[:0], "groups": GROUPS[:0]}, r"got shapes \(0,\), \(0,\) and \(0,\)\.$"),
        ({"scores": np.append(SCORES[1:], np.nan)}, "^scores must be numbers, got nan at position 7; leave such rec"),
        ({"y": 2 * Y - 1}, "^y_true must hold integers from 0 to 1, got -1; encode them first.$"),
        ({"y": Y.astype(float)}, r"^y_true must hold integers from 0 to 1, got 1\.0; encode them first.$"),
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
    found = calibration_by_group(y, scores, np.array(20 * [0] + [1]), NAMES)
    assert found[ERROR] == pytest.approx({"a": (4 * 0.25 + 16 * 0.075) / 20, "b": 0.3})
    assert found[EXCESS] == pytest.approx({"a": (4 * 0.25 - 16 * 0.075) / 20, "b": 0.3})


def test_bins_hold_a_tenth_of_the_group_each():
    y, scores, _ = sample(300, np.random.default_rng(0))
    groups = np.repeat([0, 1], [100, 200])
    found = calibration_by_group(y, scores, groups, NAMES)
    for code, name in enumerate(NAMES):
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
    found = calibration_by_group(np.zeros(4, np.int64), np.zeros(4), np.array([0, 0, 1, 1]), NAMES)
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


def test_the_control_at_the_positive_rate_of_another_model():
    """A model that refuses nearly everybody has a smaller gap than its control only until the rates are matched."""
    y, scores, groups = sample(4000, np.random.default_rng(0))
    plain = evaluate_decisions(y, scores, groups, NAMES)
    strict = evaluate_decisions(y, scores - 2.5, groups, NAMES)
    control = matched(strict["positive_rate"], y=y, scores=scores, groups=groups)
    assert gaps(strict)[0] < gaps(plain)[0] / 2
    assert gaps(control) == pytest.approx(gaps(strict))
    assert control["accuracy"] == pytest.approx(strict["accuracy"])
