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

import pytest
import torch

from fairdp.networks.models import tensor_bytes
from fairdp.saved import folder as artifacts
from fairdp.saved.folder import SavedModel, read_model, write_model

FILES = ("SHA256SUMS", "certificate.json", "model.json", "model.safetensors", "privacy.json")
CERTIFIED_FILES = ("model.json", "model.safetensors", "privacy.json")
SAVED = SavedModel(
    tensors={"params": torch.arange(6, dtype=torch.float32)},
    model={"parameters": {"epsilon": 1.0}, "groups": ["f", "größer"]},
    privacy={"epsilon": 1.0},
    certificate={"certified": False},
)


@pytest.fixture
def folder(tmp_path):
    write_model(tmp_path / "model", SAVED)
    return tmp_path / "model"


def test_what_is_written_is_read(folder):
    back = read_model(folder)
    assert torch.equal(back.tensors["params"], SAVED.tensors["params"])
    assert (back.model, back.privacy) == (SAVED.model, SAVED.privacy)
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in CERTIFIED_FILES}
    assert back.certificate == {**SAVED.certificate, "files": hashes}


def test_parameters_that_are_not_the_certified_ones_are_not_written(tmp_path):
    right = {"certified": True, "about": {"model_sha256": hashlib.sha256(tensor_bytes(SAVED.tensors)).hexdigest()}}
    write_model(tmp_path / "right", replace(SAVED, certificate=right))
    moved = {"params": SAVED.tensors["params"] + 1e-3}
    with pytest.raises(ValueError, match=r"^the parameters were changed after they were certified; fit the model"):
        write_model(tmp_path / "moved", replace(SAVED, certificate=right, tensors=moved))
    assert os.listdir(tmp_path) == ["right"]


def test_a_model_is_five_files_and_nothing_beside_them(folder):
    assert sorted(os.listdir(folder)) == sorted(FILES)
    assert os.listdir(folder.parent) == ["model"]


def is_pickle(content: bytes) -> bool:
    """Whether a reader of pickles would get to the end: protocol 2 and later start with 0x80."""
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


@pytest.mark.parametrize("version", [0, 1, 4, 6, "5", None])
def test_another_schema_version_is_refused_even_with_right_sums(folder, version):
    about = json.loads((folder / "model.json").read_text())
    contents = {name: (folder / name).read_bytes() for name in FILES if name != "SHA256SUMS"}
    contents["model.json"] = json.dumps({**about, "schema_version": version}).encode()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "SHA256SUMS").write_bytes(artifacts._checksums(contents))
    with pytest.raises(ValueError, match=rf"has schema version {version}, this fairdp reads 5; "):
        read_model(folder)


def test_a_model_replaces_a_model_but_nothing_else(folder):
    write_model(folder, SavedModel(tensors=SAVED.tensors, model={"n": 2}, privacy={}, certificate={}))
    assert read_model(folder).model == {"n": 2}
    other = folder.parent / "notes"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"notes' holds other files; choose an empty or a new one"):
        write_model(other, SAVED)
    assert os.listdir(other) == ["notes.txt"]


def test_a_crash_while_writing_leaves_the_old_model_and_no_other_file(folder, monkeypatch):
    original = Path.write_bytes

    def full_disk(self, content):
        if self.name == "privacy.json":
            original(self, content[:3])
            raise OSError(28, "No space left on device")
        return original(self, content)

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_model(folder, SavedModel(tensors=SAVED.tensors, model={"n": 2}, privacy={}, certificate={}))
    monkeypatch.undo()
    assert read_model(folder).model == SAVED.model
    assert os.listdir(folder.parent) == ["model"]


def test_infinity_is_null_in_the_files(tmp_path):
    write_model(
        tmp_path / "m", SavedModel(tensors=SAVED.tensors, model={}, privacy={"epsilon": math.inf}, certificate={})
    )
    assert json.loads((tmp_path / "m" / "privacy.json").read_text(), parse_constant=pytest.fail) == {"epsilon": None}
