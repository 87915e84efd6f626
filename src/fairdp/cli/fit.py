"""`fairdp fit`: train, certify, evaluate on held-out records, save."""

from pathlib import Path
from typing import Any

import click

from fairdp.cli.interruption import saying_what_is_kept
from fairdp.cli.options import (
    certificate_options,
    exit_unless_met,
    numbers,
    output_options,
    table_options,
    taken_source,
    target_options,
    training_options,
    whole_numbers,
)


@click.command(
    epilog="""\b
Examples:
  fairdp fit --dataset adult --epsilon 1 --out model/
  fairdp fit loans.csv --label default --sensitive sex,region --epsilon 2 --schema loans.yaml --out model/
"""
)
@click.argument("table", required=False, type=click.Path(path_type=Path))
@click.option("--dataset", help="A named data set instead of TABLE; see `fairdp data list`.")
@table_options
@training_options
@target_options
@click.option("--model", default="auto", show_default=True, help="auto, mlp, logistic or cnn.")
@click.option("--hidden", callback=whole_numbers, help="Layer sizes of the MLP, such as 32,32.")
@click.option("--activation", type=click.Choice(["relu", "tanh"]), help="Activation of the hidden layers.")
@click.option("--normalize-embedding", is_flag=True, help="Scale embeddings to norm one.")
@click.option("--learning-rate", callback=numbers, help="Step sizes, each for an equal part of the run.")
@click.option(
    "--schedule",
    type=click.Choice(["piecewise", "inverse_sqrt"]),
    default="piecewise",
    show_default=True,
    help="Step sizes in equal parts, or the decay of the paper's Theorem 4.",
)
@click.option(
    "--optimizer",
    type=click.Choice(["adam", "sgd", "adam_then_sgd"]),
    help="adam_then_sgd hands over for the last tenth.  [default: sgd for fairdp_parity and raco_dp, else adam]",
)
@click.option(
    "--group-sizes",
    type=click.Choice(["public", "private"]),
    default="public",
    show_default=True,
    help="Whether group sizes may be known; private ones are counted with noise, for 5 % of epsilon.",
)
@click.option(
    "--certify-fraction",
    type=float,
    default=0.2,
    show_default=True,
    help="Part of the records that is held out for the fairness certificate; 0 for none.",
)
@certificate_options
@click.option(
    "--looks", "n_looks", type=int, default=1, show_default=True, help="Looks at --require-tau while training."
)
@click.option("--target-tau", type=float, help="Dilute the decisions until the certificate reaches this gap.")
@click.option(
    "--predictor",
    type=click.Choice(["deterministic", "gibbs", "smoothed"]),
    default="deterministic",
    show_default=True,
    help="The rule that decides: fixed, a random head for each person, or a smoothed head.",
)
@click.option("--smoothing", type=float, default=1.0, show_default=True, help="Deviation of the smoothed head.")
@click.option("--private-metrics", is_flag=True, help="Report only metrics that may be published.")
@click.option("--max-physical-batch-size", type=int, default=4096, show_default=True, help="Memory against speed.")
@click.option(
    "--checkpoint", type=click.Path(path_type=Path), help="File to continue from after a crash; keep it safe."
)
@click.option("--resume", is_flag=True, help="Continue from the checkpoint.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the trained model.")
@output_options
def fit(
    checkpoint: Path | None,
    resume: bool,
    out: Path | None,
    private_metrics: bool,
    as_json: bool,
    seed: int | None,
    hidden: tuple[int, ...] | None,
    **parameters: Any,
) -> None:
    """Train a private classifier on TABLE (CSV or Parquet) or on a named data set, and certify its fairness gaps.

    Exit code 1: trained, but the certificate misses --require-tau.
    """
    with saying_what_is_kept(out=out, checkpoint=checkpoint, resume=resume, method=parameters["method"]):
        from fairdp.cli.printing import print_fit
        from fairdp.commands.fit import FitTask, run_fit

        source = taken_source(parameters)
        chosen = {name: value for name, value in parameters.items() if value is not None}
        if hidden:
            chosen["hidden"] = hidden
        task = FitTask(
            source=source,
            parameters={**chosen, "random_state": seed},
            checkpoint=checkpoint,
            resume=resume,
            out=out,
            private_metrics=private_metrics,
        )
        report = run_fit(task)
    print_fit(report, as_json=as_json)
    exit_unless_met(report.certificate, required=parameters["require_tau"])
