"""What the rows of a ledger say: entries for what was spent, what they cost after all, their completion, and limits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairdp._checks import DataError
from fairdp._files import RecordError, from_plain
from fairdp.ledger.costs import Cost
from fairdp.ledger.records import Columns
from fairdp.ledger.store import Row

SPEND, REFINE, COMPLETE, LIMIT = "spend", "refine", "complete", "limit"
# What was planned counts as spent from the moment it is written; a crash leaves it so.
SPENT, COMPLETED = "spent", "completed"


@dataclass(frozen=True, kw_only=True)
class Series:
    """The place of a certificate among those that hold together: number k of N, or of a series without end (N = 0)."""

    number: int
    of: int


@dataclass(frozen=True, kw_only=True)
class View:
    """Columns by which an entry's records are hashed, how many there are, and the digest of their hashes."""

    columns: Columns
    n_records: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One release, or several that were planned as one.

    Parameters
    ----------
    token
        Random; a model folder keeps it with the number, and nothing in it depends on a record.
    table
        Declared name of the table.
    model
        What the release is about: for a certificate, the model (the number of its entry, or its digest).
    views
        How its records were hashed, by name; none where they are unknown.
    histories
        The different sets of earlier entries that used one of its records.
    """

    number: int
    token: str
    command: str
    table: str
    when: str
    cost: Cost
    model: str
    series: Series | None
    views: dict[str, View]
    histories: tuple[tuple[int, ...], ...]
    state: str = field(default=SPENT)

    @property
    def columns(self) -> Columns:
        """All columns of the table; none where they are unknown."""
        return max((view.columns for view in self.views.values()), key=len, default=())


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What entries of a table, or any record of it, may spend in total; a later limit replaces an earlier one.

    With an ``order`` it is kept by a Rényi filter at that order and then needs a δ; else by the sum of ε, and of δ if
    there is a limit on it.
    """

    table: str
    epsilon: float
    delta: float | None = None
    order: int | None = None


def read_entries(rows: Sequence[Row]) -> list[Entry]:
    """All entries in their order, each in its present state."""
    done = {row.body["entry"] for row in rows if row.kind == COMPLETE}
    refined = {row.body["entry"]: _read(Cost, row.body["cost"]) for row in rows if row.kind == REFINE}
    entries = [_read(Entry, row.body) for row in rows if row.kind == SPEND]
    entries = [replace(entry, cost=refined.get(entry.number, entry.cost)) for entry in entries]
    return [replace(entry, state=COMPLETED) if entry.number in done else entry for entry in entries]


def read_limits(rows: Iterable[Row]) -> dict[str, Limit]:
    """The limits that are in force, by table."""
    found = [_read(Limit, row.body) for row in rows if row.kind == LIMIT]
    return {limit.table: limit for limit in found}


def _read(kind: Any, body: dict[str, Any]) -> Any:
    try:
        return from_plain(kind, body)
    except (RecordError, ValueError):
        raise DataError("the ledger holds an entry that this fairdp cannot read; install a newer one.") from None
