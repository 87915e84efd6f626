"""`fairdp retarget`: another fairness target for a saved model, without its training records."""

from pathlib import Path

import click

from fairdp.cli.exits import exit_unless_good, to_any_reader
from fairdp.cli.options import json_option, parameter_options, verbose_option


@click.command(epilog="\b\nExample:\n  fairdp retarget model/ --max-gap 0.05 --out model-05/\n")
@click.argument("folder", type=click.Path(path_type=Path))
@parameter_options("max_gap", "min_ratio", "price")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="New folder for the moved model.")
@verbose_option
@json_option
def retarget(
    folder: Path,
    max_gap: float | None,
    min_ratio: float | None,
    price: float | None,
    out: Path,
    verbose: bool,
    as_json: bool,
) -> None:
    """Move the model in FOLDER along its frontier to another fairness target, without any record and any privacy.

    Only a model of fairdp_frontier has one. The certificate was about the old rule: the new folder has none until
    fairdp certify makes one on fresh records. Exit code 1 if the target is certainly missed.
    """
    from fairdp.cli.printing import print_retargeted
    from fairdp.commands.retarget import retarget_saved

    report = retarget_saved(folder, out, max_gap=max_gap, min_ratio=min_ratio, price=price)
    with to_any_reader():
        print_retargeted(report, as_json=as_json, verbose=verbose)
    exit_unless_good(report.verdict, strict=False)
