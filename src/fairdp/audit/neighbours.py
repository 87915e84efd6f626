"""The records by which two tables differ: one of every kind that has ever changed what it should not."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairdp.audit.tables import GROUPS, LABEL, SENSITIVE, Row, Table, typical_row


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A record that one of two tables has and the other has not; none for the same table twice.

    Parameters
    ----------
    refused
        Whether it may be refused, and the whole table with it, in one line.
    """

    name: str
    row: Row | None
    refused: bool = False


# Cells that differ from those of a typical record, by what they are.
_KINDS: dict[str, dict[str, str]] = {
    "a word among codes": {"code": "0A"},
    "a code without its zero": {"code": "3"},
    "a code with more zeros": {"code": "0003"},
    "a code as a decimal": {"code": "3.0"},
    "a truth value among codes": {"code": "TRUE"},
    "a missing code spelled out": {"code": "other"},
    "alone in its category": {"region": "west"},
    "quotes and commas": {"city": 'A "town", far'},
    "another script": {"city": "Ελλάδα"},
    "smallest numbers": {"age": "17", "income": "-10000", "hours": "0"},
    "largest numbers": {"age": "90", "income": "1000000", "hours": "168"},
    "numbers beyond the bounds": {"age": "-5", "income": "-1e9", "hours": "1e6"},
    "huge numbers": {"age": "1e300", "income": "1e30", "hours": "1e30"},
    "too large for a double": {"age": "1e400", "income": "-1e400"},
    "infinite": {"age": "inf", "income": "-inf"},
    "not a number": {"age": "nan"},
    "everything missing that may be": {"age": "", "region": "", "joined": ""},
    "a date among numbers": {"age": "1990-01-01"},
    "a number among dates": {"joined": "12000"},
    "a group that counts as another": {SENSITIVE: "divers"},
    "a word among numbers": {"income": "much", "age": "old"},
    "a missing value that nobody declared": {"hours": "", "income": "", "city": ""},
    "an undeclared category": {"region": "moon"},
    "largest weight": {"weight": "1.0"},
    "no weight": {"weight": "0.0"},
}
_REFUSED: dict[str, dict[str, str]] = {
    "an undeclared label": {LABEL: "maybe"},
    "no label": {LABEL: ""},
    # The declared schema says what it counts as; of columns that nobody declared, a group must be filled.
    "no group": {SENSITIVE: ""},
}


def neighbours_of(table: Table, seed: int) -> list[Neighbour]:
    """All kinds, each as one record; the same table comes first, to see that a run can be repeated at all."""
    rng = np.random.default_rng(seed)
    first = [Neighbour(name="the same table", row=None)]
    first += [Neighbour(name=f"typical {group}", row=typical_row(rng, group)) for group in GROUPS]
    row = typical_row(rng)
    other = {**row, LABEL: "no" if row[LABEL] == "yes" else "yes"}
    first += [Neighbour(name="one label", row=row), Neighbour(name="the other label", row=other)]
    first += [Neighbour(name="equal to another", row=dict(table.rows[0]))]
    first += [Neighbour(name=name, row={**typical_row(rng), **cells}) for name, cells in _KINDS.items()]
    refused = [
        Neighbour(name=name, row={**typical_row(rng), **cells}, refused=True) for name, cells in _REFUSED.items()
    ]
    return [*first, *refused]


def typical_neighbours(seed: int) -> Iterator[Neighbour]:
    """Typical records without end, for routes that have yet to meet one of their parts."""
    rng = np.random.default_rng([seed, 1])
    number = 0
    while True:
        number += 1
        yield Neighbour(name=f"further typical record {number}", row=typical_row(rng, GROUPS[number % len(GROUPS)]))
