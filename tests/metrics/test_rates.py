import warnings

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from fairdp.metrics.rates import collapse_warning, decision_counts, fairness_metrics, group_rates
from fairdp.metrics.scored_records import area_under_roc, evaluate_decisions
from metric_cases import NAMES, sample


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
