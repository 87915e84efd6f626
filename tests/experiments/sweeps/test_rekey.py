"""Kept trainings handed on to changed code: only if those that are done again come out the same."""

import math
from dataclasses import replace

import pytest

from fairdp._checks import DataError
from fairdp.experiments.sweeps import rekey as rekeying
from fairdp.experiments.sweeps import store as stored
from fairdp.experiments.sweeps import training
from fairdp.experiments.sweeps.fits import Fit, Trained
from fairdp.experiments.sweeps.parallel import Workers
from fairdp.experiments.sweeps.populations import Population
from fairdp.experiments.sweeps.rekey import fit_of, rekey
from fairdp.experiments.sweeps.store import Store, kept_in

SMALL = (("certify_fraction", 0.0), ("epsilon", 2.0), ("n_steps", 20), ("sample_rate", 0.1))
PLAIN = Fit(population=Population(dataset="synthetic"), method="dpsgd", seed=0, settings=SMALL, is_control=True)
OURS = replace(PLAIN, method="fairdp", is_control=False, shifts=(0.0, 0.1))
FEW = replace(OURS, population=Population(dataset="synthetic", ratio=1.25, split=0))
FITS = [replace(fit, seed=seed) for fit in (PLAIN, OURS) for seed in range(4)] + [FEW]


def quietly(path):
    return rekey(path, workers=Workers(), say=lambda line: None)


def made_up(fit, random_state, payment=None):
    numbers = {"auc": 0.8 + 0.01 * fit.seed, "demographic_parity_ratio": math.nan, "epsilon": 1.0}
    moved = {"positive_rate": [0.0, 1.0], "accuracy": [0.7, 0.3]}
    return Trained(numbers=numbers, moved=moved if fit.is_control else {})


def kept_by_other_code(fits, folder, monkeypatch):
    monkeypatch.setattr(stored, "code_digest", lambda: "the code before")
    store = Store(folder)
    for fit in fits:
        store.write(fit, training.figures_of(fit, random_state=fit.seed))
    monkeypatch.setattr(stored, "code_digest", lambda: "the code now")
    return store.path(PLAIN.population)


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Trainings by other code, kept in a file."""
    monkeypatch.setattr(training, "figures_of", made_up)
    return kept_by_other_code(FITS, tmp_path, monkeypatch)


def test_trainings_that_are_read_are_those_that_are_done_again(tmp_path, monkeypatch):
    """Real ones: what was written and read is the same to its last digit."""
    path = kept_by_other_code([PLAIN, OURS], tmp_path, monkeypatch)
    rekeyed = quietly(path)
    assert (rekeyed.n_trainings, rekeyed.n_again) == (2, 2)
    assert Store(tmp_path).read(PLAIN).at_rate(0.1)["accuracy"] > 0.5


def test_two_of_each_kind_are_done_again_and_the_others_follow_them(trained, monkeypatch):
    done = []
    monkeypatch.setattr(training, "figures_of", lambda fit, **about: done.append(fit) or made_up(fit, 0))
    assert [Store(trained.parent).read(fit) for fit in FITS] == [None] * len(FITS)
    before = [kept.found.numbers for kept in kept_in(trained)]
    rekeyed = quietly(trained)
    assert (rekeyed.n_trainings, rekeyed.n_again) == (9, 5)
    assert done == [FITS[0], FITS[3], FITS[4], FITS[7], FEW]
    found = Store(trained.parent)
    assert str([found.read(fit).numbers for fit in FITS]) == str(before)
    # Nothing is left to do.
    assert quietly(trained).n_again == 0


@pytest.mark.parametrize("changed", ["numbers", "moved", "missing"])
def test_one_digit_of_difference_is_a_refusal(trained, monkeypatch, changed):
    """The twin: code whose last training of a kind differs in a digit, in a curve, or in what there is."""

    def broken(fit, random_state, payment):
        found = made_up(fit, random_state)
        if fit != (FITS[3] if changed == "moved" else FITS[7]):
            return found
        if changed == "moved":
            return replace(found, moved={**found.moved, "accuracy": [*found.moved["accuracy"][:-1], 0.12345]})
        if changed == "missing":
            return replace(found, numbers={**found.numbers, "another": 0.0})
        return replace(found, numbers={**found.numbers, "auc": found["auc"] + 1e-6})

    monkeypatch.setattr(training, "figures_of", broken)
    before = trained.read_bytes()
    with pytest.raises(DataError, match="run the studies again"):
        quietly(trained)
    assert trained.read_bytes() == before


def test_what_another_command_adds_meanwhile_stays(trained, monkeypatch):
    more = replace(PLAIN, seed=9)

    def meanwhile(fit, random_state, payment):
        if Store(trained.parent).read(more) is None:
            Store(trained.parent).write(more, made_up(more, 0))
        return made_up(fit, random_state)

    monkeypatch.setattr(training, "figures_of", meanwhile)
    quietly(trained)
    found = Store(trained.parent)
    assert all(found.read(fit) is not None for fit in (*FITS, more))


def test_other_records_are_refused(trained, monkeypatch):
    monkeypatch.setattr(rekeying, "digest_of", lambda population: "other records")
    with pytest.raises(DataError, match="the records of dpsgd"):
        quietly(trained)


def test_the_last_of_trainings_that_only_differ_in_code_stays(tmp_path, monkeypatch):
    store = Store(tmp_path)
    for code, accuracy in (("old", 0.1), ("older", 0.2)):
        monkeypatch.setattr(stored, "code_digest", lambda code=code: code)
        store.write(OURS, Trained(numbers={"accuracy": accuracy, "ratio": math.nan}))
    monkeypatch.setattr(stored, "code_digest", lambda: "new")
    monkeypatch.setattr(training, "figures_of", lambda *_, **__: Trained(numbers={"accuracy": 0.2, "ratio": math.nan}))
    assert quietly(store.path(OURS.population)).n_trainings == 1
    (kept,) = kept_in(store.path(OURS.population))
    assert kept.found["accuracy"] == 0.2


@pytest.mark.parametrize(
    "fit",
    [
        *FITS[::4],
        replace(OURS, settings=(("hidden", (32, 16)), ("learning_rate", (0.007, 0.005))), is_experiment=False),
    ],
)
def test_a_line_describes_its_training_completely(tmp_path, fit):
    Store(tmp_path).write(fit, Trained(numbers={}))
    (kept,) = kept_in(Store(tmp_path).path(fit.population))
    assert fit_of(kept.fit) == fit


def test_a_line_describes_the_training_that_it_is_of(tmp_path):
    """Pairs and lists come out of JSON alike, in what is said of the records too."""
    crossed = replace(OURS, population=Population(dataset="adult", sensitive=("sex", "race")))
    store = Store(tmp_path)
    store.write(crossed, made_up(crossed, 0))
    (kept,) = kept_in(store.path(crossed.population))
    assert fit_of(kept.fit) == crossed
    assert hash(fit_of(kept.fit)) == hash(crossed)
