"""Files that are written whole or not at all."""

import json
import os
from pathlib import Path

import pytest

from fairdp import _io as files
from fairdp._io import json_bytes, write_file


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_file_is_replaced_and_may_be_for_its_owner_only(tmp_path):
    path = tmp_path / "file"
    write_file(path, b"one")
    assert path.stat().st_mode & 0o400
    write_file(path, b"two", owner_only=True)
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("broken", ["write", "fsync", "chmod", "replace"])
def test_a_crash_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, broken):
    path = tmp_path / "file"
    write_file(path, b"old")
    monkeypatch.setattr(files.os, broken, raiser(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_file(path, b"new")
    assert contents_of(tmp_path) == {"file": b"old"}


def test_a_draft_of_a_secret_that_a_killed_process_left_goes_with_the_next_and_no_other_file_does(tmp_path):
    others = (".run.ckpt.key.new.abcd_123", ".run.ckpt.abc", "run.ckpt.new.abcd_123", ".xrun.ckpt.new.abcd_123")
    for name in (".run.ckpt.new.abcd_123", *others):
        (tmp_path / name).write_bytes(b"secret")
    write_file(tmp_path / "run.ckpt", b"public")
    assert (tmp_path / ".run.ckpt.new.abcd_123").exists()
    write_file(tmp_path / "run.ckpt", b"new", owner_only=True)
    assert set(os.listdir(tmp_path)) == {"run.ckpt", *others}


def test_json_has_no_infinity_and_keeps_letters():
    value = {"a": float("inf"), "b": [float("nan"), 1.5], "c": (1, True, None), "d": "größer", 5: -float("inf")}
    text = json_bytes(value).decode()
    assert "größer" in text
    assert json.loads(text, parse_constant=pytest.fail) == {
        "a": None,
        "b": [None, 1.5],
        "c": [1, True, None],
        "d": "größer",
        "5": None,
    }


def raiser(error):
    def fail(*arguments):
        raise error

    return fail
