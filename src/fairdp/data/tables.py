"""Tables in files: read them, whole or in batches, refuse broken ones in one line, and turn them into grouped data."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fairdp import _checks
from fairdp._checks import DataError, InputError
from fairdp.data.cells import text_of
from fairdp.data.csv_text import count_csv_rows, csv_tables, refuse_repeated
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import TableSchema, infer_schema, read_schema

Observe = Callable[[pd.DataFrame], None]

NOT_YET_DECLARED = (
    "the schema says declared: false, so what it holds was read from rows and counts as public; replace it with what "
    "you know, then set declared: true."
)


@dataclass(frozen=True, kw_only=True)
class TableData:
    """A table as grouped data, the schema that encoded it, and notes for the user."""

    data: GroupedData
    schema: TableSchema
    notes: tuple[str, ...]


def load_table(
    path: str | Path,
    *,
    label: str,
    sensitive: Sequence[str],
    schema_path: str | Path | None = None,
    positive: object = None,
    observe: Observe = lambda rows: None,
) -> TableData:
    """Read and encode a table, by a declared schema or else by one read from the table.

    Parameters
    ----------
    path
        CSV or Parquet file.
    label, sensitive
        Column of the label and protected columns.
    schema_path
        YAML or JSON file with declared types, categories and bounds.
    positive
        Label value that counts as 1.
    observe
        Called with all rows as they are read, some at a time.
    """
    if schema_path is None:
        frame = read_table(path)
        observe(frame)
        schema, notes = infer_schema(frame, label, sensitive, positive)
        return TableData(data=encode_table(frame, schema), schema=schema, notes=notes)
    schema = read_schema(schema_path)
    _check_agreement(schema, label=label, sensitive=sensitive, positive=positive)
    notes = () if schema.declared else (NOT_YET_DECLARED,)
    return TableData(data=encode_file(path, schema, observe=observe), schema=schema, notes=notes)


def encode_file(
    path: str | Path, schema: TableSchema, *, rows: int = 50_000, observe: Observe = lambda rows: None
) -> GroupedData:
    """The rows of a file as grouped data; of the table itself at most so many rows are in memory at once."""
    path = Path(path)
    n_rows = _n_rows_checked(path)
    X = np.empty((n_rows, schema.n_features), dtype=np.float32)
    y, groups = np.empty((2, n_rows), dtype=np.int64)
    stop = 0
    for batch in _encoded(_batches(path, rows), schema, observe):
        start, stop = stop, stop + batch.n_samples
        if stop > n_rows:
            break
        X[start:stop], y[start:stop], groups[start:stop] = batch.X, batch.y, batch.groups
    if stop != n_rows:
        # Otherwise rows that nobody wrote would be trained on, or rows left out.
        raise DataError(f"table {str(path)!r} has changed while it was read; start again.")
    return GroupedData(X, y, groups, schema.group_names)


def encode_table(frame: pd.DataFrame, schema: TableSchema) -> GroupedData:
    """The rows of a table as grouped data."""
    codes, names = schema.encode_groups(frame)
    return GroupedData(schema.encode(frame), schema.encode_labels(frame), codes, names)


def encoded_batches(
    path: str | Path, schema: TableSchema, *, rows: int = 50_000, observe: Observe = lambda rows: None
) -> Iterator[GroupedData]:
    """The rows of a table as grouped data, some at a time; together the same as the encoded whole.

    The file is checked before this returns; values that the schema does not allow are refused where they are met.
    """
    return _encoded(table_batches(path, rows=rows), schema, observe)


def _encoded(batches: Iterator[pd.DataFrame], schema: TableSchema, observe: Observe) -> Iterator[GroupedData]:
    for batch in batches:
        observe(batch)
        # A missing column is not the fault of these rows: without rows, nothing else can be wrong.
        encode_table(batch.iloc[:0], schema)
        try:
            data = encode_table(batch, schema)
        except InputError as error:
            raise DataError(f"rows {batch.index[0] + 1} to {batch.index[-1] + 1}: {error.template}") from None
        yield data


def read_table(path: str | Path) -> pd.DataFrame:
    """The table in a CSV (UTF-8) or Parquet file: each cell as the text it is written as, or with the file's own type.

    Raises
    ------
    FileNotFoundError, DataError
        With one line that names the file and what is wrong with it.
    """
    path = Path(path)
    if _is_csv(path):
        return _frame(pa.concat_tables(csv_tables(path, count_csv_rows(path))))
    with _opened_parquet(path) as file, _readable(path):
        return _frame(file.read(use_threads=False))


def table_batches(path: str | Path, *, rows: int = 50_000) -> Iterator[pd.DataFrame]:
    """The table in a CSV (UTF-8) or Parquet file, some rows at a time, in memory that does not grow with the file.

    The index goes on from batch to batch.

    Parameters
    ----------
    path
        The file. It is checked before this returns, with the errors of `read_table`.
    rows
        At most so many rows are in memory at once.
    """
    path = Path(path)
    _n_rows_checked(path)
    return _batches(path, rows)


def _batches(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    _checks.positive_integer(rows=rows)
    return _csv_batches(path, rows) if _is_csv(path) else _parquet_batches(path, rows)


def _n_rows_checked(path: Path) -> int:
    """Number of rows of a table that can be read."""
    if _is_csv(path):
        return count_csv_rows(path)
    with _opened_parquet(path) as file:
        return int(file.metadata.num_rows)


def _is_csv(path: Path) -> bool:
    """Whether a file is a CSV table and not a Parquet one, by its ending."""
    if not path.is_file():
        what = "is a folder; name a file" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"table {str(path)!r} {what}.")
    if path.suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise DataError(f"table {str(path)!r} must end in .csv or .parquet, got {path.suffix or 'no ending'}.")
    return path.suffix.lower() == ".csv"


def _csv_batches(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    return _frames(csv_tables(path, rows))


def _parquet_batches(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    with _opened_parquet(path) as file, _readable(path):
        yield from _frames(file.iter_batches(batch_size=rows, use_threads=False))


def _frames(parts: Iterator[pa.Table | pa.RecordBatch]) -> Iterator[pd.DataFrame]:
    """Parts of a table with the numbers of their rows."""
    start = 0
    for part in parts:
        frame = _frame(part)
        frame.index = pd.RangeIndex(start, start + len(frame))
        start += len(frame)
        yield frame


def _frame(part: pa.Table | pa.RecordBatch) -> pd.DataFrame:
    # In pandas' own types, whole numbers would become floats where another row has none.
    return part.to_pandas(types_mapper=pd.ArrowDtype)


def _opened_parquet(path: Path) -> pq.ParquetFile:
    with _readable(path):
        # Else whole columns of a row group are read ahead and kept, and a row group may be the whole file.
        file = pq.ParquetFile(path, buffer_size=2**16, pre_buffer=False)
    refuse_repeated(path, file.schema_arrow.names)
    if not file.metadata.num_rows:
        raise DataError(f"table {str(path)!r} has no rows.")
    return file


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what goes wrong inside the reader of Parquet files into one line."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, NotImplementedError, OSError, TypeError, ValueError):
        raise DataError(f"table {str(path)!r} is not a Parquet file that can be read.") from None


def _check_agreement(schema: TableSchema, *, label: str, sensitive: Sequence[str], positive: object) -> None:
    """What the caller names must be what the schema names: neither silently wins."""
    names = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    if label != schema.label:
        raise DataError(f"`label` is {label!r}, but the schema says {schema.label!r}; make them agree.")
    if sorted(names) != sorted(schema.sensitive):
        declared = ", ".join(schema.sensitive)
        raise DataError(f"`sensitive` is {', '.join(names)}, but the schema says {declared}; make them agree.")
    if positive is not None and text_of(positive) != text_of(schema.positive):
        raise DataError(f"`positive` is {positive!r}, but the schema says {schema.positive!r}; make them agree.")
