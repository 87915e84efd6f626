"""`fairdp methods`: the methods and what they promise."""

import click

from fairdp.cli.options import json_option
from fairdp.config.parameters import DECLARED


@click.command(epilog="\b\nExample:\n  fairdp methods --json\n")
@json_option
def methods(as_json: bool) -> None:
    """List the training methods, their guarantees and their papers."""
    from fairdp.cli.printing import print_cards
    from fairdp.methods import METHODS

    cards = [
        {
            "method": name,
            "default": name == DECLARED["method"].default,
            "private": method.private,
            "unit": method.unit,
            "guarantee": method.guarantee,
            "needs_group_at_prediction": method.needs_group_at_prediction,
            "paper": method.paper,
        }
        for name, method in METHODS.items()
    ]
    print_cards("methods", cards, as_json=as_json)
