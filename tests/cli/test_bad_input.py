"""Bad input: exit code 2, one clear line, nothing written, never a traceback."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from cli_cases import SCHEMA, people
from fairdp import cli
from fairdp.cli import main

FIT = ("fit", "people.csv", "--label", "y", "--sensitive", "sex", "--out", "model", "--n-steps", "20")
DECLARED = (*FIT, "--schema", "schema.yaml")


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # So many that their columns are read whatever the noise.
    people(1200).to_csv("people.csv", index=False)
    Path("schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    Path("notes").mkdir()
    Path("notes/notes.txt").write_text("mine")
    Path("text").write_text("text")


def everything() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def check_refusal(run, arguments, words, code=2):
    before, folders = everything(), sorted(Path().rglob("*"))
    result = run(*arguments)
    assert result.code == code, result.err
    assert result.out == ""
    assert result.err.startswith("fairdp: ")
    assert result.err.endswith("\n")
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.err
    assert "Errno" not in result.err
    for word in words:
        assert word in result.err
    assert everything() == before
    assert sorted(Path().rglob("*")) == folders


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
    "label with three values": (three_labels, FIT, ["'y'", "3 values", "perhaps"]),
    "label with one value": (lambda t: t.assign(y="yes"), FIT, ["'y'", "1 value"]),
    "missing label": (changed(3, "y", None), FIT, ["'y'", "1 missing", "row 4"]),
    "missing group": (changed(3, "sex", None), FIT, ["'sex'", "1 missing", "row 4"]),
    "missing label column": (lambda t: t.drop(columns="y"), FIT, ["no column 'y'"]),
    "missing protected column": (lambda t: t.drop(columns="sex"), FIT, ["no column 'sex'"]),
    "missing declared column": (lambda t: t.drop(columns="job"), DECLARED, ["no column 'job'"]),
    "unknown group": (changed(3, "sex", "x"), DECLARED, ["'sex'", "'x'"]),
    "declared third label": (changed(3, "y", "perhaps"), DECLARED, ["'y'", "'perhaps'"]),
    "group below a batch": (
        changed(slice(4, None), "sex", "m"),
        # With a seed: by chance, none of them might be left to train on.
        (*DECLARED, "--group-sizes", "public", "--seed", "0"),
        ["group 'f'", "records"],
    ),
    "no inputs": (lambda t: t[["sex", "y"]], FIT, ["input"]),
    "no rows": (lambda t: t[:0], FIT, ["people.csv", "no rows"]),
}


@pytest.mark.parametrize(("change", "arguments", "words"), TABLES.values(), ids=TABLES)
def test_tables_that_cannot_be_used(run, change, arguments, words):
    change(people(400)).to_csv("people.csv", index=False)
    check_refusal(run, arguments, words)


def test_a_declared_group_without_a_record(run):
    groups = [{"name": "sex", "groups": ["f", "m", "x"]}]
    Path("schema.yaml").write_text(yaml.safe_dump({**SCHEMA, "sensitive": groups}))
    check_refusal(run, (*DECLARED, "--group-sizes", "public"), ["3 groups", "'x'", "no training record"])


def test_a_small_group_is_trained_where_its_size_is_private(run):
    """A refusal would tell how many there are."""
    groups = [{"name": "sex", "groups": ["f", "m", "x"]}]
    Path("schema.yaml").write_text(yaml.safe_dump({**SCHEMA, "sensitive": groups}))
    assert run(*DECLARED).code == 0


def test_a_broken_line(run):
    with open("people.csv", "a") as file:
        file.write("40,clerk,f,yes,no\n")
    check_refusal(run, FIT, ["people.csv", "line 1202", "5 fields", "4"])


ARGUMENTS = {
    "missing file": (("fit", "none.csv", *FIT[2:]), ["none.csv", "does not exist"]),
    "missing schema": ((*FIT, "--schema", "none.yaml"), ["none.yaml", "does not exist"]),
    "broken schema": ((*FIT, "--schema", "people.csv"), ["schema", "people.csv"]),
    "nothing to train on": (("fit", "--epsilon", 1), ["TABLE --label COL", "--dataset adult"]),
    "wrong data set": (("fit", "--dataset", "adlt", "--out", "model"), ["'adlt'", "adult"]),
    "table and data set": ((*FIT, "--dataset", "adult"), ["TABLE", "--dataset", "not both"]),
    "no label": (("fit", "people.csv", "--sensitive", "sex"), ["--label"]),
    "no protected column": (("fit", "people.csv", "--label", "y"), ["--sensitive"]),
    "label is protected": (("fit", "people.csv", "--label", "y", "--sensitive", "y"), ["'y'", "twice"]),
    "other positive": ((*FIT, "--positive", "maybe"), ["--positive must", "'maybe'"]),
    "label with a data set": (("fit", "--dataset", "synthetic", "--label", "y"), ["--label"]),
    "schema with a data set": (("fit", "--dataset", "synthetic", "--schema", "schema.yaml"), ["--schema"]),
    "epsilon zero": ((*FIT, "--epsilon", 0), ["--epsilon must", "0.0"]),
    "epsilon negative": ((*FIT, "--epsilon", -1), ["epsilon", "-1.0"]),
    "epsilon is no number": ((*FIT, "--epsilon", "one"), ["--epsilon", "'one'"]),
    "delta": ((*FIT, "--delta", 0.01), ["delta", "1/n", "0.01"]),
    "delta of one": ((*FIT, "--delta", 1), ["delta", "(0, 1)"]),
    "noise, epsilon and steps": (
        (*FIT, "--noise-multiplier", 2, "--epsilon", 1),
        ["--noise-multiplier=2.0", "--epsilon=1", "--n-steps=20", "leave out one of the three"],
    ),
    "noise alone": (("fit", "--dataset", "synthetic", "--noise-multiplier", 2), ["--n-steps", "or --epsilon"]),
    "noise of none": ((*FIT, "--noise-multiplier", 0), ["--noise-multiplier must be positive", "0.0"]),
    "noise without steps": (
        (*FIT, "--noise-multiplier", 2, "--method", "fairfm"),
        ["--noise-multiplier=2.0", "--method='fairfm' takes no steps", "leave it out"],
    ),
    "noise that is not private": (
        (*FIT, "--noise-multiplier", 2, "--method", "clean"),
        ["--noise-multiplier=2.0", "--method='clean' adds no noise", "leave it out"],
    ),
    "noise of a search": (
        ("tune", *FIT[1:], "--grid", "clip_norm=1,2", "--noise-multiplier", 2),
        ["--noise-multiplier"],
    ),
    "accountant": ((*FIT, "--accountant", "prv"), ["--accountant", "'prv'", "pld", "rdp"]),
    "sample rate": ((*FIT, "--sample-rate", 12.8), ["--sample-rate must", "12.8", "batch size"]),
    "steps": ((*FIT, "--n-steps", 0), ["--n-steps must", "0"]),
    "method": ((*FIT, "--method", "fair"), ["--method must", "'fair'", "fairdp"]),
    "model": ((*FIT, "--model", "tree"), ["model", "'tree'", "mlp"]),
    "convolutions on a table": ((*FIT, "--model", "cnn"), ["--model='cnn'", "image"]),
    "hidden": ((*FIT, "--hidden", "a,b"), ["--hidden", "'a,b'"]),
    "learning rate": ((*FIT, "--learning-rate", "fast"), ["--learning-rate", "'fast'"]),
    "test fraction": ((*FIT, "--test-fraction", 2), ["--test-fraction must", "2.0"]),
    "no clip norm": ((*FIT, "--clip-norm", "inf"), ["--clip-norm must", "inf"]),
    "certify fraction": ((*FIT, "--certify-fraction", 1), ["--certify-fraction must", "1.0"]),
    "confidence": ((*FIT, "--confidence", 95), ["--confidence must", "95.0"]),
    "metric to certify": (
        (*FIT, "--certify-metrics", "fairness"),
        ["--certify-metrics", "'fairness'", "equal_opportunity"],
    ),
    "required tau": ((*FIT, "--require-tau", 2), ["--require-tau must", "2.0"]),
    "required and target tau": (
        (*FIT, "--require-tau", 0.1, "--target-tau", 0.1),
        ["--target-tau=0.1 dilutes", "leave out --require-tau."],
    ),
    "looks for nothing": ((*FIT, "--looks", 3), ["--looks=3", "--require-tau"]),
    "smoothing": ((*FIT, "--predictor", "smoothed", "--smoothing", 0), ["smoothing", "0.0"]),
    "private metrics of no certificate": (
        (*FIT, "--private-metrics", "--certify-fraction", 0),
        ["--private-metrics", "--certify-fraction=0"],
    ),
    "seed": ((*FIT, "--seed", -1), ["--seed", "-1"]),
    "unknown option": ((*FIT, "--fast"), ["--fast", "fairdp fit --help"]),
    "unknown command": (("fot",), ["'fot'"]),
    "resume without checkpoint": ((*FIT, "--resume"), ["--checkpoint"]),
    "resume from nothing": ((*FIT, "--resume", "--checkpoint", "none"), ["'none'", "does not exist"]),
    "resume from a text": ((*FIT, "--resume", "--checkpoint", "text"), ["'text'", "cannot be read"]),
    "checkpoint nowhere": ((*FIT, "--checkpoint", "none/run.ckpt"), ["checkpoint", "none/run.ckpt"]),
    "checkpoint is a folder": ((*FIT, "--checkpoint", "notes"), ["checkpoint", "notes"]),
    "checkpoint is another file": ((*FIT, "--checkpoint", "text"), ["checkpoint", "'text'"]),
    "checkpoint is the table": ((*FIT, "--checkpoint", "people.csv"), ["checkpoint", "'people.csv'"]),
    "output is a file": ((*FIT, "--out", "text"), ["'text'", "is a file"]),
    "output below a file": ((*FIT, "--out", "text/model"), ["'text/model'", "cannot be written"]),
    "output holds other things": ((*FIT, "--out", "notes"), ["'notes'", "holds other files"]),
    "predict from no model": (("predict", "notes", "people.csv", "--out", "o.csv"), ["'notes'", "not a saved model"]),
    "predict without output": (("predict", "notes", "people.csv"), ["--out"]),
    "evaluate on nothing": (("evaluate", "notes"), ["TABLE", "--dataset"]),
    "plan without sizes": (("plan", "--epsilon", 1), ["--group-sizes"]),
    "plan with words": (("plan", "--group-sizes", "many"), ["--group-sizes", "'many'"]),
    "plan for nobody": (("plan", "--group-sizes", "0,5"), ["--group-sizes must", "0"]),
    "plan with nobody to train on": (
        ("plan", "--group-sizes", "200,400", "--certify-fraction", 1),
        ["--certify-fraction must", "1.0"],
    ),
    "get of an unknown set": (("data", "get", "adlt"), ["'adlt'", "adult"]),
    "get of the built-in set": (("data", "get", "synthetic"), ["synthetic", "built in"]),
}


@pytest.mark.parametrize(("arguments", "words"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_cannot_be_used(run, arguments, words):
    check_refusal(run, arguments, words)


def test_the_same_call_without_a_mistake_writes_a_model(run):
    """The twin of all the refusals above."""
    result = run(*FIT)
    assert result.code == 0
    assert {"model", "model.register"} <= set(os.listdir())
    with pytest.raises(AssertionError):
        check_refusal(run, (*FIT, "--out", "other"), [])


@pytest.fixture
def model(run):
    assert run(*DECLARED, "--certify-fraction", 0).code == 0
    return "model"


def test_a_model_refuses_tables_it_cannot_read(run, model):
    people().drop(columns="age").to_csv("short.csv", index=False)
    people().assign(age="old").to_csv("old.csv", index=False)
    people().drop(columns="y").to_csv("unlabelled.csv", index=False)
    predict = ("predict", model)
    check_refusal(run, (*predict, "short.csv", "--out", "o.csv"), ["no column 'age'"])
    check_refusal(run, (*predict, "old.csv", "--out", "o.csv"), ["'age'", "600"])
    check_refusal(run, (*predict, "none.csv", "--out", "o.csv"), ["none.csv", "does not exist"])
    check_refusal(run, (*predict, "people.csv", "--out", "o.txt"), ["--out", "o.txt", ".csv"])
    check_refusal(run, (*predict, "people.csv", "--out", "none/o.csv"), ["none/o.csv", "cannot be written"])
    check_refusal(run, (*predict, "people.csv", "--out", "people.csv"), ["--out", "people.csv"])
    check_refusal(run, ("evaluate", model, "unlabelled.csv"), ["no column 'y'"])
    check_refusal(run, ("evaluate", model, "people.csv", "--confidence", 95), ["confidence", "95"])


def test_a_network_has_no_reasons_and_decides_nothing_when_asked_for_them(run):
    assert run(*DECLARED, "--certify-fraction", 0, "--model", "mlp").code == 0
    asked = ("predict", "model", "people.csv", "--out", "o.csv", "--reasons", 4)
    check_refusal(run, asked, ["--reasons=4", "networks", "have no reasons", "leave it out"])
    check_refusal(run, (*asked[:-1], 0), ["--reasons", "0"])
    assert not Path("o.csv").exists()
    assert run(*asked[:-2]).code == 0


def test_a_changed_model_is_refused_by_every_command(run, model):
    with open("model/privacy.json", "a") as file:
        file.write(" ")
    words = ["'model'", "privacy.json", "SHA256SUMS"]
    check_refusal(run, ("predict", model, "people.csv", "--out", "o.csv"), words)
    check_refusal(run, ("evaluate", model, "people.csv"), words)


def test_what_goes_wrong_with_a_model_that_is_not_verified_is_no_mistake_of_the_program(run, model, monkeypatch):
    """The same of a model that is verified is one."""
    from fairdp.commands import predict as predicting
    from forgeries import forge

    def broken(*given, **options):
        raise ZeroDivisionError("float division")

    monkeypatch.setattr(predicting, "run_predict", broken)
    predict = ("predict", model, "people.csv", "--out", "o.csv")
    check_refusal(run, predict, ["internal error", "ZeroDivisionError"], code=cli.INTERNAL)
    forge(Path(model), lambda files: files.privacy.update(epsilon=0.5))
    check_refusal(run, predict, ["'model' is damaged", "epsilon"])


def test_a_model_is_not_measured_on_data_of_another_kind(run):
    """Ten inputs each, but not the same ten: the numbers would mean nothing."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((400, 10)), columns=list("abcdefghij"))
    frame.assign(sex=people(400)["sex"], y=people(400)["y"]).to_csv("people.csv", index=False)
    columns = [{"name": name, "type": "numeric", "low": 0, "high": 1} for name in "abcdefghij"]
    Path("schema.yaml").write_text(yaml.safe_dump({**SCHEMA, "columns": columns}))
    assert run(*DECLARED, "--certify-fraction", 0).code == 0
    check_refusal(run, ("evaluate", "model", "--dataset", "synthetic"), ["model", "synthetic"])


@pytest.mark.parametrize("mistake", [ZeroDivisionError, ValueError])
def test_a_mistake_in_the_program_is_no_bad_input(run, monkeypatch, mistake):
    """Exit code 3 and one line that asks for a report; an error of the library is not one of the user's."""

    def broken(task):
        raise mistake("float division\nby zero")

    from fairdp.commands import fit

    monkeypatch.setattr(fit, "run_fit", broken)
    check_refusal(run, FIT, ["internal error", mistake.__name__, "FAIRDP_DEBUG"], code=cli.INTERNAL)
    monkeypatch.setenv("FAIRDP_DEBUG", "1")
    with pytest.raises(mistake):
        main(list(FIT))
