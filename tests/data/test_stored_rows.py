"""Rows that stay in a file are, whenever they are read, the rows that would have been in memory."""

import numpy as np
import pandas as pd
import pytest

from fairdp.data import tables
from fairdp.data.columns import group_type, row_type
from fairdp.data.grouped import BATCH, GroupedData, StoredRows, place_type
from fairdp.data.schema import Binned, Categorical, Numeric, OtherThan, TableSchema
from fairdp.data.tables import encode_file, encode_table, read_table

MANY = tuple(f"c{number}" for number in range(300))
SCHEMA = TableSchema(
    columns=(
        Numeric(name="age", low=0, high=90),
        Numeric(name="debt", low=-5, high=1e6, transform="signed_log", missing="indicator"),
        Categorical(name="job", categories=("clerk", "nurse", "rest", "?"), other="rest"),
        Categorical(name="place", categories=MANY),
        Binned(name="rooms", edges=(1, 2.5, 4)),
        OtherThan(name="country", value="US"),
    ),
    label="y",
    positive="yes",
    negative="no",
    sensitive=("sex", "region"),
    groups=(("f", "m"), ("east", "west")),
)


def frame(n_rows: int = 500, seed: int = 0) -> pd.DataFrame:
    """Every kind of column, with cells that are missing, out of range, unreadable or not declared."""
    rng = np.random.default_rng(seed)
    odd = rng.random((5, n_rows)) < 0.1
    return pd.DataFrame(
        {
            "age": np.where(odd[0], "", rng.integers(-9, 120, n_rows).astype(str)),
            "debt": np.where(odd[1], "much", rng.normal(0, 1e5, n_rows).round(2).astype(str)),
            "job": np.where(odd[2], "", rng.choice(["clerk", "nurse", "diver"], n_rows)),
            "place": np.where(odd[3], "nowhere", rng.choice(MANY, n_rows)),
            "rooms": np.where(odd[4], "", rng.integers(0, 6, n_rows).astype(str)),
            "country": rng.choice(["US", "Peru", ""], n_rows),
            "sex": rng.choice(["f", "m"], n_rows),
            "region": rng.choice(["east", "west"], n_rows),
            "y": rng.choice(["yes", "no"], n_rows),
        }
    )


@pytest.fixture
def stored(tmp_path, monkeypatch) -> GroupedData:
    monkeypatch.setattr(tables, "MOST_IN_MEMORY", 0)
    frame().to_csv(tmp_path / "people.csv", index=False)
    found = encode_file(tmp_path / "people.csv", SCHEMA, rows=70)
    assert isinstance(found.X, StoredRows)
    return found


@pytest.fixture
def dense(tmp_path) -> GroupedData:
    frame().to_csv(tmp_path / "again.csv", index=False)
    return encode_table(read_table(tmp_path / "again.csv"), SCHEMA)


def assert_same(one: GroupedData, other: GroupedData) -> None:
    assert one.X.shape == other.X.shape
    assert one.X.dtype == other.X.dtype == np.float32
    assert one.inputs.tobytes() == other.inputs.tobytes()
    for mine, theirs in zip(one.codes, other.codes, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert one.group_names == other.group_names


def test_they_are_read_to_the_bits_of_an_encoded_table(stored, dense):
    assert len(np.unique(dense.inputs)) > 100
    assert_same(stored, dense)


def test_any_part_of_a_part_is_read_to_the_same_bits(stored, dense):
    rng = np.random.default_rng(1)
    for first in (slice(30, 400), rng.permutation(500)[:300], np.arange(0)):
        for second in (slice(5, 90), slice(0, 0), np.array([3, 1, 3]) if len(dense.take(first)) else np.arange(0)):
            assert_same(stored.take(first).take(second), dense.take(first).take(second))
            positions = stored.take(first).X.at(second)
            assert positions.tobytes() == dense.take(first).take(second).inputs.tobytes()


def test_batches_are_all_records_in_their_order(stored, dense):
    for n_rows in (1, 7, 500, BATCH):
        parts = list(stored.batches(n_rows))
        assert max(map(len, parts)) <= n_rows
        assert all(isinstance(part.X, np.ndarray) and part.y.dtype == np.int64 for part in parts)
        X = np.concatenate([part.inputs for part in parts])
        assert X.tobytes() == dense.inputs.tobytes()
        for name in ("y", "groups"):
            np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(dense, name))
    assert list(stored.take(slice(0, 0)).batches()) == []


def test_a_row_takes_few_bytes_and_a_part_shares_them(stored):
    """Two numbers, five codes, of which one has 300 values, a label and a group."""
    assert row_type(SCHEMA.widths, 4).itemsize == 2 * 4 + 4 + 2 + 2
    assert stored.row_bytes == 4 * SCHEMA.n_features > 1200
    part = stored.X[np.arange(100)]
    assert np.may_share_memory(part._rows, stored.X._rows)
    assert part._places.dtype == np.int32
    assert (stored.y.dtype, stored.groups.dtype) == (np.int8, np.int8)


def test_places_and_codes_have_room_for_all():
    assert (place_type(2**31 - 1), place_type(2**31)) == (np.int32, np.int64)
    for n_groups in (1, 64, 65, 1000, 2**14, 2**14 + 1):
        # Of the last group's positive label.
        assert np.iinfo(group_type(n_groups)).max >= 2 * (n_groups - 1) + 1
    kinds = row_type((0, 255, 256, 2**16 - 1, 2**16), 1)
    for place, width in enumerate((255, 256, 2**16 - 1, 2**16), start=1):
        assert np.iinfo(kinds[str(place)]).max >= width


def test_groups_by_label_do_not_overflow():
    """Group 63 with label 1 is the largest code of one byte, and group 64 needs two."""
    for n_groups in (64, 65):
        groups = np.arange(n_groups).astype(group_type(n_groups))
        data = GroupedData(np.zeros((n_groups, 1)), np.ones(n_groups, np.int8), groups, tuple(map(str, groups)))
        assert data.by_label().groups.tolist() == [2 * group + 1 for group in range(n_groups)]


def test_printing_shows_the_shape_only(stored):
    assert repr(stored.X) == f"StoredRows(500, {SCHEMA.n_features})"
