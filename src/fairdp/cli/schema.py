"""`fairdp schema`: propose a schema file for a table."""

from pathlib import Path
from typing import Any

import click

from fairdp.cli.options import NAMES, detected_format_options, json_option, taken_format
from fairdp.commands.progress import say


@click.command(
    epilog="""\b
Example:
  fairdp schema loans.csv --label default --sensitive sex,region > loans.yaml
"""
)
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--label", required=True, help="Column to predict; it must have two values.")
@click.option(
    "--positive",
    help="The label's value that is a positive decision; needed unless they are 0/1, false/true or no/yes.",
)
@click.option("--sensitive", required=True, type=NAMES, help="Protected columns, separated by commas.")
@detected_format_options
@json_option
def schema(
    table: Path, label: str, positive: str | None, sensitive: tuple[str, ...], as_json: bool, **written: Any
) -> None:
    """Propose types, categories and bounds of TABLE as a schema file, for you to review and confirm.

    How the file is written is found too, and becomes part of the schema: with it, no command finds out from rows how
    other rows are to be read. The proposal has looked at private rows, and says so: until you replace what it read with
    what you know and set "declared: true", models trained with it say that the schema was read from the table.
    """
    from fairdp.cli.printing import print_pairs
    from fairdp.data.detection import detected_format
    from fairdp.data.proposal import proposed_schema
    from fairdp.data.tables import read_table

    found = detected_format(table, taken_format(written))
    text = proposed_schema(
        read_table(table, found),
        table=table.name,
        label=label,
        sensitive=sensitive,
        positive=positive,
        written=found,
    )
    say(f"Read as {found.in_words()}; options such as --sep and --day-first say otherwise.")
    if as_json:
        print_pairs({"table": str(table), "declared": False, "schema": text}, as_json=True)
    else:
        click.echo(text, nl=False)
    say("Read from private rows: review it, then set 'declared: true' (docs/schema.md).")
