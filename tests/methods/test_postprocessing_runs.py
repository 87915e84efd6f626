"""Decisions that are changed after training, group by group: what is paid for them and what they need."""

import numpy as np
import pytest

from classifier_cases import fitted, people
from fairdp import FairDPClassifier, GroupedData
from fairdp.metrics.rates import decision_counts, fairness_metrics
from fairdp.releases import watching
from fairdp.run import certifying
from fairdp.run.predictor import Predictor


def test_the_estimated_gap_is_what_was_allowed():
    """With exact counts, on the training records themselves."""
    X, _, sex = people()
    X = X + np.where(sex == "m", 1.0, -1.0)[:, None].astype(np.float32)
    tilted = (X[:, 0] > 0).astype(int)
    model = fitted(method="dp_postprocess", epsilon=np.inf, max_gap=0.05, data=(X, tilted, sex))
    codes = (sex == "m").astype(int)
    chances = model.predictor_.chances(model.score_model_, X, groups=codes)
    rates = [chances[codes == group].mean() for group in (0, 1)]
    assert abs(rates[0] - rates[1]) <= 0.05 + 1e-6
    plain = (model.decision_function(X) >= 0).astype(int)
    assert fairness_metrics(decision_counts(tilted, plain, codes, 2))["demographic_parity_difference"] > 0.3


def test_the_histogram_is_paid_out_of_the_budget():
    spent = fitted(method="dp_postprocess").privacy_
    assert spent.histogram_epsilon == pytest.approx(0.2)
    assert 1.9 < spent.epsilon <= 2.0
    assert spent.noise_multiplier > fitted(method="dpsgd").privacy_.noise_multiplier
    assert "counted by group and label" in fitted(method="dp_postprocess").privacy_statement()


def test_the_programme_sees_counts_with_the_noise_that_is_paid_for(monkeypatch):
    released, seen = [], []
    release, solve = certifying.release_counts, certifying.fair_flips

    def spied(counts, **given):
        released.append((counts.copy(), given["epsilon"]))
        return release(counts, **given)

    monkeypatch.setattr(certifying, "release_counts", spied)
    monkeypatch.setattr(certifying, "fair_flips", lambda counts, **given: seen.append(counts) or solve(counts, **given))
    spent = fitted(method="dp_postprocess", epsilon=0.5).privacy_
    ((exact, epsilon),) = released
    assert epsilon == spent.histogram_epsilon == pytest.approx(0.05)
    # Eight cells with noise of scale 20: they are all as they were with a chance of 1e-13.
    assert not np.array_equal(seen[0], exact)


def test_the_targets_of_the_user_reach_the_programme(monkeypatch):
    seen, solve = [], certifying.fair_flips
    monkeypatch.setattr(certifying, "fair_flips", lambda counts, **given: seen.append(given) or solve(counts, **given))
    targets = {"parity": "equal_opportunity", "max_gap": 0.07, "min_ratio": 0.6, "positive_rate": 0.4}
    fitted(method="dp_postprocess", **targets)
    assert seen == [targets]


def test_a_decision_needs_the_group():
    model, (X, _, sex) = fitted(method="dp_postprocess"), people()
    assert model.predict(X, sensitive_features=sex).shape == (600,)
    with pytest.raises(ValueError, match=r"decides by group; give the group of every record in sensitive_features"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"names the group 'x', but the model knows 'f', 'm'"):
        model.predict(X[:1], sensitive_features=["x"])


def test_accuracy_takes_the_groups_too():
    model, (X, y, sex) = fitted(method="dp_postprocess"), people()
    assert model.score(X, y, sensitive_features=sex) == np.mean(model.predict(X, sensitive_features=sex) == y)


def test_groups_are_known_by_name_not_by_order():
    model, (X, _, sex) = fitted(method="dp_postprocess"), people()
    together = model.predict(X, sensitive_features=sex)
    alone = model.predict(X[sex == "m"], sensitive_features=sex[sex == "m"])
    assert np.array_equal(together[sex == "m"], alone)


def test_flips_mix_the_chances_of_both_decisions():
    model = fitted(method="dpsgd").score_model_
    X = people()[0][:50]
    rule = Predictor(flips=((0.1, 0.8), (0.0, 1.0)), key="00")
    plain = Predictor().chances(model, X)
    groups = np.arange(50) % 2
    expected = np.where(groups == 0, 0.1 + 0.7 * plain, plain)
    assert rule.chances(model, X, groups=groups) == pytest.approx(expected)


def histograms(data) -> tuple[list, object]:
    """What a run releases to make its rule, and the fitted model."""
    seen = []
    with watching(lambda release: seen.append(release) or release.noisy):
        model = FairDPClassifier(
            method="dp_postprocess", epsilon=1.0, n_steps=5, sample_rate=0.3, random_state=0
        ).fit_grouped(data)
    return [release for release in seen if release.purpose == "histogram"], model


def grouped():
    X, y, sex = people()
    return GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))


def test_the_rule_is_made_from_training_records():
    (release,), model = histograms(grouped())
    assert release.exact.sum() == model.n_train_


def test_a_seed_that_is_used_again_does_not_repeat_the_noise_on_other_histograms():
    """With the same noise on both, their difference would be exact."""
    (first,), _ = histograms(grouped())
    (other,), _ = histograms(grouped().take(np.arange(300)))
    assert not np.array_equal(first.exact, other.exact)
    assert not np.array_equal(first.noisy - first.exact, other.noisy - other.exact)
