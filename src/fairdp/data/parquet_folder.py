"""A folder of Parquet files as one table: rows in the order of the files' names, each file with its own types."""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pyarrow as pa

from fairdp._checks import DataError
from fairdp.data.distinct import distinct_cells

PARQUET = (".parquet", ".pq")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files of a folder and of those in it, without hidden ones and notes of writers, such as _metadata."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in PARQUET and path.is_file())
    kept = [path for path in found if not any(part[0] in "._" for part in path.relative_to(folder).parts)]
    if not kept:
        raise DataError(f"table {str(folder)!r} is a folder without Parquet files; name a file or another folder.")
    return sorted(kept, key=lambda path: path.relative_to(folder).as_posix())


def values_in_path(folder: Path, file: Path) -> dict[str, str | None]:
    """Columns that a partitioned table keeps in the names of its folders, as in sex=F/part-0.parquet."""
    parents: Sequence[str] = PurePath(file.relative_to(folder)).parts[:-1]
    pairs = (part.partition("=") for part in parents if "=" in part)
    return {unquote(name): None if value == _NO_VALUE else unquote(value) for name, _, value in pairs}


def with_values(part: pa.Table | pa.RecordBatch, values: dict[str, str | None]) -> pa.Table:
    """Rows of a file with what its path says of them."""
    table = part if isinstance(part, pa.Table) else pa.Table.from_batches([part])
    for name, value in values.items():
        column = pa.array([value] * len(table), pa.large_string())
        table = table.append_column(name, column)
    return table


def refuse_other_columns(folder: Path, file: Path, names: Sequence[str], first: Sequence[str]) -> None:
    """Refuse a file that is no part of the table that begins with another."""
    for one, other in ((names, first), (first, names)):
        lacking = sorted(set(one) - set(other))
        if lacking:
            where = file.relative_to(folder).as_posix()
            found = f"{where!r} and the first file do not both have the column {lacking[0]!r}"
            raise DataError(f"table {str(folder)!r}: {found}; give all files the same columns.")


def joined(frames: Iterator[pd.DataFrame]) -> pd.DataFrame:
    """One frame; where files have other types for a column, each cell keeps the type of its file."""
    parts = list(frames)
    if len(parts) == 1:
        return parts[0]
    columns = {}
    for name in parts[0].columns:
        values = [part[name] for part in parts]
        if len({each.dtype for each in values}) > 1:
            # Together they would become of one type: whole numbers floats, and codes numbers.
            values = [_cells(each) for each in values]
        columns[name] = pd.concat(values, ignore_index=True)
    return pd.DataFrame(columns)


def _cells(values: pd.Series) -> pd.Series:
    codes, cells = distinct_cells(values)
    objects = np.empty(len(cells), dtype=object)
    objects[:] = cells
    return pd.Series(objects[codes], dtype=object)
