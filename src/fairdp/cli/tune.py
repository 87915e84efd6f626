"""`fairdp tune`: settings chosen on private records, with an epsilon that covers the choice."""

from pathlib import Path
from typing import Any

import click

from fairdp.cli.exits import exit_unless_met, to_any_reader
from fairdp.cli.grid import read_grid
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
from fairdp.cli.sections import SEARCH, SectionedCommand
from fairdp.config.parameters import DEFAULT_EPSILON


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
    with saying_what_is_kept(out=out, checkpoint=None, resume=False, method=None):
        from fairdp.cli.printing import print_fit
        from fairdp.commands.fit import run_fit
        from fairdp.commands.fit_task import FitTask, Search

        task = FitTask(
            source=taken_source(parameters),
            ledger=taken_ledger(parameters),
            budget=parameters.pop("budget"),
            parameters=parameters,
            checkpoint=None,
            resume=False,
            out=out,
            overwrite=overwrite,
            private_metrics=private_metrics,
            search=Search(grid=grid, within_gap=within_gap, expected_trials=expected_trials),
        )
        report = run_fit(task)
    with to_any_reader():
        print_fit(report, as_json=as_json, verbose=verbose)
    exit_unless_met(report.certificate, required=parameters["require_tau"])
