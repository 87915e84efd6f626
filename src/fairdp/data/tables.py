"""Tables as grouped data: from files, whole or in batches, from a cache, and from what is given to an estimator."""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from fairdp._io import draft_of, from_plain, in_file, json_bytes, mapped, parsed_json, write_to
from fairdp.data.columns import (
    CellIssues,
    OnIssue,
    ignore_issues,
    refuse_unreadable,
    repeated,
    row_type,
    summed,
    unreadable_lines,
    value_meant,
)
from fairdp.data.grouped import GroupedData, StoredRows, codes_of, label_codes, records_of, shares_of
from fairdp.data.infer import infer_schema
from fairdp.data.readers import count_rows, frames_of, parquet_files, whole_frame
from fairdp.data.schema import PLAIN, TableFormat, TableSchema, frame_of, is_table, known_table, read_schema
from fairdp.errors import DataError, InputError, ParameterError, positive_integer

# Bytes of encoded rows up to which a table is in memory; one that is larger stays in a file.
MOST_IN_MEMORY = 2**29
# Of the file that keeps a table encoded: its version, and how it ends.
FORMAT = 1
_DIGEST_BYTES, _LENGTH_BYTES = 32, 8
# Bytes of it that are read at a time.
_CHUNK = 2**20

NOT_YET_DECLARED = (
    "the schema says declared: false, so what it holds was read from rows and counts as public; replace it with what "
    "you know, then set declared: true."
)

_T = TypeVar("_T", bound=Sized)
Declared = TableSchema | Mapping[str, Any] | str | Path
# Is shown rows, and the names of the columns that a model takes from them; none where these are not yet known.
Observe = Callable[[pd.DataFrame, Sequence[str]], None]
# A schema and notes for the user, from a table, its label, its protected columns and the label value that counts as 1.
Read = Callable[[pd.DataFrame, str, Sequence[str], object], tuple[TableSchema, tuple[str, ...]]]


@dataclass(frozen=True, kw_only=True)
class TableData:
    """A table as grouped data, the schema that encoded it, notes for the user, and issues with its cells."""

    data: GroupedData
    schema: TableSchema
    notes: tuple[str, ...]
    treated: tuple[CellIssues, ...] = ()


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
    issues: list[CellIssues] = []
    if schema_path is None:
        frame = read_table(path, written)
        if observe is not None:
            observe(frame, ())
        schema, notes = read(frame, label, sensitive, positive)
        schema = replace(schema, format=written)
        data = encode_table(frame, schema, on_issue=issues.append)
        return TableData(data=data, schema=schema, notes=notes, treated=summed(issues))
    schema = read_schema(schema_path)
    _check_agreement(schema, label=label, sensitive=sensitive, positive=positive)
    schema = replace(schema, format=_agreed(written, schema.format))
    notes = () if schema.declared else (NOT_YET_DECLARED,)
    data = encode_file(path, schema, observe=observe, on_issue=issues.append, cache=cache)
    return TableData(data=data, schema=schema, notes=notes, treated=summed(issues))


def encode_file(
    path: str | Path,
    schema: TableSchema,
    *,
    rows: int = 50_000,
    observe: Observe | None = None,
    on_issue: OnIssue = ignore_issues,
    cache: Path | None = None,
) -> GroupedData:
    """The rows of a file, written as the schema says, as grouped data; of the table at most so many are in memory.

    Those of a large table, and of one that a ``cache`` keeps, stay in a file, as `StoredRows`. Whoever wants to
    ``observe`` the rows sees all of them, whether they are encoded now or were so before.
    """
    positive_integer(rows=rows)
    path = Path(path)
    n_rows = count_rows(path, schema.format)
    kind = row_type(schema.widths, len(schema.group_names))

    def stored(on_issue: OnIssue) -> Iterator[NDArray[np.void]]:
        return _counted(
            _encoded(frames_of(path, rows, schema.format), schema, observe, on_issue, encode_rows), n_rows, path
        )

    def seen_again() -> Iterator[None]:
        if observe is not None:
            for batch in _counted(frames_of(path, rows, schema.format), n_rows, path):
                observe(batch, schema.table_columns)
                yield

    if cache is not None:
        files = TableFiles(path, schema, n_rows)
        return _grouped(
            cached_rows(cache, files, kind, encode=stored, seen_again=seen_again(), on_issue=on_issue), schema
        )
    if 4 * schema.n_features * n_rows > MOST_IN_MEMORY:
        return _grouped(in_file(stored(on_issue), kind, (n_rows,)), schema)
    X = np.empty((n_rows, schema.n_features), dtype=np.float32)
    y, groups = np.empty((2, n_rows), dtype=np.int64)
    stop = 0
    for batch in _counted(
        _encoded(frames_of(path, rows, schema.format), schema, observe, on_issue, encode_table), n_rows, path
    ):
        start, stop = stop, stop + batch.n_samples
        X[start:stop], y[start:stop], groups[start:stop] = batch.X, batch.y, batch.groups
    return GroupedData(X, y, groups, schema.group_names)


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


def encode_rows(rows: Any, schema: TableSchema, *, on_issue: OnIssue = ignore_issues) -> NDArray[np.void]:
    """The rows of a table as they are stored, shape (n_rows,); for the rest as `encode_table`."""
    frame = frame_of(rows)
    codes, names = schema.encode_groups(frame, on_issue=on_issue)
    found = np.empty(len(frame), dtype=row_type(schema.widths, len(names)))
    for place, values in enumerate(schema.cells(frame, on_issue=on_issue)):
        found[str(place)] = values
    found["label"], found["group"] = schema.encode_labels(frame), codes
    return found


def encode_table(rows: Any, schema: TableSchema, *, on_issue: OnIssue = ignore_issues) -> GroupedData:
    """The rows of a table of pandas, polars or Arrow as grouped data; ``on_issue`` is told of cells not as declared."""
    frame = frame_of(rows)
    codes, names = schema.encode_groups(frame, on_issue=on_issue)
    return GroupedData(schema.encode(frame, on_issue=on_issue), schema.encode_labels(frame), codes, names)


def encoded_batches(
    path: str | Path,
    schema: TableSchema,
    *,
    rows: int = 50_000,
    observe: Observe | None = None,
    on_issue: OnIssue = ignore_issues,
) -> Iterator[GroupedData]:
    """The rows of a table as grouped data, some at a time; together the same as the encoded whole.

    The file is checked before this returns; values that the schema does not allow are refused where they are met.
    """
    return _encoded(table_batches(path, schema.format, rows=rows), schema, observe, on_issue, encode_table)


def _encoded(
    batches: Iterator[pd.DataFrame],
    schema: TableSchema,
    observe: Observe | None,
    on_issue: OnIssue,
    encode: Callable[..., _T],
) -> Iterator[_T]:
    for batch in batches:
        if observe is not None:
            observe(batch, schema.table_columns)
        # A missing column is not the fault of these rows: without rows, nothing else can be wrong.
        encode(batch.iloc[:0], schema)
        try:
            data = encode(batch, schema, on_issue=on_issue)
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
    return whole_frame(Path(path), written)


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
    positive_integer(rows=rows)
    count_rows(Path(path), written)
    return frames_of(Path(path), rows, written)


def _check_agreement(schema: TableSchema, *, label: str, sensitive: Sequence[str], positive: object) -> None:
    """Refuse names of the caller that are not those of the schema: neither silently wins."""
    names = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    if label != schema.label:
        raise DataError(f"`label` is {label!r}, but the schema says {schema.label!r}; make them agree.")
    if sorted(names) != sorted(schema.sensitive):
        declared = ", ".join(schema.sensitive)
        raise DataError(f"`sensitive` is {', '.join(names)}, but the schema says {declared}; make them agree.")
    if positive is not None and value_meant(positive, (schema.negative, schema.positive)) != schema.positive:
        raise DataError(f"`positive` is {positive!r}, but the schema says {schema.positive!r}; make them agree.")


def _agreed(written: TableFormat, declared: TableFormat) -> TableFormat:
    """The format that caller and schema state; they must not differ, but that sheets change with the month."""
    given, said = written.to_dict(), declared.to_dict()
    for key in sorted(given.keys() & said.keys() - {"sheet"}):
        if given[key] != said[key]:
            raise DataError(f"`{key}` is {given[key]!r}, but the schema says {said[key]!r}; make them agree.")
    return written.over(declared)


class TableFiles:
    """The files of a table as they are now, of so many rows, which a schema encodes."""

    def __init__(self, path: Path, schema: TableSchema, n_rows: int) -> None:
        self.path, self._files = path, parquet_files(path) if path.is_dir() else [path]
        self._schema, self.n_rows = schema, n_rows
        self._states = self._now()

    @cached_property
    def key(self) -> str:
        """By which the encoded table is known: another schema, byte or version of who encodes it is another one."""
        versions = [version(name) for name in ("fairdp", "numpy", "pandas", "pyarrow")]
        digest = hashlib.sha256(json.dumps([FORMAT, versions, self._schema.to_dict()]).encode())
        for file in self._files:
            # In a folder, names are values and the order of the rows; of a file, the ending says how to read it.
            name = file.relative_to(self.path).as_posix() if self.path.is_dir() else "".join(file.suffixes).lower()
            with file.open("rb") as stream:
                digest.update(json.dumps(name).encode() + hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()

    def unchanged(self, parts: Iterable[Any]) -> Iterator[Any]:
        """The same parts; at their end the files must be as they were, or what was read has no name."""
        yield from parts
        if self._now() != self._states:
            raise DataError(f"table {str(self.path)!r} has changed while it was read; start again.")

    def _now(self) -> list[tuple[int, int, int]]:
        states = (file.stat() for file in self._files)
        return [(state.st_ino, state.st_size, state.st_mtime_ns) for state in states]


def cached_rows(
    folder: Path,
    files: TableFiles,
    kind: np.dtype[np.void],
    *,
    encode: Callable[[OnIssue], Iterator[NDArray[np.void]]],
    seen_again: Iterable[None],
    on_issue: OnIssue,
) -> NDArray[np.void]:
    """The encoded rows that a folder keeps; where it has none, they are encoded now and kept.

    Parameters
    ----------
    encode
        The rows, some at a time, with what became of cells that violate the schema.
    seen_again
        Lets whoever wants to see the rows of the table see them, though they are not encoded.
    on_issue
        Is told what became of cells that violate the schema, now or then.
    """
    issues: list[CellIssues] = []
    kept = read_rows(folder, files, kind)
    if kept is None:
        rows = write_rows(folder, files, encode(issues.append), kind, issues)
    else:
        rows, issues = kept
        for _ in files.unchanged(seen_again):
            pass
    for each in issues:
        on_issue(each)
    return rows


def read_rows(
    folder: Path, files: TableFiles, kind: np.dtype[np.void]
) -> tuple[NDArray[np.void], list[CellIssues]] | None:
    """The rows of a table that are kept, in a map of their file; None if there are none, or not whole."""
    try:
        with _path(folder, files.key).open("rb") as file:
            about, size = _checked(file), os.fstat(file.fileno()).st_size
            known = about is not None and about[:2] == (files.key, files.n_rows)
            if about is None or not known or size < files.n_rows * kind.itemsize:
                return None
            return mapped(file, kind, (files.n_rows,)), about[2]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ParameterError("cache", str(folder), f"cannot be read: {error.strerror}") from None


def write_rows(
    folder: Path,
    files: TableFiles,
    parts: Iterable[NDArray[np.void]],
    kind: np.dtype[np.void],
    issues: list[CellIssues],
) -> NDArray[np.void]:
    """Keep the rows of a table, once all have come; ``issues`` is complete by then."""
    n_rows, digest = 0, hashlib.blake2b(digest_size=_DIGEST_BYTES)
    with ExitStack() as drafts:
        with _said(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = drafts.enter_context(draft_of(_path(folder, files.key), owner_only=True))
        file = drafts.enter_context(os.fdopen(handle, "r+b", buffering=0, closefd=False))

        def write(content: bytes) -> None:
            digest.update(content)
            with _said(folder):
                write_to(handle, content)

        for part in files.unchanged(parts):
            n_rows += len(part)
            write(part.tobytes())
        content = json_bytes({"key": files.key, "n_rows": n_rows, "treated": summed(issues)})
        write(content + len(content).to_bytes(_LENGTH_BYTES, "little"))
        write(digest.digest())
        return mapped(file, kind, (n_rows,))


@contextmanager
def _said(folder: Path) -> Iterator[None]:
    """Turn what goes wrong with the folder of a cache into one line."""
    try:
        yield
    except OSError as error:
        raise ParameterError("cache", str(folder), f"cannot be written: {error.strerror}") from None


def _checked(file: BinaryIO) -> tuple[str, int, list[CellIssues]] | None:
    """Key, number of rows, and issues with cells, of the table that a whole file keeps; None of any other."""
    size = file.seek(0, os.SEEK_END)
    rest, digest = size - _DIGEST_BYTES, hashlib.blake2b(digest_size=_DIGEST_BYTES)
    if rest < _LENGTH_BYTES:
        return None
    file.seek(0)
    while rest:
        part = file.read(min(_CHUNK, rest))
        if not part:
            return None
        digest.update(part)
        rest -= len(part)
    if file.read() != digest.digest():
        return None
    file.seek(size - _DIGEST_BYTES - _LENGTH_BYTES)
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    with suppress(KeyError, OSError, TypeError):
        file.seek(size - _DIGEST_BYTES - _LENGTH_BYTES - length)
        about = parsed_json(file.read(length))
        return about["key"], about["n_rows"], [from_plain(CellIssues, each) for each in about["treated"]]
    return None


def _path(folder: Path, key: str) -> Path:
    return folder / f"{key[:32]}.rows"


def schema_of(declared: Declared) -> TableSchema:
    """The schema that is given as itself, as plain values, or as the path of its file."""
    if isinstance(declared, TableSchema):
        return declared
    if isinstance(declared, Mapping):
        return TableSchema.from_dict(declared)
    if isinstance(declared, str | Path):
        return read_schema(declared)
    raise DataError(
        f"`schema` must be the path of a YAML or JSON file, a dict or a TableSchema, got {type(declared).__name__}; "
        "fairdp schema TABLE proposes a file."
    )


def encoded(schema: TableSchema, table: Any) -> NDArray[np.float32]:
    """The inputs of a table to decide about, which must have all their columns, and numbers in most cells of each."""
    frame, treated = frame_of(table), list[CellIssues]()
    check_names(schema, [str(name) for name in frame.columns])
    records = schema.encode(frame, on_issue=treated.append)
    refuse_unreadable(treated)
    return records


def refuse_repeated(names: list[str], wanted: Collection[str]) -> None:
    """Refuse a table that has a wanted column twice: nobody can tell which of them is meant."""
    if (twice := repeated([name for name in names if name in wanted])) is not None:
        raise DataError(f"the table has the column {twice!r} twice; keep one of them.")


def check_names(schema: TableSchema, names: list[str]) -> None:
    """Refuse a table without some of the columns: scikit-learn's sentence, in one line."""
    refuse_repeated(names, {column.name for column in schema.columns})
    missing = [column.name for column in schema.columns if column.name not in names]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + (", …" if len(missing) > 5 else "")
        raise DataError(
            "The feature names should match those that were passed during fit: feature names that the schema declares, "
            f"yet now missing: {shown}; the table has {', '.join(names[:12])}{', …' if len(names) > 12 else ''}."
        )


def grouped_table(
    schema: TableSchema, estimator: Any, X: Any, y: Any, sensitive_features: Any, sample_weight: Any = None
) -> tuple[GroupedData, NDArray[Any]]:
    """Records to fit an estimator on, encoded as every command does it, and the two labels in the type they have.

    Labels and groups that are not given are those of the columns that the schema names.
    """
    frame = whole_table(schema, X, y, sensitive_features)
    _take_declared(estimator, schema)
    # Names of an earlier fit, on arrays; what this one takes is said by the schema.
    estimator.__dict__.pop("feature_names_in_", None)
    issues: list[CellIssues] = []
    data = encode_table(frame, schema, on_issue=issues.append)
    for line in unreadable_lines(issues):
        warnings.warn(line, stacklevel=3)
    shares = None if sample_weight is None else shares_of(sample_weight, len(frame), estimator.max_sample_weight)
    classes = _classes(schema, frame[schema.label].dtype)
    return GroupedData(data.X, data.y, data.groups, data.group_names, shares), classes


def whole_table(schema: TableSchema, X: Any, y: Any, sensitive_features: Any) -> pd.DataFrame:
    """The table with the label and the protected columns that were given beside it."""
    if not is_table(X):
        raise DataError(f"`schema` is for a table of pandas, polars or Arrow with its columns, got {type(X).__name__}.")
    frame = frame_of(X)
    refuse_repeated([str(name) for name in frame.columns], schema.table_columns)
    if y is not None:
        frame = frame.assign(**{schema.label: _column(y, len(frame), "y")})
    if sensitive_features is not None:
        frame = frame.assign(**_protected(schema, sensitive_features, len(frame)))
    return frame


def _take_declared(estimator: Any, schema: TableSchema) -> None:
    """Give an estimator what the schema declares beside the columns: the name of the table, and sizes of groups."""
    sizes = schema.group_sizes if estimator.grouping == "attribute" else {}
    chosen = estimator.group_sizes
    if sizes and isinstance(chosen, Mapping) and dict(chosen) != sizes:
        raise ParameterError(
            "group_sizes", dict(chosen), "is not what the schema says", "make them agree, or leave one of them out"
        )
    estimator.group_sizes = (sizes or None) if chosen is None else chosen
    # "records" is the default: a name that the schema gives says more.
    estimator.table = schema.table if schema.table and estimator.table == "records" else estimator.table


def schema_for(estimator: Any, X: Any) -> TableSchema | None:
    """The schema by which a fitted model reads these rows; None if it has none, or they are encoded already."""
    known = getattr(estimator, "feature_schema_", None)
    return TableSchema.from_dict(known) if known is not None and is_table(X) else None


def model_records(estimator: Any, X: Any) -> NDArray[np.float32]:
    """Records for a fitted model: a table by its schema, arrays as they are."""
    X = known_table(X)
    schema = schema_for(estimator, X)
    return records_of(estimator, X, shape=estimator.score_model_.shape) if schema is None else encoded(schema, X)


def labelled_records(estimator: Any, X: Any, y: Any, sensitive_features: Any) -> GroupedData:
    """Labelled records of the groups that a fitted model knows."""
    X = known_table(X)
    if (schema := schema_for(estimator, X)) is not None:
        refuse_repeated([str(name) for name in frame_of(X).columns], schema.table_columns)
    records, names = model_records(estimator, X), estimator.group_names_
    labels, groups = known_labels(estimator, X, y), known_groups(estimator, X, sensitive_features, len(records))
    if len(labels) != len(records):
        raise DataError(f"y has {len(labels)} entries, but X has {len(records)} records.")
    return GroupedData(records, labels, codes_of(None, len(records), names) if groups is None else groups, names)


def known_labels(estimator: Any, X: Any, y: Any) -> NDArray[np.int64]:
    """Which of a model's two labels each record has: as given, or by the label's column of a table."""
    schema = schema_for(estimator, X)
    if schema is None or (y is not None and np.isin(np.asarray(y), estimator.classes_).all()):
        if y is None:
            raise DataError("y is needed: only a table that a model's schema can read has its own labels.")
        return label_codes(y, estimator.classes_)
    frame = frame_of(X)
    return schema.encode_labels(frame if y is None else pd.DataFrame({schema.label: _column(y, len(frame), "y")}))


def known_groups(estimator: Any, X: Any, sensitive_features: Any, n_samples: int) -> NDArray[np.int64] | None:
    """Codes of the groups that a model knows: as given, or by the protected columns of a table; None if there is none.

    A table need not have these columns where nobody asks for its groups.
    """
    schema = schema_for(estimator, X)
    if sensitive_features is None:
        here = schema is not None and set(schema.sensitive) <= set(map(str, frame_of(X).columns))
        return schema.encode_groups(X)[0] if schema is not None and here else None
    if schema is not None and _n_columns(sensitive_features) == len(schema.sensitive):
        return schema.encode_groups(pd.DataFrame(_protected(schema, sensitive_features, n_samples)))[0]
    return codes_of(sensitive_features, n_samples, estimator.group_names_)


def _column(values: Any, n_samples: int, name: str) -> Any:
    """One column without an index, which would move its cells to other rows."""
    if hasattr(values, "to_pandas"):
        values = values.to_pandas()
    if isinstance(values, pd.DataFrame) and values.shape[1] == 1:
        values = values.iloc[:, 0]
    column = pd.Series(values)
    if len(column) != n_samples:
        # scikit-learn's sentence.
        raise DataError(
            f"Found input variables with inconsistent numbers of samples: [{n_samples}, {len(column)}]: `{name}` must "
            "have one entry for each row of X."
        )
    return column.array


def _n_columns(sensitive_features: Any) -> int:
    if is_table(sensitive_features):
        return len(frame_of(sensitive_features).columns)
    return 1 if np.ndim(sensitive_features) < 2 else np.shape(sensitive_features)[1]


def _protected(schema: TableSchema, sensitive_features: Any, n_samples: int) -> dict[str, Any]:
    """The given protected columns: by the names that the schema has, or in its order."""
    names, given = schema.sensitive, sensitive_features
    n_columns = _n_columns(given)
    given = frame_of(given) if is_table(given) else given
    if isinstance(given, pd.DataFrame) and set(names) <= set(map(str, given.columns)):
        return {name: _column(given[name], n_samples, "sensitive_features") for name in names}
    if n_columns != len(names):
        raise DataError(
            f"`sensitive_features` has {n_columns} columns, but the schema protects {', '.join(names)}; give these, or "
            "leave it out for the columns of the table."
        )
    if n_columns == 1:
        return {names[0]: _column(given, n_samples, "sensitive_features")}
    columns = pd.DataFrame(given, dtype=object)
    return {name: _column(columns.iloc[:, i], n_samples, "sensitive_features") for i, name in enumerate(names)}


def _classes(schema: TableSchema, kind: Any) -> NDArray[Any]:
    """The negative and the positive label in the type of their column, so that predictions compare with it."""
    texts = (schema.negative, schema.positive)
    try:
        if types.is_bool_dtype(kind):
            return np.array([{"True": True, "False": False}[text] for text in texts])
        if types.is_integer_dtype(kind):
            return np.array([int(float(text)) for text in texts])
        if types.is_float_dtype(kind):
            return np.array([float(text) for text in texts])
    except (KeyError, ValueError):
        pass
    return np.array(texts)
