"""`fairdp predict`: decisions about the rows of a table, some at a time, in a file that is there when all are made."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairdp._checks import DataError, ParameterError
from fairdp.classifier import FairDPClassifier
from fairdp.commands.decision_files import drafted, refuse_foreign, saying_out
from fairdp.commands.progress import say_treated
from fairdp.commands.saved_models import load_saved
from fairdp.data.distinct import spellings_of
from fairdp.data.formats import PLAIN, TableFormat
from fairdp.data.grouped import BATCH
from fairdp.data.schema import TableSchema
from fairdp.data.tables import table_batches
from fairdp.data.treatments import Tell, Treated, counts_by_column, refuse_unreadable, summed
from fairdp.run.reasons import declared_for_reasons


@dataclass(frozen=True, kw_only=True)
class PredictionReport:
    """What was predicted, where it was written, and what became of cells that were not as declared, by column."""

    n_rows: int
    positive: str
    positive_rate: float
    out: str
    treated: Mapping[str, Mapping[str, int]]


def run_predict(
    folder: Path,
    table: Path,
    out: Path,
    *,
    id_columns: Sequence[str] = (),
    k: int | None = None,
    written: TableFormat = PLAIN,
) -> PredictionReport:
    """Score, probability and decision for every row of a table; ids are kept, and tell equal rows of people apart.

    With ``k`` also so many reasons for each negative decision.
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
        (_write_parquet if is_parquet else _write_csv)(draft, frames, out)
        # Known at the end: what is refused here leaves no file.
        refuse_unreadable(deciding.told)
    say_treated(deciding.told)
    return PredictionReport(
        n_rows=deciding.n_rows,
        positive=schema.positive,
        positive_rate=deciding.n_positive / deciding.n_rows if deciding.n_rows else float("nan"),
        out=str(out),
        treated=counts_by_column(deciding.told),
    )


class _Deciding:
    """A model on the rows of a table: what is written of them, and counts of what has passed."""

    def __init__(
        self, estimator: FairDPClassifier, schema: TableSchema, table: Path, id_columns: tuple[str, ...], k: int | None
    ) -> None:
        self.estimator, self.schema, self.table, self.id_columns, self.k = estimator, schema, table, id_columns, k
        self.n_rows = self.n_positive = 0
        self.told: tuple[Treated, ...] = ()

    def frames(self) -> Iterator[pd.DataFrame]:
        """What is written, some rows at a time; models compute some thousand at once, of which this is a multiple.

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
        estimator, schema, told = self.estimator, self.schema, list[Treated]()
        kept = _ids(rows, self.id_columns, self.table)
        # Parts of an id are kept apart by a sign that no text has.
        ids = ["\x1f".join(parts) for parts in zip(*kept.values(), strict=True)] or None
        records = schema.encode(rows, tell=told.append)
        scores, groups = estimator.scores(records), _groups(estimator, schema, rows, told.append)
        rule, model = estimator.predictor_, estimator.score_model_
        decisions = rule.decisions(model, records, ids, groups=groups, scores=scores)
        named = np.where(decisions == 1, schema.positive, schema.negative)
        frame = pd.DataFrame({"score": scores, "probability": estimator.probabilities(records), "decision": named})
        if rule.tosses_coins:
            frame.insert(2, "chance", rule.chances(model, records, groups=groups, scores=scores))
        frame = pd.concat([as_written[list(self.id_columns)].reset_index(drop=True), frame], axis=1)
        if self.k is not None:
            frame = pd.concat([frame, estimator.reasons(rows, k=self.k, person_ids=ids)], axis=1)
        self.n_rows, self.n_positive = self.n_rows + len(frame), self.n_positive + int(decisions.sum())
        self.told = summed((*self.told, *told))
        return frame


def _write_csv(draft: BinaryIO, frames: Iterator[pd.DataFrame], out: Path) -> None:
    for number, frame in enumerate(frames):
        content = frame.to_csv(index=False, header=not number).encode()
        with saying_out(out):
            draft.write(content)


def _write_parquet(draft: BinaryIO, frames: Iterator[pd.DataFrame], out: Path) -> None:
    first = next(frames)
    writer = pq.ParquetWriter(draft, _schema_of(first))
    try:
        for frame in itertools.chain([first], frames):
            rows = _typed(frame, writer.schema)
            with saying_out(out):
                writer.write_table(rows)
        with saying_out(out):
            writer.close()
    finally:
        # One that failed would be closed again when Python lets go of it, and print a traceback.
        writer.is_open = False


def _typed(frame: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # All other columns are of our own making.
        raise DataError(
            "the ids of later rows are of another type than those of the first; write to a .csv file, which takes both."
        ) from None


def _schema_of(frame: pd.DataFrame) -> pa.Schema:
    """Types of all rows by the first ones; a column that has been empty so far may hold texts later."""
    found = pa.Schema.from_pandas(frame, preserve_index=False)
    fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in found]
    return pa.schema(fields, metadata=found.metadata)


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
    estimator: FairDPClassifier, schema: TableSchema, rows: pd.DataFrame, tell: Tell
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
    return schema.encode_groups(rows, tell=tell)[0]
