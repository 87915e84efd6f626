"""A model of this month decides about next months' people: nothing is refused, and every treatment is counted."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from drifting_tables import next_month, this_month, written
from fairdp import records
from fairdp.data import columns
from fairdp.data.schema import read_schema
from fairdp.data.tables import encode_table, read_table

FEW, ALL = 6, 200
METRIC = "demographic_parity"
SHORT = ("--n-steps", 15, "--sample-rate", 0.3, "--epsilon", 4, "--seed", 0, "--no-ledger", "--certify-fraction", 0)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("months")


@pytest.fixture
def model(run, place, monkeypatch):
    """Trained by the schema that is proposed of this month, as it stands."""
    monkeypatch.chdir(place)
    if not Path("model").exists():
        this_month().to_csv("loans.csv", index=False)
        proposed = run("schema", "loans.csv", "--label", "approved", "--sensitive", "sex")
        assert proposed.code == 0, proposed.err
        Path("schema.yaml").write_text(proposed.out, encoding="utf-8")
        fitted = run("fit", "loans.csv", "--schema", "schema.yaml", "--out", "model", "--json", *SHORT)
        assert fitted.code in (0, 1), fitted.err
        assert (json.loads(fitted.out)["positive"], json.loads(fitted.out)["treated"]) == ("yes", {})
    return place / "model"


def assert_months_are_counted(model: Path, place: Path, months: range) -> None:
    for number in months:
        month = next_month(number)
        report = records.predict_table(model, written(month, place, number), place / "out.csv")
        assert report["treated"] == month.expected, number
        assert len(pd.read_csv(place / "out.csv")) == len(month.frame)


def test_next_months_are_decided_and_counted(model, place):
    assert_months_are_counted(model, place, range(FEW))


@pytest.mark.more
def test_two_hundred_next_months_are_decided_and_counted(model, place, monkeypatch):
    # The model is read once, all else is done for every month.
    monkeypatch.setattr(records, "load_saved", cache(records.load_saved))
    assert_months_are_counted(model, place, range(ALL))


def test_that_check_notices_a_kind_that_is_not_counted(model, place, monkeypatch):
    def careless(name, absent, unreadable, beyond):
        return counted(name, absent, unreadable, np.zeros_like(beyond))

    counted = columns._treated_numbers
    monkeypatch.setattr(columns, "_treated_numbers", careless)
    with pytest.raises(AssertionError):
        assert_months_are_counted(model, place, range(FEW))


def test_one_odd_row_changes_nobody_else(model, place):
    schema = read_schema("schema.yaml")
    people = this_month(60, seed=9).astype(object)
    before = encode_table(people, schema)
    for number in range(FEW):
        odd = next_month(number).frame.reindex(columns=people.columns).iloc[:1].assign(sex="f", approved="no")
        for rows, others in ((pd.concat([odd, people]), slice(1, None)), (pd.concat([people, odd]), slice(-1))):
            np.testing.assert_array_equal(encode_table(rows, schema).X[others], before.X, strict=True)


def test_people_and_programs_are_told(run, model, place):
    month = next_month(3)
    path = written(month, place, 4)
    told = run("predict", "model", path, "--out", "out.csv")
    assert told.code == 0
    assert "positive" in told.out
    for column, counts in month.expected.items():
        (line,) = [line for line in told.err.splitlines() if line.startswith(f"column {column!r}: of ")]
        assert all(f"{count} " in line for count in counts.values())
    answer = json.loads(run("predict", "model", path, "--out", "out.csv", "--json").out)
    assert (answer["treated"], answer["positive"]) == (month.expected, "yes")


def test_evaluate_and_certify_count_and_name_the_positive_decision(run, model, place):
    rows = this_month(800, seed=5).astype(object)
    rows.loc[:9, "age"] = 500
    rows.loc[:4, "job"] = "pilot"
    rows.to_csv("fresh.csv", index=False)
    expected = {"age": {"out_of_range": 10}, "job": {"undeclared": 5}}
    for command in (
        ("evaluate", "model", "fresh.csv"),
        ("certify", "model", "fresh.csv", "--epsilon", 1, "--no-ledger", "--allow-equal", "--certify-metrics", METRIC),
    ):
        answer = run(*command, "--json")
        assert answer.code == 0, answer.err
        assert (json.loads(answer.out)["treated"], json.loads(answer.out)["positive"]) == (expected, "yes")
        assert "column 'age': of 800 cells 10 out of range (moved to the bounds)." in answer.err


def test_a_column_that_is_mostly_beyond_its_bounds_is_warned_of(run, model, place):
    rows = this_month(100, seed=7).astype(object)
    for n_beyond, warned in ((50, False), (51, True)):
        rows.loc[: n_beyond - 1, "age"] = 500
        rows.to_csv("later.csv", index=False)
        said = run("predict", "model", "later.csv", "--out", "some.csv").err
        assert ("warning: column 'age' lies beyond the declared bounds in" in said) == warned, said


def test_a_missing_column_or_one_that_is_mostly_unreadable_is_refused_by_predict_and_told_by_fit(run, model, place):
    rows = this_month(100, seed=6).astype(object)
    rows.drop(columns="job").to_csv("short.csv", index=False)
    refused = run("predict", "model", "short.csv", "--out", "none.csv")
    assert (refused.code, refused.err.count("\n"), "has no column 'job'" in refused.err) == (2, 1, True)
    half = rows.copy()
    half.loc[:49, "income"] = "1.234,5"
    half.to_csv("half.csv", index=False)
    assert run("predict", "model", "half.csv", "--out", "some.csv").code == 0
    half.loc[50, "income"] = "1.234,5"
    half.to_csv("more.csv", index=False)
    for command in (("predict", "model", "more.csv", "--out", "none.csv"), ("evaluate", "model", "more.csv")):
        refused = run(*command)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert "column 'income' holds no number or date in 51 of 100 cells" in refused.err
        assert "--decimal" in refused.err
    assert not Path("none.csv").exists()
    wrong = this_month().astype({"income": object}).assign(income="1.234,5")
    wrong.to_csv("wrong.csv", index=False)
    fitted = run("fit", "wrong.csv", "--schema", "schema.yaml", "--json", *SHORT)
    assert fitted.code in (0, 1), fitted.err
    assert json.loads(fitted.out)["treated"] == {"income": {"unreadable": 1500}}
    assert "column 'income' holds no number or date in 1500 of 1500 cells" in fitted.err


@pytest.mark.parametrize("command", ["schema", "fit", "clean", "compare"])
def test_no_command_guesses_the_positive_decision(run, model, command):
    rows = this_month().assign(approved=np.where(this_month()["approved"] == "yes", "good", "bad"))
    rows.to_csv("words.csv", index=False)
    named = ("words.csv", "--label", "approved", "--sensitive", "sex")
    options = {
        "clean": ("fit", "--method", "clean"),
        "compare": ("compare", "--out", "none", "--methods", "dpsgd", "--seeds", 1),
    }
    name, *rest = options.get(command, (command,))
    refused = run(name, *named, *rest, *(() if name == "schema" else ("--no-ledger",)))
    assert (refused.code, refused.out) == (2, "")
    line = "which value of label 'approved' is a positive decision, 'bad' or 'good'? Say it with --positive."
    assert refused.err.splitlines()[-1] == f"fairdp: {line}"


def test_a_positive_value_may_be_written_as_another_number(run, model):
    rows = this_month().assign(approved=np.where(this_month()["approved"] == "yes", 2, 1))
    rows.to_csv("numbers.csv", index=False)
    named = ("numbers.csv", "--label", "approved", "--sensitive", "sex", "--positive", "2.0")
    proposed = run("schema", *named)
    assert "# For the people in this table a positive decision is: approved = 2\n" in proposed.out
    Path("numbers.yaml").write_text(proposed.out, encoding="utf-8")
    fitted = run("fit", *named, "--schema", "numbers.yaml", "--json", *SHORT)
    assert (fitted.code in (0, 1), json.loads(fitted.out)["positive"]) == (True, "2")


def test_an_unknown_group_gets_a_helpful_line(run, model):
    rows = this_month(200, seed=7)
    for sex, held in ((None, "has 1 missing values"), ("d", "holds 'd' in row 1")):
        rows.loc[0, "sex"] = sex
        rows.to_csv("unknown.csv", index=False)
        refused = run("evaluate", "model", "unknown.csv")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert held in refused.err
        assert "'other: unknown'" in refused.err
    ages = run("schema", "loans.csv", "--label", "approved", "--sensitive", "age")
    assert (ages.code, "put them into a few ranges" in ages.err) == (2, True)
    unread = run("fit", "loans.csv", "--label", "approved", "--sensitive", "age", "--no-ledger")
    assert (unread.code, "put them into a few ranges" in unread.err) == (2, True)


def test_what_is_saved_reads_as_it_did(model):
    saved = json.loads((model / "model.json").read_text())["feature_schema"]
    numbers = {column["name"]: column for column in saved["columns"] if column["type"] == "numeric"}
    assert {column["missing"] for column in numbers.values()} == {"indicator"}
    assert {"children", "age", "since"} <= set(numbers)
    assert "person" not in {column["name"] for column in saved["columns"]}
    assert read_table("loans.csv").shape == (1500, 10)
