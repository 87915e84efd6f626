"""`fairdp shift`: what the certificate of a saved model still bounds in another mix of groups and labels."""

from pathlib import Path

import click

from fairdp._format import bound_above
from fairdp.cli.options import NUMBERS, json_option


@click.command(epilog="\b\nExample:\n  fairdp shift model/ --gamma .01,.05\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--gamma",
    type=NUMBERS,
    default=".01,.05,.1",
    show_default=True,
    help="Sizes of the shift, separated by commas: total variation between Pr(group, label) before and after.",
)
@json_option
def shift(folder: Path, gamma: tuple[float, ...], as_json: bool) -> None:
    """Bound the gaps of the model in FOLDER when the shares of groups and labels change after certification.

    Follows from the certificate's noisy counts: no records are needed, and no privacy is spent. Equal opportunity and
    equalized odds do not change under such a shift. If the people within a group and label change, nothing is promised.
    """
    from fairdp.cli.printing import METRIC_NAMES, print_json
    from fairdp.cli.tables import print_table
    from fairdp.commands.saved_models import run_shift

    report = run_shift(folder, gamma)
    if as_json:
        print_json(report)
        return
    metrics = [name for name in report.bounds[0] if name != "gamma"]
    rows = [(f"{row['gamma']:g}", *(f"at most {bound_above(row[name])}" for name in metrics)) for row in report.bounds]
    headers = ("gamma", *(METRIC_NAMES[f"{name}_difference"] for name in metrics))
    print_table(
        f"{report.method}, certified, {100 * report.confidence:g} %; positive: {report.positive}", rows, headers=headers
    )
    print(report.note)
