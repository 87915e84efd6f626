"""What the commands do: from files to a trained model, predictions and measurements."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from fairdp import _validate
from fairdp.accounting import PrivacyBudget
from fairdp.artifacts import MARKER
from fairdp.data.catalog import load_dataset
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import TableSchema, read_schema
from fairdp.data.splits import split_by_own_coin
from fairdp.data.tables import encode_table, load_table, read_table
from fairdp.estimators import FairDPClassifier
from fairdp.files import check_replaceable, json_bytes, write_file
from fairdp.fitting import Progress
from fairdp.metrics import collapse_warning, confidence_intervals, evaluate_decisions

READ_FROM_TABLE = "column types, categories, ranges and group names were read from the table, as no schema was given"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the records come from: a table, or a named data set."""

    table: Path | None
    dataset: str | None
    label: str | None
    positive: str | None
    sensitive: tuple[str, ...]
    schema: Path | None
    test_fraction: float


@dataclass(frozen=True, kw_only=True)
class FitTask:
    """One call of `fairdp fit`."""

    source: Source
    parameters: dict[str, Any]
    checkpoint: Path | None
    resume: bool
    out: Path | None


@dataclass(frozen=True, kw_only=True)
class Records:
    """Training and test records with what is to be said of them."""

    name: str
    train: GroupedData
    test: GroupedData
    schema: TableSchema | None
    warnings: tuple[str, ...] = ()
    public_assumptions: tuple[str, ...] = ()


def run_fit(task: FitTask) -> dict[str, Any]:
    """Train, evaluate on the held-out records and save; all that can be refused is refused before training."""
    start = time.perf_counter()
    estimator = FairDPClassifier(**task.parameters)
    PrivacyBudget(epsilon=estimator.epsilon, delta=estimator.delta)
    if task.out is not None:
        check_replaceable(task.out, marker=MARKER)
    records = load_records(task.source)
    trained_from = time.perf_counter()
    with progress_bar("training") as observe:
        progress = Progress(observe=observe, checkpoint=task.checkpoint, resume=task.resume)
        estimator.fit_grouped(
            records.train,
            progress=progress,
            public_assumptions=records.public_assumptions,
            feature_schema=None if records.schema is None else records.schema.to_dict(),
        )
    trained = time.perf_counter() - trained_from
    if records.schema is not None:
        estimator.classes_ = np.array([records.schema.negative, records.schema.positive])
    metrics = measure(estimator, records.test)
    saved = [] if task.out is None else _save(estimator, task.out, task.checkpoint)
    return {
        "method": estimator.method,
        "dataset": records.name,
        "n_train": records.train.n_samples,
        "n_certify": 0,
        "n_test": records.test.n_samples,
        "privacy": estimator.privacy_.to_dict(),
        "metrics": metrics,
        "certificate": estimator.certificate_,
        "warnings": [*records.warnings, *_warnings_of(estimator, metrics), *saved],
        "seconds": {"train": trained, "certify": 0.0, "total": time.perf_counter() - start},
        "out": None if task.out is None else str(task.out),
        "statement": estimator.privacy_statement(),
    }


def _save(estimator: FairDPClassifier, out: Path, checkpoint: Path | None) -> list[str]:
    """Write the model and remove its checkpoint; returns what the user should know of it."""
    replaced = (out / MARKER).exists()
    try:
        estimator.save(out)
    except OSError as error:
        kept = f"; add --resume to continue from {str(checkpoint)!r}" if checkpoint else ""
        raise ValueError(f"--out {str(out)!r} cannot be written: {error.strerror}{kept}.") from None
    if checkpoint is not None:
        # The model is safe now, and the file holds the state of the noise generator.
        checkpoint.unlink(missing_ok=True)
    return [f"the model that was in {str(out)!r} has been replaced."] if replaced else []


def load_records(source: Source) -> Records:
    """The records that a source names; the built-in population if it names none."""
    if source.table is not None and source.dataset is not None:
        raise ValueError(f"give TABLE or --dataset, not both: got {str(source.table)!r} and {source.dataset!r}.")
    if source.table is None:
        _refuse_table_options(source)
        name = source.dataset or "synthetic"
        loaded = load_dataset(name)
        notes = loaded.notes if source.dataset else (*loaded.notes, "no table given: using the synthetic population.")
        return Records(name=name, train=loaded.train, test=loaded.test, schema=loaded.schema, warnings=notes)
    path = source.table
    if source.schema is not None:
        # What the schema declares need not be typed again.
        declared = read_schema(source.schema)
        source = replace(source, label=source.label or declared.label, sensitive=source.sensitive or declared.sensitive)
    if source.label is None or not source.sensitive:
        missing = "--label" if source.label is None else "--sensitive"
        raise ValueError(f"{missing} is needed with a table: name the column of {str(source.table)!r}.")
    table = load_table(
        path,
        label=source.label,
        sensitive=source.sensitive,
        schema_path=source.schema,
        positive=source.positive,
    )
    _validate.in_unit_interval(test_fraction=source.test_fraction)
    train, test = split_by_own_coin(table.data, seed=0, share=source.test_fraction)
    assumed = () if table.schema.declared else (READ_FROM_TABLE,)
    return Records(
        name=path.name,
        train=train,
        test=test,
        schema=table.schema,
        warnings=(*table.notes, *_read_as(table.schema)),
        public_assumptions=assumed,
    )


def _read_as(schema: TableSchema) -> list[str]:
    """How an undeclared table was understood, so that a number read as a word is noticed."""
    if schema.declared:
        return []
    kinds = [f"{column.name} ({type(column).__name__.lower()})" for column in schema.columns]
    more = f" and {len(kinds) - 12} more" if len(kinds) > 12 else ""
    return [f"inputs were read as {', '.join(kinds[:12])}{more}; label {schema.label!r}, positive {schema.positive!r}."]


def _refuse_table_options(source: Source) -> None:
    given = {
        "--label": source.label,
        "--positive": source.positive,
        "--sensitive": source.sensitive,
        "--schema": source.schema,
    }
    chosen = [option for option, value in given.items() if value]
    if chosen:
        raise ValueError(f"{chosen[0]} goes with a table, not with a named data set; leave it out or name a table.")


def measure(estimator: FairDPClassifier, test: GroupedData) -> dict[str, Any]:
    """Utility and fairness on held-out records, exactly: for the data holder's eyes."""
    return evaluate_decisions(test.y, estimator.scores(test.X), test.groups, test.group_names)


def run_predict(folder: Path, table: Path, out: Path) -> dict[str, Any]:
    """Score, probability and decision for every row of a table."""
    estimator, schema = _load(folder)
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"--out must end in .csv or .parquet, got {str(out)!r}.")
    if out.exists() and table.exists() and out.samefile(table):
        raise ValueError(f"--out {str(out)!r} is the table itself; choose another file.")
    scores = estimator.scores(schema.encode(read_table(table)))
    frame = pd.DataFrame(
        {
            "score": scores,
            "probability": expit(scores),
            "decision": np.where(scores >= 0, schema.positive, schema.negative),
        }
    )
    content = frame.to_parquet(index=False) if out.suffix.lower() == ".parquet" else frame.to_csv(index=False).encode()
    try:
        write_file(out, content)
    except OSError as error:
        raise ValueError(f"--out {str(out)!r} cannot be written: {error.strerror}.") from None
    return {"n_rows": len(frame), "positive_rate": float((scores >= 0).mean()), "out": str(out)}


def run_evaluate(
    folder: Path, table: Path | None, dataset: str | None, *, confidence: float, seed: int | None
) -> dict[str, Any]:
    """Metrics of a saved model on labelled rows, with confidence intervals."""
    if (table is None) == (dataset is None):
        raise ValueError("give either TABLE or --dataset to evaluate on.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence!r}.")
    if dataset is not None:
        estimator, test = _load_for(folder, dataset)
    else:
        assert table is not None
        estimator, schema = _load(folder)
        test = encode_table(read_table(table), schema)
    scores = estimator.scores(test.X)
    intervals = confidence_intervals(
        test.y, scores, test.groups, test.n_groups, confidence=confidence, rng=np.random.default_rng(seed)
    )
    metrics = evaluate_decisions(test.y, scores, test.groups, test.group_names)
    return {
        "method": estimator.method,
        "n_test": test.n_samples,
        "metrics": metrics,
        "confidence": confidence,
        "intervals": {name: list(ends) for name, ends in intervals.items()},
        "note": "Exact figures on real records: for the data holder's eyes, outside the privacy guarantee.",
        "warnings": _warnings_of(estimator, metrics),
    }


@contextmanager
def progress_bar(label: str) -> Iterator[Any]:
    """A bar on a terminal's stderr, silence elsewhere; yields a function of the step and the number of steps."""
    if not sys.stderr.isatty():
        yield lambda step, n_steps: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        job = bar.add_task(label)
        yield lambda step, n_steps: bar.update(job, completed=step, total=n_steps)


def _load(folder: Path) -> tuple[FairDPClassifier, TableSchema]:
    estimator = FairDPClassifier.load(folder)
    if estimator.feature_schema_ is None:
        raise ValueError(f"the model in {str(folder)!r} does not read tables; use FairDPClassifier.load in Python.")
    return estimator, TableSchema.from_dict(estimator.feature_schema_)


def _load_for(folder: Path, dataset: str) -> tuple[FairDPClassifier, GroupedData]:
    """A saved model and the test records of a data set of the kind that it was trained on."""
    estimator, loaded = FairDPClassifier.load(folder), load_dataset(dataset)
    other = json.loads(json_bytes(loaded.schema.to_dict())) if loaded.schema is not None else None
    shapes = (loaded.test.X.shape[1:], estimator.score_model_.shape)
    if (
        estimator.feature_schema_ != other
        or shapes[0] != shapes[1]
        or loaded.test.group_names != estimator.group_names_
    ):
        raise ValueError(f"the model in {str(folder)!r} was not trained on data like {dataset}; name a TABLE.")
    return estimator, loaded.test


def _warnings_of(estimator: FairDPClassifier, metrics: dict[str, Any]) -> list[str]:
    collapse = collapse_warning(metrics["positive_rate"])
    found = [collapse] if collapse else []
    if np.isinf(estimator.privacy_.epsilon):
        found.append("this model is not private: it was trained without noise.")
    return found
