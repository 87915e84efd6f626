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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from fairdp.data.cells import distinct_cells, number_of, numbers_of, raw_text
from fairdp.data.grouped import GroupedData, encoded_hashes, place_type
from fairdp.errors import DataError

Columns = tuple[str, ...]
History = tuple[int, ...]
Chunks = Callable[[Columns], Iterator[NDArray[np.bytes_]]]
# The view by all that a schema makes of a record: no column is called so. Cells that are written otherwise, beyond the
# declared bounds, or in one bin, are the same to the model; nothing is added up by it.
ENCODED: Columns = ("\0encoded",)
# More histories than this are taken for one record's, which can only be too much; on the way there may be more of them.
_MOST_HISTORIES, _MOST_PATTERNS = 64, 4096


@dataclass(frozen=True, eq=False)
class HashedRecords:
    """Hashes of the same records by view: each over the columns it names, which are sorted. Printing shows counts.

    ``model_view`` is the view by the columns of a model alone, if there is one: records that differ elsewhere, in the
    day of an export say, are the same to the model. Nothing is added up by it, nor by `ENCODED`, whose hashes may be in
    another order.
    """

    views: Mapping[Columns, NDArray[np.bytes_]]
    model_view: Columns = ()

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
        self._model_view: Columns = ()
        self._passed: dict[Columns, deque[NDArray[np.bytes_]]] = {}
        self._encoded: deque[NDArray[np.bytes_]] = deque()

    def add_encoded(self, data: GroupedData) -> None:
        """Hash some records as a model gets them: the same ones, or those of them that are used, in any order."""
        key = hashlib.blake2b(b"encoded", key=self._key, digest_size=32).digest()
        self._encoded.append(encoded_hashes(data, size=16, key=key))

    def encoded(self) -> NDArray[np.bytes_] | None:
        """The hashes of all encoded records that were added, if any were; the hasher lets go of them."""
        return _joined(self._encoded, None) if self._encoded else None

    def add(self, frame: pd.DataFrame, model_columns: Iterable[str] = ()) -> None:
        """Hash some rows more; all have the columns of the first, and are for a model with these columns."""
        names = [str(name) for name in frame.columns]
        columns = tuple(sorted(names))
        if not self._passed:
            # By less than half of its columns, different people would be taken for one.
            parts = (view for view in self._known if set(view) <= set(columns) and 2 * len(view) >= len(columns))
            views = {columns, *parts}
            own = tuple(sorted(model_columns))
            self._model_view = own if set(own) <= set(columns) and own not in views else ()
            self._columns = columns
            self._passed = {view: deque() for view in (views | {self._model_view} if self._model_view else views)}
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
        views = {view: _joined(parts, used) for view, parts in self._passed.items()}
        encoded = self.encoded() if views else None
        return HashedRecords(views if encoded is None else {**views, ENCODED: encoded}, self._model_view)

    def _column_key(self, name: str) -> bytes:
        return hashlib.blake2b(json.dumps(name).encode(), key=self._key, digest_size=32).digest()


def cell_hashes(values: pd.Series, key: bytes) -> NDArray[np.uint64]:
    """Keyed hashes of a column's cells, shape (n_rows, 2): by value where a cell is a number, else by its text."""
    if len(values) and isinstance(_number_or_word(values.iloc[0]), float):
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


def _number_or_word(cell: object) -> float | str:
    """The value that a cell is compared by: a number, NaN if there is none, or else a text."""
    try:
        number = number_of(cell)
        return raw_text(cell) if number is None else number
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


def common_view(one: Iterable[Columns], other: Iterable[Columns]) -> Columns | None:
    """The columns by which records of two tables can be matched: the fewest by which both were hashed.

    A column more, such as the day of an export, could only hide a person.
    """
    return min(set(one) & set(other), key=lambda columns: (len(columns), columns), default=None)


def same_table(one: Columns, other: Columns) -> bool:
    """True if two tables that cannot be matched may hold the same people: half the columns of one are in both."""
    return 2 * len(set(one) & set(other)) >= min(len(one), len(other)) > 0


def members(records: HashedRecords, view: Columns, chunks: Chunks) -> NDArray[np.bool_]:
    """Which records are among those of an entry, which come sorted and some at a time.

    Sought by the first half of a hash, as a number, which takes a third of the time that texts take.
    """
    halves = records.views[view].view(">u8").reshape(-1, 2)
    first, second = halves[:, 0].astype(np.uint64), halves[:, 1]
    order = np.argsort(first).astype(place_type(len(first)))
    mine, found = first[order], np.zeros(len(order), dtype=bool)
    del first
    for chunk in chunks(view):
        # As numbers in the order of their bytes.
        theirs, their_second = (half.copy() for half in chunk.view(">u8").reshape(-1, 2).astype(np.uint64).T)
        sought = np.arange(np.searchsorted(mine, theirs[0], "left"), np.searchsorted(mine, theirs[-1], "right"))
        places = np.searchsorted(theirs, mine[sought])
        while len(sought):
            same = theirs[places] == mine[sought]
            found[order[sought]] |= same & (their_second[places] == second[order[sought]])
            # The same half may begin several hashes.
            left = same & ~found[order[sought]] & (places + 1 < len(theirs))
            sought, places = sought[left], places[left] + 1
    return found


def histories(n_records: int, used: Mapping[int, NDArray[np.bool_] | bool]) -> tuple[History, ...]:
    """The different sets of earlier entries that used a record, without those that another one covers.

    Parameters
    ----------
    used
        For each entry which of the new records it used; True where they cannot be told apart and all may have been.
    """
    sets: list[History] = [()]
    which = np.zeros(n_records, dtype=np.int64)
    for number, members in sorted(used.items()):
        if isinstance(members, bool):
            sets = [(*known, number) if members else known for known in sets]
            continue
        code = 2 * which + members
        counts = np.bincount(code, minlength=2 * len(sets))
        sets = [(*sets[place // 2], number) if place % 2 else sets[place // 2] for place in np.flatnonzero(counts)]
        which = (np.cumsum(counts > 0) - 1)[code]
        if len(sets) > _MOST_PATTERNS:
            sets, which = [tuple(sorted(set().union(*sets)))], np.zeros_like(which)
    return maximal(sets)


def maximal(sets: Sequence[History]) -> tuple[History, ...]:
    """The sets that no other one covers."""
    different = sorted({frozenset(each) for each in sets}, key=len, reverse=True)
    kept: list[frozenset[int]] = []
    for each in different:
        if not any(each <= other for other in kept):
            kept.append(each)
    if len(kept) > _MOST_HISTORIES:
        kept = [frozenset().union(*kept)]
    return tuple(sorted(tuple(sorted(each)) for each in kept)) or ((),)
