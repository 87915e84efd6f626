"""`fairdp shift`: what the certificate of a saved model still bounds in another mix of groups and labels."""

from pathlib import Path

import click

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
    from fairdp.cli.printing import print_shift
    from fairdp.commands.saved_models import run_shift

    print_shift(run_shift(folder, gamma), as_json=as_json)
