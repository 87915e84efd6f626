"""A default δ that follows the number of records where that is known beforehand, and never one that was counted."""

import copy
import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from classifier_cases import SHORT, people
from fairdp import FairDPClassifier, GroupedData, ParameterError, tune
from fairdp.cli import main
from fairdp.saved.verify import verify_folder

pytestmark = pytest.mark.usefixtures("rough_bounds")

DECLARED = {"f": 100_000, "m": 150_000}

PEOPLE = people()


def fitted(**changes) -> FairDPClassifier:
    X, y, sex = people()
    return FairDPClassifier(**{**SHORT, "random_state": 0, **changes}).fit(X, y, sensitive_features=sex)


def test_sizes_that_are_declared_decide_it_and_the_statement_says_so(tmp_path):
    model = fitted(group_sizes=DECLARED)
    assert model.privacy_.delta == 4e-7
    assert model.privacy_.epsilon <= 2
    assert model.delta == 1e-5
    assert "Delta is below one over the number of records (declared: 2.5e+05)." in model.privacy_statement()
    model.save(tmp_path / "model")
    assert all(check.passed for check in verify_folder(tmp_path / "model"))


def test_few_records_keep_the_default_and_nothing_is_said():
    model = fitted(group_sizes={"f": 40_000, "m": 59_999})
    assert model.privacy_.delta == 1e-5
    assert "one over" not in model.privacy_statement()


def test_a_delta_that_was_chosen_is_kept_or_refused():
    assert fitted(group_sizes=DECLARED, delta=1e-6).privacy_.delta == 1e-6
    with pytest.raises(ParameterError, match=r"delta must be below 1/n = 4e-06"):
        fitted(group_sizes=DECLARED, delta=2e-5)


def test_the_number_of_the_default_is_no_default_if_somebody_chose_it(capsys):
    with pytest.raises(ParameterError, match=r"delta must be below 1/n = 4e-06 .*, got 1e-05"):
        fitted(group_sizes=DECLARED, delta=1e-5)
    assert fitted(group_sizes={"f": 40_000, "m": 59_999}, delta=1e-5).privacy_.delta == 1e-5
    with pytest.raises(SystemExit) as stop:
        main(["plan", "--group-sizes", "f=100000,m=150000", "--n-steps", "20", "--delta", "1e-5"])
    assert stop.value.code == 2
    assert "--delta must be below 1/n = 4e-06 for n = 250000 records, got 1e-05" in capsys.readouterr().err


def test_copies_of_an_estimator_keep_what_was_chosen_and_what_was_not(tmp_path):
    for copied in (clone, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))):
        assert (
            copied(FairDPClassifier(group_sizes=DECLARED, **SHORT))
            .fit(*PEOPLE[:2], sensitive_features=PEOPLE[2])
            .privacy_.delta
            == 4e-7
        )
        with pytest.raises(ParameterError, match="delta must be below"):
            copied(FairDPClassifier(group_sizes=DECLARED, delta=1e-5, **SHORT)).fit(
                *PEOPLE[:2], sensitive_features=PEOPLE[2]
            )
    fitted(group_sizes=DECLARED).save(tmp_path / "model")
    assert (
        clone(FairDPClassifier.load(tmp_path / "model")).fit(*PEOPLE[:2], sensitive_features=PEOPLE[2]).privacy_.delta
        == 4e-7
    )


def test_a_search_is_planned_for_the_same_delta():
    X, y, sex = people()
    data = GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))
    estimator = FairDPClassifier(
        **{**SHORT, "certify_fraction": 0.2},
        group_sizes=DECLARED,
        certify_metrics=("demographic_parity",),
        random_state=0,
    )
    best = tune(estimator, {"learning_rate": [0.01, 0.1]}, data, expected_trials=2)
    assert best.privacy_.delta == 4e-7
    assert best.privacy_.epsilon <= 2


def test_a_plan_shows_what_a_fit_would_take(capsys):
    with pytest.raises(SystemExit):
        main(["plan", "--group-sizes", "f=100000,m=150000", "--n-steps", "20", "--json"])
    assert json.loads(capsys.readouterr().out)["privacy"]["delta"] == 4e-7
    # Sizes that will be counted: what is promised must not follow from what comes out.
    with pytest.raises(SystemExit) as stop:
        main(["plan", "--group-sizes", "100000,150000", "--n-steps", "20"])
    assert stop.value.code == 2
    assert "--delta must be below 1/n = 4e-06 for n = 250000 records, got 1e-05. Use 4e-07" in capsys.readouterr().err


def test_a_search_on_sizes_that_are_counted_keeps_its_delta_or_is_refused(monkeypatch):
    """δ must not follow from what was counted with noise."""
    X, y, sex = PEOPLE
    data = GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))
    estimator = FairDPClassifier(**{**SHORT, "certify_fraction": 0.2}, random_state=0)
    monkeypatch.setattr("fairdp.run.fit.counted_sizes", lambda *_: np.array([60_000, 60_000]))
    with pytest.raises(ParameterError, match=r"delta must be below 1/n .*, got 1e-05"):
        tune(estimator, {"learning_rate": [0.01, 0.1]}, data, expected_trials=2)
