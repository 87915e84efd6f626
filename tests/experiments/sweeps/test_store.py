"""Kept figures: found again for the same training, and for no other."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from fairdp.experiments.sweeps import store as stored
from fairdp.experiments.sweeps.fits import Fit, Trained
from fairdp.experiments.sweeps.populations import Population
from fairdp.experiments.sweeps.store import Store, key_of
from import_graph import PLACES

FIT = Fit(population=Population(dataset="synthetic"), method="dpsgd", seed=0, settings=(("epsilon", 1.0),))
NUMBERS, MOVED = {"accuracy": 0.8, "demographic_parity_ratio": math.nan}, {"positive_rate": [0.1, 0.2]}


def test_figures_are_found_again(tmp_path):
    store = Store(tmp_path / "runs")
    assert store.read(FIT) is None
    store.write(FIT, Trained(numbers=NUMBERS, moved=MOVED, seconds=1.5))
    found = store.read(FIT)
    assert (found.seconds, found.moved) == (1.5, MOVED)
    assert found.numbers.keys() == NUMBERS.keys()
    assert found["accuracy"] == 0.8
    assert math.isnan(found["demographic_parity_ratio"])
    # Another process reads the same, from a line that says what it is of.
    assert Store(tmp_path / "runs").read(FIT).numbers["accuracy"] == 0.8
    (line,) = store.path(FIT.population).read_text().splitlines()
    described = {"population": {"dataset": "synthetic"}, "method": "dpsgd", "seed": 0, "settings": {"epsilon": 1.0}}
    assert json.loads(line)["fit"] == described


@pytest.mark.parametrize(
    "other",
    [
        replace(FIT, seed=1),
        replace(FIT, method="clean"),
        replace(FIT, settings=(("epsilon", 2.0),)),
        replace(FIT, population=Population(dataset="synthetic", bias=0.5)),
        replace(FIT, is_control=True),
        replace(FIT, shifts=(0.1,)),
    ],
)
def test_another_training_has_a_key_of_its_own(other):
    assert key_of(other) != key_of(FIT)


def test_other_records_or_code_are_another_training(monkeypatch):
    before = key_of(FIT)
    monkeypatch.setattr(stored, "digest_of", lambda population: "other records")
    assert key_of(FIT) != before
    monkeypatch.undo()
    monkeypatch.setattr(stored, "code_digest", lambda: "other code")
    assert key_of(FIT) != before
    monkeypatch.undo()
    monkeypatch.setattr(stored, "library_versions", lambda: {"torch": "another"})
    assert key_of(FIT) != before
    monkeypatch.undo()
    assert key_of(FIT) == before


def test_a_change_of_what_trains_is_other_code_and_a_change_of_what_shows_is_not(tmp_path, monkeypatch):
    package = tmp_path / "fairdp"
    (package / "training").mkdir(parents=True)
    (package / "cli").mkdir()
    for name in ("__init__.py", "training/loop.py", "cli/fit.py"):
        (package / name).write_text("")
    monkeypatch.setattr(stored.fairdp, "__file__", str(package / "__init__.py"))
    fresh = stored.code_digest.__wrapped__
    before = fresh()
    (package / "cli" / "fit.py").write_text("another message")
    assert fresh() == before
    for part in stored._DECIDING:
        name = part if part.endswith(".py") else f"{part}/loop.py"
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("another step")
        assert fresh() != before, name
        before = fresh()


def test_what_decides_a_training_is_there():
    home = Path(stored.fairdp.__file__).parent
    assert all((home / part).exists() for part in stored._DECIDING)


def test_every_package_that_a_training_is_made_of_decides_it():
    below = {name for name, place in PLACES.items() if place <= PLACES["classifier"]}
    # These check, write, word, share out and add up what others compute.
    below -= {"_checks", "_files", "_folders", "_format", "launch", "team", "ledger", "saved"}
    assert below <= {part.removesuffix(".py") for part in stored._DECIDING}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"numbers": {}}', "null", '{"fit": {"method": "dpsgd"'])
def test_a_damaged_line_counts_as_none_and_spoils_no_other(tmp_path, content):
    store = Store(tmp_path)
    store.path(FIT.population).write_text(content)
    assert store.read(FIT) is None
    store.write(FIT, Trained(numbers=NUMBERS))
    store.write(replace(FIT, seed=1), Trained(numbers={"accuracy": 0.7}))
    assert [Store(tmp_path).read(fit)["accuracy"] for fit in (FIT, replace(FIT, seed=1))] == [0.8, 0.7]


def test_trainings_of_other_code_are_not_found_but_have_been_paid_for(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.write(FIT, Trained(numbers={"epsilon": 1.0}))
    monkeypatch.setattr(stored, "code_digest", lambda: "other code")
    assert store.read(FIT) is None
    store.write(FIT, Trained(numbers={"epsilon": 1.0}))
    assert Store(tmp_path).spent_on(FIT.population) == [1.0, 1.0]
    assert Store(tmp_path).spent_on(Population(dataset="synthetic", bias=0.5)) == []
