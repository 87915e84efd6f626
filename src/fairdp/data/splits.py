"""Splits into training and test rows: of public benchmarks, and of private tables."""

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairdp import _validate
from fairdp.data.grouped import GroupedData


def split_by_own_coin(data: GroupedData, *, seed: int, share: float) -> tuple[GroupedData, GroupedData]:
    """Two parts of a private table, the second with this share: each record's coin is a keyed hash of itself.

    Adding or removing a record leaves all others on their side, which no shuffle and no stratified split does. Equal
    records are numbered, so that each has a coin of its own; removing one of them is removing the last. The split is
    public and repeatable, and its sizes are random.
    """
    _validate.in_unit_interval(share=share)
    key = seed.to_bytes(16, "little")
    limit = int(share * 2**64)
    chosen = np.zeros(data.n_samples, dtype=bool)
    copies: Counter[bytes] = Counter()
    for row in range(data.n_samples):
        record = hashlib.blake2b(data.X[row].tobytes(), key=key, digest_size=16)
        record.update(bytes([int(data.y[row])]) + int(data.groups[row]).to_bytes(4, "little"))
        name = record.digest()
        copies[name] += 1
        coin = hashlib.blake2b(copies[name].to_bytes(8, "little"), key=name, digest_size=8)
        chosen[row] = int.from_bytes(coin.digest(), "little") < limit
    return data.take(np.flatnonzero(~chosen)), data.take(np.flatnonzero(chosen))


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
    _validate.in_unit_interval(test_share=test_share)
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
