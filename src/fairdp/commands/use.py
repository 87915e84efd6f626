"""A saved model in use: decisions about the rows of a table, an ONNX file, or another target of its rule."""

import csv
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairdp._io import draft_of, refuse_existing, to_plain, write_out
from fairdp.classifier import FairDPClassifier
from fairdp.cli.terminal import say_cell_issues
from fairdp.data.cells import spellings_of
from fairdp.data.columns import CellIssues, OnIssue, counts_by_column, refuse_unreadable, summed
from fairdp.data.grouped import BATCH
from fairdp.data.schema import PLAIN, TableFormat, TableSchema
from fairdp.data.tables import table_batches
from fairdp.errors import DataError, ParameterError, SavedModelError
from fairdp.frontier.curve import FrontierPoint, frontier_points
from fairdp.frontier.verdict import Verdict
from fairdp.records import load_saved
from fairdp.run.predictor import declared_for_reasons
from fairdp.saved.folder import (
    CERTIFICATE,
    MARKER,
    is_signed,
    place_for_model,
    read_model,
    retargeted,
    write_model,
)
from fairdp.saved.onnx import check_ending, check_exportable, described_onnx, hashes_in

# What every file of decisions has among its columns.
WRITTEN = ("score", "probability", "decision")


def run_predict(
    folder: Path,
    table: Path,
    out: Path,
    *,
    id_columns: Sequence[str] = (),
    k: int | None = None,
    written: TableFormat = PLAIN,
) -> dict[str, Any]:
    """Score, probability and decision for every row of a table; ids are kept, and tell equal rows of people apart.

    With ``k`` also so many reasons for each negative decision. Rows pass some at a time, and the file is there when all
    are decided. Returns counts, and what became of cells that were not as declared, by column.
    """
    estimator, schema = load_saved(folder, written)
    if k is not None:
        declared_for_reasons(estimator, k)
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise ParameterError("out", str(out), "must end in .csv or .parquet")
    if out.exists() and table.exists() and out.samefile(table):
        raise ParameterError("out", str(out), "is the table itself", "choose another file")
    refuse_foreign(out)
    deciding = _Deciding(estimator, schema, table, tuple(id_columns), k)
    frames, is_parquet = deciding.frames(), out.suffix.lower() == ".parquet"
    with drafted(out) as draft:
        (_write_parquet if is_parquet else _write_csv)(draft, frames)
        # Known at the end: what is refused here leaves no file.
        refuse_unreadable(deciding.issues)
    say_cell_issues(deciding.issues)
    return {
        "n_rows": deciding.n_rows,
        "positive": schema.positive,
        "positive_rate": deciding.n_positive / deciding.n_rows if deciding.n_rows else float("nan"),
        "out": str(out),
        "treated": counts_by_column(deciding.issues),
    }


class _Deciding:
    """A model on the rows of a table: the frames to write, and counts of what has passed."""

    def __init__(
        self, estimator: FairDPClassifier, schema: TableSchema, table: Path, id_columns: tuple[str, ...], k: int | None
    ) -> None:
        self.estimator, self.schema, self.table, self.id_columns, self.k = estimator, schema, table, id_columns, k
        self.n_rows = self.n_positive = 0
        self.issues: tuple[CellIssues, ...] = ()

    def frames(self) -> Iterator[pd.DataFrame]:
        """The frames to write, some rows at a time; models compute some thousand at once, of which this is a multiple.

        The file is checked before this returns.
        """
        batches = table_batches(self.table, self.schema.format, rows=BATCH)
        if not self.id_columns or not self.schema.format.rewrites_cells:
            return (self._frame(rows, rows) for rows in batches)
        # Ids are kept to the letter, whatever numbers look like in such a file.
        plain = replace(self.schema.format, decimal=None, thousands=None, day_first=None)
        as_written = table_batches(self.table, plain, rows=BATCH)
        return (self._frame(rows, texts) for rows, texts in zip(batches, as_written, strict=True))

    def _frame(self, rows: pd.DataFrame, as_written: pd.DataFrame) -> pd.DataFrame:
        estimator, schema, issues = self.estimator, self.schema, list[CellIssues]()
        kept = _ids(rows, self.id_columns, self.table)
        # Parts of an id are kept apart by a sign that no text has.
        ids = ["\x1f".join(parts) for parts in zip(*kept.values(), strict=True)] or None
        records = schema.encode(rows, on_issue=issues.append)
        scores, groups = estimator.scores(records), _groups(estimator, schema, rows, issues.append)
        rule, model = estimator.predictor_, estimator.score_model_
        decisions = rule.decisions(model, records, ids, groups=groups, scores=scores)
        named = np.where(decisions == 1, schema.positive, schema.negative)
        frame = pd.DataFrame({"score": scores, "probability": estimator.probabilities(records), "decision": named})
        if rule.tosses_coins:
            frame.insert(2, "chance", rule.chances(model, records, groups=groups, scores=scores))
        frame = pd.concat([as_written[list(self.id_columns)].reset_index(drop=True), frame], axis=1)
        if self.k is not None:
            frame = pd.concat([frame, estimator.reasons(rows, k=self.k)], axis=1)
        self.n_rows, self.n_positive = self.n_rows + len(frame), self.n_positive + int(decisions.sum())
        self.issues = summed((*self.issues, *issues))
        return frame


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


def refuse_foreign(out: Path) -> None:
    """Refuse to replace a file that `fairdp predict` has not written."""
    if out.is_file() and out.stat().st_size and not {*WRITTEN} <= _columns(out):
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
def drafted(out: Path) -> Iterator[BinaryIO]:
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


def export_saved(folder: Path, out: Path, *, overwrite: bool = False) -> dict[str, Any]:
    """Write a saved model to an ONNX file with the hashes of its folder; says what is in the file, and who vouches."""
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
    return {
        "out": str(out),
        "certificate_sha256": hashes[CERTIFICATE],
        "inputs": {"records": f"float32 ({', '.join(['n', *map(str, shape)])})"},
        "outputs": {"score": "float32 (n)", "probability": "float32 (n)", "decision": "int64 (n)"},
        "n_features": math.prod(shape),
        "positive": str(model.classes_[1]),
    }


@dataclass(frozen=True, kw_only=True)
class RetargetReport:
    """The target that the rule was moved to, others that it could have, and where it was written."""

    verdict: Verdict
    frontier: list[FrontierPoint]
    certificate_statement: str
    positive: str
    warnings: tuple[str, ...]
    out: str

    def to_json(self) -> dict[str, object]:
        """Plain values under the names users see."""
        return {
            "target": None if self.verdict.target is None else self.verdict.target.to_dict(),
            "verdict": self.verdict.verdict,
            "frontier": to_plain(self.frontier),
            "certificate_statement": self.certificate_statement,
            "positive": self.positive,
            "warnings": list(self.warnings),
            "out": self.out,
        }


def retarget_saved(
    folder: Path,
    out: Path,
    *,
    max_gap: float | None = None,
    min_ratio: float | None = None,
    price: float | None = None,
) -> RetargetReport:
    """Write the model in a folder, with its rule moved to another target, to a new folder; no record is needed."""
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
    assert moved.frontier_ is not None
    return RetargetReport(
        verdict=moved.verdict_,
        frontier=frontier_points(moved.frontier_),
        certificate_statement=moved.certificate_statement(),
        positive=str(moved.classes_[1]),
        warnings=(unsigned,) if is_signed(folder) else (),
        out=str(out),
    )
