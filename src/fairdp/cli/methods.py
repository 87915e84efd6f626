"""`fairdp methods`: the methods and what they promise."""

import click

from fairdp.cli.options import output_options


@click.command(epilog="\b\nExample:\n  fairdp methods --json\n")
@output_options
def methods(as_json: bool, seed: int | None) -> None:
    """List the training methods, their guarantees and their papers."""
    from fairdp.methods import METHODS
    from fairdp.reporting import print_rows

    rows = [
        {
            "method": name,
            "private": method.private,
            "guarantee": method.guarantee,
            "group needed at prediction": method.needs_group_at_prediction,
            "paper": method.paper,
        }
        for name, method in METHODS.items()
    ]
    print_rows("methods", rows, as_json=as_json)
