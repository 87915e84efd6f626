"""`fairdp fit`: train, certify, evaluate on held-out records, save."""

from pathlib import Path
from typing import Any

import click

from fairdp.cli.interruption import saying_what_is_kept
from fairdp.cli.options import (
    data_options,
    exit_unless_good,
    exit_unless_met,
    in_section,
    json_option,
    ledger_options,
    model_options,
    parameter_options,
    taken_ledger,
    taken_source,
)
from fairdp.cli.sections import OUTPUT, SectionedCommand
from fairdp.config.parameters import DECLARED


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fairdp fit --dataset adult --epsilon 1 --out model/
  fairdp fit loans.csv --label default --sensitive sex,region --epsilon 2 --schema loans.yaml --out model/
""",
)
@click.argument("table", required=False, type=click.Path(path_type=Path))
@data_options
@parameter_options(*(name for name, declared in DECLARED.items() if declared.flag is not None))
@ledger_options
@model_options
@in_section(
    OUTPUT,
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="File to resume from after a crash; keep it secret.",
)
@in_section(OUTPUT, "--resume", is_flag=True, help="Continue from the checkpoint.")
@in_section(OUTPUT, "--strict", is_flag=True, help="Exit code 1 unless the verdict is good.")
@json_option
def fit(
    checkpoint: Path | None,
    resume: bool,
    strict: bool,
    out: Path | None,
    private_metrics: bool,
    as_json: bool,
    **parameters: Any,
) -> None:
    """Train a private classifier on TABLE (CSV or Parquet) or on a named data set, and certify its fairness gaps.

    Exit code 1: trained, but the certificate misses --require-tau, or --max-gap or --min-ratio is certainly missed.
    """
    with saying_what_is_kept(out=out, checkpoint=checkpoint, resume=resume, method=parameters["method"]):
        from fairdp.cli.printing import print_fit
        from fairdp.commands.fit import FitTask, run_fit

        task = FitTask(
            source=taken_source(parameters),
            ledger=taken_ledger(parameters),
            budget=parameters.pop("budget"),
            parameters=parameters,
            checkpoint=checkpoint,
            resume=resume,
            out=out,
            private_metrics=private_metrics,
        )
        report = run_fit(task)
    print_fit(report, as_json=as_json)
    exit_unless_met(report.certificate, required=parameters["require_tau"])
    exit_unless_good(report.verdict, strict=strict)
