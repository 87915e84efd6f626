"""Tables in files: read them, refuse broken ones with one clear line, and turn them into grouped data."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fairdp.data.columns import text_of
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import TableSchema, infer_schema, read_schema


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
    frame = read_table(path)
    if schema_path is None:
        schema, notes = infer_schema(frame, label, sensitive, positive)
    else:
        schema, notes = read_schema(schema_path), ()
        _check_agreement(schema, label=label, sensitive=sensitive, positive=positive)
    return TableData(data=encode_table(frame, schema), schema=schema, notes=notes)


def encode_table(frame: pd.DataFrame, schema: TableSchema) -> GroupedData:
    """The rows of a table as grouped data."""
    codes, names = schema.encode_groups(frame)
    return GroupedData(schema.encode(frame), schema.encode_labels(frame), codes, names)


def read_table(path: str | Path) -> pd.DataFrame:
    """The table in a CSV (UTF-8) or Parquet file.

    Raises
    ------
    FileNotFoundError, ValueError
        With one line that names the file and what is wrong with it.
    """
    path = Path(path)
    if not path.is_file():
        what = "is a folder; name a file" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"table {str(path)!r} {what}.")
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".pq": _read_parquet}
    if path.suffix.lower() not in readers:
        raise ValueError(f"table {str(path)!r} must end in .csv or .parquet, got {path.suffix or 'no ending'}.")
    frame = readers[path.suffix.lower()](path)
    if frame.empty:
        raise ValueError(f"table {str(path)!r} has no rows.")
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"table {str(path)!r} is not UTF-8 at line {line}; save it as UTF-8.") from None
    _check_lines(path, text)
    # Values that look like numbers in some parts of a file only must not change type from part to part.
    return pd.read_csv(io.StringIO(text), skipinitialspace=True, index_col=False, low_memory=False)


def _check_lines(path: Path, text: str) -> None:
    """Every line has the fields of the header: pandas would fill short lines with missing values."""
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    try:
        header = next((row for row in reader if row), [])
        _check_header(path, header)
        for row in reader:
            if row and len(row) != len(header):
                found = f"line {reader.line_num} has {len(row)} fields, the header has {len(header)}"
                raise ValueError(f"table {str(path)!r}: {found}; correct the line.")
    except csv.Error as error:
        raise ValueError(f"table {str(path)!r}: line {reader.line_num} is broken ({error}).") from None


def _check_header(path: Path, header: list[str]) -> None:
    if not header:
        raise ValueError(f"table {str(path)!r} is empty.")
    _refuse_repeated(path, header)
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            raise ValueError(f"table {str(path)!r} seems to be separated by {name}; save it with commas.")


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(path)
    except (ValueError, OSError):
        raise ValueError(f"table {str(path)!r} is not a Parquet file that can be read.") from None
    _refuse_repeated(path, [str(name) for name in frame.columns])
    return frame


def _refuse_repeated(path: Path, names: list[str]) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"table {str(path)!r} has two columns named {repeated!r}; rename one.")


def _check_agreement(schema: TableSchema, *, label: str, sensitive: Sequence[str], positive: object) -> None:
    """What the caller names must be what the schema names: neither silently wins."""
    names = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    if label != schema.label:
        raise ValueError(f"label is {label!r}, but the schema says {schema.label!r}; make them agree.")
    if sorted(names) != sorted(schema.sensitive):
        declared = ", ".join(schema.sensitive)
        raise ValueError(f"sensitive is {', '.join(names)}, but the schema says {declared}; make them agree.")
    if positive is not None and text_of(positive) != schema.positive:
        raise ValueError(f"positive is {positive!r}, but the schema says {schema.positive!r}; make them agree.")
