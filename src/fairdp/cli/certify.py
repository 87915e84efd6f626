"""`fairdp certify`: a new certificate of a saved model, on fresh records."""

from pathlib import Path

import click

from fairdp.cli.options import certificate_options, exit_unless_met, output_options


@click.command(epilog="\b\nExample:\n  fairdp certify model/ fresh.csv --epsilon 1\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("table", required=False, type=click.Path(path_type=Path))
@click.option("--dataset", help="The test split of a named data set instead of TABLE.")
@click.option("--epsilon", type=float, required=True, help="Pure epsilon that the fresh records spend.")
@certificate_options
@click.option("--allow-equal", is_flag=True, help="Rows that equal used ones are other people.")
@output_options
def certify(
    folder: Path,
    table: Path | None,
    dataset: str | None,
    epsilon: float,
    confidence: float,
    certify_metrics: tuple[str, ...] | None,
    require_tau: float | None,
    allow_equal: bool,
    as_json: bool,
    seed: int | None,
) -> None:
    """Certify the fairness gaps of the model in FOLDER on labelled records that it has never seen.

    The new certificate replaces the one in FOLDER, which is remembered. Records that the model or an earlier
    certificate has used are refused where the register beside FOLDER knows them.
    """
    from fairdp.cli.printing import print_certificate
    from fairdp.commands.certify import CertifyTask, run_certify
    from fairdp.config.certificate import METRICS, Registration

    registration = Registration(confidence=confidence, metrics=certify_metrics or METRICS, require_tau=require_tau)
    task = CertifyTask(
        folder=folder,
        table=table,
        dataset=dataset,
        epsilon=epsilon,
        registration=registration,
        allow_equal=allow_equal,
        seed=seed,
    )
    report = run_certify(task)
    print_certificate(report, as_json=as_json)
    exit_unless_met(report.certificate, required=require_tau)
