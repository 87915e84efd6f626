"""Trainings and their figures, and that those which are kept are not done again."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from fairdp import FairDPClassifier
from fairdp.experiments.sweeps import store as stored
from fairdp.experiments.sweeps import training
from fairdp.experiments.sweeps.fits import GAPS, Fit, Row, Trained, figures_of, heads_error, paper_taus
from fairdp.experiments.sweeps.parallel import Workers
from fairdp.experiments.sweeps.populations import Population, load
from fairdp.experiments.sweeps.shifts import gap_under_shift
from fairdp.experiments.sweeps.store import Store, random_state_of
from fairdp.experiments.sweeps.training import train_all
from fairdp.metrics.rates import decision_counts, fairness_metrics

POPULATION = Population(dataset="synthetic")
SETTINGS = (("epsilon", 2.0), ("n_steps", 40), ("sample_rate", 0.1), ("certify_fraction", 0.2))
FIT = Fit(population=POPULATION, method="fairdp", seed=0, settings=SETTINGS, shifts=(0.0, 0.1), is_control=True)


@pytest.fixture(scope="module")
def figures():
    return figures_of(FIT, random_state=0)


def test_figures_are_those_of_the_model(figures):
    model = FairDPClassifier(method="fairdp", random_state=0, group_sizes="public", **dict(SETTINGS))
    train, test = load(POPULATION).train, load(POPULATION).test
    model.fit_grouped(train)
    decisions = (model.scores(test.X) >= 0).astype(int)
    counts = decision_counts(test.y, decisions, test.groups, test.n_groups)
    for name in GAPS:
        assert figures[name] == pytest.approx(float(fairness_metrics(counts)[name]), rel=1e-5)
    assert figures["accuracy"] == pytest.approx(float((decisions == test.y).mean()), rel=1e-5)
    assert figures["epsilon"] == figures["epsilon_pld"] == model.privacy_.epsilon <= 2.0 < figures["epsilon_rdp"]
    for metric in ("demographic_parity", "equal_opportunity", "equalized_odds"):
        assert figures[f"certified_{metric}"] == pytest.approx(model.certificate_[metric]["tau"], rel=1e-5)
    assert figures["certified_at_shift_0.1"] > figures["certified_at_shift_0"] >= figures["gap_at_shift_0"]
    assert figures["gap_at_shift_0.1"] == pytest.approx(gap_under_shift(counts, 0.1), rel=1e-5)
    assert figures["gap_at_shift_0.1"] > figures["gap_at_shift_0"]
    on_train = decision_counts(train.y, (model.scores(train.X) >= 0).astype(int), train.groups, train.n_groups)
    expected = float(fairness_metrics(on_train)["demographic_parity_difference"])
    assert figures["training_gap"] == pytest.approx(expected, rel=1e-5) != figures["gap"]


def test_other_trainings_than_studies_have_noise_of_their_own(monkeypatch):
    """With shared noise, two budgets would reveal it; and nothing exact of the training records is measured."""
    own = replace(FIT, is_experiment=False, shifts=(), is_control=False)
    others = [
        own,
        replace(own, settings=(("epsilon", 1.0), *SETTINGS[1:])),
        replace(own, method="dpsgd"),
        replace(own, seed=1),
        replace(own, population=Population(dataset="synthetic", bias=1.0)),
    ]
    assert len({random_state_of(fit) for fit in others}) == len(others)
    assert {random_state_of(replace(fit, is_experiment=True)) for fit in others} == {0, 1}
    before = random_state_of(own)
    for changed in ("digest_of", "code_digest"):
        # The same table with a record more, or another version: the same noise would show the difference.
        monkeypatch.setattr(stored, changed, lambda *_: "another")
        assert random_state_of(own) != before
        monkeypatch.undo()
    assert "training_gap" not in figures_of(own, random_state=0).numbers


def test_a_smoothed_model_does_not_run_for_every_training_record():
    smoothed = replace(FIT, method="dpsgd_smooth", settings=(*SETTINGS, ("n_draws", 2)), shifts=(), is_control=False)
    assert "training_gap" not in figures_of(smoothed, random_state=0).numbers


def test_a_control_at_the_models_own_rate_is_the_model(figures):
    own = figures.at_rate(figures["positive_rate"])
    for name in ("accuracy", *GAPS):
        assert own[name] == pytest.approx(figures[name], abs=0.02)


def test_the_error_of_an_ensemble_is_that_of_its_heads(figures):
    """Head by head, as ensembles of one: the deviation of each group's rate over the heads, over √10."""
    model = FairDPClassifier(method="fairdp", random_state=0, **dict(SETTINGS), sgd_learning_rate=2.0)
    model.fit_grouped(load(POPULATION).train)
    test, heads = load(POPULATION).test, model.score_model_.heads
    rates = []
    for head in heads:
        rows = torch.cat([*model.score_model_.embeddings(torch.from_numpy(test.X))])
        accepted = (rows @ head[:-1] + head[-1] >= 0).numpy()
        rates.append([accepted[(test.groups == group) & (test.y == 1)].mean() for group in range(2)])
    expected = float(np.std(rates, axis=0, ddof=1).sum() / np.sqrt(10))
    assert heads_error(model, test)["equal_opportunity"] == pytest.approx(expected)
    assert expected > 10 * figures["heads_error_equal_opportunity"]
    assert figures["heads_error_equalized_odds"] >= figures["heads_error_equal_opportunity"]


EVENTS = {"demographic_parity": ((0, 1),), "equal_opportunity": ((1,),), "equalized_odds": ((0,), (1,))}


@pytest.mark.parametrize("metric", EVENTS)
def test_the_papers_certificate_by_hand(metric):
    """Record by record: Φ(score / (norm × deviation)), then Hoeffding's radii and the Monte Carlo term.

    With a step size at which the noise of a head is as large as the scores: it must not be lost.
    """
    model = FairDPClassifier(method="fairdp", random_state=0, **dict(SETTINGS), sgd_learning_rate=2.0)
    train = load(POPULATION).train.take(np.arange(2_000))
    model.fit_grouped(load(POPULATION).train)
    expected = max(tau_by_hand(model, train, labels) for labels in EVENTS[metric])
    assert paper_taus(model, train)[metric] == pytest.approx(expected, rel=1e-4)


def tau_by_hand(model, train, labels) -> float:
    deviation = 2.0 * 10 * model.privacy_.noise_std
    head = model.score_model_.heads.mean(0)
    rates, sizes = [], []
    for group in range(2):
        rows = torch.from_numpy(train.X[(train.groups == group) & np.isin(train.y, labels)])
        embedded = torch.cat([*model.score_model_.embeddings(rows)])
        embedded = torch.cat([embedded, torch.ones(len(embedded), 1)], dim=1)
        rates.append(float(norm.cdf((embedded @ head / embedded.norm(dim=1)).numpy() / deviation).mean()))
        sizes.append(len(rows))
    radii = [np.sqrt(np.log(2 / 0.05) / (2 * n)) for n in sizes]
    error = sum(1 / (2 * n * np.sqrt(10)) for n in sizes)
    return abs(rates[0] - rates[1]) + sum(radii) + error


def test_trainings_that_are_kept_are_not_done_again(tmp_path, monkeypatch):
    calls = []

    def counted(fit, random_state, payment):
        calls.append(fit.seed)
        return Trained(numbers={"accuracy": float(fit.seed)})

    monkeypatch.setattr(training, "figures_of", counted)
    fits = [Fit(population=POPULATION, method="dpsgd", seed=seed) for seed in (0, 1, 1, 2)]
    options = {"store": Store(tmp_path), "workers": Workers(), "say": lambda line: None}
    train_all(fits[:2], **options)
    found = train_all(fits, **options)
    assert calls == [0, 1, 2]
    assert [found[fit]["accuracy"] for fit in fits] == [0.0, 1.0, 1.0, 2.0]
    assert train_all(fits, **options) == found
    assert len(calls) == 3


def test_what_ended_before_an_interruption_is_kept(tmp_path, monkeypatch):
    def stopped(fit, random_state, payment):
        if fit.seed == 2:
            raise KeyboardInterrupt
        return Trained(numbers={"accuracy": 0.5})

    monkeypatch.setattr(training, "figures_of", stopped)
    fits = [Fit(population=POPULATION, method="dpsgd", seed=seed) for seed in range(4)]
    with pytest.raises(KeyboardInterrupt):
        train_all(fits, store=Store(tmp_path), workers=Workers(), say=lambda line: None)
    assert [Store(tmp_path).read(fit) is not None for fit in fits] == [True, True, False, False]


def test_a_control_is_read_at_the_rate_of_the_row():
    curves = {"positive_rate": [0.1, 0.3], "gap": [0.02, 0.06], "accuracy": [0.8, 0.7]}
    expected = {"auc": 0.8, "positive_rate": 0.2, "gap": 0.04, "accuracy": 0.75}
    control = Trained(numbers={"auc": 0.8}, moved=curves)
    assert control.at_rate(0.2) == {name: pytest.approx(value) for name, value in expected.items()}


def test_means_and_their_errors():
    row = Row.of({"name": "x"}, [{"accuracy": 0.7, "gap": 0.1}, {"accuracy": 0.9}])
    mean, error = {"accuracy": pytest.approx(0.8)}, {"accuracy": pytest.approx(0.1)}
    assert row.to_json() == {"name": "x", "mean": mean, "standard_error": error}
    assert row.texts({"accuracy": "acc.", "gap": "test gap"}) == {"acc.": "0.800 ± 0.100", "test gap": "–"}
    assert Row.of({}, [{"accuracy": 0.7}]).text("accuracy") == "0.700"
