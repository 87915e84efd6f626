"""Which earlier entries used the records of a new one.

Equal rows are different people, and nobody can say which of them a row of another table is. So the worst is assumed of
each: a record that equals one that an entry used was used by that entry, however many of either there are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fairdp.data.stored_rows import place_type
from fairdp.ledger.records import Columns, HashedRecords

History = tuple[int, ...]
Chunks = Callable[[Columns], Iterator[NDArray[np.bytes_]]]
# More histories than this are taken for one record's, which can only be too much; on the way there may be more of them.
_MOST_HISTORIES, _MOST_PATTERNS = 64, 4096


def common_view(one: Iterable[Columns], other: Iterable[Columns]) -> Columns | None:
    """The columns by which records of two tables can be matched: the fewest by which both were hashed.

    A column more, such as the day of an export, could only hide a person.
    """
    return min(set(one) & set(other), key=lambda columns: (len(columns), columns), default=None)


def are_akin(one: Columns, other: Columns) -> bool:
    """Whether two tables that cannot be matched may well hold the same people: half the columns of one are in both."""
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
        theirs, their_second = _halves(chunk)
        sought = np.arange(np.searchsorted(mine, theirs[0], "left"), np.searchsorted(mine, theirs[-1], "right"))
        places = np.searchsorted(theirs, mine[sought])
        while len(sought):
            same = theirs[places] == mine[sought]
            found[order[sought]] |= same & (their_second[places] == second[order[sought]])
            # The same half may begin several hashes.
            left = same & ~found[order[sought]] & (places + 1 < len(theirs))
            sought, places = sought[left], places[left] + 1
    return found


def _halves(hashes: NDArray[np.bytes_]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Both halves of each hash as numbers in the order of its bytes."""
    halves = hashes.view(">u8").reshape(-1, 2).astype(np.uint64)
    return halves[:, 0].copy(), halves[:, 1].copy()


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
