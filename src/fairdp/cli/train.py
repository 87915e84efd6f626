"""Commands that make a model: schema, fit, tune, retarget."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from fairdp.cli.options import (
    NAMES,
    OUTPUT,
    SEARCH,
    SectionedCommand,
    data_options,
    detected_format_options,
    in_section,
    json_option,
    ledger_options,
    model_options,
    parameter_options,
    pop_source_options,
    read_grid,
    taken_format,
    taken_ledger,
    verbose_option,
)
from fairdp.cli.terminal import (
    exit_unless_good,
    exit_unless_met,
    explain_checkpoint,
    ignore_broken_pipe,
    progress_bar,
    say,
)
from fairdp.distributed import process_group
from fairdp.parameters import ASSUMED, DATA, DECLARED, DEFAULT_EPSILON, paper_settings


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
    with explain_checkpoint(out=out, checkpoint=checkpoint, resume=resume, method=parameters["method"]):
        from fairdp.cli.printing import print_fit
        from fairdp.fitting import fit_source

        with progress_bar("training") as observe:
            report = fit_source(
                pop_source_options(parameters),
                ledger=taken_ledger(parameters),
                budget=parameters.pop("budget"),
                parameters=parameters,
                checkpoint=checkpoint,
                resume=resume,
                out=out,
                overwrite=overwrite,
                private_metrics=private_metrics,
                observe=observe,
                say=say,
            )
    if not process_group().is_rank_zero:
        return
    with ignore_broken_pipe():
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


@click.command(
    cls=SectionedCommand,
    common=("dataset", "label", "positive", "sensitive", "schema", "grid", "within_gap", "epsilon"),
    epilog="""\b
Examples:
  fairdp tune --dataset adult --grid learning_rate=1,7 --grid max_gap=.02,.05 --within-gap .05 --out model/
  fairdp tune loans.csv --schema loans.yaml --epsilon 2 --grid clip_norm=.5,1,2 --out model/
""",
)
@click.argument("table", required=False, type=click.Path(path_type=Path))
@data_options
@in_section(
    SEARCH,
    "--grid",
    multiple=True,
    required=True,
    callback=read_grid,
    help="A parameter with the values to try, such as learning_rate=1,7; repeat --grid to combine several.",
)
@in_section(
    SEARCH,
    "--within-gap",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    help="Largest gap (of --parity) allowed for the most accurate model; 1 selects by accuracy alone.",
)
@in_section(
    SEARCH,
    "--trials",
    "expected_trials",
    type=float,
    help="Average number of trials, above 1.  [default: twice the combinations, at least 4]",
)
@parameter_options("method", "epsilon", "delta", "group_sizes", "random_state", epsilon=f"{DEFAULT_EPSILON:g}")
@parameter_options("parity", "max_gap", "min_ratio", "positive_rate", "confidence", "certify_metrics", "require_tau")
@parameter_options("sample_rate", "n_steps", "clip_norm", "weight_bound", "n_members", "noise_allocation")
@parameter_options("group_optimizers", "group_weights", "bias")
@parameter_options("fairness_weight", "grouping", "max_sample_rate", "parameter_noise", "n_draws")
@ledger_options
@model_options
@verbose_option
@json_option
def tune(
    grid: dict[str, list[Any]],
    within_gap: float,
    expected_trials: float | None,
    private_metrics: bool,
    out: Path | None,
    overwrite: bool,
    verbose: bool,
    as_json: bool,
    **parameters: Any,
) -> None:
    """Train a random number of models, keep the best, and state an epsilon that covers the whole search.

    Each trial gets a random combination from the grid and about half of --epsilon, however many combinations there are.
    The best is chosen by noisy counts; nothing else about the search is shown, because epsilon does not cover it.
    """
    with explain_checkpoint(out=out, checkpoint=None, resume=False, method=None):
        from fairdp.cli.printing import print_fit
        from fairdp.fitting import fit_source

        with progress_bar("trials") as observe:
            report = fit_source(
                pop_source_options(parameters),
                ledger=taken_ledger(parameters),
                budget=parameters.pop("budget"),
                parameters=parameters,
                out=out,
                overwrite=overwrite,
                private_metrics=private_metrics,
                search={"grid": grid, "max_gap": within_gap, "expected_trials": expected_trials},
                observe=observe,
                say=say,
            )
    with ignore_broken_pipe():
        print_fit(report, as_json=as_json, verbose=verbose)
    exit_unless_met(report.certificate, required=parameters["require_tau"])


@click.command(
    epilog="""\b
Example:
  fairdp schema loans.csv --label default --sensitive sex,region > loans.yaml
"""
)
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--label", required=True, help="Column to predict; it must have two values.")
@click.option(
    "--positive",
    help="Label value of the positive class; required unless labels are 0/1, false/true or no/yes.",
)
@click.option("--sensitive", required=True, type=NAMES, help="Protected columns, separated by commas.")
@detected_format_options
@json_option
def schema(
    table: Path, label: str, positive: str | None, sensitive: tuple[str, ...], as_json: bool, **written: Any
) -> None:
    """Propose types, categories and bounds of TABLE as a schema file, for you to review and confirm.

    How the file is written is found too, and becomes part of the schema: with it, no command finds out from rows how
    other rows are to be read. The proposal has looked at private rows, and says so: until you replace what it read with
    what you know and set "declared: true", models trained with it say that the schema was read from the table.
    """
    from fairdp.cli.printing import print_pairs
    from fairdp.data.infer import proposed_schema
    from fairdp.data.readers import detected_format
    from fairdp.data.tables import read_table

    found = detected_format(table, taken_format(written))
    text = proposed_schema(
        read_table(table, found),
        table=table.name,
        label=label,
        sensitive=sensitive,
        positive=positive,
        written=found,
    )
    say(f"Read as {found.in_words()}; options such as --sep and --day-first say otherwise.")
    if as_json:
        print_pairs({"table": str(table), "declared": False, "schema": text}, as_json=True)
    else:
        click.echo(text, nl=False)
    say("Read from private rows: review it, then set 'declared: true' (docs/reference/schema.md).")


@click.command(epilog="\b\nExample:\n  fairdp retarget model/ --max-gap 0.05 --out model-05/\n")
@click.argument("folder", type=click.Path(path_type=Path))
@parameter_options("max_gap", "min_ratio", "price")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="New folder for the moved model.")
@verbose_option
@json_option
def retarget(
    folder: Path,
    max_gap: float | None,
    min_ratio: float | None,
    price: float | None,
    out: Path,
    verbose: bool,
    as_json: bool,
) -> None:
    """Move the model in FOLDER along its frontier to another target, without touching records or spending budget.

    Only a model of fairdp_frontier has one. The certificate was about the old rule: the new folder has none until
    fairdp certify makes one on fresh records. Exit code 1 if the target is certainly missed.
    """
    from fairdp.classifier import FairDPClassifier
    from fairdp.cli.printing import print_retargeted
    from fairdp.errors import ParameterError, SavedModelError
    from fairdp.saved.folder import MARKER, is_signed, place_for_model, read_model, retargeted, write_model

    if read_model(folder).model.kind == "custom":
        raise SavedModelError(
            f"the model in {str(folder)!r} was trained with your own module, which is code; move it in Python: "
            "FairDPClassifier.load(folder, module=...).retarget(...).save(out)."
        )
    estimator: FairDPClassifier = FairDPClassifier.load(folder)
    moved = retargeted(estimator, max_gap=max_gap, min_ratio=min_ratio, price=price)
    if (out / MARKER).exists():
        raise ParameterError("out", str(out), "holds a model already", "choose a new folder")
    with place_for_model(out, overwrite=False):
        try:
            # Its entry in the ledger goes with it: a target may have been chosen by what a certificate said of records.
            write_model(out, moved.fitted_)
        except OSError as error:
            raise ParameterError("out", str(out), f"cannot be written: {error.strerror}") from None
    unsigned = f"the signature of {str(folder)!r} does not cover {str(out)!r}; run fairdp sign on it."
    with ignore_broken_pipe():
        print_retargeted(moved, out, [unsigned] if is_signed(folder) else [], as_json=as_json, verbose=verbose)
    exit_unless_good(moved.verdict_, strict=False)
