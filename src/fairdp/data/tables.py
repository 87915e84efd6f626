"""Tables in files: read them, whole or in batches, refuse broken ones in one line, and turn them into grouped data."""

import csv
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from fairdp import _checks
from fairdp._checks import DataError, InputError
from fairdp.data.columns import text_of
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import TableSchema, infer_schema, read_schema

if TYPE_CHECKING:
    import _csv

# Values that look like numbers in some parts of a file only must not change type from part to part.
CSV_FORM: Mapping[str, Any] = {
    "encoding": "utf-8-sig",
    "skipinitialspace": True,
    "index_col": False,
    "low_memory": False,
}


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
    """
    if schema_path is None:
        frame = read_table(path)
        schema, notes = infer_schema(frame, label, sensitive, positive)
        return TableData(data=encode_table(frame, schema), schema=schema, notes=notes)
    schema = read_schema(schema_path)
    _check_agreement(schema, label=label, sensitive=sensitive, positive=positive)
    return TableData(data=encode_file(path, schema), schema=schema, notes=())


def encode_file(path: str | Path, schema: TableSchema, *, rows: int = 50_000) -> GroupedData:
    """The rows of a file as grouped data; of the table itself at most so many rows are in memory at once."""
    path = Path(path)
    n_rows = _n_rows_checked(path)
    X = np.empty((n_rows, schema.n_features), dtype=np.float32)
    y, groups = np.empty((2, n_rows), dtype=np.int64)
    stop = 0
    for batch in _encoded(_batches(path, rows), schema):
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


def encoded_batches(path: str | Path, schema: TableSchema, *, rows: int = 50_000) -> Iterator[GroupedData]:
    """The rows of a table as grouped data, some at a time; together the same as the encoded whole.

    The file is checked before this returns; values that the schema does not allow are refused where they are met.
    """
    return _encoded(table_batches(path, rows=rows), schema)


def _encoded(batches: Iterator[pd.DataFrame], schema: TableSchema) -> Iterator[GroupedData]:
    for batch in batches:
        # A missing column is not the fault of these rows: without rows, nothing else can be wrong.
        encode_table(batch.iloc[:0], schema)
        try:
            data = encode_table(batch, schema)
        except InputError as error:
            raise DataError(f"rows {batch.index[0] + 1} to {batch.index[-1] + 1}: {error.template}") from None
        yield data


def read_table(path: str | Path) -> pd.DataFrame:
    """The table in a CSV (UTF-8) or Parquet file.

    Raises
    ------
    FileNotFoundError, DataError
        With one line that names the file and what is wrong with it.
    """
    path = Path(path)
    if _is_csv(path):
        _check_csv(path)
        with _readable(path):
            return pd.read_csv(path, **CSV_FORM)
    with _opened_parquet(path) as file, _readable(path):
        return file.read(use_threads=False).to_pandas()


def table_batches(path: str | Path, *, rows: int = 50_000) -> Iterator[pd.DataFrame]:
    """The table in a CSV (UTF-8) or Parquet file, some rows at a time, in memory that does not grow with the file.

    The index goes on from batch to batch. Types are such that a schema encodes a batch as it encodes these rows in the
    whole table.

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
        return _check_csv(path)
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
    types = _csv_types(path, rows)
    with _readable(path), pd.read_csv(path, **CSV_FORM, chunksize=rows, dtype=types) as batches:
        yield from batches


def _csv_types(path: Path, rows: int) -> dict[Hashable, str]:
    """Type of each column in all of the file: codes 01, 02 are numbers, unless a later batch holds a word."""
    kinds: dict[Hashable, set[str]] = {}
    with _readable(path), pd.read_csv(path, **CSV_FORM, chunksize=rows) as batches:
        for batch in batches:
            for name, values in batch.items():
                kinds.setdefault(name, set()).add(_kind(values))
    return {name: _common_type(found) for name, found in kinds.items()}


def _kind(values: pd.Series) -> str:
    if values.isna().all():
        return "missing"
    return "int64" if values.dtype == np.int64 else pd.api.types.infer_dtype(values, skipna=True)


def _common_type(kinds: set[str]) -> str:
    """What pandas makes of a column whose parts are of these kinds."""
    if kinds == {"int64"}:
        return "int64"
    if kinds <= {"int64", "floating", "missing"}:
        return "float64"
    return "boolean" if kinds <= {"boolean", "missing"} else "str"


def _check_csv(path: Path) -> int:
    """Number of rows; every line has the fields of the header: pandas would fill short ones with missing values."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, skipinitialspace=True, strict=True)
        try:
            header = next((row for row in reader if row), [])
            _check_header(path, header)
            n_rows = _count_rows(path, reader, len(header))
        except csv.Error as error:
            raise DataError(f"table {str(path)!r}: line {reader.line_num} is broken ({error}).") from None
        except UnicodeDecodeError:
            line = _first_broken_line(path)
            raise DataError(f"table {str(path)!r} is not UTF-8 at line {line}; save it as UTF-8.") from None
    if not n_rows:
        raise DataError(f"table {str(path)!r} has no rows.")
    return n_rows


def _count_rows(path: Path, reader: "_csv.Reader", n_fields: int) -> int:
    count = 0
    for row in reader:
        if len(row) == n_fields:
            count += 1
        elif row:
            found = f"line {reader.line_num} has {len(row)} fields, the header has {n_fields}"
            raise DataError(f"table {str(path)!r}: {found}; correct the line.")
    return count


def _first_broken_line(path: Path) -> int:
    """Number of the first line that is not UTF-8; no character of UTF-8 goes over the end of a line."""
    with path.open("rb") as stream:
        return next(number for number, line in enumerate(stream, start=1) if not _is_utf8(line))


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_header(path: Path, header: list[str]) -> None:
    if not header:
        raise DataError(f"table {str(path)!r} is empty.")
    _refuse_repeated(path, header)
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            raise DataError(f"table {str(path)!r} seems to be separated by {name}; save it with commas.")


def _parquet_batches(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    start = 0
    with _opened_parquet(path) as file, _readable(path):
        for part in file.iter_batches(batch_size=rows, use_threads=False):
            batch = part.to_pandas()
            batch.index = pd.RangeIndex(start, start + len(batch))
            start += len(batch)
            yield batch


def _opened_parquet(path: Path) -> pq.ParquetFile:
    with _readable(path):
        # Else whole columns of a row group are read ahead and kept, and a row group may be the whole file.
        file = pq.ParquetFile(path, buffer_size=2**16, pre_buffer=False)
    _refuse_repeated(path, file.schema_arrow.names)
    if not file.metadata.num_rows:
        raise DataError(f"table {str(path)!r} has no rows.")
    return file


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what goes wrong inside a reader of files into one line."""
    try:
        yield
    except (ValueError, OSError, NotImplementedError):
        kind = "CSV" if path.suffix.lower() == ".csv" else "Parquet"
        raise DataError(f"table {str(path)!r} is not a {kind} file that can be read.") from None


def _refuse_repeated(path: Path, names: list[str]) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise DataError(f"table {str(path)!r} has two columns named {repeated!r}; rename one.")


def _check_agreement(schema: TableSchema, *, label: str, sensitive: Sequence[str], positive: object) -> None:
    """What the caller names must be what the schema names: neither silently wins."""
    names = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    if label != schema.label:
        raise DataError(f"`label` is {label!r}, but the schema says {schema.label!r}; make them agree.")
    if sorted(names) != sorted(schema.sensitive):
        declared = ", ".join(schema.sensitive)
        raise DataError(f"`sensitive` is {', '.join(names)}, but the schema says {declared}; make them agree.")
    if positive is not None and text_of(positive) != schema.positive:
        raise DataError(f"`positive` is {positive!r}, but the schema says {schema.positive!r}; make them agree.")
