"""Records as keyed hashes of their cells as they are written, by the names of columns, whatever a schema makes of them.

A record's hash is the sum, over its columns, of a keyed hash of each cell. So the order of the columns does not matter,
and the hash of a record in a table with fewer columns, a *view*, can be computed from one with more. Cells are compared
as values: 1, 1.0 and 01 are one number, a date is its day, and a missing value counts as a column that is not there.
Fractions are compared in single precision, in which some formats keep them and which others do not print in full.
Two different records share a hash of 128 bits with probability 2⁻¹²⁸.
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from fairdp._checks import DataError
from fairdp.data.cells import number_of, spelling_of
from fairdp.data.distinct import distinct_cells, numbers_of

Columns = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class HashedRecords:
    """Hashes of the same records by view: each over the columns it names, which are sorted. Printing shows counts."""

    views: Mapping[Columns, NDArray[np.bytes_]]

    @property
    def columns(self) -> Columns:
        """All columns of the table."""
        return max(self.views, key=len)

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.views[self.columns])

    def __repr__(self) -> str:
        return f"HashedRecords({self.n_records} by {len(self.columns)} columns)"


class RecordHasher:
    """Hashes the rows of a table as they pass, over all columns and over each known view with at least half of them."""

    def __init__(self, key: bytes, known: Iterable[Columns] = ()) -> None:
        self._key, self._known = key, [tuple(sorted(columns)) for columns in known]
        self._columns: Columns = ()
        self._passed: dict[Columns, deque[NDArray[np.bytes_]]] = {}

    def add(self, frame: pd.DataFrame) -> None:
        """Hash some rows more; all have the columns of the first."""
        names = [str(name) for name in frame.columns]
        columns = tuple(sorted(names))
        if not self._passed:
            # By less than half of its columns, different people would be taken for one.
            parts = (view for view in self._known if set(view) <= set(columns) and 2 * len(view) >= len(columns))
            views = {columns, *parts}
            self._columns, self._passed = columns, {view: deque() for view in views}
        elif columns != self._columns:
            raise DataError("a part of the table has other columns than its beginning.")
        sums = {view: np.zeros((len(frame), 2), dtype="<u8") for view in self._passed}
        for position, name in enumerate(names):
            hashes = cell_hashes(frame.iloc[:, position], self._column_key(name))
            for view, total in sums.items():
                if name in view:
                    # Modulo 2⁶⁴, both halves by themselves.
                    total += hashes
        for view, total in sums.items():
            self._passed[view].append(total.view("S16").ravel())

    def hashed(self, rows: Iterable[NDArray[Any]] | None = None) -> HashedRecords:
        """All rows that have passed, in their order, or those at these places; the hasher lets go of them."""
        used = None
        if rows is not None and self._passed:
            used = np.zeros(sum(map(len, self._passed[self._columns])), dtype=bool)
            for places in rows:
                used[places] = True
        return HashedRecords({view: _joined(parts, used) for view, parts in self._passed.items()})

    def _column_key(self, name: str) -> bytes:
        return hashlib.blake2b(json.dumps(name).encode(), key=self._key, digest_size=32).digest()


def cell_hashes(values: pd.Series, key: bytes) -> NDArray[np.uint64]:
    """Keyed hashes of a column's cells, shape (n_rows, 2): by value where a cell is a number, else by its text."""
    if len(values) and _is_number(values.iloc[0]):
        try:
            return _number_hashes(numbers_of(values), key)
        except DataError:
            # Some cells are words.
            pass
    codes, cells = distinct_cells(values)
    found = [_number_or_word(cell) for cell in cells]
    numbers = np.array([np.nan if isinstance(value, str) else value for value in found])
    hashes = _number_hashes(numbers, key)
    for place, value in enumerate(found):
        if isinstance(value, str):
            digest = hashlib.blake2b(value.encode(errors="surrogatepass"), key=key, digest_size=16).digest()
            hashes[place] = np.frombuffer(digest, dtype="<u8")
    return hashes.take(codes, axis=0)


def _is_number(value: object) -> bool:
    return isinstance(_number_or_word(value), float)


def _number_or_word(cell: object) -> float | str:
    """What a cell is compared by: a number, NaN if there is none, or else a text."""
    try:
        number = number_of(cell)
        return spelling_of(cell) if number is None else number
    except TypeError:
        # Lists and the like, in a column that no schema uses.
        return repr(cell)


def _number_hashes(numbers: NDArray[np.float64], key: bytes) -> NDArray[np.uint64]:
    """A block cipher of each number, two halves of 64 bits; zero where there is none."""
    blocks = np.zeros((len(numbers), 2), dtype="<f8")
    with np.errstate(over="ignore"):
        compared = np.where(numbers == np.rint(numbers), numbers, numbers.astype(np.float32))
    blocks[:, 0] = np.where(np.isnan(numbers), 0.0, compared)
    # Each number by itself is what is wanted here: the same number must give the same hash.
    encrypted = Cipher(AES(key), ECB()).encryptor().update(blocks.view(np.uint8).ravel().data)
    hashes = np.frombuffer(encrypted, dtype="<u8").reshape(-1, 2).copy()
    hashes[np.isnan(numbers)] = 0
    return hashes


def _joined(parts: deque[NDArray[np.bytes_]], used: NDArray[np.bool_] | None) -> NDArray[np.bytes_]:
    """One array of the parts, or of what is used of them, each of which is let go as soon as it is copied."""
    whole = np.empty(sum(map(len, parts)) if used is None else int(used.sum()), dtype="S16")
    start = passed = 0
    while parts:
        part = parts.popleft()
        here = slice(passed, passed := passed + len(part))
        mine = part if used is None else part[used[here]]
        whole[start : start + len(mine)] = mine
        start += len(mine)
    return whole
