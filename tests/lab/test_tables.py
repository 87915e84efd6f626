"""The study of the default and its rivals: which records they see, and how their decisions are measured."""

import sys

import interpret.privacy
import numpy as np
import pandas as pd
import pytest

from fairdp.data.grouped import GroupedData
from fairdp.data.schema import Binned, Categorical, Numeric, OtherThan, TableSchema
from fairdp.metrics import decision_counts, metrics_of_counts
from fairdp_lab.studies import tables
from fairdp_lab.studies import tables as rivals
from fairdp_lab.studies.protocol import STUDIES, Run
from fairdp_lab.studies.tables import (
    ALL,
    CASES,
    DP_EBM,
    FEW,
    FULL,
    LEARNING_RATES,
    LOGISTIC,
    NO_TARGET,
    OURS,
    PLAIN,
    SOME,
    Case,
    Entry,
    Rival,
    figures_of,
    fitted_dp_ebm,
    fitted_reduction,
    paired,
    reached,
    whole_columns,
)
from fairdp_lab.sweeps.fits import Population, load

SYNTHETIC = Population(dataset="synthetic")
FREE = Case(population=SYNTHETIC, target=NO_TARGET, methods=(OURS, PLAIN), held_out=True)


def quick() -> Run:
    return Run(quick=True, seed=3, workers=1, say=lambda line: None)


def test_some_training_records_are_others_for_every_split_and_the_test_records_stay():
    some, others = (load(Population(dataset="synthetic", n_train=500, split=split)) for split in (0, 1))
    assert some.train.n_samples == others.train.n_samples == 500
    assert not np.array_equal(some.train.X, others.train.X)
    np.testing.assert_array_equal(some.test.X, load(SYNTHETIC).test.X)


def test_nothing_is_held_out_unless_the_line_says_so():
    assert FREE.entries == [(OURS, SOME), (OURS, ALL), (PLAIN, ALL)]
    assert dict(FREE.fits(OURS, ALL, (0,))[0].settings)["certify_fraction"] == 0.0
    assert "certify_fraction" not in dict(FREE.fits(OURS, SOME, (0,))[0].settings)


def test_cases_have_names_of_their_own_and_ours_is_in_every_one():
    named = [(str(case.population), case.words) for case in CASES]
    assert len(set(named)) == len(named)
    assert all(OURS in case.methods for case in CASES)
    target = {"max_gap": 0.02, "parity": "equal_opportunity"}
    assert Case(population=SYNTHETIC, target=target).words == "equal opportunity 0.02"
    assert Case(population=SYNTHETIC, target={"min_ratio": 0.8}).words == "demographic parity, ratio 0.8"


def test_a_method_without_a_target_is_trained_without_one():
    assert "max_gap" not in dict(FREE.fits(PLAIN, ALL, (0,))[0].settings)
    assert dict(FREE.fits(OURS, ALL, (0,))[0].settings)["max_gap"] == 1.0


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
    assert "fairdp[lab]" in findings.text


SCHEMA = TableSchema(
    columns=(
        Categorical(name="job", categories=("baker", "pilot", "?")),
        Numeric(name="age", low=0, high=100, missing="indicator"),
        OtherThan(name="born", value="here"),
        Binned(name="hours", edges=(20, 40)),
    ),
    label="y",
    positive="1",
    negative="0",
    sensitive=("sex",),
    groups=(("f", "m"),),
)
FRAME = pd.DataFrame(
    {
        "job": ["pilot", "baker", "?"],
        "age": [50.0, None, 25.0],
        "born": ["here", "there", "here"],
        "hours": [10.0, 30.0, 50.0],
    }
)


def some(n_samples: int, *, seed: int = 0) -> GroupedData:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-4, 4, (n_samples, 2)).astype(np.float32)
    groups = (rng.random(n_samples) < 0.3).astype(np.int64)
    X[:, 0] += groups
    y = (X[:, 0] + rng.normal(size=n_samples) > 0.5).astype(np.int64)
    return GroupedData(X, y, groups, ("a", "b"))


def test_columns_are_what_they_were_before_their_encoding():
    X = whole_columns(SCHEMA.encode(FRAME), SCHEMA)
    assert list(X) == ["job", "age", "born", "hours"]
    assert X["job"].tolist() == ["job=pilot", "job=baker", "job=?"]
    np.testing.assert_allclose(X["age"], [0.5, 0.5, 0.25])
    assert X["born"].tolist() == ["no", "yes", "no"]
    assert X["hours"].nunique() == 3


def test_columns_that_nobody_declared_are_numbers_within_the_bounds_of_ours():
    X = whole_columns(some(50).X, None)
    assert (X.dtypes == np.float64).all()
    assert X.to_numpy().min() == -3.0
    assert X.to_numpy().max() == 3.0


def test_decisions_are_measured_as_everywhere_else():
    data = some(400)
    decisions = (data.X[:, 0] > 0).astype(np.int64)
    expected = metrics_of_counts(decision_counts(data.y, decisions, data.groups, 2), data.group_names)
    found = figures_of(decisions.astype(np.float64), data)
    assert found["gap"] == expected["demographic_parity_difference"]
    assert {name: expected[name] for name in found if name != "gap"} == {n: v for n, v in found.items() if n != "gap"}


def test_chances_count_as_expected():
    data = GroupedData(np.zeros((4, 1), np.float32), np.array([1, 0, 1, 0]), np.array([0, 0, 1, 1]), ("a", "b"))
    found = figures_of(np.array([0.75, 0.25, 1.0, 0.5]), data)
    assert found["accuracy"] == pytest.approx((0.75 + 0.75 + 1.0 + 0.5) / 4)
    assert found["gap"] == pytest.approx(0.75 - 0.5)


def test_the_reduction_keeps_the_gap_that_is_asked_for_on_its_training_records():
    data = some(4000)
    free, bound = (fitted_reduction(data, max_gap=gap)._pmf_predict(data.X)[:, 1] for gap in (1.0, 0.05))
    assert figures_of(free, data)["gap"] > 0.1
    # Its own tolerance is a hundredth of the bound.
    assert figures_of(bound, data)["gap"] <= 0.05 * 1.02


def test_dp_ebm_is_told_types_and_bounds_and_reads_none():
    data = some(500)
    model = fitted_dp_ebm(data, None, seed=0)
    np.testing.assert_array_equal(model.feature_bounds_, [[-3.0, 3.0]] * 2)
    assert (model.epsilon, model.delta, model.learning_rate) == (1.0, 1e-5, 0.01)
    assert model.noise_scale_boosting_ > 0
    encoded = SCHEMA.encode(pd.concat([FRAME] * 100))
    rng = np.random.default_rng(0)
    table = GroupedData(encoded, rng.integers(2, size=300), rng.integers(2, size=300), ("f", "m"))
    assert fitted_dp_ebm(table, SCHEMA, seed=0).feature_types_in_ == ["nominal", "continuous", "nominal", "nominal"]


@pytest.mark.parametrize("withheld", ["privacy_bounds", "feature_types"])
def test_dp_ebm_that_would_have_to_read_them_is_refused(monkeypatch, withheld):
    kind = interpret.privacy.DPExplainableBoostingClassifier
    monkeypatch.setattr(
        interpret.privacy, "DPExplainableBoostingClassifier", lambda **told: kind(**{**told, withheld: None})
    )
    with pytest.raises(UserWarning, match="privacy violation"):
        fitted_dp_ebm(some(100), None, seed=0)


def test_without_the_package_dp_ebm_is_said_to_be_missing(monkeypatch):
    assert rivals.has_dp_ebm()
    monkeypatch.setitem(sys.modules, "interpret", None)
    assert not rivals.has_dp_ebm()


@pytest.mark.parametrize("name", [rivals.LOGISTIC, rivals.BOOSTING, rivals.DP_EBM])
def test_rivals_without_a_target_are_measured_on_the_test_records(name):
    people = Population(dataset="synthetic", n_train=2000, split=0)
    found = reached(Rival(name=name, population=people), np.random.default_rng(0))
    majority = load(people).test.y.mean()
    assert found["auc"] > 0.85
    assert found["accuracy"] > max(majority, 1 - majority) - 0.02
    assert 0 <= found["gap"] <= 1
