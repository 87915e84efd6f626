"""`fairdp report`: one self-contained page about a saved model or a comparison."""

from dataclasses import asdict
from pathlib import Path

import click

from fairdp.cli.options import json_option


def _print_template(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the owner's card instead of a report."""
    if wanted:
        from fairdp.report.owner import card_template

        click.echo(card_template(), nl=False)
        context.exit()


@click.command(
    epilog="""\b
Examples:
  fairdp report model/
  fairdp report model/ --comparison frontier/ --out model.html
  fairdp report model/ --audit audit.json
  fairdp report --card-template > owner.yaml
  fairdp report model/ --card owner.yaml --profile ll144
  fairdp evaluate model/ test.csv --json > exact.json; fairdp report model/ --appendix exact.json
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
@click.option(
    "--card",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What only the owner can say: a YAML file; --card-template writes an empty one.",
)
@click.option(
    "--card-template",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_template,
    help="Print an empty card, and nothing else.",
)
@click.option(
    "--profile",
    metavar="NAME",
    help="Figures that a rule asks for: ll144, for New York City's Local Law 144; where the columns are not called sex "
    "and race, ll144:sex=COLUMN,race=COLUMN.",
)
@click.option(
    "--appendix",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of `fairdp evaluate --json`: its exact figures go to a second file, not to be published.",
)
@json_option
def report(
    folder: Path,
    out: Path | None,
    format: str | None,
    comparison: Path | None,
    audit: Path | None,
    card: Path | None,
    profile: str | None,
    appendix: Path | None,
    as_json: bool,
) -> None:
    """Write one file about the saved model, or the comparison, in FOLDER: privacy, fairness, cards and checks.

    The model is verified first; if verification fails, the page says so at the top and the exit code is 1. The page
    needs no network. Without a comparison it contains only what may be published; the figures of a comparison are for
    the data holder's eyes only.
    """
    from fairdp.cli.printing import print_pairs
    from fairdp.report.writing import run_report

    written = run_report(
        folder,
        out=out,
        format=format,
        comparison=comparison,
        audit=audit,
        card=card,
        profile=profile,
        appendix=appendix,
    )
    # A comparison promises nothing that could be verified.
    fields = asdict(written).items()
    print_pairs({name: value for name, value in fields if as_json or value is not None}, as_json=as_json)
    if written.verified is False:
        raise click.exceptions.Exit(1)
