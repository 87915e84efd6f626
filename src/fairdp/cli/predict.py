"""`fairdp predict` and `fairdp evaluate`: a saved model on new rows."""

from pathlib import Path
from typing import Any

import click

from fairdp.cli.options import NAMES, format_options, json_option, seed_option, taken_format


@click.command(epilog="\b\nExample:\n  fairdp predict model/ new.csv --out decisions.csv --reasons 4\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="CSV or Parquet file for the decisions; only earlier decisions are replaced.",
)
@click.option(
    "--id",
    "id_columns",
    type=NAMES,
    help="Columns that identify people, separated by commas: they are kept, and coins are tossed by them.",
)
@click.option(
    "--reasons",
    "k",
    type=click.IntRange(min=1),
    metavar="N",
    help="Say for every negative decision, in up to N columns, why; for the default method on tables.",
)
@format_options
@json_option
def predict(
    folder: Path,
    table: Path,
    out: Path,
    id_columns: tuple[str, ...] | None,
    k: int | None,
    as_json: bool,
    **written: Any,
) -> None:
    """Write score, probability and decision of the model in FOLDER for every row of TABLE.

    The protected columns are needed only by a dp_postprocess model. If decisions are randomised, the probability of a
    positive decision is written too; score and probability are then those of the model before randomisation.
    """
    from fairdp._files import to_plain
    from fairdp.cli.printing import print_pairs
    from fairdp.commands.predict import run_predict

    report = run_predict(folder, table, out, id_columns=id_columns or (), k=k, written=taken_format(written))
    plain = to_plain(report)
    if not as_json:
        # People have read it on stderr.
        del plain["treated"]
    print_pairs(plain, as_json=as_json)


@click.command(epilog="\b\nExample:\n  fairdp evaluate model/ labelled.csv\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("table", required=False, type=click.Path(path_type=Path))
@click.option("--dataset", help="The test split of a named data set instead of TABLE.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Confidence of the intervals.")
@seed_option("Seed of the resampling behind the intervals, for repeatable figures.")
@format_options
@json_option
def evaluate(
    folder: Path,
    table: Path | None,
    dataset: str | None,
    confidence: float,
    seed: int | None,
    as_json: bool,
    **written: Any,
) -> None:
    """Measure utility and fairness of the model in FOLDER on labelled rows, with confidence intervals.

    The figures are exact, so they are for the data holder's eyes only: the privacy guarantee does not cover them.
    """
    from fairdp.cli.printing import print_evaluation
    from fairdp.commands.saved_models import run_evaluate

    report = run_evaluate(folder, table, dataset, confidence=confidence, seed=seed, written=taken_format(written))
    print_evaluation(report, as_json=as_json)
