"""`fairdp ledger`: what was spent on which records, in total, and limits on it."""

from pathlib import Path

import click

from fairdp.cli.options import json_option
from fairdp.cli.sections import OrderedGroup
from fairdp.commands.progress import say

_ledger_option = click.option(
    "--ledger",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The ledger.  [default: $FAIRDP_LEDGER, or one for each user]",
)


@click.group(cls=OrderedGroup, invoke_without_command=True, epilog="Example: fairdp ledger limit loans.csv --epsilon 3")
@_ledger_option
@json_option
@click.pass_context
def ledger(context: click.Context, path: Path | None, as_json: bool) -> None:
    """Show what was spent on your tables in total, set limits, and check the ledger; without a command, list it."""
    if context.invoked_subcommand is None:
        context.invoke(list_, path=path, table=None, as_json=as_json)


@ledger.command("list", epilog="\b\nExample:\n  fairdp ledger list --table loans.csv\n")
@_ledger_option
@click.option("--table", help="Only the entries of this table, by its declared name or that of its file.")
@json_option
def list_(path: Path | None, table: str | None, as_json: bool) -> None:
    """List all entries and what they add up to, table by table and for the record that has spent most.

    Totals compose the mechanisms and hold for a plan that was fixed in advance; the simple sums hold in any case. The
    total of single records is for the data holder's eyes only.
    """
    from fairdp.cli.ledger_table import print_ledger
    from fairdp.commands.ledger import list_ledger

    print_ledger(list_ledger(_path(path), table=table), as_json=as_json)


@ledger.command(epilog="\b\nExample:\n  fairdp ledger limit loans.csv --epsilon 3\n")
@click.argument("table")
@click.option("--epsilon", type=float, required=True, help="The most that may be spent on TABLE or on a record of it.")
@click.option("--delta", type=float, help="The same for delta; needed with --order.")
@click.option(
    "--order",
    type=int,
    help="Keep the limit by a Renyi filter at this order instead of by the sum of epsilons.",
)
@_ledger_option
@json_option
def limit(table: str, epsilon: float, delta: float | None, order: int | None, path: Path | None, as_json: bool) -> None:
    """Limit what may be spent on TABLE in total: commands that would pass it are refused before they spend anything."""
    from fairdp._files import to_plain
    from fairdp.cli.printing import print_pairs
    from fairdp.commands.ledger import set_limit
    from fairdp.ledger.entries import Limit

    chosen = Limit(table=table, epsilon=epsilon, delta=delta, order=order)
    if not set_limit(_path(path), chosen):
        say(f"nothing was spent on a table named {table!r} yet: see the names in `fairdp ledger`.")
    given = {name: value for name, value in to_plain(chosen).items() if value is not None}
    print_pairs(chosen if as_json else given, as_json=as_json)


@ledger.command(epilog="\b\nExample:\n  fairdp ledger check model/\n")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@_ledger_option
@json_option
def check(folders: tuple[Path, ...], path: Path | None, as_json: bool) -> None:
    """Check that the ledger is whole, and that it has the entries of the models in FOLDERS.

    A ledger that was restored from an older copy lacks the entries of later models.
    """
    from fairdp.cli.printing import print_pairs
    from fairdp.commands.ledger import check_ledger

    found = check_ledger(_path(path), folders)
    print_pairs({"ledger": str(_path(path)), "entries": found, "whole": True}, as_json=as_json)


def _path(path: Path | None) -> Path:
    from fairdp.ledger.book import ledger_path

    return path or ledger_path()
