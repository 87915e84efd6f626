"""Saved models: five files, no pickle, every changed byte noticed."""

import hashlib
import json
import math
import os
import pickletools
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.certify.certificate import HeldOutRecords, NotCertified, Origin, certify
from fairdp.config import ModelConfig
from fairdp.errors import SavedModelError
from fairdp.networks.model import ParameterSmoothing, tensor_bytes
from fairdp.parameters import NoCertificate, Parameters
from fairdp.run.fit import Fitted
from fairdp.run.plan import build_info, plan_run
from fairdp.run.predictor import Predictor
from fairdp.saved import folder as artifacts
from fairdp.saved.folder import SCHEMA_VERSION, certificate_record, read_model, write_model

FILES = ("SHA256SUMS", "certificate.json", "model.json", "model.safetensors", "privacy.json")
CERTIFIED_FILES = ("model.json", "model.safetensors", "privacy.json")
SIZES = {"f": 100.0, "größer": 300.0}
_, _, PRIVACY = plan_run(
    Parameters(method="clean", sample_rate=0.1, n_steps=5, clip_norm=1.0, learning_rate=1.0),
    kind="logistic",
    budget=PrivacyBudget(epsilon=1.0, delta=1e-5),
    sizes=SIZES,
    groups=tuple(SIZES),
    certify_fraction=0.0,
)
SAVED = Fitted(
    parameters=Parameters(epsilon=1.0),
    classes=(0, 1),
    groups=tuple(SIZES),
    feature_schema=None,
    feature_names=None,
    predictor=Predictor(flips=((0.0, 1.0), (0.5, 1.0)), key="00"),
    notes={},
    made=build_info(),
    model=ModelConfig(kind="logistic"),
    shape=(2,),
    heads=(2, 3),
    smoothing=ParameterSmoothing(deviation=0.1, n_draws=3, seed=2**63 + 1),
    frontier=None,
    target=None,
    tensors={"params": torch.arange(6, dtype=torch.float32)},
    privacy=PRIVACY,
    certificate=NotCertified(NoCertificate.NO_RECORDS_HELD_OUT),
)
OTHER = replace(SAVED, parameters=Parameters(epsilon=2.0))


@pytest.fixture
def folder(tmp_path):
    write_model(tmp_path / "model", SAVED)
    return tmp_path / "model"


def test_what_is_written_is_read(folder):
    back = read_model(folder)
    assert torch.equal(back.tensors["params"], SAVED.tensors["params"])
    assert (back.model, back.privacy, back.certificate) == (SAVED.model, SAVED.privacy, SAVED.certificate)
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in CERTIFIED_FILES}
    written = json.loads((folder / "certificate.json").read_bytes())
    assert written == {**certificate_record(SAVED.certificate), "files": hashes}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("model.json", lambda record: record.pop("classes")),
        ("model.json", lambda record: record.update(another=1)),
        ("model.json", lambda record: record.update(shape="2")),
        ("privacy.json", lambda record: record.update(n_steps=2.5)),
        ("privacy.json", lambda record: record["mechanisms"].update(f={})),
        ("certificate.json", lambda record: record.update(reason="of rain")),
        ("certificate.json", lambda record: record.update(certified=1)),
    ],
    ids=["missing", "unknown", "no list", "half a step", "no mechanism", "no such reason", "a number for a truth"],
)
def test_a_record_that_is_none_is_refused_in_one_line_even_with_right_sums(folder, name, change):
    record = json.loads((folder / name).read_bytes())
    change(record)
    (folder / name).write_text(json.dumps(record))
    contents = {own: (folder / own).read_bytes() for own in FILES if own != "SHA256SUMS"}
    (folder / "SHA256SUMS").write_bytes(artifacts.checksums(contents))
    with pytest.raises(SavedModelError, match=r"^saved model '.*model' is damaged: [^\n]*\.$"):
        read_model(folder)


def test_parameters_that_are_not_the_certified_ones_are_not_written(tmp_path):
    counts = np.array([[[40, 10], [10, 40]], [[80, 20], [20, 80]]])
    made = certify(counts, epsilon=1.0, group_names=tuple(SIZES), expected_sizes=(100.0, 200.0))
    about = Origin(
        model_sha256=hashlib.sha256(tensor_bytes(SAVED.tensors)).hexdigest(),
        predictor=SAVED.predictor.described(),
        smoothing=None,
        records=HeldOutRecords(fraction=0.2, look=1),
        noise_seeded=False,
    )
    right = replace(made, about=about)
    write_model(tmp_path / "right", replace(SAVED, certificate=right))
    assert read_model(tmp_path / "right").certificate == right
    moved = {"params": SAVED.tensors["params"] + 1e-3}
    with pytest.raises(ValueError, match=r"^the parameters were changed after they were certified; fit the model"):
        write_model(tmp_path / "moved", replace(SAVED, certificate=right, tensors=moved))
    assert os.listdir(tmp_path) == ["right"]


def test_a_model_is_five_files_and_nothing_beside_them(folder):
    assert sorted(os.listdir(folder)) == sorted(FILES)
    assert os.listdir(folder.parent) == ["model"]


def is_pickle(content: bytes) -> bool:
    """True if a reader of pickles would get to the end: protocol 2 and later start with 0x80."""
    try:
        return content[:1] == b"\x80" or bool(list(pickletools.genops(content)))
    except Exception:
        return False


@pytest.mark.parametrize("name", FILES)
def test_no_file_is_a_pickle_or_an_archive_of_one(folder, name):
    content = (folder / name).read_bytes()
    assert not is_pickle(content)
    assert not content.startswith(b"PK")


def test_that_check_knows_a_pickle(tmp_path):
    import pickle

    assert is_pickle(pickle.dumps({"params": [1.0]}))
    assert is_pickle(pickle.dumps({"params": [1.0]}, protocol=0))
    torch.save({"params": torch.zeros(2)}, tmp_path / "model.pt")
    assert (tmp_path / "model.pt").read_bytes().startswith(b"PK")


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum program")
def test_the_sums_are_accepted_by_the_sha256sum_program(folder):
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count(": OK") == 4
    flip_byte(folder / "privacy.json", 5)
    assert subprocess.run(command, cwd=folder, capture_output=True).returncode == 1


def flip_byte(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("name", [name for name in FILES if name != "SHA256SUMS"])
@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_one_changed_byte_is_refused_with_the_name_of_the_file(folder, name, where):
    flip_byte(folder / name, round(where * (os.path.getsize(folder / name) - 1)))
    with pytest.raises(ValueError, match=rf"model' was changed: {name} does not match SHA256SUMS; restore the file\.$"):
        read_model(folder)


def test_a_changed_byte_anywhere_in_the_sums_is_refused(folder):
    good = (folder / "SHA256SUMS").read_bytes()
    for position in range(0, len(good), 7):
        flip_byte(folder / "SHA256SUMS", position)
        with pytest.raises(ValueError, match="SHA256SUMS"):
            read_model(folder)
        (folder / "SHA256SUMS").write_bytes(good)
    assert read_model(folder)


@pytest.mark.parametrize("name", [name for name in FILES if name != "model.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ValueError, match=rf"is incomplete: {name} is missing; copy it whole\.$"):
        read_model(folder)


@pytest.mark.parametrize("kind", ["empty folder", "missing folder", "file"])
def test_what_is_no_model_is_refused(tmp_path, kind):
    path = tmp_path / "thing"
    if kind == "empty folder":
        path.mkdir()
    if kind == "file":
        path.write_text("text")
    with pytest.raises(ValueError, match=r"thing' is not a saved model: it has no model\.json\.$"):
        read_model(path)


@pytest.mark.parametrize("version", [0, 1, SCHEMA_VERSION - 1, SCHEMA_VERSION + 1, str(SCHEMA_VERSION), None])
def test_another_schema_version_is_refused_even_with_right_sums(folder, version):
    about = json.loads((folder / "model.json").read_text())
    contents = {name: (folder / name).read_bytes() for name in FILES if name != "SHA256SUMS"}
    contents["model.json"] = json.dumps({**about, "schema_version": version}).encode()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "SHA256SUMS").write_bytes(artifacts.checksums(contents))
    with pytest.raises(ValueError, match=rf"has schema version {version}, this fairdp reads {SCHEMA_VERSION}; "):
        read_model(folder)


def test_a_model_replaces_a_model_but_nothing_else(folder):
    write_model(folder, OTHER)
    assert read_model(folder).model == OTHER.model
    other = folder.parent / "notes"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"notes' holds other files; choose an empty or a new one"):
        write_model(other, SAVED)
    assert os.listdir(other) == ["notes.txt"]


def test_a_crash_while_writing_leaves_the_old_model_and_no_other_file(folder, monkeypatch):
    write, written = os.write, []

    def full_disk(handle, content):
        if len(written) == 2:
            write(handle, content[:3])
            raise OSError(28, "No space left on device")
        written.append(content)
        return write(handle, content)

    monkeypatch.setattr(os, "write", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_model(folder, OTHER)
    monkeypatch.undo()
    assert read_model(folder).model == SAVED.model
    assert os.listdir(folder.parent) == ["model"]


def test_infinity_is_null_in_the_files(tmp_path):
    write_model(tmp_path / "m", SAVED)
    written = json.loads((tmp_path / "m" / "privacy.json").read_text(), parse_constant=pytest.fail)
    assert (written["epsilon"], written["clip_norm"]) == (None, None)
    assert math.isinf(read_model(tmp_path / "m").privacy.clip_norm)
