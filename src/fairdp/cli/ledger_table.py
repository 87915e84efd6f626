"""The table that `fairdp ledger` prints."""

from typing import TYPE_CHECKING

from fairdp._format import rounded_up
from fairdp.cli.printing import print_json
from fairdp.cli.tables import print_table

if TYPE_CHECKING:
    from fairdp.commands.ledger import LedgerReport


def print_ledger(report: "LedgerReport", *, as_json: bool) -> None:
    """What was spent on which records, in total."""
    if as_json:
        print_json(report.to_json())
        return
    rows = [
        (str(entry.number), entry.command, entry.state, entry.table, rounded_up(entry.cost.epsilon), entry.when)
        for entry in report.entries
    ]
    print_table(report.path, rows, headers=("entry", "command", "state", "table", "epsilon", "when"))
    totals = {f"table {name}": total for name, total in report.tables.items()}
    totals["the record that has spent most (for your eyes only)"] = report.total
    added = [
        (name, rounded_up(total.epsilon), f"{total.delta:.4g}", rounded_up(total.epsilon_sum))
        for name, total in totals.items()
    ]
    print_table(None, added, headers=("total", "epsilon, if planned in advance", "delta", "sum, in any case"))
    for name, limit in report.limits.items():
        how = "the sum" if limit.order is None else f"a Renyi filter at order {limit.order}, delta {limit.delta:g}"
        print(f"limit on table {name}: epsilon {limit.epsilon:g}, by {how}")
