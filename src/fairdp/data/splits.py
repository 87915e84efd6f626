"""Splits into training and test rows: of public benchmarks, and of private tables."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp import _checks, _scratch
from fairdp.data.grouped import GroupedData
from fairdp.data.stored_rows import StoredRows, place_type

# Bytes of records that are copied at a time, and names of records that are compared at a time, about.
_CHUNK, _NAMES = 2**24, 2**21


def split_by_own_coin(data: GroupedData, *, seed: int, share: float) -> tuple[GroupedData, GroupedData]:
    """Two parts of a private table, the second with this share: each record's coin is a keyed hash of itself.

    Adding or removing a record leaves all others on their side, which no shuffle and no stratified split does. Equal
    records are numbered, so that each has a coin of its own; removing one of them is removing the last. The same seed
    makes the same split, and should be as secret as the records: whoever knows it can choose rows by their side. The
    sizes are random. The first part of expendable records is in their own memory.
    """
    chosen = _chosen_by_own_coin(data, seed=seed, share=share)
    second = data.take(_places(chosen))
    # Stored rows need not be moved. Moved one by one, values that share memory would be moved twice.
    if not data.expendable or isinstance(data.X, StoredRows) or np.may_share_memory(data.y, data.groups):
        return data.take(_places(~chosen)), second
    for values, last in zip(_arrays(data), _arrays(second), strict=True):
        _move_to_end(values, chosen, last)
    # Only the first part starts where the memory does: from elsewhere a matrix product may round in another way.
    return data.take(slice(data.n_samples - second.n_samples)), second


def _places(chosen: NDArray[np.bool_]) -> NDArray[Any]:
    return np.flatnonzero(chosen).astype(place_type(len(chosen)), copy=False)


def _arrays(data: GroupedData) -> list[NDArray[Any]]:
    X = np.asarray(data.X)
    return [values for values in (X, data.y, data.groups, data.weights, data.rows) if values is not None]


def _move_to_end(values: NDArray[Any], chosen: NDArray[np.bool_], last: NDArray[Any]) -> None:
    """Let the chosen rows, which are at hand as the last ones, follow all the others."""
    stop = 0
    for here in _chunks(len(values), values[:1].nbytes):
        # A copy: it goes to rows at or before its own, which may overlap them.
        others = values[here][~chosen[here]]
        values[stop : stop + len(others)] = others
        stop += len(others)
    values[stop:] = last


def _chosen_by_own_coin(data: GroupedData, *, seed: int, share: float) -> NDArray[np.bool_]:
    """Whose coin falls on the second part, shape (n_samples,)."""
    _checks.in_unit_interval(share=share)
    key, limit = seed.to_bytes(16, "little"), np.uint64(int(share * 2**64))
    names = _scratch.joined(_names(data, key), "<u8", (data.n_samples, 2))
    chosen = np.empty(data.n_samples, dtype=bool)
    for rows in _equals_together(names):
        chosen[rows] = _coins(names[rows]) < limit
    return chosen


def _names(data: GroupedData, key: bytes) -> Iterator[NDArray[np.uint64]]:
    """A keyed hash of each record, some records at a time, shape (n_records, 2)."""
    for part in data.batches(_step(data.row_bytes)):
        digests = (hashlib.blake2b(record, key=key, digest_size=16).digest() for record in _contents(part))
        yield np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def _equals_together(names: NDArray[np.uint64]) -> Iterator[NDArray[np.int64] | slice]:
    """All rows in order, or by the first bits of their names some at a time: those with one name come together."""
    n_bits = max(0, (len(names) - 1) // _NAMES).bit_length()
    if not n_bits:
        yield slice(None)
        return
    shift = np.uint64(64 - n_bits)
    for first in range(2**n_bits):
        pieces = range(0, len(names), _NAMES)
        yield np.concatenate([i + np.flatnonzero(names[i : i + _NAMES, 0] >> shift == first) for i in pieces])


def _coins(names: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The coin of each of these records, among which are all that equal one of them, in their order."""
    numbers, coins = _numbers_among_equals(names), np.empty(len(names), dtype="<u8")
    for here in _chunks(len(names), names[:1].nbytes):
        each = zip(_as_bytes(numbers[here, None]), _as_bytes(names[here]), strict=True)
        digests = (hashlib.blake2b(number, key=name, digest_size=8).digest() for number, name in each)
        coins[here] = np.frombuffer(b"".join(digests), dtype="<u8")
    return coins


def _contents(data: GroupedData) -> list[bytes]:
    """All that there is to say of each record; with other weights they are not equal."""
    codes = (data.y[:, None].astype(np.uint8), data.groups[:, None].astype("<u4"))
    parts = [np.asarray(data.X).reshape(data.n_samples, -1), *codes]
    if data.weights is not None:
        parts.append(data.weights[:, None])
    return _as_bytes(np.hstack([np.ascontiguousarray(part).view(np.uint8) for part in parts]))


def _as_bytes(rows: NDArray[Any]) -> list[bytes]:
    """The bytes of each row."""
    rows = np.ascontiguousarray(rows)
    return rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel().tolist()


def _numbers_among_equals(names: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """1 for the first record of a name, 2 for the second, and so on, shape (n_samples,)."""
    # Stable: equal names stay in the order of their records.
    order, places = np.lexsort(names.T), np.arange(len(names))
    names = names[order]
    is_first = np.append(True, (names[1:] != names[:-1]).any(1))[: len(names)]
    numbers = np.empty(len(names), dtype="<u8")
    numbers[order] = 1 + places - np.maximum.accumulate(places * is_first)
    return numbers


def _chunks(n_rows: int, n_bytes: int) -> Iterator[slice]:
    """All rows of so many bytes, some at a time."""
    step = _step(n_bytes)
    return (slice(start, start + step) for start in range(0, n_rows, step))


def _step(n_bytes: int) -> int:
    # Beside the bytes of a row, there are for a moment some objects that hold or hash them.
    return max(1, _CHUNK // (n_bytes + 200))


def split_rows(
    cells: NDArray[np.int64],
    *,
    seed: int,
    test_share: float = 0.2,
    clusters: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the training and of the test rows, in order.

    Parameters
    ----------
    cells
        Stratum of each row, 0 … m − 1, such as group and label: each gives the same share to the test rows.
    seed
        Public seed of the split.
    test_share
        Share of the rows of each stratum that go to the test side.
    clusters
        Rows with the same code stay on one side; by default each row is alone.
    """
    _checks.in_unit_interval(test_share=test_share)
    rows = np.arange(len(cells))
    members = _members(rows if clusters is None else clusters)
    quota = _quotas(np.bincount(cells), test_share)
    stratum = cells.tolist()
    test: list[int] = []
    for chosen in np.random.default_rng(seed).permutation(len(members)).tolist():
        if _fits(quota, [stratum[row] for row in members[chosen]]):
            for row in members[chosen]:
                quota[stratum[row]] -= 1
                test.append(row)
    is_test = np.isin(rows, test)
    return rows[~is_test], rows[is_test]


def _quotas(sizes: NDArray[np.int64], test_share: float) -> list[int]:
    """Test rows of each stratum: its share rounded, by largest remainder, to the right total."""
    shares = test_share * sizes
    quotas = np.floor(shares).astype(np.int64)
    left = round(test_share * int(sizes.sum())) - int(quotas.sum())
    quotas[np.argsort(quotas - shares, kind="stable")[:left]] += 1
    return [int(quota) for quota in quotas]


def _members(clusters: NDArray[np.int64]) -> list[list[int]]:
    """Rows of each cluster."""
    found: dict[int, list[int]] = {}
    for row, cluster in enumerate(clusters.tolist()):
        found.setdefault(cluster, []).append(row)
    return list(found.values())


def _fits(quota: Sequence[int], strata: Sequence[int]) -> bool:
    """Whether rows of these strata can join the test side."""
    return all(quota[stratum] >= strata.count(stratum) for stratum in strata)
