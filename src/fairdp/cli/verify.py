"""`fairdp verify`: recompute epsilon and tau of a saved model, and check its hashes."""

from pathlib import Path

import click

from fairdp.cli.options import json_option


@click.command(epilog="\b\nExamples:\n  fairdp verify model/\n  fairdp verify model/ --public-key public.pem\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--public-key",
    type=click.Path(path_type=Path),
    help="Check the signature too, by this Ed25519 public key in a PEM file.",
)
@json_option
def verify(folder: Path, public_key: Path | None, as_json: bool) -> None:
    """Check the saved model in FOLDER: hashes, epsilon from the recorded mechanism, tau from the recorded counts.

    Exit code 1 if anything disagrees. What is verified is that the files agree with each other and with the accounting,
    not that they come from such a run: only a signature exposes someone who rewrites all of them consistently. With
    --public-key, a changed file, a folder that was hashed again, another key and a missing signature are told apart.
    """
    from fairdp.cli.printing import print_checks
    from fairdp.saved.signature import read_public_key
    from fairdp.saved.verify.folder import verify_folder

    checks = verify_folder(folder, None if public_key is None else read_public_key(public_key))
    print_checks(checks, as_json=as_json)
    if not all(check.passed for check in checks):
        raise click.exceptions.Exit(1)
