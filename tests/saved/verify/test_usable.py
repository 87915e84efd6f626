"""A model that is verified can be used: it is loaded, its numbers are finite, and it decides about rows."""

import json
import math
import shutil

import pytest
import torch
import yaml
from safetensors.torch import load, save

from cli_cases import SCHEMA, people
from fairdp import FairDPClassifier
from fairdp.data.schema import TableSchema
from fairdp.errors import InputError
from fairdp.saved.verify import probe_rows
from faults.trials import run_command
from forgeries import failed, put, sum_up, tie

FIT = ("fit", "people.csv", "--schema", "schema.yaml", "--no-ledger", "--epsilon", "5", "--n-steps", "2")
METHODS = {
    "frontier": (),
    "postprocessed": ("--method", "dp_postprocess"),
    "mlp": ("--method", "fairdp", "--n-members", "2"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        people(200).to_csv("people.csv", index=False)
        (place / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
        for name, options in METHODS.items():
            assert run_command(*FIT, "--certify-fraction", "0", "--out", name, *options)[0] == 0
    return place


@pytest.fixture
def copy(models, tmp_path):
    def copied(name):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        return shutil.copytree(models / name, tmp_path / name)

    return copied


def reseal(folder):
    tie(folder)
    sum_up(folder)


def with_tensors(folder, change):
    tensors = load((folder / "model.safetensors").read_bytes())
    change(tensors)
    (folder / "model.safetensors").write_bytes(save(tensors))
    reseal(folder)


def with_model(folder, path, value):
    record = json.loads((folder / "model.json").read_bytes())
    put(record, path, value)
    (folder / "model.json").write_text(json.dumps(record))
    reseal(folder)


def refused(folder, check="model"):
    """Verification fails, and loading says so in one line."""
    assert check in failed(folder)
    with pytest.raises(InputError, match=r"^[^\n]+$"):
        FairDPClassifier.load(folder)


TENSORS = {
    "NaN": lambda t: t["params"].index_fill_(0, torch.tensor([0]), math.nan),
    "infinity": lambda t: t["params"].index_fill_(0, torch.tensor([3]), math.inf),
    "one more": lambda t: t.update(params=torch.cat([t["params"], torch.zeros(1)])),
    "one less": lambda t: t.update(params=t["params"][:-1].clone()),
    "rows": lambda t: t.update(params=t["params"][None].clone()),
    "double precision": lambda t: t.update(params=t["params"].double()),
    "none": lambda t: t.pop("params"),
    "a tensor too many": lambda t: t.update({"extractor.more": torch.zeros(1)}),
    "cells too many": lambda t: t.update(cell_values=torch.zeros(7, dtype=torch.float64)),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("change", TENSORS.values(), ids=TENSORS)
def test_tensors_that_are_not_those_of_the_model(copy, name, change):
    folder = copy(name)
    with_tensors(folder, change)
    refused(folder)


RECORDS = {
    "another shape": (("shape",), [4]),
    "a huge shape": (("shape",), [10**12]),
    "no shape": (("shape",), []),
    "another number of heads": (("heads",), [7, 1]),
    "huge layers": (("model", "hidden"), [10**9, 10**9]),
    "many layers": (("model", "hidden"), [1] * 5000),
    "another kind": (("model", "kind"), "cnn"),
    "other groups": (("groups",), ["f", "x"]),
    "other labels": (("classes",), ["no", "perhaps"]),
    "three labels": (("classes",), ["no", "yes", "x"]),
    "a method that is none": (("parameters", "method"), ["fairdp"]),
    "a parameter too many": (("parameters", "more"), 1),
    "a schema of another width": (("feature_schema", "columns"), SCHEMA["columns"][:1]),
    "a schema that is none": (("feature_schema", "columns", 0, "type"), {}),
    "a key that is none": (("predictor", "key"), "x"),
    "a rule of chances that are none": (("predictor", "flips"), [[2.0, 1.0], [0.0, 1.0]]),
    "a rule of another number of groups": (("predictor", "flips"), [[0.0, 1.0]]),
    "numbers at no place": (("model", "numeric"), [99]),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("path", "value"), RECORDS.values(), ids=RECORDS)
def test_a_description_that_is_not_that_of_the_model(copy, name, path, value):
    folder = copy(name)
    with_model(folder, path, value)
    if name == "frontier" and path[-1] == "hidden":
        # It has no layers, so that it can be loaded; but its settings lead to others.
        assert failed(folder) == {"model"}
    else:
        # Parameters are read before anything is built with them.
        refused(folder, "records" if path[-1] == "more" else "model")


@pytest.mark.parametrize("name", METHODS)
def test_the_same_files_written_again_are_verified_and_predict(copy, name, models, monkeypatch):
    """Negative control of all the refusals above."""
    folder = copy(name)
    with_tensors(folder, lambda tensors: None)
    with_model(folder, ("classes",), ["no", "yes"])
    assert failed(folder) == set()
    monkeypatch.chdir(models)
    assert run_command("predict", folder, "people.csv", "--out", folder.parent / "o.csv") == (0, "")


def test_probes_are_at_the_ends_of_every_kind_of_column():
    columns = [
        {"name": "n", "type": "numeric", "low": 1, "high": 2, "missing": "indicator"},
        {"name": "c", "type": "categorical", "categories": ["a", "undeclared"], "other": "a"},
        {"name": "b", "type": "binned", "edges": [1, 2]},
        {"name": "o", "type": "other_than", "value": "x"},
    ]
    schema = TableSchema.from_dict({**SCHEMA, "columns": columns})
    rows = probe_rows(schema)
    assert schema.encode(rows).max(0).tolist() == [1.0] * schema.n_features
    assert schema.encode_groups(rows)[0].tolist() == [0, 1, 0]
