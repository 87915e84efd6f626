"""`fairdp ledger`: what was spent on which records, in total; limits; and whether the ledger is whole."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairdp._checks import DataError, SavedModelError
from fairdp._files import content_of, from_plain, parsed_json, to_plain
from fairdp.accounting.ledger_note import LedgerNote
from fairdp.ledger.book import Ledger, Receipt
from fairdp.ledger.composition import Total
from fairdp.ledger.entries import Entry, Limit
from fairdp.ledger.totals import record_total, table_total


@dataclass(frozen=True, kw_only=True)
class LedgerReport:
    """What a ledger holds, and what it adds up to.

    ``total`` is that of the record that has spent most, found by comparing records, for the data holder's eyes only;
    ``tables`` has what may be published, by the declared names alone.
    """

    path: str
    entries: tuple[Entry, ...]
    total: Total
    tables: dict[str, Total]
    limits: dict[str, Limit]

    def to_json(self) -> dict[str, object]:
        """Plain values under the names users see."""
        return {
            "ledger": self.path,
            "entries": [_plain(entry) for entry in self.entries],
            "total": to_plain(self.total),
            "tables": to_plain(self.tables),
            "limits": to_plain(self.limits),
        }


def _plain(entry: Entry) -> dict[str, object]:
    return {
        "entry": entry.number,
        "command": entry.command,
        "state": entry.state,
        "table": entry.table,
        "when": entry.when,
        "epsilon": entry.cost.epsilon,
        "delta": entry.cost.delta,
        "n_records": max((view.n_records for view in entry.views.values()), default=None),
        "mechanisms": to_plain(entry.cost.by_group),
        "shares_records_with": sorted({number for history in entry.histories for number in history}),
        "series": None if entry.series is None else to_plain(entry.series),
    }


def list_ledger(path: Path, *, table: str | None = None) -> LedgerReport:
    """All entries, or those of one table, with their totals; a ledger that is not there yet holds nothing."""
    entries: Sequence[Entry] = ()
    limits: dict[str, Limit] = {}
    if path.exists():
        with Ledger(path) as ledger:
            entries, limits = ledger.entries(), ledger.limits()
    if table is not None:
        if table not in {entry.table for entry in entries}:
            raise DataError(f"ledger {str(path)!r} has no entry of table {table!r}.")
        entries = [entry for entry in entries if entry.table == table]
    names = dict.fromkeys(entry.table for entry in entries)
    return LedgerReport(
        path=str(path),
        entries=tuple(entries),
        total=record_total(entries),
        tables={name: table_total(entries, name) for name in names},
        limits={name: limit for name, limit in limits.items() if table in (None, name)},
    )


def set_limit(path: Path, limit: Limit) -> bool:
    """Put a limit in force; whether the ledger has an entry of its table, whose name may be mistyped otherwise."""
    with Ledger(path) as ledger:
        ledger.set_limit(limit)
        return any(entry.table == limit.table for entry in ledger.entries())


def check_ledger(path: Path, folders: Iterable[Path]) -> int:
    """Check a ledger, and that it has the entries of these model folders; the number of its entries."""
    if not path.exists():
        raise DataError(f"there is no ledger {str(path)!r}; name another with `ledger`.")
    with Ledger(path) as ledger:
        n_entries = ledger.check()
        for folder in folders:
            ledger.entry_of(_receipt_of(folder))
    return n_entries


def _receipt_of(folder: Path) -> Receipt:
    """What a model folder keeps of its entry; read without the model, which nobody needs here."""
    try:
        note = from_plain(LedgerNote, parsed_json(content_of(folder / "privacy.json"))["ledger"])
    except (OSError, ValueError, LookupError, TypeError):
        raise SavedModelError(
            f"{str(folder)!r} names no entry of a ledger: it is no saved model, or none was kept."
        ) from None
    return Receipt(entry=note.entry, token=note.token)
