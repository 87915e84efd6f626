"""The study of the default: what its cases are called, the records they take, and a quick run."""

import numpy as np
import pytest

from fairdp.experiments.studies import STUDIES
from fairdp.experiments.studies.results import Run
from fairdp.experiments.studies.tables import CASES, NO_TARGET, Case, _exact, _fits
from fairdp.experiments.sweeps.populations import Population, load

SYNTHETIC = Population(dataset="synthetic")


def quick() -> Run:
    return Run(quick=True, seed=3, workers=1, say=lambda line: None)


def test_targets_have_names_of_their_own():
    named = [(str(case.population), case.words) for case in CASES]
    assert len(set(named)) == len(named)
    assert Case(SYNTHETIC, {"max_gap": 0.02, "parity": "equal_opportunity"}).words == "equal opportunity 0.02"
    assert Case(SYNTHETIC, {"min_ratio": 0.8}).words == "demographic parity, ratio 0.8"


def test_some_training_records_are_others_for_every_split_and_the_test_records_stay():
    some, others = (load(Population(dataset="synthetic", n_train=500, split=split)) for split in (0, 1))
    assert some.train.n_samples == others.train.n_samples == 500
    assert not np.array_equal(some.train.X, others.train.X)
    np.testing.assert_array_equal(some.test.X, load(SYNTHETIC).test.X)


def test_a_method_without_a_target_is_trained_without_one():
    case = Case(SYNTHETIC, NO_TARGET)
    assert "max_gap" not in dict(_fits(case, "dpsgd", quick())[0].settings)
    assert dict(_fits(case, "fairdp_frontier", quick())[0].settings)["max_gap"] == 1.0


def test_models_without_privacy_are_measured_on_the_test_records():
    found = _exact(("logistic regression", SYNTHETIC), np.random.default_rng(0))
    assert found["accuracy"] > 0.6
    assert 0 <= found["gap"] <= 1


@pytest.mark.more
def test_a_quick_run_has_the_default_beside_its_rivals():
    findings = STUDIES["tables"].findings(quick())
    methods = {row["method"] for row in findings.figures["rows"]}
    assert methods == {"fairdp_frontier", "dpsgd", "boosting", "logistic regression"}
    assert "not private" in findings.text
