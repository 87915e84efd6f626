"""`fairdp sign`: a signature of a saved model, which `fairdp verify --public-key` checks."""

from pathlib import Path

import click

from fairdp.cli.options import json_option


@click.command(
    epilog="\b\nExample:\n  openssl genpkey -algorithm ed25519 -out key.pem\n  fairdp sign model/ --key key.pem\n"
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), required=True, help="Ed25519 private key, in a PEM file.")
@json_option
def sign(folder: Path, key: Path, as_json: bool) -> None:
    """Sign the saved model in FOLDER: Ed25519 over SHA256SUMS, in a file SIGNATURE beside it.

    fairdp verify with --public-key then tells a folder that was rewritten from one that is damaged. Whatever writes the
    model anew, such as fairdp certify, drops the signature.
    """
    from fairdp.cli.printing import print_pairs
    from fairdp.saved.folder import SIGNATURE
    from fairdp.saved.signature import sign_folder

    public = sign_folder(folder, key)
    print_pairs({"out": str(folder / SIGNATURE), "algorithm": "Ed25519", "public_key": public}, as_json=as_json)
