"""`fairdp bench`: speed and memory as ratios in one run."""

import click

from fairdp.cli.options import json_option


@click.command(epilog="\b\nExample:\n  fairdp bench --json\n")
@click.option("--quick", is_flag=True, help="Fewer rounds: rough figures in under a minute.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Torch threads.")
@json_option
def bench(quick: bool, threads: int, as_json: bool) -> None:
    """Compare a private step with a plain one and with Opacus, and whole fits with those of others, in one process."""
    from fairdp.cli.printing import print_bench
    from fairdp.experiments.bench import run_bench

    print_bench(run_bench(quick=quick, n_threads=threads), as_json=as_json)
