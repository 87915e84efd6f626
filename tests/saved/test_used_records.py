"""The register of used records: overlaps are found, nothing else is, and the file is safe."""

import dataclasses
import json
import os
import pickle
import zlib
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from fairdp import _files as files
from fairdp.data.grouped import GroupedData
from fairdp.saved.used_records import (
    UsedRecords,
    fingerprints,
    read_used_records,
    used_records_path,
    write_used_records,
)

KEY = bytes(range(16))


def records(n_samples: int, *, seed: int, n_features: int = 5) -> GroupedData:
    rng = np.random.default_rng(seed)
    X = rng.random((n_samples, n_features), dtype=np.float32)
    return GroupedData(X, rng.integers(2, size=n_samples), rng.integers(3, size=n_samples), ("a", "b", "c"))


def joined(*parts: GroupedData) -> GroupedData:
    columns = ([getattr(part, name) for part in parts] for name in ("X", "y", "groups"))
    return GroupedData(*map(np.concatenate, columns), parts[0].group_names)


@pytest.fixture
def register():
    empty = UsedRecords.new()
    training = fingerprints(records(1000, seed=0), empty.key)
    return empty.with_use("training", training).with_use("certificate 1", fingerprints(records(500, seed=1), empty.key))


def test_overlaps_are_counted_exactly_and_by_use(register):
    again = (records(1000, seed=0).take(np.arange(70)), records(500, seed=1).take(np.arange(400, 500)))
    mixed = joined(records(300, seed=2), *again)
    assert register.overlaps(fingerprints(mixed, register.key)) == {"training": 70, "certificate 1": 100}


def test_fresh_records_are_in_no_use(register):
    assert register.overlaps(fingerprints(records(5000, seed=2), register.key)) == {"training": 0, "certificate 1": 0}


def test_batches_give_the_fingerprints_of_the_whole():
    data = records(1000, seed=0)
    parts = [fingerprints(data.take(np.arange(i, i + 250)), KEY) for i in range(0, 1000, 250)]
    np.testing.assert_array_equal(np.concatenate(parts), fingerprints(data, KEY))


def test_long_records_are_hashed_in_several_pieces():
    rng = np.random.default_rng(0)
    codes = np.arange(40) % 2
    images = GroupedData(rng.random((40, 3, 250, 250), dtype=np.float32), codes, codes, ("a", "b"))
    each = [fingerprints(images.take(np.array([i])), KEY)[0] for i in range(40)]
    assert fingerprints(images, KEY).tolist() == each
    assert len(set(each)) == 40


def test_equal_records_are_equal_however_they_are_stored():
    data = records(50, seed=0)
    data = dataclasses.replace(data, X=np.where(data.X < 0.5, np.float32(0), data.X))
    negative = np.where(data.X == 0, np.float32(-0.0), data.X)
    for X in (negative, data.X.astype(np.float64), np.asfortranarray(data.X), data.X[::-1][::-1]):
        np.testing.assert_array_equal(fingerprints(dataclasses.replace(data, X=X), KEY), fingerprints(data, KEY))


def test_equal_records_in_one_use_all_count(register):
    twice = records(1000, seed=0).take(np.array([7, 7, 7]))
    assert register.overlaps(fingerprints(twice, register.key))["training"] == 3
    again = register.with_use("certificate 2", fingerprints(twice, register.key))
    assert len(again.uses["certificate 2"]) == 3


def test_no_records_have_no_fingerprints(register, tmp_path):
    none = fingerprints(records(0, seed=0), register.key)
    assert none.shape == (0,)
    assert none.dtype == np.uint64
    assert set(register.overlaps(none).values()) == {0}
    write_used_records(tmp_path / "r", register.with_use("nobody", none))
    assert read_used_records(tmp_path / "r").overlaps(none)["nobody"] == 0


def test_another_key_gives_other_hashes():
    data = records(1000, seed=0)
    assert not np.isin(fingerprints(data, KEY), fingerprints(data, KEY[::-1])).any()
    assert UsedRecords.new().key != UsedRecords.new().key


def test_hashes_are_pinned():
    """A change of the hash would make every register on disk blind."""
    data = GroupedData(np.array([[0, 0.5], [1, -2]], dtype=np.float32), np.array([0, 1]), np.array([1, 0]), ("a", "b"))
    assert [f"{value:016x}" for value in fingerprints(data, KEY)] == ["9ea3fb5e49d10990", "95bd113c907cad77"]


def one_group(X: np.ndarray) -> GroupedData:
    zeros = np.zeros(len(X), dtype=np.int64)
    return GroupedData(X.astype(np.float32), zeros, zeros, ("all",))


def one_bit_apart() -> np.ndarray:
    """A row and the rows that differ from it in one bit, for 200 rows."""
    words = np.random.default_rng(0).random((200, 8), dtype=np.float32).view(np.uint32)
    flips = np.vstack([np.zeros((1, 8)), np.kron(np.eye(8), 2 ** np.arange(23)[:, None])]).astype(np.uint32)
    return (words[:, None] ^ flips).reshape(-1, 8).view(np.float32)


ROWS = {
    "random": lambda: np.random.default_rng(0).random((200_000, 4)),
    "one bit apart": one_bit_apart,
    "one small integer apart": lambda: np.pad(np.arange(1000)[:, None], ((0, 0), (3, 6))),
    "one-hot pairs": lambda: np.hstack([np.kron(np.eye(60), np.ones((60, 1))), np.tile(np.eye(60), (60, 1))]),
}


def n_collisions(hashes: np.ndarray, X: np.ndarray) -> int:
    assert len(np.unique(X.astype(np.float32), axis=0)) == len(X)
    return len(X) - len(np.unique(hashes))


@pytest.mark.parametrize("kind", ROWS)
def test_unequal_records_do_not_collide(kind):
    # Probability of a false alarm: below n² / 2⁶⁵ ≈ 1e-9 for the largest table.
    X = ROWS[kind]()
    assert n_collisions(fingerprints(one_group(X), KEY), X) == 0


@pytest.mark.parametrize(
    ("kind", "weak"),
    [
        ("random", lambda row: zlib.crc32(row.tobytes())),
        ("one bit apart", lambda row: int(row.view(np.uint32).sum(dtype=np.uint32)) >> 8),
        ("one small integer apart", lambda row: zlib.crc32(row.tobytes()) & 0xFF),
        ("one-hot pairs", lambda row: float(row.sum())),
    ],
)
def test_that_check_notices_a_weak_hash(kind, weak):
    X = ROWS[kind]()
    assert n_collisions(np.array([weak(row) for row in X.astype(np.float32)]), X) > 0


def test_a_record_is_its_features_its_label_and_its_group():
    data = one_group(np.zeros((1, 3)))
    named = dataclasses.replace(data, group_names=("a", "b"))
    variants = (data, dataclasses.replace(data, y=data.y + 1), dataclasses.replace(named, groups=data.groups + 1))
    assert len({int(fingerprints(variant, KEY)[0]) for variant in variants}) == 3


def test_a_use_is_never_replaced(register):
    with pytest.raises(ValueError, match=r"^records were noted for 'training' before; name another use\.$"):
        register.with_use("training", register.uses["training"])
    assert register.with_use("more", register.uses["training"]) is not register
    assert list(register.uses) == ["training", "certificate 1"]


def test_printing_shows_neither_key_nor_hashes(register):
    assert repr(register) == "UsedRecords(training: 1000, certificate 1: 500)"


def test_the_register_is_beside_the_folder_however_that_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "model.v1"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(folder)
    expected = tmp_path.resolve() / "model.v1.register"
    for name in (folder, Path(f"{folder}/"), Path("."), Path("../model.v1"), tmp_path / "link"):
        assert used_records_path(name) == expected


def test_the_file_keeps_all_and_is_for_its_owner_only(register, tmp_path):
    path = tmp_path / "model.register"
    assert read_used_records(path) is None
    write_used_records(path, UsedRecords.new())
    write_used_records(path, register)
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["model.register"]
    back = read_used_records(path)
    assert back.key == register.key
    assert list(back.uses) == list(register.uses)
    for name, known in register.uses.items():
        np.testing.assert_array_equal(back.uses[name], known)
    assert (np.diff(back.uses["training"].astype(object)) >= 0).all()


def test_a_crash_leaves_the_old_register(register, tmp_path, monkeypatch):
    path = tmp_path / "model.register"
    write_used_records(path, register)

    def fail(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        write_used_records(path, register.with_use("more", register.uses["training"]))
    assert list(read_used_records(path).uses) == list(register.uses)
    assert os.listdir(tmp_path) == ["model.register"]


def flipped(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: b"", "are damaged"),
        (lambda content: content[:-1], "are damaged"),
        (lambda content: b"no register", "are damaged"),
        (lambda content: flipped(content, len(content) - 1), "are damaged"),
        (lambda content: flipped(content, content.index(b"key") + 8), "are damaged"),
        (lambda content: content.replace(b"training", b"traininh"), "are damaged"),
        (lambda content: save({"0": np.zeros(1)}), "are damaged"),
        (lambda content: save({"0": np.zeros(1)}, metadata={"fairdp": "[]"}), "are damaged"),
        (lambda content: pickle.dumps({"key": KEY}), "are damaged"),
        (
            lambda content: save({}, metadata={"fairdp": json.dumps({"format": 9})}),
            "have format 9, this fairdp reads 2",
        ),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(register, tmp_path, damage, message):
    path = tmp_path / "model.register"
    write_used_records(path, register)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=rf"^used records '.*model\.register' {message}; .*\.$") as caught:
        read_used_records(path)
    assert "\n" not in str(caught.value)


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"^used records '.*' (cannot be read|are damaged).*; restore them from a copy\.$"
    ):
        read_used_records(tmp_path)


def test_the_file_holds_tensors_and_json_only(register, tmp_path):
    path = tmp_path / "model.register"
    write_used_records(path, register)
    with safe_open(path, framework="np") as file:
        assert sorted(file.keys()) == ["0", "1"]
        assert json.loads(file.metadata()["fairdp"])["uses"] == ["training", "certificate 1"]
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(path.read_bytes())


def test_every_used_record_is_found():
    """The first and the last of the sorted fingerprints too."""
    used = UsedRecords.new()
    hashes = fingerprints(records(50, seed=0), used.key)
    used = used.with_use("training", hashes)
    assert all(used.overlaps(hashes[i : i + 1]) == {"training": 1} for i in range(50))
