"""A table that is kept encoded: the same bits as if it were encoded now, whole or not there, and its owner's alone."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from data.test_stored_rows import SCHEMA, assert_same, frame
from fairdp.data import tables
from fairdp.data import tables as table_cache
from fairdp.data.columns import counts_by_column
from fairdp.data.grouped import GroupedData
from fairdp.data.tables import encode_file
from fairdp.errors import DataError, ParameterError
from faults.disturbing import Calls, Hold, killed, no_space


@pytest.fixture
def table(tmp_path) -> Path:
    frame().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def cached(table: Path, **options) -> GroupedData:
    return encode_file(table, SCHEMA, rows=70, cache=table.parent / "cache", **options)


def kept(table: Path) -> list[Path]:
    return sorted((table.parent / "cache").iterdir())


@pytest.fixture
def once(monkeypatch) -> list[int]:
    """Rows that are encoded, batch by batch."""
    encoded, original = [], tables.encode_rows

    def counted(rows, schema, **options):
        encoded.append(len(rows))
        return original(rows, schema, **options)

    monkeypatch.setattr(tables, "encode_rows", counted)
    return encoded


def test_it_is_encoded_once_and_read_to_the_same_bits(table, once):
    dense = encode_file(table, SCHEMA)
    for _ in range(3):
        assert_same(cached(table), dense)
    assert sum(once) == 500


def test_whoever_observes_sees_the_same_rows_and_treatments_each_time(table):
    found = []
    for cache in (None, table.parent / "cache", table.parent / "cache"):
        seen, issues = [], []

        def look(rows, columns, seen=seen):
            seen.append(rows)

        encode_file(table, SCHEMA, rows=70, observe=look, on_issue=issues.append, cache=cache)
        found.append((pd.concat(seen), counts_by_column(issues)))
    for rows, counts in found[1:]:
        pd.testing.assert_frame_equal(rows, found[0][0])
        assert counts == found[0][1] != {}


def test_another_byte_schema_or_name_of_a_file_is_another_table(table, once):
    cached(table)
    other = frame()
    other.loc[499, "age"] = "41"
    for change in (
        lambda: other.to_csv(table, index=False),
        lambda: encode_file(
            table, replace(SCHEMA, groups=(("m", "f"), SCHEMA.groups[1])), cache=table.parent / "cache"
        ),
    ):
        change()
        assert_same(cached(table), encode_file(table, SCHEMA))
    assert len(kept(table)) == 3
    folder = table.parent / "folder"
    folder.mkdir()
    frame(10).to_parquet(folder / "b.parquet")
    frame(20, seed=1).to_parquet(folder / "c.parquet")
    for _ in range(2):
        found = encode_file(folder, SCHEMA, cache=table.parent / "cache")
        assert_same(found, encode_file(folder, SCHEMA))
        # The order of the rows.
        (folder / "b.parquet").rename(folder / "d.parquet")
        (folder / "c.parquet").rename(folder / "b.parquet")
        (folder / "d.parquet").rename(folder / "c.parquet")
    assert len(kept(table)) == 5


def flip(place: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        path.write_bytes(content)

    return change


def another(path: Path) -> None:
    """A whole file, of other rows."""
    other = path.parent.parent / "other.csv"
    frame(seed=5).to_csv(other, index=False)
    encode_file(other, SCHEMA, cache=path.parent)
    (strange,) = set(path.parent.iterdir()) - {path}
    os.replace(strange, path)


@pytest.mark.parametrize(
    "damage",
    [
        *map(flip, (0, 5000, -1, -40, -60)),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[: 16 * 250]),
        lambda path: path.write_bytes(b""),
        another,
    ],
)
def test_what_is_damaged_or_of_another_table_is_encoded_again(table, once, damage):
    dense = encode_file(table, SCHEMA)
    cached(table)
    (path,) = kept(table)
    damage(path)
    del once[:]
    assert_same(cached(table), dense)
    assert sum(once) == 500
    assert_same(cached(table), dense)
    assert sum(once) == 500


def test_that_check_notices_rows_that_are_taken_as_they_are(table, monkeypatch):
    cached(table)
    (path,) = kept(table)
    about = (path.stem, 500, [])
    monkeypatch.setattr(table_cache.TableFiles, "key", path.stem)
    monkeypatch.setattr(table_cache, "_checked", lambda file: about)
    flip(0)(path)
    with pytest.raises(AssertionError):
        assert_same(cached(table), encode_file(table, SCHEMA))


def test_it_is_for_its_owner_only(table):
    mask = os.umask(0o022)
    try:
        cached(table)
    finally:
        os.umask(mask)
    (path,) = kept(table)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_table_that_changes_while_it_is_read_is_not_kept(table):
    def change(rows: pd.DataFrame, columns: object) -> None:
        os.utime(table, ns=(0, table.stat().st_mtime_ns + 1))

    with pytest.raises(DataError, match="has changed while it was read"):
        cached(table, observe=change)
    assert kept(table) == []
    cached(table)
    # Nor are rows that somebody else must see taken for those that are kept.
    with pytest.raises(DataError, match="has changed while it was read"):
        cached(table, observe=change)


def in_a_copy(command: Callable[[], object], calls: Calls) -> int:
    """Exit code of a copy of this process: 0, 2 if it was refused, or below zero by a signal."""
    child = os.fork()
    if child:
        return child
    code = 3
    try:
        with calls.counting():
            command()
        code = 0
    except (ParameterError, OSError):
        code = 2
    finally:
        os._exit(code)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


KINDS = ("open", "write", "mkdir", "unlink", "replace", "lock")


@pytest.mark.parametrize("then", [killed, no_space])
def test_a_fault_at_any_call_leaves_nothing_that_is_taken_for_whole(table, once, then):
    dense, calls = encode_file(table, SCHEMA), Calls(kinds=KINDS)
    with calls.counting():
        cached(table)
    assert len(calls.seen) >= 10
    for at in range(1, len(calls.seen) + 1):
        for path in kept(table):
            path.unlink()
        (table.parent / "cache").rmdir()
        code = ended(in_a_copy(lambda: cached(table), Calls(at=at, then=then, kinds=KINDS)))
        # Locks are not needed to be whole: where there are none, drafts of others stay.
        assert code == (-signal.SIGKILL if then is killed else 2) or calls.seen[at - 1] == "lock", calls.seen[at - 1]
        whole = [path for path in kept(table) if path.suffix == ".rows"] if (table.parent / "cache").exists() else []
        del once[:]
        assert_same(cached(table), dense)
        assert sum(once) == (0 if whole else 500)
        # A draft that a kill has left is gone.
        assert [path.suffix for path in kept(table) if path.stat().st_size] == [".rows"]


def test_two_processes_encode_one_table_at_once_and_both_end_well(table):
    """One is held at each of its writes and before it is done, while the other encodes all of it."""
    dense, calls = encode_file(table, SCHEMA), Calls(kinds=KINDS)

    def right() -> None:
        assert_same(cached(table), dense)

    with calls.counting():
        right()
    for at in (1, 2, 3, len(calls.seen) - 1, len(calls.seen)):
        for path in kept(table):
            path.unlink()
        hold = Hold()
        child = in_a_copy(right, Calls(at=at, then=hold, kinds=KINDS))
        hold.wait()
        right()
        hold.release()
        assert ended(child) == 0
        right()
        assert len(kept(table)) == 1


def test_a_folder_that_cannot_be_had_is_said_in_one_line(table):
    (table.parent / "cache").write_text("something else")
    with pytest.raises(ParameterError, match=r"^cache='.*' cannot be (read|written): Not a directory"):
        cached(table)
    assert (table.parent / "cache").read_text() == "something else"
