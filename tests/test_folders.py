"""Folders that are written whole or not at all, replaced in one step, and written by one command at a time."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairdp import _io as folders
from fairdp._io import check_replaceable, claimed, exchange, write_folder
from fairdp.errors import SavedModelError

OLD = {"mark": b"old", "a": b"1", "b": b"2"}
NEW = {"mark": b"new", "a": b"3"}
KIND = {"own": tuple(OLD), "marker": "mark"}


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_is_written_with_all_the_folders_above_it(tmp_path):
    write_folder(tmp_path / "x" / "y", OLD, **KIND)
    assert contents_of(tmp_path / "x" / "y") == OLD
    assert os.listdir(tmp_path / "x") == ["y"]


def test_a_folder_with_the_marker_is_replaced_whole(tmp_path):
    write_folder(tmp_path / "out", OLD, **KIND)
    write_folder(tmp_path / "out", NEW, **KIND)
    assert contents_of(tmp_path / "out") == NEW
    assert os.listdir(tmp_path) == ["out"]


def test_an_empty_folder_is_used(tmp_path):
    (tmp_path / "out").mkdir()
    write_folder(tmp_path / "out", NEW, **KIND)
    assert contents_of(tmp_path / "out") == NEW


def test_a_folder_with_other_files_is_never_replaced(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"cat")
    with pytest.raises(ValueError, match=r"'.*photos' holds other files; choose an empty or a new one\.$"):
        write_folder(tmp_path / "photos", NEW, **KIND)
    assert contents_of(tmp_path / "photos") == {"cat.png": b"cat"}


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_bytes(b"text")
    with pytest.raises(ValueError, match=r"'.*out' is a file; choose another name\.$"):
        check_replaceable(tmp_path / "out", **KIND)


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    """Below a regular file: refused whoever runs the tests, root too."""
    (tmp_path / "file").write_bytes(b"text")
    with pytest.raises(ValueError, match=r"output folder '.*file/out' cannot be written"):
        check_replaceable(tmp_path / "file" / "out", **KIND)
    assert contents_of(tmp_path) == {"file": b"text"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ValueError, match="cannot be written"):
        check_replaceable(tmp_path / "out", **KIND)


def test_the_check_itself_leaves_nothing_behind(tmp_path):
    check_replaceable(tmp_path / "x" / "out", **KIND)
    assert os.listdir(tmp_path) == []


def test_not_one_file_of_somebody_else_is_lost_with_a_folder_that_is_replaced(tmp_path):
    """A folder of the right kind, in which somebody keeps notes."""
    write_folder(tmp_path / "out", OLD, **KIND)
    (tmp_path / "out" / "notes.txt").write_bytes(b"mine")
    with pytest.raises(SavedModelError, match="holds other files"):
        write_folder(tmp_path / "out", NEW, **KIND)
    assert contents_of(tmp_path / "out") == {**OLD, "notes.txt": b"mine"}


def test_a_link_is_followed_and_stays(tmp_path):
    write_folder(tmp_path / "real", OLD, **KIND)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_folder(tmp_path / "link", NEW, **KIND)
    assert (tmp_path / "link").is_symlink()
    assert contents_of(tmp_path / "real") == NEW


def test_two_folders_change_places_in_one_step(tmp_path):
    """Where the system cannot, it says so and nothing has changed."""
    for name, contents in (("one", OLD), ("other", NEW)):
        write_folder(tmp_path / name, contents, **KIND)
    done = exchange(tmp_path / "one", tmp_path / "other")
    assert contents_of(tmp_path / "one") == (NEW if done else OLD)
    assert contents_of(tmp_path / "other") == (OLD if done else NEW)
    if sys.platform == "linux":
        assert done
        with pytest.raises(FileNotFoundError):
            exchange(tmp_path / "one", tmp_path / "none")


def test_what_was_left_by_a_command_that_was_ended_is_removed_but_nothing_that_another_is_writing(tmp_path):
    dead, alive, other = (tmp_path / name for name in (".out.new.dead", ".out.new.live", ".output.new.dead"))
    for path in (dead, alive, other):
        path.mkdir()
        (path / "mark").write_bytes(b"half")
    handle = os.open(alive, os.O_RDONLY)
    assert folders.lock(handle)
    write_folder(tmp_path / "out", NEW, **KIND)
    assert sorted(os.listdir(tmp_path)) == [".out.new.live", ".output.new.dead", "out"]
    os.close(handle)
    write_folder(tmp_path / "out", NEW, **KIND)
    assert sorted(os.listdir(tmp_path)) == [".output.new.dead", "out"]


def test_every_file_and_folder_is_synced_before_and_after_it_takes_its_place(tmp_path, monkeypatch):
    """Contents not on disk when the names change may be empty after a power failure."""
    write_folder(tmp_path / "out", OLD, **KIND)
    happened = []

    def noted(handle, fsync=os.fsync):
        happened.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name.replace("staging", ""))
        fsync(handle)

    def exchanged(one, other, exchange=folders.exchange):
        happened.append("exchange")
        return exchange(one, other)

    monkeypatch.setattr(folders.os, "fsync", noted)
    monkeypatch.setattr(folders, "exchange", exchanged)
    write_folder(tmp_path / "out", NEW, **KIND)
    assert happened[:2] == ["mark", "a"]
    assert happened[2].startswith(".out.new.")
    assert happened[3:] == ["exchange", tmp_path.name]


def test_where_nothing_can_be_exchanged_a_kill_between_the_two_renames_is_put_right_at_the_next_use(tmp_path):
    write_folder(tmp_path / "out", OLD, **KIND)
    (tmp_path / "out").rename(tmp_path / ".out.old")
    folders.restore(tmp_path / "out")
    assert contents_of(tmp_path / "out") == OLD


def test_where_nothing_can_be_exchanged_a_failing_rename_is_taken_back(tmp_path, monkeypatch):
    write_folder(tmp_path / "out", OLD, **KIND)
    monkeypatch.setattr(folders, "exchange", lambda one, other: False)
    rename, seen = os.rename, []

    def failing(source, target):
        seen.append(target)
        # The first is tried in case nothing is there, the second puts the old one aside.
        if len(seen) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return rename(source, target)

    monkeypatch.setattr(folders.os, "rename", failing)
    with pytest.raises(OSError, match="No space"):
        write_folder(tmp_path / "out", NEW, **KIND)
    assert contents_of(tmp_path / "out") == OLD
    assert os.listdir(tmp_path) == ["out"]


def test_only_one_command_holds_a_folder_and_a_killed_one_holds_nothing(tmp_path):
    script = "import sys, time; from pathlib import Path; from fairdp._io import claimed\n"
    script += "with claimed(Path(sys.argv[1])): print(flush=True); time.sleep(600)"
    out = tmp_path / "x" / "out"
    holder = subprocess.Popen([sys.executable, "-c", script, str(out)], stdout=subprocess.PIPE)
    holder.stdout.readline()
    try:
        with pytest.raises(SavedModelError, match=r"another command is writing to '.*out'; wait"), claimed(out):
            pass
    finally:
        holder.kill()
        holder.communicate()
    assert os.listdir(out.parent) == [".out.lock"]
    with claimed(out):
        write_folder(out, NEW, **KIND)
        with pytest.raises(SavedModelError, match="another command"), claimed(out):
            pass
    assert os.listdir(out.parent) == ["out"]


def test_a_claim_leaves_no_folder_that_it_made(tmp_path):
    with claimed(tmp_path / "x" / "y" / "out"):
        assert (tmp_path / "x" / "y").is_dir()
    assert os.listdir(tmp_path) == []
