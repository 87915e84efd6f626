"""Commands that use a saved model, and those that need none: predict, evaluate, export, plan, data, methods."""

import math
from pathlib import Path
from typing import Any

import click

from fairdp.cli.options import (
    NAMES,
    SIZES,
    ByGroup,
    SectionedCommand,
    format_options,
    in_section,
    json_option,
    parameter_options,
    seed_option,
    taken_format,
)
from fairdp.cli.terminal import say, say_cell_issues
from fairdp.parameters import CERTIFICATE, DATA, DECLARED


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
    from fairdp.cli.printing import print_pairs
    from fairdp.records import predict_table

    report = predict_table(folder, table, out, id_columns=id_columns or (), k=k, written=taken_format(written), say=say)
    if not as_json:
        # People have read it on stderr.
        del report["treated"]
    print_pairs(report, as_json=as_json)


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
    import numpy as np

    from fairdp.cli.printing import print_evaluation
    from fairdp.data.columns import CellIssues, counts_by_column, refuse_unreadable
    from fairdp.errors import DataError, in_unit_interval
    from fairdp.ledger.ledger import Spending, ledger_path
    from fairdp.metrics import confidence_intervals, evaluate_decisions
    from fairdp.records import decided, load_with_records, seen_before, unknown_use, warnings_of
    from fairdp.statements.privacy import EXACT_ON_RECORDS

    in_unit_interval(confidence=confidence)
    issues, warnings = list[CellIssues](), list[str]()
    # The test records of a named data set are none that a model was trained on.
    ledger = None if table is None or not ledger_path().exists() else ledger_path()
    try:
        spending = Spending(ledger, command="evaluate")
    except DataError as error:
        warnings.append(unknown_use(error))
        spending = Spending(None, command="evaluate")
    with spending:
        estimator, test = load_with_records(
            folder,
            table,
            dataset,
            written=taken_format(written),
            on_issue=issues.append,
            observe=spending.observe,
        )
        warnings += seen_before(estimator, spending)
    refuse_unreadable(issues)
    say_cell_issues(issues)
    (y, groups), (scores, decisions) = test.codes, decided(estimator, test)
    intervals = confidence_intervals(
        y,
        scores,
        groups,
        test.n_groups,
        confidence=confidence,
        rng=np.random.default_rng(seed),
        decisions=decisions,
    )
    metrics = evaluate_decisions(y, scores, groups, test.group_names, decisions=decisions)
    report = {
        "method": estimator.method,
        "positive": str(estimator.classes_[1]),
        "n_test": test.n_samples,
        "metrics": metrics,
        "confidence": confidence,
        "intervals": intervals,
        "warnings": [*warnings, *warnings_of(estimator, metrics)],
        "treated": counts_by_column(issues),
        "note": EXACT_ON_RECORDS,
    }
    print_evaluation(report, as_json=as_json)


@click.command(epilog="\b\nExample:\n  fairdp export model/ --out model.onnx\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="ONNX file to write, ending in .onnx.")
@click.option("--overwrite", is_flag=True, help="Replace the file that is at --out.")
@json_option
def export(folder: Path, out: Path, overwrite: bool, as_json: bool) -> None:
    """Write the saved model in FOLDER as an ONNX file: score, probability and decision of encoded records.

    The metadata hold the hash of the certificate, to compare with SHA256SUMS in FOLDER. A model that decides by group
    or by a coin cannot be exported: its decisions do not follow from the features alone. Needs pip install
    'fairdp[onnx]'.
    """
    from fairdp._io import refuse_existing, write_out
    from fairdp.classifier import FairDPClassifier
    from fairdp.cli.printing import print_pairs
    from fairdp.errors import SavedModelError
    from fairdp.saved.folder import CERTIFICATE, read_model
    from fairdp.saved.onnx import check_ending, check_exportable, described_onnx, hashes_in

    check_ending(out)
    refuse_existing(out, overwrite=overwrite)
    if read_model(folder).model.kind == "custom":
        raise SavedModelError(
            f"the model in {str(folder)!r} was trained with your own module, which is code; export it in Python: "
            "fairdp.write_onnx(FairDPClassifier.load(folder, module=...), out)."
        )
    model: FairDPClassifier = FairDPClassifier.load(folder)
    check_exportable(model)
    hashes = hashes_in(folder)
    write_out(out, described_onnx(model, hashes))
    shape = model.score_model_.shape
    written = {
        "out": str(out),
        "certificate_sha256": hashes[CERTIFICATE],
        "inputs": {"records": f"float32 ({', '.join(['n', *map(str, shape)])})"},
        "outputs": {"score": "float32 (n)", "probability": "float32 (n)", "decision": "int64 (n)"},
        "n_features": math.prod(shape),
        "positive": str(model.classes_[1]),
    }
    print_pairs(written, as_json=as_json)


@click.command(
    cls=SectionedCommand,
    common=(
        "group_sizes",
        "epsilon",
        "for_tau",
        "gap",
        "method",
        "certify_fraction",
        "certify_metrics",
        "positive_rate",
        "label_rate",
    ),
    epilog="""\b
Examples:
  fairdp plan --epsilon 1 --group-sizes 10771,21790
  fairdp plan --epsilon 1 --group-sizes 10771,21790 --for-tau .05
""",
)
@in_section(
    DATA,
    "--group-sizes",
    type=ByGroup(SIZES, unnamed=True),
    required=True,
    help="Number of records in each group: with names as `fairdp fit` would be told, without for a guess of sizes that "
    "it would count with noise.",
)
@parameter_options(
    "method",
    "epsilon",
    "delta",
    "noise_multiplier",
    "accountant",
    "parity",
    "certify_fraction",
    "confidence",
    "certify_metrics",
    "n_looks",
    "score_share",
)
@in_section(
    CERTIFICATE,
    "--positive-rate",
    type=float,
    default=0.1,
    show_default=True,
    help="Guess: share of positive decisions.",
)
@in_section(
    CERTIFICATE, "--label-rate", type=float, default=0.25, show_default=True, help="Guess: share of positive labels."
)
@in_section(
    CERTIFICATE,
    "--for-tau",
    type=float,
    help="Say how many records, or which epsilon, it takes to certify this bound on every gap.",
)
@in_section(
    CERTIFICATE,
    "--gap",
    type=float,
    help="Guess: the gap that the model will have.  [default: 0.03, at most half of --for-tau]",
)
@in_section(
    CERTIFICATE,
    "--target-width",
    type=float,
    help="Find the fraction to hold out so that every bound is this close to its gap, whatever that is.",
)
@in_section(
    CERTIFICATE,
    "--input-agnostic-tau",
    type=float,
    default=0.1,
    show_default=True,
    help="Show what a bound for all possible inputs would cost in accuracy.",
)
@parameter_options("sample_rate", "n_steps", "clip_norm", "weight_bound", "n_members", "noise_allocation")
@parameter_options("learning_rate", "schedule", "diameter", "optimizer", "adam_share", "sgd_learning_rate")
@parameter_options("group_optimizers", "group_weights")
@json_option
def plan(as_json: bool, **options: Any) -> None:
    """Estimate the records or epsilon that a certified bound needs, and what a run would cost: no data are needed.

    All figures about the certificate are estimates that follow from the guesses.
    """
    from fairdp.cli.printing import print_plan
    from fairdp.planning import plan_report

    print_plan(plan_report(**options), as_json=as_json)


@click.group(epilog="Example: fairdp data get adult")
def data() -> None:
    """List and fetch the named data sets."""


@data.command("list", epilog="\b\nExample:\n  fairdp data list\n")
@json_option
def list_(as_json: bool) -> None:
    """Show the named data sets, their licences and whether they are on this machine."""
    from fairdp.cli.printing import print_cards
    from fairdp.data.catalog import DATASETS, find

    cards = [
        {
            "name": card.name,
            "what": card.title,
            "rows": card.rows,
            "features": card.features,
            "groups": ", ".join(card.groups),
            "sensitive": ", ".join(card.sensitive),
            "positive": card.label,
            "licence": card.licence,
            "source": card.source,
            "on this machine": not card.checksums or find(card.name) is not None,
            "sha256": dict(card.checksums),
        }
        for card in DATASETS.values()
    ]
    print_cards("datasets", cards, as_json=as_json)


@data.command("get", epilog="\b\nExample:\n  fairdp data get adult\n")
@click.argument("name")
@click.option("--from", "source", type=click.Path(path_type=Path), help="A file or folder you already have.")
@json_option
def get(name: str, source: Path | None, as_json: bool) -> None:
    """Fetch a data set into the cache and check it by SHA-256."""
    from fairdp.cli.printing import print_pairs
    from fairdp.data.catalog import DATASETS, fetch

    if name not in DATASETS:
        raise click.BadParameter(f"{name!r} is not one of {', '.join(DATASETS)}.", param_hint="NAME")
    if not DATASETS[name].checksums:
        raise click.BadParameter(f"{name!r} is built in; there is nothing to get.", param_hint="NAME")
    folder = fetch(name, source=source, say=say)
    print_pairs({"dataset": name, "folder": str(folder), "licence": DATASETS[name].licence}, as_json=as_json)


@click.command(epilog="\b\nExample:\n  fairdp methods --json\n")
@json_option
def methods(as_json: bool) -> None:
    """List the training methods, their guarantees and their papers."""
    from fairdp.cli.printing import print_cards
    from fairdp.methods import METHODS

    cards = [
        {
            "method": name,
            "default": name == DECLARED["method"].default,
            "private": method.private,
            "unit": method.unit,
            "guarantee": method.guarantee,
            "needs_group_at_prediction": method.needs_group_at_prediction,
            "paper": method.paper,
        }
        for name, method in METHODS.items()
    ]
    print_cards("methods", cards, as_json=as_json)
