"""The file of a ledger: for its owner only, refused when it cannot be trusted, and any change of it is noticed."""

import fcntl
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fairdp.errors import DataError
from fairdp.ledger.ledger import Ledger, Receipt, ledger_path
from fairdp.ledger.store import _OTHER, Store, _keeps_out
from ledger_cases import claim, people, pure


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "ledger.sqlite"


def spend(path: Path, *, n_entries: int = 1, n_records: int = 20) -> list[Receipt]:
    with Ledger(path) as ledger:
        entries = [ledger.spend(claim(ledger, pure(0.1), people(*range(n_records)))) for _ in range(n_entries)]
    return [Receipt(entry=entry.number, token=entry.token) for entry in entries]


def changed(path: Path, *statements: str) -> None:
    """By somebody with another program."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_only_the_owner_can_read_it(path):
    spend(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_ledger_that_others_could_read_is_closed_to_them(path):
    spend(path)
    path.chmod(0o644)
    spend(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_is_kept_by_a_rollback_journal_and_every_commit_is_synced(path):
    with Store(path) as store:
        assert store.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert store.execute("PRAGMA synchronous").fetchone() == (3,)


def test_entries_are_read_as_they_were_written(path):
    (receipt,) = spend(path)
    with Ledger(path) as ledger:
        (entry,) = ledger.entries()
        assert (entry.state, entry.command, entry.table, entry.cost) == ("spent", "fit", "loans", pure(0.1))
        ledger.complete(receipt)
        ledger.complete(receipt)
        assert [entry.state for entry in ledger.entries()] == ["completed"]
        assert ledger.check() == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET body = replace(body, '0.1', '0.0') WHERE number = 2",
        "UPDATE log SET body = CAST(replace(body, '0.1', '0.0') AS BLOB) WHERE number = 2",
        "UPDATE log SET kind = 'limit' WHERE number = 2",
        "DELETE FROM log WHERE number = 2",
        "UPDATE log SET number = 9 WHERE number = 3",
        "DELETE FROM log WHERE number = 1",
    ],
)
def test_a_row_that_was_changed_or_removed_is_noticed_whenever_the_ledger_is_used(path, statement):
    spend(path, n_entries=3)
    changed(path, statement)
    with Ledger(path) as ledger:
        with pytest.raises(DataError, match="is damaged"):
            ledger.spend(claim(ledger, pure(0.1), None))
        with pytest.raises(DataError, match="is damaged"):
            ledger.check()


def test_a_row_of_another_copy_of_the_same_ledger_is_noticed(path, tmp_path):
    spend(path)
    shutil.copy(path, tmp_path / "copy")
    spend(path, n_entries=2)
    spend(tmp_path / "copy")
    changed(
        path,
        f"ATTACH '{tmp_path / 'copy'}' AS other",
        "UPDATE log SET (body, hash) = (SELECT body, hash FROM other.log WHERE number = 2) WHERE number = 2",
    )
    with Ledger(path) as ledger, pytest.raises(DataError, match="row 3 was changed"):
        ledger.check()


@pytest.mark.parametrize(
    "statement",
    ["UPDATE records SET hashes = zeroblob(length(hashes)) WHERE entry = 2", "DELETE FROM records WHERE entry = 1"],
)
def test_records_that_were_changed_are_noticed_by_check_and_before_any_are_compared_with_them(path, statement):
    spend(path, n_entries=2)
    with Ledger(path) as ledger:
        assert ledger.check() == 2
    changed(path, statement)
    with Ledger(path) as ledger:
        with pytest.raises(DataError, match="records of entry"):
            ledger.check()
        with pytest.raises(DataError, match="records of entry"):
            ledger.spend(claim(ledger, pure(0.1), people(*range(20)), table="another name"))
        assert len(ledger.entries()) == 2


def test_damaged_bytes_are_noticed_by_check(path):
    spend(path, n_records=5000)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)
    with pytest.raises(DataError), Ledger(path) as ledger:
        ledger.check()


def test_a_ledger_restored_from_an_older_copy_is_noticed_by_what_a_model_folder_keeps(path, tmp_path):
    spend(path)
    shutil.copy(path, tmp_path / "copy")
    (later,) = spend(path)
    with Ledger(path) as ledger:
        assert ledger.entry_of(later).number == 2
    shutil.copy(tmp_path / "copy", path)
    with Ledger(path) as ledger, pytest.raises(DataError, match="an older copy"):
        ledger.entry_of(later)
    # The next entry has the same number, but not the token.
    (other,) = spend(path)
    assert other.entry == later.entry
    with Ledger(path) as ledger, pytest.raises(DataError, match="does not have entry 2 of this model"):
        ledger.entry_of(later)


def test_tokens_say_nothing_about_records(tmp_path):
    receipts = [spend(tmp_path / name)[0] for name in ("one", "two")]
    assert receipts[0].entry == receipts[1].entry
    assert receipts[0].token != receipts[1].token


@pytest.mark.parametrize(
    "content", [b"not a database, but a text that is longer than a header of SQLite" * 20, b"\0" * 4096]
)
def test_another_file_is_refused_in_one_line_and_stays(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"notes\.txt"):
        Ledger(path)
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_refused_and_stays(path):
    path.parent.mkdir()
    changed(path, "CREATE TABLE theirs (a)")
    before = path.read_bytes()
    with pytest.raises(DataError, match="something else than a ledger"):
        Ledger(path)
    assert path.read_bytes() == before


def test_a_newer_format_is_refused(path):
    spend(path)
    changed(path, "PRAGMA user_version = 99")
    with pytest.raises(DataError, match="has format 99"):
        Ledger(path)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be opened"):
        Ledger(tmp_path / "file" / "ledger.sqlite")
    with pytest.raises(DataError, match="cannot be opened"):
        Ledger(tmp_path)


def test_a_full_disk_is_refused_and_leaves_what_was_there(path):
    spend(path)
    with Ledger(path) as ledger:
        claimed = claim(ledger, pure(0.1), people(*range(5000)))
        # SQLite says of a file that may not grow what it says of a disk that is full.
        ledger._store.execute("PRAGMA max_page_count = 1")
        with pytest.raises(DataError, match="cannot be read or written"):
            ledger.spend(claimed)
    with Ledger(path) as ledger:
        assert ledger.check() == 1


def test_a_ledger_in_use_for_too_long_is_refused(path):
    spend(path)
    with Store(path) as holder, holder.transaction(), pytest.raises(DataError, match="in use by another process"):
        Ledger(path, timeout=0.01)


def test_a_thread_that_opens_the_ledger_takes_no_lock_away_from_another(path):
    """A system forgets all locks of a process on a file when any thread of it closes that file."""
    spend(path)

    def another_process_is_kept_out() -> bool:
        return subprocess.run([sys.executable, "-c", _OTHER, str(path)]).returncode == 0

    def open_and_close() -> None:
        with pytest.raises(DataError, match="in use"):
            Ledger(path, timeout=0.01)

    with Store(path) as store, store.transaction():
        assert another_process_is_kept_out()
        other = threading.Thread(target=open_and_close)
        other.start()
        other.join()
        assert another_process_is_kept_out()


def test_a_place_where_locks_keep_nobody_out_is_refused(path, monkeypatch):
    real = subprocess.run

    def unlocked(command, **options):
        """As on a file system whose locks do nothing: the other process looks at a file that nobody holds."""
        copy = path.with_name("copy")
        shutil.copy(path, copy)
        return real([*command[:-1], str(copy)], **options)

    spend(path)
    with monkeypatch.context() as patched:
        # Where only another process can tell.
        patched.setattr("fairdp.ledger.store._keeps_out", lambda path: None)
        Ledger(path).close()
        patched.setattr(subprocess, "run", unlocked)
        with pytest.raises(DataError, match="locks do not keep other processes out"):
            Ledger(path)
    monkeypatch.setattr(fcntl, "lockf", lambda *lock: None)
    with pytest.raises(DataError, match="locks do not keep other processes out"):
        Ledger(path)


def test_locks_are_tried_without_another_process_and_leave_no_file(path, monkeypatch):
    def started(*command, **options):
        pytest.fail("a process was started")

    monkeypatch.setattr(subprocess, "run", started)
    spend(path)
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_without_the_means_to_try_them_here_another_process_tries(path, monkeypatch):
    spend(path)
    for name in ("F_OFD_SETLK", "lockf"):
        with monkeypatch.context() as patched:
            patched.delattr(fcntl, name)
            assert _keeps_out(path) is None
    assert _keeps_out(path.with_name("nowhere") / "ledger") is None
    assert _keeps_out(path) is True


def test_the_ledger_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("FAIRDP_LEDGER", "somewhere")
    assert ledger_path() == Path("somewhere")
    monkeypatch.delenv("FAIRDP_LEDGER")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert ledger_path() == tmp_path / "fairdp" / "ledger.sqlite"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ledger_path() == tmp_path / ".local" / "share" / "fairdp" / "ledger.sqlite"


def test_a_release_that_is_begun_again_pays_once(path):
    with Ledger(path) as ledger:
        rows, cost = people(*range(20)), pure(0.1)
        first = ledger.spend(claim(ledger, cost, rows, token="a"), budget=0.15)
        # The budget would not do for a second one.
        assert ledger.spend(claim(ledger, cost, rows, token="a"), budget=0.15) == first
        with pytest.raises(DataError, match=r"would pass the limit of 0\.15"):
            ledger.spend(claim(ledger, cost, rows, token="b"), budget=0.15)
        # Negative control: releases that say nothing are two.
        for expected in (2, 3):
            assert ledger.spend(claim(ledger, cost, rows)).number == expected
        for others in (claim(ledger, pure(0.2), rows, token="a"), claim(ledger, cost, people(1, 2), token="a")):
            with pytest.raises(DataError, match="entry 1 of the ledger is of another release than the one begun again"):
                ledger.spend(others)
        assert len(ledger.entries()) == 3
