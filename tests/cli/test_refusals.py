"""Bad input: exit code 2, one line that stands on the golden page `refusals`, nothing written, never a traceback."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from cli_cases import SCHEMA, people
from fairdp import cli
from fairdp.cli import main
from forgeries import forge
from pool import SHORT

FIT = ("fit", "people.csv", "--label", "y", "--sensitive", "sex", "--out", "model", "--n-steps", "20")
DECLARED = (*FIT, "--schema", "schema.yaml")
UNCERTIFIED = (*SHORT, "--certify-fraction", 0)


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # So many that their columns are read whatever the noise.
    people(1200).to_csv("people.csv", index=False)
    Path("schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    groups = [{"name": "sex", "groups": ["f", "m", "x"]}]
    Path("three.yaml").write_text(yaml.safe_dump({**SCHEMA, "sensitive": groups}))
    Path("notes").mkdir()
    Path("notes/notes.txt").write_text("mine")
    Path("text").write_text("text")


def changed(row, column, value):
    def change(frame):
        frame = frame.astype(object)
        frame.loc[row, column] = value
        return frame

    return change


def three_labels(frame):
    """Of which so many have each that all three are read."""
    many = pd.concat([frame] * 5)
    return many.assign(y=np.resize(["yes", "no", "perhaps"], len(many)))


TABLES = {
    "label with three values": (three_labels, FIT),
    "label with one value": (lambda t: t.assign(y="yes"), FIT),
    "missing label": (changed(3, "y", None), FIT),
    "missing group": (changed(3, "sex", None), FIT),
    "missing label column": (lambda t: t.drop(columns="y"), FIT),
    "missing protected column": (lambda t: t.drop(columns="sex"), FIT),
    "missing declared column": (lambda t: t.drop(columns="job"), DECLARED),
    "unknown group": (changed(3, "sex", "x"), DECLARED),
    "declared third label": (changed(3, "y", "perhaps"), DECLARED),
    # With a seed: by chance, none of them might be left to train on.
    "group below a batch": (changed(slice(4, None), "sex", "m"), (*DECLARED, "--group-sizes", "public", "--seed", "0")),
    "no inputs": (lambda t: t[["sex", "y"]], FIT),
    "no rows": (lambda t: t[:0], FIT),
    "declared group without a record": (lambda t: t, (*DECLARED[:-1], "three.yaml", "--group-sizes", "public")),
    "broken line": (None, FIT),
}


@pytest.mark.parametrize(("change", "arguments"), TABLES.values(), ids=TABLES)
def test_tables_that_cannot_be_used(refused, change, arguments):
    if change is None:
        with open("people.csv", "a") as file:
            file.write("40,clerk,f,yes,no\n")
    else:
        change(people(400)).to_csv("people.csv", index=False)
    refused(*arguments)


def test_a_small_group_is_trained_where_its_size_is_private(run):
    """A refusal would tell how many there are."""
    assert run(*DECLARED[:-1], "three.yaml", "--certify-fraction", 0).code == 0


ARGUMENTS = {
    "missing file": ("fit", "none.csv", *FIT[2:]),
    "missing schema": (*FIT, "--schema", "none.yaml"),
    "broken schema": (*FIT, "--schema", "people.csv"),
    "nothing to train on": ("fit", "--epsilon", 1),
    "wrong data set": ("fit", "--dataset", "adlt", "--out", "model"),
    "table and data set": (*FIT, "--dataset", "adult"),
    "no label": ("fit", "people.csv", "--sensitive", "sex"),
    "no protected column": ("fit", "people.csv", "--label", "y"),
    "label is protected": ("fit", "people.csv", "--label", "y", "--sensitive", "y"),
    "other positive": (*FIT, "--positive", "maybe"),
    "label with a data set": ("fit", "--dataset", "synthetic", "--label", "y"),
    "schema with a data set": ("fit", "--dataset", "synthetic", "--schema", "schema.yaml"),
    "epsilon zero": (*FIT, "--epsilon", 0),
    "epsilon negative": (*FIT, "--epsilon", -1),
    "epsilon is no number": (*FIT, "--epsilon", "one"),
    "delta": (*FIT, "--delta", 0.01, "--seed", 0),
    "delta of one": (*FIT, "--delta", 1),
    "noise, epsilon and steps": (*FIT, "--noise-multiplier", 2, "--epsilon", 1),
    "noise alone": ("fit", "--dataset", "synthetic", "--noise-multiplier", 2),
    "noise of none": (*FIT, "--noise-multiplier", 0),
    "noise without steps": (*FIT, "--noise-multiplier", 2, "--method", "fairfm"),
    "noise that is not private": (*FIT, "--noise-multiplier", 2, "--method", "clean"),
    "noise of a search": ("tune", *FIT[1:], "--grid", "clip_norm=1,2", "--noise-multiplier", 2),
    "accountant": (*FIT, "--accountant", "prv"),
    "sample rate": (*FIT, "--sample-rate", 12.8),
    "steps": (*FIT, "--n-steps", 0),
    "method": (*FIT, "--method", "fair"),
    "model": (*FIT, "--model", "tree"),
    # Declared: how many columns the noise leaves of an undeclared table is a matter of chance.
    "convolutions on a table": (*DECLARED, "--model", "cnn"),
    "hidden": (*FIT, "--hidden", "a,b"),
    "learning rate": (*FIT, "--learning-rate", "fast"),
    "test fraction": (*FIT, "--test-fraction", 2),
    "no clip norm": (*FIT, "--clip-norm", "inf"),
    "certify fraction": (*FIT, "--certify-fraction", 1),
    "confidence": (*FIT, "--confidence", 95),
    "metric to certify": (*FIT, "--certify-metrics", "fairness"),
    "required tau": (*FIT, "--require-tau", 2),
    "looks for nothing": (*FIT, "--looks", 3),
    "smoothing": (*FIT, "--predictor", "smoothed", "--smoothing", 0),
    "private metrics of no certificate": (*FIT, "--private-metrics", "--certify-fraction", 0),
    "seed": (*FIT, "--seed", -1),
    "unknown option": (*FIT, "--fast"),
    "unknown command": ("fot",),
    "resume without checkpoint": (*FIT, "--resume"),
    "resume from nothing": (*FIT, "--resume", "--checkpoint", "none"),
    "resume from a text": (*FIT, "--resume", "--checkpoint", "text"),
    "checkpoint nowhere": (*FIT, "--checkpoint", "none/run.ckpt"),
    "checkpoint is a folder": (*FIT, "--checkpoint", "notes"),
    "checkpoint is another file": (*FIT, "--checkpoint", "text"),
    "checkpoint is the table": (*FIT, "--checkpoint", "people.csv"),
    "output is a file": (*FIT, "--out", "text"),
    "output below a file": (*FIT, "--out", "text/model"),
    "output holds other things": (*FIT, "--out", "notes"),
    "predict from no model": ("predict", "notes", "people.csv", "--out", "o.csv"),
    "predict without output": ("predict", "notes", "people.csv"),
    "evaluate on nothing": ("evaluate", "notes"),
    "plan without sizes": ("plan", "--epsilon", 1),
    "plan with words": ("plan", "--group-sizes", "many"),
    "plan for nobody": ("plan", "--group-sizes", "0,5"),
    "plan with nobody to train on": ("plan", "--group-sizes", "200,400", "--certify-fraction", 1),
    "get of an unknown set": ("data", "get", "adlt"),
    "get of the built-in set": ("data", "get", "synthetic"),
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_cannot_be_used(refused, arguments):
    refused(*arguments)


def test_the_same_call_without_a_mistake_writes_a_model(run, refused):
    """Negative control of all the refusals above."""
    result = run(*FIT, "--certify-fraction", 0)
    assert result.code == 0
    assert "model" in os.listdir()
    with pytest.raises(AssertionError):
        refused(*FIT, "--certify-fraction", 0, "--out", "other")


@pytest.fixture
def model(taken):
    taken(*UNCERTIFIED)
    return "model"


def test_a_model_refuses_tables_it_cannot_read(refused, model):
    people().drop(columns="age").to_csv("short.csv", index=False)
    people().assign(age="old").to_csv("old.csv", index=False)
    people().drop(columns="y").to_csv("unlabelled.csv", index=False)
    for table in ("short.csv", "old.csv", "none.csv"):
        refused("predict", model, table, "--out", "o.csv")
    for out in ("o.txt", "none/o.csv", "people.csv"):
        refused("predict", model, "people.csv", "--out", out)
    refused("evaluate", model, "unlabelled.csv")
    refused("evaluate", model, "people.csv", "--confidence", 95)


def test_a_network_has_no_reasons_and_decides_nothing_when_asked_for_them(run, refused, taken):
    taken(*UNCERTIFIED, "--model", "mlp")
    asked = ("predict", "model", "people.csv", "--out", "o.csv", "--reasons")
    refused(*asked, 4)
    refused(*asked, 0)
    assert not Path("o.csv").exists()
    assert run(*asked[:-1]).code == 0


def test_a_changed_model_is_refused_by_every_command(refused, model):
    with open("model/privacy.json", "a") as file:
        file.write(" ")
    refused("predict", model, "people.csv", "--out", "o.csv")
    refused("evaluate", model, "people.csv")


def test_what_goes_wrong_with_a_model_that_is_not_verified_is_no_mistake_of_the_program(refused, model, monkeypatch):
    """The same of a model that is verified is one."""

    def broken(*given, **options):
        raise ZeroDivisionError("float division")

    monkeypatch.setattr("fairdp.records.predict_table", broken)
    predict = ("predict", model, "people.csv", "--out", "o.csv")
    refused(*predict, code=cli.INTERNAL)
    forge(Path(model), lambda files: files.privacy.update(epsilon=0.5))
    refused(*predict)


def test_a_model_is_not_measured_on_data_of_another_kind(refused, taken):
    """Ten inputs each, but not the same ten: the numbers would mean nothing."""
    frame = pd.DataFrame(np.random.default_rng(0).random((400, 10)), columns=list("abcdefghij"))
    columns = [{"name": name, "type": "numeric", "low": 0, "high": 1} for name in frame]
    table = frame.assign(sex=people(400)["sex"], y=people(400)["y"])
    taken(*UNCERTIFIED, table=table, schema={**SCHEMA, "columns": columns})
    refused("evaluate", "model", "--dataset", "synthetic")


@pytest.mark.parametrize("mistake", [ZeroDivisionError, ValueError])
def test_a_mistake_in_the_program_is_no_bad_input(refused, monkeypatch, mistake):
    """Exit code 3 and one line that asks for a report; an error of the library is not one of the user's."""

    def broken(*given, **options):
        raise mistake("float division\nby zero")

    monkeypatch.setattr("fairdp.fitting.fit_source", broken)
    refused(*FIT, code=cli.INTERNAL)
    monkeypatch.setenv("FAIRDP_DEBUG", "1")
    with pytest.raises(mistake):
        main(list(FIT))
