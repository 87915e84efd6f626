"""The study of the default: what its cases are called, the records they take, its pairs, and a quick run."""

import numpy as np
import pytest

from fairdp.experiments.studies import STUDIES, tables
from fairdp.experiments.studies.results import Run
from fairdp.experiments.studies.rivals import DP_EBM, LEARNING_RATES, LOGISTIC
from fairdp.experiments.studies.table_cases import ALL, CASES, FEW, FULL, NO_TARGET, OURS, PLAIN, SOME, Case
from fairdp.experiments.studies.tables import Entry, paired
from fairdp.experiments.sweeps.populations import Population, load

SYNTHETIC = Population(dataset="synthetic")
FREE = Case(population=SYNTHETIC, target=NO_TARGET, methods=(OURS, PLAIN), held_out=True)


def quick() -> Run:
    return Run(quick=True, seed=3, workers=1, say=lambda line: None)


def test_targets_have_names_of_their_own():
    named = [(str(case.population), case.words) for case in CASES]
    assert len(set(named)) == len(named)
    target = {"max_gap": 0.02, "parity": "equal_opportunity"}
    assert Case(population=SYNTHETIC, target=target).words == "equal opportunity 0.02"
    assert Case(population=SYNTHETIC, target={"min_ratio": 0.8}).words == "demographic parity, ratio 0.8"


def test_ours_is_in_every_case():
    assert all(OURS in case.methods for case in CASES)


def test_some_training_records_are_others_for_every_split_and_the_test_records_stay():
    some, others = (load(Population(dataset="synthetic", n_train=500, split=split)) for split in (0, 1))
    assert some.train.n_samples == others.train.n_samples == 500
    assert not np.array_equal(some.train.X, others.train.X)
    np.testing.assert_array_equal(some.test.X, load(SYNTHETIC).test.X)


def test_a_method_without_a_target_is_trained_without_one():
    assert "max_gap" not in dict(FREE.fits(PLAIN, ALL, (0,))[0].settings)
    assert dict(FREE.fits(OURS, ALL, (0,))[0].settings)["max_gap"] == 1.0


def test_nothing_is_held_out_unless_the_line_says_so():
    assert FREE.entries == [(OURS, SOME), (OURS, ALL), (PLAIN, ALL)]
    assert dict(FREE.fits(OURS, ALL, (0,))[0].settings)["certify_fraction"] == 0.0
    assert "certify_fraction" not in dict(FREE.fits(OURS, SOME, (0,))[0].settings)


def test_a_rival_is_trained_again_for_a_seed_only_where_that_changes_something():
    def trained(population: Population, name: str) -> int:
        return len(Case(population=population, target=NO_TARGET).rivals_named(name, (0, 1, 2)))

    assert trained(FULL, LOGISTIC) == 1
    assert trained(FEW, LOGISTIC) == 3
    assert trained(FULL, DP_EBM) == 3 * len(LEARNING_RATES)


def test_pairs_are_differences_of_the_same_seed():
    ours = Entry(
        case=FREE, method=OURS, records=ALL, runs=[{"accuracy": 0.8, "auc": 0.9}, {"accuracy": 0.6, "auc": 0.7}]
    )
    held_out = Entry(case=FREE, method=OURS, records=SOME, runs=[{"accuracy": 0.0, "auc": 0.0}] * 2)
    theirs = Entry(
        case=FREE, method=PLAIN, records=ALL, runs=[{"accuracy": 0.7, "auc": 0.9}, {"accuracy": 0.5, "auc": 0.6}]
    )
    (row,) = paired([held_out, ours, theirs])
    assert row.mean == pytest.approx({"accuracy": 0.1, "auc": 0.05})
    # Apart, the two would have a standard error of a tenth each.
    assert row.standard_error["accuracy"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.more
def test_a_quick_run_has_the_default_beside_its_rivals_and_a_picture():
    findings = STUDIES["tables"].findings(quick())
    methods = {row["method"] for row in findings.figures["rows"]}
    rivals = {"dp_ebm", "dp_ebm_tuned", "boosting", "logistic_regression", "reduction"}
    assert methods == {OURS, PLAIN, "raco_dp", "dp_postprocess"} | rivals
    assert {row["records"] for row in findings.figures["rows"] if row["method"] == OURS} == {ALL, SOME}
    assert "**Not private**" in findings.text
    assert not findings.figures["without_dp_ebm"]
    (drawing,) = findings.drawings.values()
    assert len(drawing.axes) == 1


@pytest.mark.more
def test_without_the_package_the_study_says_that_dp_ebm_is_left_out(monkeypatch):
    monkeypatch.setattr(tables, "has_dp_ebm", lambda: False)
    monkeypatch.setattr(tables, "QUICK", (Case(population=SYNTHETIC, target=NO_TARGET, rivals=(DP_EBM, LOGISTIC)),))
    findings = STUDIES["tables"].findings(quick())
    assert {row["method"] for row in findings.figures["rows"]} == {OURS, LOGISTIC}
    assert findings.text.startswith("**DP-EBM is left out**")
    assert "fairdp[studies]" in findings.text
