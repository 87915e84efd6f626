"""What entries add up to: for a table by its name, which depends on no record, and for the record that spent most."""

from collections.abc import Sequence

from fairdp.ledger.composition import NOTHING, Total, composed
from fairdp.ledger.entries import Entry
from fairdp.ledger.sharing import maximal


def table_total(entries: Sequence[Entry], table: str) -> Total:
    """The total over all entries of a declared table, as if each had used every record: it may be published."""
    return composed(entry.cost for entry in entries if entry.table == table)


def record_total(entries: Sequence[Entry]) -> Total:
    """The total of the record that has spent most, found by comparing records: for the data holder's eyes only.

    The last entry that used a record knows all before it that did.
    """
    known = {entry.number: entry.cost for entry in entries}
    sets = [(*history, entry.number) for entry in entries for history in entry.histories]
    totals = [composed(known[number] for number in each if number in known) for each in maximal(sets)]
    return max(totals, key=lambda total: (total.epsilon, total.epsilon_sum), default=NOTHING)
