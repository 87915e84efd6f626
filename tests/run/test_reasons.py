"""Reasons: by hand on a tiny model, and by brute force through `predict` on tables edited as the words say."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars
import pytest
import torch
import yaml
from pandas.testing import assert_frame_equal
from torch import from_numpy, nn

from fairdp.classifier import FairDPClassifier
from fairdp.data.columns import Binned, Categorical, Numeric, OtherThan
from fairdp.data.schema import TableSchema
from fairdp.data.tables import read_table
from fairdp.fitting import fit_source
from fairdp.networks.model import ScoreModel
from fairdp.networks.rows import SplineFeatures
from fairdp.records import Source, predict_table
from fairdp.run.predictor import NO_COLUMN, SUFFICE, Reference, _held_values, lines_of, reasons_of, references_of
from reason_cases import APPLICANTS, BY_HAND, EVERYBODY, applicants, by_hand

JOB, INCOME = "job 'a': the reference is 'b'", "income 0: lower than the reference 100"
K = 3


def said(found: pd.DataFrame) -> list[tuple]:
    """The lines of each person, with whether they suffice."""
    return [(*lines, None if pd.isna(enough) else bool(enough)) for *lines, enough in found.itertuples(index=False)]


def test_reasons_by_hand():
    """L = −4, −1, −2, 1: income is worth 3 and the job 2, so the first needs both."""
    assert said(reasons_of(by_hand(4.0), EVERYBODY, k=2)) == [
        (INCOME, JOB, True),
        (JOB, "", True),
        (INCOME, "", True),
        ("", "", None),
    ]
    assert said(reasons_of(by_hand(4.0), EVERYBODY, k=1))[0] == (INCOME, False)


def test_the_scores_of_that_model_are_the_ones_by_hand():
    model = by_hand(4.0)
    scores = model.score_model_.scores(torch.from_numpy(BY_HAND.encode(EVERYBODY)))
    np.testing.assert_allclose(scores, [math.tanh(L / 2) for L in (-4, -1, -2, 1)], atol=1e-6)


def test_a_person_at_the_threshold_is_accepted_and_has_no_reasons():
    at, below = (said(reasons_of(by_hand(threshold), EVERYBODY, k=2)) for threshold in (5.0, 5.001))
    assert at[3] == ("", "", None)
    # A hair below it is refused; everything is as in the reference, and no column says why.
    assert below[3] == (NO_COLUMN, "", False)
    # Whom the reasons would bring to the threshold, exactly, they suffice.
    assert (at[0], below[0]) == ((INCOME, JOB, True), (INCOME, JOB, False))


def test_a_person_far_below_the_threshold_still_has_reasons():
    """At L = −30 the score is −1 in single precision, whatever one column is worth."""
    assert said(reasons_of(by_hand(30.0), EVERYBODY, k=2))[0] == (INCOME, JOB, False)


def test_who_has_a_rare_value_is_not_told_that_it_is_missing():
    """As in columns that were read with noise, of which any other value counts as one that is missing."""
    job = Categorical(name="job", categories=("b", "?"), other="?")
    reference = Reference(job, slice(0, 2), "b", job.encode(pd.Series(["b"]))[0])
    frame = pd.DataFrame({"job": ["welder", "", "NA", "?"]})
    found = lines_of(reference, frame, np.arange(4), job.encode(frame["job"]))
    missing = "job missing: the reference is 'b'"
    assert found.tolist() == ["job 'welder', counted as '?': the reference is 'b'", missing, missing, missing]


def test_more_reasons_than_columns_stay_empty():
    assert said(reasons_of(by_hand(4.0), EVERYBODY, k=4))[0] == (INCOME, JOB, "", "", True)


def test_no_people_have_no_reasons():
    assert reasons_of(by_hand(4.0), EVERYBODY[:0], k=2).shape == (0, 3)


def test_a_value_that_few_hold_is_no_reference():
    """Job b by five in a hundred: the best value is then out of reach, and nobody is told of it."""
    model = by_hand(4.0)
    rows = model.score_model_.extractor
    records = BY_HAND.encode(pd.DataFrame({"job": ["a"] * 95 + ["b"] * 5, "income": [0, 100] * 50}))
    rows.learn(rows.answers(from_numpy(records)), n_records=100, deviation=0.0)
    job, income = references_of(BY_HAND.columns, model.score_model_)
    assert (job.cell, income.cell) == ("a", 100)
    records[90:95, :2] = [0, 1]
    rows.learn(rows.answers(from_numpy(records)), n_records=100, deviation=0.0)
    assert references_of(BY_HAND.columns, model.score_model_)[0].cell == "b"


def held(columns, table) -> dict[str, list]:
    """Values that count as common, after a release without noise."""
    schema = replace(BY_HAND, columns=columns)
    encoded = schema.encoded
    rows = SplineFeatures(
        schema.n_features,
        dict(zip(encoded.numeric, encoded.zeros, strict=True)),
        most_squares=encoded.most_squares,
        norm=2.0,
    )
    X = from_numpy(schema.encode(pd.DataFrame(table)))
    rows.learn(rows.answers(X), n_records=len(X), deviation=0.0)
    return {
        column.name: [cell for cell, _ in values]
        for column, values in zip(columns, _held_values(columns, rows), strict=True)
    }


def test_common_values_are_those_that_people_hold():
    """Forty in a hundred have no income, which is encoded as the middle: nobody is compared with that."""
    columns = (
        Numeric(name="income", low=0, high=100, missing="indicator"),
        Categorical(name="job", categories=("a", "b", "?")),
        Binned(name="age", edges=(30, 60)),
        OtherThan(name="born", value="here"),
    )
    table = {
        "income": [0] * 35 + [100] * 25 + [""] * 40,
        "job": ["?"] * 70 + ["b"] * 25 + ["a"] * 5,
        "age": [20] * 60 + [40] * 5 + [70] * 35,
        "born": ["there"] * 80 + ["here"] * 20,
    }
    found = held(columns, table)
    assert set(found["income"]) == {0, 100}
    assert found["job"] == ["b"]
    # A value of the bin below 30, and one of the bin from 60.
    assert found["age"] == [29, 60]
    assert found["born"] == ["other than here", "here"]


def test_where_no_value_is_common_the_most_common_one_is_taken():
    columns = (Categorical(name="job", categories=tuple("abcdefghijklmnop")),)
    assert held(columns, {"job": [*"abcdefghijklmnop" * 6, *"ggg"]}) == {"job": ["g"]}


def test_numbers_are_rounded_to_what_can_be_said():
    """The peak of a bin of width 500,000 / 256 around 40,000, and of one of 10 / 256 around 2.5."""
    columns = (Numeric(name="income", low=0, high=500_000), Numeric(name="years", low=0, high=10))
    found = held(columns, {"income": [40_000] * 50, "years": [2.5] * 50})
    assert 40_000 in found["income"]
    assert 2.52 in found["years"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of three groups, saved, and the table it is asked about."""
    place = tmp_path_factory.mktemp("reasons")
    (place / "schema.yaml").write_text(yaml.safe_dump(APPLICANTS))
    applicants().to_csv(place / "people.csv", index=False)
    source = Source(
        table=place / "people.csv",
        dataset=None,
        label=None,
        positive=None,
        sensitive=(),
        schema=place / "schema.yaml",
        test_fraction=0.2,
    )
    parameters = {"epsilon": 8.0, "random_state": 0}
    fit_source(source, parameters, out=place / "model")
    FairDPClassifier.load(place / "model").retarget(max_gap=1.0).save(place / "moved")
    return place


def predicted(folder, frame, name="model", **options) -> pd.DataFrame:
    frame.to_csv(folder / "asked.csv", index=False)
    predict_table(folder / name, folder / "asked.csv", folder / "said.csv", **options)
    return pd.read_csv(folder / "said.csv", keep_default_na=False)


def stated(line: str) -> tuple[str, str]:
    """The column that a line names, and a cell that holds the reference as its words have it."""
    column, rest = re.fullmatch(r"(\w+) .*: .*?\breference (.*)", line).groups()
    rest = rest.removeprefix("is ")
    if rest.startswith("anything but"):
        return column, "quite another"
    low = re.fullmatch(r"\((\d+) or more.*\)", rest)
    high = re.fullmatch(r"\(below (\d+)\)", rest)
    return column, low[1] if low else str(int(high[1]) - 1) if high else rest.strip("'")


def brute_force(folder, name) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, str]]:
    """Reasons given to the refused, the gain by each column on an edited table, and the stated references."""
    people = applicants(600, seed=1)
    before = predicted(folder, people, name, k=K)
    lines = before[[f"reason_{rank}" for rank in range(1, K + 1)]].to_numpy().ravel()
    references = dict(stated(line) for line in lines if line)
    # One value for everybody, whoever is told of it.
    assert len({stated(line) for line in lines if line}) == len(references)
    gains = {
        column: predicted(folder, people.assign(**{column: cell}), name)["score"] - before["score"]
        for column, cell in references.items()
    }
    refused = before["decision"] == "no"
    assert 50 < refused.sum() < 550
    assert (before.loc[~refused, [*before.filter(like="reason")]] == "").all(axis=None)
    return before[refused], pd.DataFrame(gains)[refused], references


def check_order(found: pd.DataFrame, gains: pd.DataFrame) -> None:
    """The columns that are named gain most, in this order, and whoever has fewer than K has none left that gain."""
    for row in found.index:
        named = [stated(line)[0] for line in found.loc[row, "reason_1" : f"reason_{K}"] if line]
        own = gains.loc[row].sort_values(ascending=False)
        assert len(named) == min(K, int((own > 1e-6).sum()))
        np.testing.assert_allclose(own[named], own[: len(named)], atol=1e-6)


@pytest.mark.parametrize("name", ["model", "moved"])
def test_the_order_is_that_of_brute_force_through_predict(folder, name):
    """Also where the rule was moved to another price of fairness: reasons are of the rule that decides."""
    found, gains, references = brute_force(folder, name)
    assert len(references) >= 5
    check_order(found, gains)


def test_that_check_notices_two_reasons_in_the_wrong_order(folder):
    found, gains, _ = brute_force(folder, "model")
    turned = found.assign(reason_1=found["reason_2"], reason_2=found["reason_1"])
    with pytest.raises(AssertionError):
        check_order(turned[turned["reason_1"] != ""], gains)


@pytest.mark.parametrize("k", [1, K])
def test_reasons_that_suffice_turn_the_decision_and_others_do_not(folder, k):
    edited = applicants(600, seed=1).astype(object)
    found = predicted(folder, edited, k=k)
    for rank in range(1, k + 1):
        for row, line in found[f"reason_{rank}"].items():
            if line:
                column, cell = stated(line)
                edited.loc[row, column] = cell
    refused = found["decision"] == "no"
    turned = predicted(folder, edited)["decision"] == "yes"
    np.testing.assert_array_equal(turned[refused], found.loc[refused, SUFFICE] == "True")
    # With one column some of both, so that the check could fail; three are enough for everybody here.
    assert (20 < turned[refused].sum() < refused.sum() - 20) == (k == 1)


def test_moving_the_rule_moves_the_reasons(folder):
    people = applicants(600, seed=1)
    one, other = (predicted(folder, people, name, k=K) for name in ("model", "moved"))
    both = (one["decision"] == "no") & (other["decision"] == "no")
    assert (one.loc[both, "reason_1"] != other.loc[both, "reason_1"]).any()


def test_the_group_is_neither_asked_for_nor_named(folder):
    people = applicants(300, seed=2)
    found = predicted(folder, people.drop(columns=["ward", "repaid"]), k=6)
    assert_frame_equal(found, predicted(folder, people.assign(ward=people["ward"][::-1].to_numpy()), k=6))
    assert not found.filter(like="reason").apply(lambda lines: lines.str.contains("ward|zq")).any(axis=None)


def test_every_kind_of_column_is_put_into_words(folder):
    found = predicted(folder, applicants(2000, seed=3), k=6)
    lines = set(found[[f"reason_{rank}" for rank in range(1, 7)]].to_numpy().ravel())
    number = r"[0-9]+(\.[0-9]+)?"
    for pattern in (
        rf"income [0-9]+: (lower|higher) than the reference {number}",
        rf"income missing: the reference is {number}",
        r"since 20\d\d-\d\d-\d\d: (earlier|later) than the reference 20\d\d-\d\d-\d\d",
        r"job 'clerk': the reference is '\w+'",
        r"job 'welder', counted as 'rest': the reference is '\w+'",
        r"job missing: the reference is '\w+'",
        r"age \d\d: (lower|higher) than the reference \(.*\)",
        r"born 'there': the reference is 'here'",
    ):
        assert any(re.fullmatch(pattern, line) for line in lines), pattern
    for line in lines:
        below = re.fullmatch(rf"\w+ ({number}): (lower|higher) than the reference ({number})", line)
        if below:
            assert (float(below[1]) < float(below[4])) == (below[3] == "lower"), line


def test_python_says_what_the_command_says(folder):
    people = applicants(200, seed=4)
    model = FairDPClassifier.load(folder / "model")
    written = predicted(folder, people, k=K)
    people = read_table(folder / "asked.csv")
    found = model.reasons(people, k=K)
    assert_frame_equal(found.astype(object).fillna("").astype(str), written.filter(like="reason").astype(str))
    assert list(found) == ["reason_1", "reason_2", "reason_3", SUFFICE]
    assert_frame_equal(model.reasons(polars.from_pandas(people), k=K), found)
    one = model.reasons(people.iloc[[7]], k=K)
    assert_frame_equal(one, found.iloc[[7]].reset_index(drop=True))


def test_all_people_are_scored_at_once(folder, monkeypatch):
    model, calls = FairDPClassifier.load(folder / "model"), []
    plain = ScoreModel.worths
    monkeypatch.setattr(ScoreModel, "worths", lambda own, X: calls.append(len(X)) or plain(own, X))
    counts = []
    for n_rows in (50, 2000):
        calls.clear()
        model.reasons(applicants(n_rows, seed=5))
        counts.append(len(calls))
    assert counts[0] == counts[1] <= 4 * len(APPLICANTS["columns"])


def test_references_need_the_schema_and_the_model_alone(folder):
    model = FairDPClassifier.load(folder / "model")
    schema = TableSchema.from_dict(model.feature_schema_)
    found = {one.column.name: one.cell for one in references_of(schema.columns, model.score_model_)}
    _, _, said_so = brute_force(folder, "model")
    assert set(said_so) <= set(found)
    assert str(found["job"]) == said_so["job"]


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_a_number_of_reasons_is_a_whole_number(k):
    with pytest.raises(ValueError, match=r"^k must be a whole number of at least 1, got"):
        reasons_of(by_hand(4.0), EVERYBODY, k=k)


def test_models_without_reasons_say_so(folder):
    people = TableSchema.from_dict(APPLICANTS)
    frame = applicants(400)
    X, y, ward = people.encode(frame), people.encode_labels(frame), frame["ward"]
    settings = {"epsilon": float("inf"), "n_steps": 2, "certify_fraction": 0.0}
    for chosen in ({"model": "mlp"}, {"module": lambda: nn.Linear(13, 2)}, {"method": "dpsgd", "model": "logistic"}):
        model = FairDPClassifier(**settings, **chosen).fit(X, y, sensitive_features=ward)
        with pytest.raises(
            ValueError, match=r"^k=4 needs the default on tables; networks.*have no reasons; leave it out"
        ):
            model.reasons(frame)
    model = FairDPClassifier(**settings).fit(X, y, sensitive_features=ward)
    with pytest.raises(ValueError, match=r"^k=4 needs columns that a schema declares"):
        model.reasons(frame)
    with pytest.raises(ValueError, match=r"^reasons are of a table with the columns of the schema.*got ndarray\.$"):
        FairDPClassifier.load(folder / "model").reasons(X)
