"""Decisions of a saved model about the rows of a table, in a CSV or Parquet file."""

import csv
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairdp._io import draft_of
from fairdp.classifier import FairDPClassifier
from fairdp.data.cells import spellings_of
from fairdp.data.columns import CellIssues, OnIssue, counts_by_column, lines_for_holder, refuse_unreadable, summed
from fairdp.data.grouped import BATCH
from fairdp.data.schema import PLAIN, TableFormat, TableSchema
from fairdp.data.tables import table_batches
from fairdp.errors import DataError, ParameterError
from fairdp.records import load_saved
from fairdp.run.predictor import declared_for_reasons

# What every file of decisions has among its columns.
_WRITTEN = {"score", "probability", "decision"}


def predict_table(
    folder: Path,
    table: Path,
    out: Path,
    *,
    id_columns: Sequence[str] = (),
    k: int | None = None,
    written: TableFormat = PLAIN,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Write score, probability and decision of a saved model for every row of a table.

    Rows pass some at a time, and the file is there when all are decided. Returns counts, and what became of cells that
    were not as declared, by column.

    Parameters
    ----------
    out
        A CSV or Parquet file; only earlier decisions are replaced.
    id_columns
        Columns that are kept, and tell equal rows of people apart.
    k
        Number of reasons for each negative decision.
    written
        How the table is written, where the model's schema says otherwise.
    say
        Told what the data holder should know of cells that were not as declared.
    """
    estimator, schema = load_saved(folder, written)
    if k is not None:
        declared_for_reasons(estimator, k)
    is_parquet = out.suffix.lower() == ".parquet"
    if not is_parquet and out.suffix.lower() != ".csv":
        raise ParameterError("out", str(out), "must end in .csv or .parquet")
    if out.exists() and table.exists() and out.samefile(table):
        raise ParameterError("out", str(out), "is the table itself", "choose another file")
    _refuse_foreign(out)
    n_rows = n_positive = 0
    issues: tuple[CellIssues, ...] = ()

    def decided(rows: pd.DataFrame, as_written: pd.DataFrame) -> pd.DataFrame:
        nonlocal n_rows, n_positive, issues
        found = list[CellIssues]()
        kept = _ids(rows, id_columns, table)
        # Parts of an id are kept apart by a sign that no text has.
        ids = ["\x1f".join(parts) for parts in zip(*kept.values(), strict=True)] or None
        records = schema.encode(rows, on_issue=found.append)
        scores, groups = estimator.scores(records), _groups(estimator, schema, rows, found.append)
        rule, model = estimator.predictor_, estimator.score_model_
        decisions = rule.decisions(model, records, ids, groups=groups, scores=scores)
        named = np.where(decisions == 1, schema.positive, schema.negative)
        frame = pd.DataFrame({"score": scores, "probability": estimator.probabilities(records), "decision": named})
        if rule.tosses_coins:
            frame.insert(2, "chance", rule.chances(model, records, groups=groups, scores=scores))
        frame = pd.concat([as_written[list(id_columns)].reset_index(drop=True), frame], axis=1)
        if k is not None:
            frame = pd.concat([frame, estimator.reasons(rows, k=k)], axis=1)
        n_rows, n_positive = n_rows + len(frame), n_positive + int(decisions.sum())
        issues = summed((*issues, *found))
        return frame

    # Models compute some thousand rows at once, of which a batch is a multiple. The file is checked here.
    batches = table_batches(table, schema.format, rows=BATCH)
    if id_columns and schema.format.rewrites_cells:
        # Ids are kept to the letter, whatever numbers look like in such a file.
        plain = replace(schema.format, decimal=None, thousands=None, day_first=None)
        texts = table_batches(table, plain, rows=BATCH)
        frames = (decided(rows, as_written) for rows, as_written in zip(batches, texts, strict=True))
    else:
        frames = (decided(rows, rows) for rows in batches)
    with _drafted(out) as draft:
        (_write_parquet if is_parquet else _write_csv)(draft, frames)
        # Known at the end: what is refused here leaves no file.
        refuse_unreadable(issues)
    for line in lines_for_holder(issues):
        say(line)
    return {
        "n_rows": n_rows,
        "positive": schema.positive,
        "positive_rate": n_positive / n_rows if n_rows else float("nan"),
        "out": str(out),
        "treated": counts_by_column(issues),
    }


def _ids(rows: pd.DataFrame, names: Sequence[str], table: Path) -> dict[str, list[str]]:
    """The texts of the columns that say who somebody is."""
    for name in names:
        if name not in rows:
            raise ParameterError("id_columns", name, f"is not a column of {str(table)!r}")
        if name in ("score", "probability", "chance", "decision") or name.startswith("reason"):
            raise ParameterError(
                "id_columns", name, "is the name of a column that is written", "rename it in the table"
            )
    return {name: spellings_of(rows[name]) for name in names}


def _groups(
    estimator: FairDPClassifier, schema: TableSchema, rows: pd.DataFrame, on_issue: OnIssue
) -> NDArray[np.int64] | None:
    """The group of each row, for a rule that needs it."""
    if estimator.predictor_.flips is None:
        return None
    missing = [name for name in schema.sensitive if name not in rows]
    if missing:
        raise DataError(
            f"{estimator.method} decides by group and needs the column {missing[0]!r}; train another method for "
            "decisions without it (see fairdp methods)."
        )
    return schema.encode_groups(rows, on_issue=on_issue)[0]


def _refuse_foreign(out: Path) -> None:
    """Refuse to replace a file that `fairdp predict` has not written."""
    if out.is_file() and out.stat().st_size and not _columns(out) >= _WRITTEN:
        raise ParameterError("out", str(out), "exists and holds no decisions of fairdp predict", "choose another file")


def _columns(path: Path) -> set[str]:
    """The columns of a table that may be none."""
    try:
        if path.suffix.lower() == ".parquet":
            return {*pq.read_schema(path).names}
        with path.open(encoding="utf-8", newline="") as file:
            return {*next(csv.reader(file), [])}
    except (pa.ArrowException, UnicodeDecodeError, csv.Error):
        return set()


@contextmanager
def _drafted(out: Path) -> Iterator[BinaryIO]:
    """A file to write to some at a time, which takes its name when all is written; one line says why it cannot be."""
    try:
        with draft_of(out) as handle, os.fdopen(handle, "wb", closefd=False) as draft:
            yield draft
    except OSError as error:
        # What is wrong with a table has words of its own.
        reason = error.strerror or str(error).splitlines()[0]
        raise ParameterError("out", str(out), f"cannot be written: {reason}") from None


def _write_csv(draft: BinaryIO, frames: Iterator[pd.DataFrame]) -> None:
    for number, frame in enumerate(frames):
        draft.write(frame.to_csv(index=False, header=not number).encode())


def _write_parquet(draft: BinaryIO, frames: Iterator[pd.DataFrame]) -> None:
    first = next(frames)
    found = pa.Schema.from_pandas(first, preserve_index=False)
    # Types of all rows by the first ones; a column that has been empty so far may hold texts later.
    fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in found]
    writer = pq.ParquetWriter(draft, pa.schema(fields, metadata=found.metadata))
    try:
        for frame in itertools.chain([first], frames):
            try:
                table = pa.Table.from_pandas(frame, schema=writer.schema, preserve_index=False)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                # All other columns are of our own making.
                raise DataError(
                    "the ids of later rows are of another type than those of the first; write to a .csv file, which "
                    "takes both."
                ) from None
            writer.write_table(table)
        writer.close()
    finally:
        # One that failed would be closed again when Python lets go of it, and print a traceback.
        writer.is_open = False
