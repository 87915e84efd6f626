"""`fairdp verify`: recompute epsilon and tau of a saved model, and check its hashes."""

from pathlib import Path

import click

from fairdp.cli.options import json_option


@click.command(epilog="\b\nExample:\n  fairdp verify model/\n")
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def verify(folder: Path, as_json: bool) -> None:
    """Check the saved model in FOLDER: hashes, epsilon from the recorded mechanism, tau from the recorded counts.

    Exit code 1 if anything disagrees. What is verified is that the files agree with each other and with the accounting,
    not that they come from such a run: only a signature would expose someone who rewrites all of them consistently.
    """
    from fairdp.cli.printing import print_checks
    from fairdp.saved.verify.folder import verify_folder

    checks = verify_folder(folder)
    print_checks(checks, as_json=as_json)
    if not all(check.passed for check in checks):
        raise click.exceptions.Exit(1)
