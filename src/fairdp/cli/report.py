"""`fairdp report`: one self-contained page about a saved model or a comparison."""

from dataclasses import asdict
from pathlib import Path

import click

from fairdp.cli.options import json_option


@click.command(
    epilog="""\b
Examples:
  fairdp report model/
  fairdp report model/ --comparison frontier/ --out model.html
  fairdp report model/ --audit audit.json
  fairdp report model/ --format markdown
"""
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File to write; only a page of ours is replaced.  [default: FOLDER-report.html or .md]",
)
@click.option(
    "--format",
    type=click.Choice(["html", "markdown"]),
    help="A page for readers, or a model card.  [default: by the ending of --out, else html]",
)
@click.option("--comparison", type=click.Path(path_type=Path), help="Folder of `fairdp compare` to show beside it.")
@click.option(
    "--audit",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of `fairdp audit --out` to show beside the model.",
)
@json_option
def report(
    folder: Path, out: Path | None, format: str | None, comparison: Path | None, audit: Path | None, as_json: bool
) -> None:
    """Write one file about the saved model, or the comparison, in FOLDER: privacy, fairness, cards and checks.

    The model is verified first; if verification fails, the page says so at the top and the exit code is 1. The page
    needs no network. Without a comparison it contains only what may be published; the figures of a comparison are for
    the data holder's eyes only.
    """
    from fairdp.cli.printing import print_pairs
    from fairdp.report.writing import run_report

    written = run_report(folder, out=out, format=format, comparison=comparison, audit=audit)
    # A comparison promises nothing that could be verified.
    fields = asdict(written).items()
    print_pairs({name: value for name, value in fields if as_json or value is not None}, as_json=as_json)
    if written.verified is False:
        raise click.exceptions.Exit(1)
