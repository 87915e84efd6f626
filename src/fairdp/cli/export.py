"""`fairdp export`: a saved model as one ONNX file."""

from pathlib import Path

import click

from fairdp.cli.options import json_option


@click.command(epilog="\b\nExample:\n  fairdp export model/ --out model.onnx\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="ONNX file to write, ending in .onnx.")
@click.option("--overwrite", is_flag=True, help="Replace the file that is at --out.")
@json_option
def export(folder: Path, out: Path, overwrite: bool, as_json: bool) -> None:
    """Write the saved model in FOLDER as an ONNX file: score, probability and decision of encoded records.

    The metadata hold the hash of the certificate, to compare with SHA256SUMS in FOLDER. A model that decides by group
    or by a coin cannot be exported: its decisions do not follow from the features alone. Needs pip install
    'fairdp[onnx]'.
    """
    from fairdp.cli.printing import print_pairs
    from fairdp.commands.export import export_saved

    print_pairs(export_saved(folder, out, overwrite=overwrite), as_json=as_json)
