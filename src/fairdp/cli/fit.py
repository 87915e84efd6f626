"""`fairdp fit`: train, certify, evaluate on held-out records, save."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from fairdp.cli.exits import exit_unless_good, exit_unless_met, to_any_reader
from fairdp.cli.interruption import saying_what_is_kept
from fairdp.cli.options import (
    data_options,
    in_section,
    json_option,
    ledger_options,
    model_options,
    parameter_options,
    taken_ledger,
    taken_source,
    verbose_option,
)
from fairdp.cli.sections import OUTPUT, SectionedCommand
from fairdp.commands.progress import say
from fairdp.config.paper import ASSUMED, paper_settings
from fairdp.config.parameters import DATA, DECLARED
from fairdp.team import the_team


@click.command(
    cls=SectionedCommand,
    common=(
        "dataset",
        "label",
        "positive",
        "sensitive",
        "schema",
        "epsilon",
        "max_gap",
        "min_ratio",
        "require_tau",
    ),
    epilog="""\b
Examples:
  fairdp fit --dataset adult --epsilon 1 --out model/
  fairdp fit loans.csv --label default --sensitive sex,region --epsilon 2 --schema loans.yaml --out model/
""",
)
@click.argument("table", required=False, type=click.Path(path_type=Path))
@data_options
@in_section(
    DATA,
    "--paper",
    is_flag=True,
    help="Train the paper's FairDP with its settings, and ours where it states none. Budget, certificate and what the "
    "paper varies or leaves open, such as --weight-bound, may still be chosen.",
)
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
@verbose_option
@json_option
def fit(
    paper: bool,
    checkpoint: Path | None,
    resume: bool,
    strict: bool,
    out: Path | None,
    overwrite: bool,
    private_metrics: bool,
    verbose: bool,
    as_json: bool,
    **parameters: Any,
) -> None:
    """Train a private classifier on TABLE or on a named data set, and certify its fairness gaps.

    Exit code 1: trained, but the certificate misses --require-tau, or --max-gap or --min-ratio is certainly missed.
    """
    if paper:
        parameters |= _of_the_paper()
    with saying_what_is_kept(out=out, checkpoint=checkpoint, resume=resume, method=parameters["method"]):
        from fairdp.cli.printing import print_fit
        from fairdp.commands.fit import join_fit, run_fit
        from fairdp.commands.fit_task import FitTask

        task = FitTask(
            source=taken_source(parameters),
            ledger=taken_ledger(parameters),
            budget=parameters.pop("budget"),
            parameters=parameters,
            checkpoint=checkpoint,
            resume=resume,
            out=out,
            overwrite=overwrite,
            private_metrics=private_metrics,
        )
        if not the_team().is_first:
            join_fit(task)
            return
        report = run_fit(task)
    with to_any_reader():
        print_fit(report, as_json=as_json, verbose=verbose)
    exit_unless_met(report.certificate, required=parameters["require_tau"])
    exit_unless_good(report.verdict, strict=strict)


def _of_the_paper() -> dict[str, Any]:
    """The paper's settings with what the user typed, and a line on what it does not state."""
    context = click.get_current_context()
    typed = {
        name: value
        for name, value in context.params.items()
        if name in DECLARED and context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    settings = paper_settings(**typed)
    silent = [_typed(str(DECLARED[name].flag), value) for name, value in ASSUMED.items() if name not in typed]
    if silent:
        say(f"the paper does not state these settings, so ours are used: {', '.join(silent)}")
    return settings


def _typed(flag: str, value: Any) -> str:
    """A setting as it would be typed; what is a switch is on."""
    if value is True:
        return flag
    return f"{flag} {','.join(map(str, value)) if isinstance(value, tuple) else f'{value:g}'}"
