"""Files and folders that are written whole or not at all."""

import json
import os
from pathlib import Path

import pytest

from fairdp import _files as files
from fairdp._files import check_replaceable, json_bytes, write_file, write_folder

OLD = {"mark": b"old", "a": b"1", "b": b"2"}
NEW = {"mark": b"new", "a": b"3"}


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


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_crash_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, broken):
    path = tmp_path / "file"
    write_file(path, b"old")
    monkeypatch.setattr(files.os, broken, raiser(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_file(path, b"new")
    assert contents_of(tmp_path) == {"file": b"old"}


def test_a_folder_is_written_with_all_the_folders_above_it(tmp_path):
    write_folder(tmp_path / "x" / "y", OLD, marker="mark")
    assert contents_of(tmp_path / "x" / "y") == OLD
    assert os.listdir(tmp_path / "x") == ["y"]


def test_a_folder_with_the_marker_is_replaced_whole(tmp_path):
    write_folder(tmp_path / "out", OLD, marker="mark")
    write_folder(tmp_path / "out", NEW, marker="mark")
    assert contents_of(tmp_path / "out") == NEW
    assert os.listdir(tmp_path) == ["out"]


def test_an_empty_folder_is_used(tmp_path):
    (tmp_path / "out").mkdir()
    write_folder(tmp_path / "out", NEW, marker="mark")
    assert contents_of(tmp_path / "out") == NEW


@pytest.mark.parametrize("crash_at", range(4))
def test_a_crash_at_any_moment_leaves_the_old_folder_and_nothing_else(tmp_path, monkeypatch, crash_at):
    """The n-th of the calls that write fails: two files, then the two renames of the swap."""
    out = tmp_path / "out"
    write_folder(out, OLD, marker="mark")
    calls = {"n": 0}

    def failing(original):
        def call(self, *arguments):
            calls["n"] += 1
            if calls["n"] == crash_at + 1:
                raise OSError("disk full")
            return original(self, *arguments)

        return call

    monkeypatch.setattr(Path, "write_bytes", failing(Path.write_bytes))
    monkeypatch.setattr(Path, "rename", failing(Path.rename))
    with pytest.raises(OSError, match="disk full"):
        write_folder(out, NEW, marker="mark")
    assert contents_of(out) == OLD
    assert os.listdir(tmp_path) == ["out"]


def test_that_check_covers_every_write(tmp_path, monkeypatch):
    """Four calls write; a fifth would escape the test above."""
    out = tmp_path / "out"
    write_folder(out, OLD, marker="mark")
    calls = []
    for name in ("write_bytes", "rename"):
        original = getattr(Path, name)
        monkeypatch.setattr(Path, name, lambda self, *a, original=original: (calls.append(a), original(self, *a))[1])
    write_folder(out, NEW, marker="mark")
    assert len(calls) == 4


def test_a_folder_with_other_files_is_never_replaced(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"cat")
    with pytest.raises(ValueError, match=r"'.*photos' holds other files; choose an empty or a new one\.$"):
        write_folder(tmp_path / "photos", NEW, marker="mark")
    assert contents_of(tmp_path / "photos") == {"cat.png": b"cat"}


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_bytes(b"text")
    with pytest.raises(ValueError, match=r"'.*out' is a file; choose another name\.$"):
        check_replaceable(tmp_path / "out", marker="mark")


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    """Below a regular file: refused whoever runs the tests, root too."""
    (tmp_path / "file").write_bytes(b"text")
    with pytest.raises(ValueError, match=r"output folder '.*file/out' cannot be written"):
        check_replaceable(tmp_path / "file" / "out", marker="mark")
    assert contents_of(tmp_path) == {"file": b"text"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ValueError, match="cannot be written"):
        check_replaceable(tmp_path / "out", marker="mark")


def test_the_check_itself_leaves_nothing_behind(tmp_path):
    check_replaceable(tmp_path / "x" / "out", marker="mark")
    assert os.listdir(tmp_path) == []


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
