"""Records to test on: a fraction of the table, a table of their own, or none; and those that a model has seen."""

import datetime
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet as pq

from cli_cases import SCHEMA, people
from fairdp import FairDPClassifier
from fairdp.cli import main
from fairdp.errors import InputError
from fairdp.ledger.ledger import Ledger, ledger_path
from fairdp.records import load_records, training_sizes

SHORT = ("--epsilon", 2, "--n-steps", 20, "--sample-rate", 0.2, "--seed", 0, "--method", "fairdp", "--no-ledger")
SHORT = (*SHORT, "--certify-metrics", "demographic_parity")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    people(200, seed=1).to_csv("others.csv", index=False)
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    return tmp_path


@pytest.fixture
def run(folder, capsys):
    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert stop.value.code == code, err
        return out, err

    return call


def fit(*arguments):
    return ("fit", "people.csv", "--schema", "schema.yaml", *SHORT, *arguments)


def fit_in_ledger(*arguments):
    return tuple(argument for argument in fit(*arguments) if argument != "--no-ledger")


def equal_lines(err: str) -> list[str]:
    return [line for line in err.splitlines() if "equal" in line]


def test_without_test_records_metrics_come_from_the_counts_of_the_certificate(run):
    found = json.loads(run(*fit("--test-fraction", 0, "--json"))[0])
    assert (found["n_test"], found["n_train"] + found["n_certify"]) == (0, 600)
    private = json.loads(run(*fit("--test-fraction", 0, "--private-metrics", "--json"))[0])
    assert found["metrics"] == private["metrics"]
    assert found["metrics"]["accuracy"] is not None
    assert "from the noisy counts" in run(*fit("--test-fraction", 0))[0]


def test_without_test_records_and_certificate_nothing_is_measured(run):
    alone = ("--test-fraction", 0, "--certify-fraction", 0)
    found = json.loads(run(*fit(*alone, "--json"))[0])
    assert (found["n_test"], found["metrics"], found["n_train"]) == (0, None, 600)
    assert "nothing was measured" in run(*fit(*alone))[0]


def test_a_fit_on_all_rows_is_that_of_python_to_the_bit(run, folder):
    run(*fit("--test-fraction", 0, "--out", "model"))
    settings = {"epsilon": 2.0, "n_steps": 20, "sample_rate": 0.2, "random_state": 0, "method": "fairdp"}
    settings["certify_metrics"] = ("demographic_parity",)
    by_hand = FairDPClassifier(**settings).fit(people(), schema="schema.yaml")
    loaded, new = FairDPClassifier.load("model"), people(200, seed=1)
    assert loaded.decision_function(new).tolist() == by_hand.decision_function(new).tolist()
    assert loaded.predict(new).tolist() == by_hand.predict(new).tolist()
    run("predict", "model", "others.csv", "--out", "out.csv")
    assert pd.read_csv("out.csv")["score"].tolist() == pytest.approx(by_hand.decision_function(new).tolist(), abs=0)


def test_a_test_file_is_tested_on_and_all_of_the_table_is_used(run):
    out, err = run(*fit("--test", "others.csv", "--json", "--out", "model"))
    found = json.loads(out)
    assert (found["n_test"], found["n_train"] + found["n_certify"]) == (200, 600)
    measured = json.loads(run("evaluate", "model", "others.csv", "--json")[0])
    assert found["metrics"]["accuracy"] == measured["metrics"]["accuracy"]
    # Two columns only: some people are equal by chance, and that is said where only the data holder reads it.
    assert len(equal_lines(err)) == 1
    assert "equal" not in "".join(found["warnings"])


def test_rows_of_a_test_file_that_are_in_the_table_are_counted(run):
    seen, new = people().iloc[:7], people(5, seed=1).assign(age=[18.25, 19.25, 20.25, 21.25, 22.25])
    pd.concat([seen, new]).to_csv("mixed.csv", index=False)
    (line,) = equal_lines(run(*fit("--test", "mixed.csv"))[1])
    assert line.startswith("warning: 7 of the 12 records in 'mixed.csv' equal some of the training table")
    new.to_csv("new.csv", index=False)
    assert equal_lines(run(*fit("--test", "new.csv"))[1]) == []


def test_a_search_takes_a_test_file_too(run):
    grid = ("--grid", "clip_norm=.5,1", "--trials", 2, "--epsilon", 4, "--method", "fairdp", "--no-ledger", "--seed", 0)
    out, _ = run(
        "tune", "people.csv", "--schema", "schema.yaml", *grid, "--n-steps", 20, "--test", "others.csv", "--json"
    )
    assert json.loads(out)["n_test"] == 200


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--test", "others.csv", "--test-fraction", 0.1), "give --test or --test-fraction, not both"),
        (("--test", "missing.csv"), "missing.csv"),
        (("--test-fraction", -0.1), "--test-fraction must be in [0, 1), got -0.1"),
    ],
)
def test_what_cannot_be_tested_on_is_refused_in_one_line(run, options, line):
    assert line in run(*fit(*options), code=2)[1]


def test_a_named_data_set_brings_its_own_test_records(run):
    said = run("fit", "--dataset", "adult", "--test", "others.csv", code=2)[1]
    assert "--test goes with a table" in said


def test_sizes_that_are_declared_are_those_of_the_rows_that_are_used(declared):
    sizes = {"f": 100.0, "m": 200.0}
    assert training_sizes(declared, sizes) == {"f": 80.0, "m": 160.0}
    assert training_sizes(replace(declared, test_fraction=0.0), sizes) == sizes
    assert training_sizes(replace(declared, test=declared.table), sizes) == sizes


def test_no_row_depends_on_another_without_test_records(declared):
    records = load_records(replace(declared, test_fraction=0.0))
    assert (records.train.n_samples, records.test.n_samples) == (600, 0)
    assert records.test.group_names == records.train.group_names
    with pytest.raises(InputError, match="test_fraction"):
        load_records(replace(declared, test_fraction=np.nan))


def test_evaluating_on_rows_that_were_trained_on_says_so(run, folder):
    distinct = people().assign(age=lambda rows: rows["age"] + np.arange(600) / 1000)
    distinct.to_csv("people.csv", index=False)
    fitted = json.loads(run(*fit_in_ledger("--out", "model", "--json"))[0])
    # A column that the model does not take makes no other person of anybody.
    distinct.assign(exported="2026-11-01").to_csv("people.csv", index=False)
    (line,) = json.loads(run("evaluate", "model", "people.csv", "--json")[0])["warnings"]
    # Records that were tested on were not used to fit it.
    used = fitted["n_train"] + fitted["n_certify"]
    assert line.startswith(f"{used} of the records equal some that were used to fit the model; ")
    assert f"warning: {line}" in run("evaluate", "model", "people.csv")[1]
    distinct.assign(age=distinct["age"] + 0.0005).to_csv("new.csv", index=False)
    assert json.loads(run("evaluate", "model", "new.csv", "--json")[0])["warnings"] == []
    # Another model has taken the place: what its predecessor used says nothing about it.
    FairDPClassifier(epsilon=2.0, n_steps=20, method="fairdp", certify_fraction=0.0).fit(
        distinct, schema="schema.yaml"
    ).save("model", overwrite=True)
    assert "used to fit" not in run("evaluate", "model", "people.csv", "--json")[0]


@pytest.mark.parametrize("damage", ["UPDATE records SET hashes = x'00'", "DELETE FROM log WHERE number = 1"])
def test_a_damaged_ledger_does_not_stop_an_evaluation(run, folder, damage):
    run(*fit_in_ledger("--out", "model"))
    with Ledger(ledger_path()) as ledger:
        ledger._store.execute(damage)
    line, *_ = json.loads(run("evaluate", "model", "people.csv", "--json")[0])["warnings"]
    assert line.startswith("it is not known which records the model was trained on: ledger")
    ledger_path().unlink()
    assert "not known" not in run("evaluate", "model", "people.csv", "--json")[0]
    assert not ledger_path().exists()


@pytest.fixture
def numbered(run):
    run(*fit("--out", "model"))
    about = {"case": [f"{i:05d}" for i in range(60)], "since": "03.04.2024", "amount": "1.234", "number": range(60)}
    return people(60, seed=2).assign(**about)


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_ids_are_kept_as_they_are_in_the_file(run, numbered, out):
    numbered.to_csv("new.csv", index=False)
    ids = ["case", "since", "amount", "number"]
    # What would be a date and a number in this format is an id here, to the letter.
    written = ("--day-first", "--decimal", ",", "--thousands", ".")
    for options in ((), written):
        run("predict", "model", "new.csv", "--out", out, "--id", ",".join(ids), *options)
        found = pd.read_csv(out, dtype=str) if out.endswith("csv") else pd.read_parquet(out)
        assert found.columns[:4].tolist() == ids
        assert found[ids].to_numpy().tolist() == numbered[ids].astype(str).to_numpy().tolist()


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_ids_of_a_parquet_file_keep_their_types(run, numbered, out):
    typed = numbered.assign(since=[datetime.date(2024, 4, 3)] * 60, number=numbered["number"].astype("int64"))
    typed.to_parquet("new.parquet")
    ids = ["number", "since", "case"]
    run("predict", "model", "new.parquet", "--out", out, "--id", ",".join(ids))
    if out.endswith("csv"):
        first = pd.read_csv(out, dtype=str)[ids].iloc[7].tolist()
        assert first == ["7", "2024-04-03", "00007"]
    else:
        found = pd.read_parquet(out)
        assert pq.read_schema(out).field("number").type == pa.int64()
        assert found[ids].iloc[7].tolist() == [7, datetime.date(2024, 4, 3), "00007"]
