"""Commands that check a saved model or the ledger: certify, verify, report, shift, sign, ledger."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from fairdp._format import bound_above
from fairdp.cli.options import (
    NUMBERS,
    OrderedGroup,
    format_options,
    json_option,
    ledger_options,
    parameter_options,
    taken_format,
    taken_ledger,
    verbose_option,
)
from fairdp.cli.terminal import exit_unless_met, ignore_broken_pipe, say

_ledger_option = click.option(
    "--ledger",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The ledger.  [default: $FAIRDP_LEDGER, or one for each user]",
)


def _print_template(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the owner's card instead of a report."""
    if wanted:
        from fairdp.report.model import card_template

        click.echo(card_template(), nl=False)
        context.exit()


@click.command(epilog="\b\nExample:\n  fairdp certify model/ fresh.csv --epsilon 1\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("table", required=False, type=click.Path(path_type=Path))
@click.option("--dataset", help="The test split of a named data set instead of TABLE.")
@click.option("--epsilon", type=float, required=True, help="Pure epsilon that the fresh records spend.")
@parameter_options("confidence", "certify_metrics", "require_tau", "score_share")
@click.option(
    "--allow-equal",
    is_flag=True,
    help="Accept rows identical to used ones, or that no ledger can check (you assert that they are different people).",
)
@parameter_options("random_state")
@ledger_options
@click.option(
    "--of",
    type=click.IntRange(min=0),
    metavar="N",
    help="One of N certificates of the model that hold all together (0: of a series without end); the ledger counts.",
)
@format_options
@verbose_option
@json_option
def certify(
    folder: Path,
    table: Path | None,
    dataset: str | None,
    epsilon: float,
    confidence: float,
    certify_metrics: tuple[str, ...] | None,
    require_tau: float | None,
    score_share: float,
    allow_equal: bool,
    random_state: int | None,
    of: int | None,
    budget: float | None,
    verbose: bool,
    as_json: bool,
    **others: Any,
) -> None:
    """Certify the fairness gaps of the model in FOLDER on labelled records that it has never seen.

    The new certificate replaces the one in FOLDER, which is kept on record. Records that the model or an earlier
    certificate has used are refused by the ledger, which must have seen the training.
    """
    from fairdp.cli.printing import print_certificate
    from fairdp.commands.check import CertifyTask, run_certify
    from fairdp.config import Preregistration
    from fairdp.parameters import METRICS

    registration = Preregistration(
        confidence=confidence, metrics=certify_metrics or METRICS, require_tau=require_tau, score_share=score_share
    )
    task = CertifyTask(
        folder=folder,
        table=table,
        dataset=dataset,
        epsilon=epsilon,
        registration=registration,
        allow_equal=allow_equal,
        seed=random_state,
        ledger=taken_ledger(others),
        written=taken_format(others),
        budget=budget,
        of=of,
    )
    report = run_certify(task)
    with ignore_broken_pipe():
        print_certificate(report, as_json=as_json, verbose=verbose)
    exit_unless_met(report.certificate, required=require_tau)


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
    from fairdp.saved.folder import read_public_key
    from fairdp.saved.verify import verify_folder

    checks = verify_folder(folder, None if public_key is None else read_public_key(public_key))
    print_checks(checks, as_json=as_json)
    if not all(check.passed for check in checks):
        raise click.exceptions.Exit(1)


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
    help="Output file; overwritten only if fairdp wrote it.  [default: FOLDER-report.html or .md]",
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
    help="Add the figures that a regulation requires: ll144, for New York City's Local Law 144; where the columns are "
    "not called sex and race, ll144:sex=COLUMN,race=COLUMN.",
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
    from fairdp.report.page import run_report

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
    from fairdp.cli.printing import METRIC_NAMES, print_json, print_table
    from fairdp.records import run_shift

    report = run_shift(folder, gamma)
    if as_json:
        print_json(report)
        return
    bounds = report["bounds"]
    metrics = [name for name in bounds[0] if name != "gamma"]
    rows = [(f"{row['gamma']:g}", *(f"at most {bound_above(row[name])}" for name in metrics)) for row in bounds]
    headers = ("gamma", *(METRIC_NAMES[f"{name}_difference"] for name in metrics))
    certified = f"{report['method']}, certified, {100 * report['confidence']:g} %; positive: {report['positive']}"
    print_table(certified, rows, headers=headers)
    print(report["note"])


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
    from fairdp.saved.folder import SIGNATURE, sign_folder

    public = sign_folder(folder, key)
    print_pairs({"out": str(folder / SIGNATURE), "algorithm": "Ed25519", "public_key": public}, as_json=as_json)


@click.group(cls=OrderedGroup, invoke_without_command=True, epilog="Example: fairdp ledger limit loans.csv --epsilon 3")
@_ledger_option
@json_option
@click.pass_context
def ledger(context: click.Context, path: Path | None, as_json: bool) -> None:
    """Show what was spent on your tables in total, set limits, and check the ledger; without a command, list it."""
    if context.invoked_subcommand is None:
        context.invoke(list_, path=path, table=None, as_json=as_json)


@ledger.command("list", epilog="\b\nExample:\n  fairdp ledger list --table loans.csv\n")
@_ledger_option
@click.option("--table", help="Only the entries of this table, by its declared name or that of its file.")
@json_option
def list_(path: Path | None, table: str | None, as_json: bool) -> None:
    """List all entries and what they add up to, table by table and for the record that has spent most.

    Totals compose the mechanisms and hold for a plan that was fixed in advance; the simple sums hold in any case. The
    total of single records is for the data holder's eyes only.
    """
    from fairdp.cli.printing import print_ledger
    from fairdp.commands.check import list_ledger

    print_ledger(list_ledger(_path(path), table=table), as_json=as_json)


@ledger.command(epilog="\b\nExample:\n  fairdp ledger limit loans.csv --epsilon 3\n")
@click.argument("table")
@click.option("--epsilon", type=float, required=True, help="The most that may be spent on TABLE or on a record of it.")
@click.option("--delta", type=float, help="The same for delta; needed with --order.")
@click.option(
    "--order",
    type=int,
    help="Keep the limit by a Renyi filter at this order instead of by the sum of epsilons.",
)
@_ledger_option
@json_option
def limit(table: str, epsilon: float, delta: float | None, order: int | None, path: Path | None, as_json: bool) -> None:
    """Limit what may be spent on TABLE in total: commands that would exceed it are refused and spend nothing."""
    from fairdp._io import to_plain
    from fairdp.cli.printing import print_pairs
    from fairdp.commands.check import set_limit
    from fairdp.ledger.store import Limit

    chosen = Limit(table=table, epsilon=epsilon, delta=delta, order=order)
    if not set_limit(_path(path), chosen):
        say(f"nothing was spent on a table named {table!r} yet: see the names in `fairdp ledger`.")
    given = {name: value for name, value in to_plain(chosen).items() if value is not None}
    print_pairs(chosen if as_json else given, as_json=as_json)


@ledger.command(epilog="\b\nExample:\n  fairdp ledger check model/\n")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@_ledger_option
@json_option
def check(folders: tuple[Path, ...], path: Path | None, as_json: bool) -> None:
    """Check that the ledger is whole, and that it has the entries of the models in FOLDERS.

    A ledger that was restored from an older copy lacks the entries of later models.
    """
    from fairdp.cli.printing import print_pairs
    from fairdp.commands.check import check_ledger

    found = check_ledger(_path(path), folders)
    print_pairs({"ledger": str(_path(path)), "entries": found, "whole": True}, as_json=as_json)


def _path(path: Path | None) -> Path:
    from fairdp.ledger.ledger import ledger_path

    return path or ledger_path()
