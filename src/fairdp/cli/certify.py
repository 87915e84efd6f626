"""`fairdp certify`: a new certificate of a saved model, on fresh records."""

from pathlib import Path
from typing import Any

import click

from fairdp.cli.exits import exit_unless_met, to_any_reader
from fairdp.cli.options import (
    format_options,
    json_option,
    ledger_options,
    parameter_options,
    taken_format,
    taken_ledger,
    verbose_option,
)


@click.command(epilog="\b\nExample:\n  fairdp certify model/ fresh.csv --epsilon 1\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("table", required=False, type=click.Path(path_type=Path))
@click.option("--dataset", help="The test split of a named data set instead of TABLE.")
@click.option("--epsilon", type=float, required=True, help="Pure epsilon that the fresh records spend.")
@parameter_options("confidence", "certify_metrics", "require_tau", "score_share")
@click.option(
    "--allow-equal",
    is_flag=True,
    help="Accept rows identical to used ones (you assert that they are different people).",
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
    certificate has used are refused if they are in the register beside FOLDER.
    """
    from fairdp.cli.printing import print_certificate
    from fairdp.commands.certify import CertifyTask, run_certify
    from fairdp.config.certificate import METRICS
    from fairdp.config.preregistration import Preregistration

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
    with to_any_reader():
        print_certificate(report, as_json=as_json, verbose=verbose)
    exit_unless_met(report.certificate, required=require_tau)
