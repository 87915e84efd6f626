"""`fairdp plan`: what a run would cost, without any data."""

from typing import Any

import click

from fairdp.cli.options import output_options, training_options, whole_numbers


@click.command(epilog="\b\nExample:\n  fairdp plan --epsilon 1 --group-sizes 10771,21790\n")
@click.option("--group-sizes", callback=whole_numbers, required=True, help="Records of each group, N,N,…")
@training_options
@output_options
def plan(as_json: bool, seed: int | None, **parameters: Any) -> None:
    """Show the noise that a budget needs and epsilon for every group, before any data is touched."""
    from fairdp.planning import plan_report
    from fairdp.reporting import print_plan

    print_plan(plan_report(**parameters), as_json=as_json)
