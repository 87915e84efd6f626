"""Trainings of studies: their populations, figures and shifts, and which are found again."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from fairdp import FairDPClassifier
from fairdp.certify.outlook import shift_slope
from fairdp.data.schema import Numeric, OtherThan, TableSchema
from fairdp.metrics import decision_counts, fairness_metrics, group_rates
from fairdp_lab.sweeps import compare as training
from fairdp_lab.sweeps import fits as stored
from fairdp_lab.sweeps.compare import train_all
from fairdp_lab.sweeps.fits import (
    GAPS,
    Fit,
    Population,
    Row,
    Store,
    Trained,
    digest_of,
    figures_of,
    gap_under_reversal,
    gap_under_shift,
    heads_error,
    key_of,
    load,
    paper_taus,
    random_state_of,
)
from fairdp_lab.sweeps.workers import Workers

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
    # The same table with a record more, or code that gives other figures: the same noise would show the difference.
    for changed, value in (("digest_of", lambda *_: "another"), ("FIGURES", stored.FIGURES + 1)):
        monkeypatch.setattr(stored, changed, value)
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


@pytest.mark.needs_data("adult")
def test_four_groups_are_the_two_told_apart_by_race():
    two, four = (load(Population(dataset="adult", by_race=own)) for own in (False, True))
    assert four.train.group_sizes.tolist() == [2129, 8642, 2616, 19174]
    assert np.array_equal(four.train.groups // 2, two.train.groups)
    assert four.train.group_names[1] == f"{two.train.group_names[0]}, white"


@pytest.mark.needs_data("adult")
def test_ten_groups_are_the_two_told_apart_by_every_race():
    four, ten = load(Population(dataset="adult", by_race=True)), load(Population(dataset="adult", by_every_race=True))
    assert ten.train.n_groups == 10
    assert ten.train.group_names[4].endswith(", White")
    # The white are the same people as among four groups, and everybody else is told apart further.
    np.testing.assert_array_equal(ten.train.groups % 5 == 4, four.train.groups % 2 == 1)
    np.testing.assert_array_equal(ten.train.groups // 5, four.train.groups // 2)
    assert ten.train.group_sizes.min() > 0
    assert str(Population(dataset="adult", by_every_race=True)) == "adult by sex and every race"


def test_a_population_with_more_bias_has_a_larger_gap_between_its_labels():
    gaps = []
    for bias in (0.5, 1.5):
        train = load(Population(dataset="synthetic", bias=bias, split=0)).train
        counts = decision_counts(train.y, train.y, train.groups, train.n_groups)
        gaps.append(fairness_metrics(counts)["demographic_parity_difference"])
    assert gaps[0] + 0.05 < gaps[1]


@pytest.mark.parametrize("ratio", [1.0, 1.25])
def test_the_largest_group_is_cut_and_the_test_records_stay(ratio):
    whole, cut = load(Population(dataset="synthetic")), load(Population(dataset="synthetic", ratio=ratio))
    few = int(whole.train.group_sizes.min())
    assert sorted(cut.train.group_sizes.tolist()) == [few, int(ratio * few)]
    assert np.array_equal(cut.test.X, whole.test.X)
    # Another split keeps others.
    other = load(Population(dataset="synthetic", ratio=ratio, split=1))
    assert not np.array_equal(other.train.X, cut.train.X)


def test_a_ratio_that_no_group_exceeds_changes_nothing():
    whole, cut = load(Population(dataset="synthetic")), load(Population(dataset="synthetic", ratio=50.0))
    assert np.array_equal(whole.train.X, cut.train.X)


def test_what_the_columns_mean_is_part_of_the_records():
    """The same numbers, declared as a quantity or as a mark, train another model."""
    parts = load(Population(dataset="synthetic"))
    outcome = {"label": "y", "positive": "1", "negative": "0", "sensitive": ("sex",), "groups": (("f", "m"),)}
    columns = (Numeric(name="a", low=0, high=1), OtherThan(name="a", value="0"))
    schemas = [TableSchema(columns=(column,), **outcome) for column in columns]
    assert len({replace(parts, schema=schema).digest() for schema in schemas}) == 2


def test_other_records_have_another_digest():
    digests = [digest_of(Population(dataset="synthetic", bias=b, split=s)) for b, s in ((1.0, 0), (1.0, 1), (0.5, 0))]
    assert len(set(digests)) == 3
    assert digest_of(Population(dataset="synthetic", bias=1.0, split=0)) == digests[0]


COUNTS = np.array([[[4757, 74], [528, 62]], [[7467, 137], [2768, 488]]])
TABLES = st.lists(st.integers(1, 500), min_size=12, max_size=12).map(lambda cells: np.array(cells).reshape(3, 2, 2))


def test_without_a_shift_it_is_the_gap():
    assert gap_under_shift(COUNTS, 0.0) == pytest.approx(fairness_metrics(COUNTS)["demographic_parity_difference"])


def test_it_is_the_worst_of_populations_made_by_hand():
    """A tenth of all people leaves one cell for another: twelve ways, of which three give more than they have."""
    sizes, total = COUNTS.sum(2).astype(float), COUNTS.sum()
    found = []
    for giver in np.ndindex(2, 2):
        for taker in np.ndindex(2, 2):
            moved = sizes.copy()
            moved[giver] -= 0.1 * total
            moved[taker] += 0.1 * total
            if giver != taker and moved.min() > 0:
                people = COUNTS / sizes[..., None] * moved[..., None]
                found.append(float(fairness_metrics(people)["demographic_parity_difference"]))
    assert len(found) == 9
    assert gap_under_shift(COUNTS, 0.1) == pytest.approx(max(found))


def excess(counts: np.ndarray, shift: float, share_of_slope: float) -> float:
    """Distance of the gap above the line that certificates draw."""
    rates = group_rates(counts)
    slope = shift_slope(np.abs(rates["true_positive"] - rates["false_positive"]), counts.sum((1, 2)) / counts.sum())
    return gap_under_shift(counts, shift) - gap_under_shift(counts, 0.0) - shift * share_of_slope * slope


@settings(max_examples=200, deadline=None)
@given(counts=TABLES, shift=st.floats(0, 0.3))
def test_no_shift_is_worse_than_the_slope_of_certificates(counts, shift):
    assert excess(counts, shift, 1.0) <= 1e-9


def test_that_check_notices_a_slope_that_is_too_small():
    """A tenth of the slope is broken by a table that a generator finds at once."""
    rng = np.random.default_rng(0)
    assert max(excess(rng.integers(1, 500, (3, 2, 2)), 0.05, 0.1) for _ in range(50)) > 0


def test_a_reversal_is_the_population_made_by_hand():
    """A twentieth of all people leaves each of the two cells that sex and income fill, for the other label."""
    sizes, total = COUNTS.sum(2).astype(float), COUNTS.sum()
    # More women with label 0 and men with label 1 than if label and group were independent.
    assert sizes[0, 0] * sizes[1, 1] > sizes[0, 1] * sizes[1, 0]
    moved = sizes + 0.05 * total * np.array([[-1, 1], [1, -1]])
    assert np.abs(moved - sizes).sum() / total / 2 == pytest.approx(0.1)
    people = COUNTS / sizes[..., None] * moved[..., None]
    expected = float(fairness_metrics(people)["demographic_parity_difference"])
    assert gap_under_reversal(COUNTS, 0.1) == pytest.approx(expected)
    # Other labels for the same groups: turned over, the tie and the cells that give are turned over too.
    assert gap_under_reversal(COUNTS[::-1], 0.1) == pytest.approx(expected)


@settings(max_examples=200, deadline=None)
@given(counts=TABLES, shift=st.floats(0, 0.3))
def test_a_reversal_keeps_margins_and_is_never_worse_than_the_slope_of_certificates(counts, shift):
    counts = counts[:2]
    rates = group_rates(counts)
    slope = shift_slope(np.abs(rates["true_positive"] - rates["false_positive"]), counts.sum((1, 2)) / counts.sum())
    found = gap_under_reversal(counts, shift)
    assert np.isnan(found) or found <= gap_under_reversal(counts, 0.0) + shift * slope + 1e-9


def test_a_reversal_needs_two_groups_and_people_to_move():
    assert np.isnan(gap_under_reversal(np.ones((3, 2, 2)), 0.1))
    # Each cell that gives has four tenths of all people, so that γ must be below .8.
    assert np.isnan(gap_under_reversal(np.array([[[5, 5], [20, 20]], [[20, 20], [5, 5]]]), 0.9))
    assert not np.isnan(gap_under_reversal(np.array([[[5, 5], [20, 20]], [[20, 20], [5, 5]]]), 0.7))


FIT_STORE = Fit(population=Population(dataset="synthetic"), method="dpsgd", seed=0, settings=(("epsilon", 1.0),))
NUMBERS, MOVED = {"accuracy": 0.8, "demographic_parity_ratio": math.nan}, {"positive_rate": [0.1, 0.2]}


def test_figures_are_found_again(tmp_path):
    store = Store(tmp_path / "runs")
    assert store.read(FIT_STORE) is None
    store.write(FIT_STORE, Trained(numbers=NUMBERS, moved=MOVED, seconds=1.5))
    found = store.read(FIT_STORE)
    assert (found.seconds, found.moved) == (1.5, MOVED)
    assert found.numbers.keys() == NUMBERS.keys()
    assert found["accuracy"] == 0.8
    assert math.isnan(found["demographic_parity_ratio"])
    # Another process reads the same, from a line that says what it is of.
    assert Store(tmp_path / "runs").read(FIT_STORE).numbers["accuracy"] == 0.8
    (line,) = store.path(FIT_STORE.population).read_text().splitlines()
    described = {"population": {"dataset": "synthetic"}, "method": "dpsgd", "seed": 0, "settings": {"epsilon": 1.0}}
    assert json.loads(line)["fit"] == described


@pytest.mark.parametrize(
    "other",
    [
        replace(FIT_STORE, seed=1),
        replace(FIT_STORE, method="clean"),
        replace(FIT_STORE, settings=(("epsilon", 2.0),)),
        replace(FIT_STORE, population=Population(dataset="synthetic", bias=0.5)),
        replace(FIT_STORE, is_control=True),
        replace(FIT_STORE, shifts=(0.1,)),
    ],
)
def test_another_training_has_a_key_of_its_own(other):
    assert key_of(other) != key_of(FIT_STORE)


def test_other_records_or_figures_are_another_training(monkeypatch):
    before = key_of(FIT_STORE)
    monkeypatch.setattr(stored, "digest_of", lambda population: "other records")
    assert key_of(FIT_STORE) != before
    monkeypatch.undo()
    monkeypatch.setattr(stored, "FIGURES", stored.FIGURES + 1)
    assert key_of(FIT_STORE) != before
    monkeypatch.undo()
    assert key_of(FIT_STORE) == before


@pytest.mark.parametrize("content", ["", "{", "[]", '{"numbers": {}}', "null", '{"fit": {"method": "dpsgd"'])
def test_a_damaged_line_counts_as_none_and_spoils_no_other(tmp_path, content):
    store = Store(tmp_path)
    store.path(FIT_STORE.population).write_text(content)
    assert store.read(FIT_STORE) is None
    store.write(FIT_STORE, Trained(numbers=NUMBERS))
    store.write(replace(FIT_STORE, seed=1), Trained(numbers={"accuracy": 0.7}))
    assert [Store(tmp_path).read(fit)["accuracy"] for fit in (FIT_STORE, replace(FIT_STORE, seed=1))] == [0.8, 0.7]


def test_trainings_of_other_figures_are_not_found_but_have_been_paid_for(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.write(FIT_STORE, Trained(numbers={"epsilon": 1.0}))
    monkeypatch.setattr(stored, "FIGURES", stored.FIGURES + 1)
    assert store.read(FIT_STORE) is None
    store.write(FIT_STORE, Trained(numbers={"epsilon": 1.0}))
    assert Store(tmp_path).spent_on(FIT_STORE.population) == [1.0, 1.0]
    assert Store(tmp_path).spent_on(Population(dataset="synthetic", bias=0.5)) == []
