"""Tables in files: read them, whole or in batches, refuse broken ones in one line, and turn them into grouped data."""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairdp import _checks, _scratch
from fairdp._checks import DataError, InputError
from fairdp.data.formats import PLAIN, TableFormat
from fairdp.data.frames import frame_of
from fairdp.data.grouped import GroupedData
from fairdp.data.inference import infer_schema
from fairdp.data.layout import row_type
from fairdp.data.positive import value_meant
from fairdp.data.readers import reader_of
from fairdp.data.schema import TableSchema, read_schema
from fairdp.data.stored_rows import StoredRows
from fairdp.data.table_cache import TableFiles, cached_rows
from fairdp.data.treatments import Tell, Treated, summed, untold

# Bytes of encoded rows up to which a table is in memory; one that is larger stays in a file.
MOST_IN_MEMORY = 2**29

_T = TypeVar("_T", bound=Sized)
Observe = Callable[[pd.DataFrame], None]
# A schema and notes for the user, from a table, its label, its protected columns and the label value that counts as 1.
Read = Callable[[pd.DataFrame, str, Sequence[str], object], tuple[TableSchema, tuple[str, ...]]]

NOT_YET_DECLARED = (
    "the schema says declared: false, so what it holds was read from rows and counts as public; replace it with what "
    "you know, then set declared: true."
)


@dataclass(frozen=True, kw_only=True)
class TableData:
    """A table as grouped data, the schema that encoded it, notes for the user, and what became of odd cells."""

    data: GroupedData
    schema: TableSchema
    notes: tuple[str, ...]
    treated: tuple[Treated, ...] = ()


def load_table(
    path: str | Path,
    *,
    label: str,
    sensitive: Sequence[str],
    schema_path: str | Path | None = None,
    positive: object = None,
    written: TableFormat = PLAIN,
    observe: Observe | None = None,
    read: Read = infer_schema,
    cache: Path | None = None,
) -> TableData:
    """Read and encode a table, by a declared schema or else by one read from the table.

    Parameters
    ----------
    path
        The file, or a folder of Parquet files.
    label, sensitive
        Column of the label and protected columns.
    schema_path
        YAML or JSON file with declared types, categories and bounds.
    positive
        Label value that counts as 1.
    written
        How the file is written, where the schema does not say it; without either, plainly: it is never guessed here.
    observe
        Called with all rows as they are read, some at a time.
    read
        How the schema is read where none is declared; as it stands, for a model that is not private.
    cache
        Folder that keeps the table encoded, by a declared schema, for further runs.
    """
    told: list[Treated] = []
    if schema_path is None:
        frame = read_table(path, written)
        (observe or _unobserved)(frame)
        schema, notes = read(frame, label, sensitive, positive)
        schema = replace(schema, format=written)
        data = encode_table(frame, schema, tell=told.append)
        return TableData(data=data, schema=schema, notes=notes, treated=summed(told))
    schema = read_schema(schema_path)
    _check_agreement(schema, label=label, sensitive=sensitive, positive=positive)
    schema = replace(schema, format=_agreed(written, schema.format))
    notes = () if schema.declared else (NOT_YET_DECLARED,)
    data = encode_file(path, schema, observe=observe, tell=told.append, cache=cache)
    return TableData(data=data, schema=schema, notes=notes, treated=summed(told))


def encode_file(
    path: str | Path,
    schema: TableSchema,
    *,
    rows: int = 50_000,
    observe: Observe | None = None,
    tell: Tell = untold,
    cache: Path | None = None,
) -> GroupedData:
    """The rows of a file, written as the schema says, as grouped data; of the table at most so many are in memory.

    Those of a large table, and of one that a ``cache`` keeps, stay in a file, as `StoredRows`. Whoever wants to
    ``observe`` the rows sees all of them, whether they are encoded now or were so before.
    """
    _checks.positive_integer(rows=rows)
    reader = reader_of(Path(path), schema.format)
    n_rows = reader.count()
    kind = row_type(schema.widths, len(schema.group_names))

    def stored(tell: Tell) -> Iterator[NDArray[np.void]]:
        return _counted(_encoded(reader.batches(rows), schema, observe, tell, encode_rows), n_rows, path)

    def seen_again() -> Iterator[None]:
        yield from map(observe or _unobserved, _counted(reader.batches(rows), n_rows, path) if observe else ())

    if cache is not None:
        files = TableFiles(Path(path), schema, n_rows)
        return _grouped(cached_rows(cache, files, kind, encode=stored, seen_again=seen_again(), tell=tell), schema)
    if 4 * schema.n_features * n_rows > MOST_IN_MEMORY:
        return _grouped(_scratch.in_file(stored(tell), kind, (n_rows,)), schema)
    X = np.empty((n_rows, schema.n_features), dtype=np.float32)
    y, groups = np.empty((2, n_rows), dtype=np.int64)
    stop = 0
    for batch in _counted(_encoded(reader.batches(rows), schema, observe, tell, encode_table), n_rows, path):
        start, stop = stop, stop + batch.n_samples
        X[start:stop], y[start:stop], groups[start:stop] = batch.X, batch.y, batch.groups
    return GroupedData(X, y, groups, schema.group_names)


def _unobserved(rows: pd.DataFrame) -> None:
    """For callers who do not look."""


def _counted(batches: Iterator[_T], n_rows: int, path: str | Path) -> Iterator[_T]:
    """The same batches, refused if they are not so many rows: some would be left out, or be those that nobody wrote."""
    stop = 0
    for batch in batches:
        stop += len(batch)
        if stop <= n_rows:
            yield batch
    if stop != n_rows:
        raise DataError(f"table {str(path)!r} has changed while it was read; start again.")


def _grouped(rows: NDArray[np.void], schema: TableSchema) -> GroupedData:
    y, groups = (np.ascontiguousarray(rows[name]) for name in ("label", "group"))
    return GroupedData(StoredRows(rows, schema.widths), y, groups, schema.group_names)


def encode_rows(rows: Any, schema: TableSchema, *, tell: Tell = untold) -> NDArray[np.void]:
    """The rows of a table as they are stored, shape (n_rows,); for the rest as `encode_table`."""
    frame = frame_of(rows)
    codes, names = schema.encode_groups(frame, tell=tell)
    found = np.empty(len(frame), dtype=row_type(schema.widths, len(names)))
    for place, values in enumerate(schema.cells(frame, tell=tell)):
        found[str(place)] = values
    found["label"], found["group"] = schema.encode_labels(frame), codes
    return found


def encode_table(rows: Any, schema: TableSchema, *, tell: Tell = untold) -> GroupedData:
    """The rows of a table of pandas, polars or Arrow as grouped data; ``tell`` is told of cells not as declared."""
    frame = frame_of(rows)
    codes, names = schema.encode_groups(frame, tell=tell)
    return GroupedData(schema.encode(frame, tell=tell), schema.encode_labels(frame), codes, names)


def encoded_batches(
    path: str | Path,
    schema: TableSchema,
    *,
    rows: int = 50_000,
    observe: Observe | None = None,
    tell: Tell = untold,
) -> Iterator[GroupedData]:
    """The rows of a table as grouped data, some at a time; together the same as the encoded whole.

    The file is checked before this returns; values that the schema does not allow are refused where they are met.
    """
    return _encoded(table_batches(path, schema.format, rows=rows), schema, observe, tell, encode_table)


def _encoded(
    batches: Iterator[pd.DataFrame], schema: TableSchema, observe: Observe | None, tell: Tell, encode: Callable[..., _T]
) -> Iterator[_T]:
    for batch in batches:
        (observe or _unobserved)(batch)
        # A missing column is not the fault of these rows: without rows, nothing else can be wrong.
        encode(batch.iloc[:0], schema)
        try:
            data = encode(batch, schema, tell=tell)
        except InputError as error:
            raise DataError(f"rows {batch.index[0] + 1} to {batch.index[-1] + 1}: {error.template}") from None
        yield data


def read_table(path: str | Path, written: TableFormat = PLAIN) -> pd.DataFrame:
    """The table in a file, or in a folder of Parquet files: each cell as its text, or with the file's own type.

    Raises
    ------
    FileNotFoundError, DataError
        With one line that names the file and what is wrong with it.
    """
    return reader_of(Path(path), written).whole()


def table_batches(path: str | Path, written: TableFormat = PLAIN, *, rows: int = 50_000) -> Iterator[pd.DataFrame]:
    """The table in a file, some rows at a time; of texts, Parquet and Arrow in memory that does not grow with the file.

    The index goes on from batch to batch.

    Parameters
    ----------
    path
        The file. It is checked before this returns, with the errors of `read_table`.
    written
        How the file is written.
    rows
        At most so many rows are in memory at once.
    """
    _checks.positive_integer(rows=rows)
    reader = reader_of(Path(path), written)
    reader.count()
    return reader.batches(rows)


def _check_agreement(schema: TableSchema, *, label: str, sensitive: Sequence[str], positive: object) -> None:
    """What the caller names must be what the schema names: neither silently wins."""
    names = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    if label != schema.label:
        raise DataError(f"`label` is {label!r}, but the schema says {schema.label!r}; make them agree.")
    if sorted(names) != sorted(schema.sensitive):
        declared = ", ".join(schema.sensitive)
        raise DataError(f"`sensitive` is {', '.join(names)}, but the schema says {declared}; make them agree.")
    if positive is not None and value_meant(positive, (schema.negative, schema.positive)) != schema.positive:
        raise DataError(f"`positive` is {positive!r}, but the schema says {schema.positive!r}; make them agree.")


def _agreed(written: TableFormat, declared: TableFormat) -> TableFormat:
    """What the caller and the schema say of the file, which must not differ, but that sheets change with the month."""
    given, said = written.to_dict(), declared.to_dict()
    for key in sorted(given.keys() & said.keys() - {"sheet"}):
        if given[key] != said[key]:
            raise DataError(f"`{key}` is {given[key]!r}, but the schema says {said[key]!r}; make them agree.")
    return written.over(declared)
