"""The public schema of a table: what its columns may hold, so that encoding a row needs no other row."""

import difflib
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from fairdp import parameters as limits
from fairdp._io import read_plain
from fairdp.data.cells import MISSING_WORDS, spellings_of
from fairdp.data.columns import (
    COLUMN_TYPES,
    Binned,
    Categorical,
    Column,
    EncodedColumns,
    Numeric,
    OnIssue,
    OtherThan,
    Widths,
    category_codes,
    check_keys,
    column_of,
    entry_name,
    entry_text,
    ignore_issues,
    inputs_of,
    listed,
    others_of,
    refuse_missing,
    repeated,
    texts_of,
    truth,
)
from fairdp.errors import DataError, InputError, ParameterError

__all__ = ["Binned", "Categorical", "Numeric", "OtherThan", "TableSchema", "read_schema"]

PROTECTED_KEYS = ("name", "groups", "other")
SIZES = "group_sizes"
REQUIRED_KEYS = ("label", "positive", "negative", "sensitive", "columns")
SCHEMA_KEYS = (*REQUIRED_KEYS, "declared", "table", "format", SIZES)
# What helps where a group is missing or new.
UNKNOWN_GROUPS = "correct the rows, or let all others be a group: 'other: unknown', with 'unknown' among its groups"
# Of more groups nothing could be learnt, planned or certified.
_MOST_GROUPS = 1000
FORMAT_KEYS = ("sep", "decimal", "thousands", "encoding", "day_first", "sheet")
# What may be typed in place of a tab, which is hard to see.
_TABS = ("tab", "\\t")
_THOUSANDS = {"": "nothing", ",": "commas", ".": "points", " ": "blanks", "'": "apostrophes"}
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True, kw_only=True)
class TableFormat:
    """The way in which the cells of a file are written; never taken from the rows of that file.

    Parameters
    ----------
    sep
        Character between the cells of a text file; None: a comma, or a tab in a file that ends in .tsv.
    decimal
        ``"."`` or ``","``; None: a point.
    thousands
        What stands between thousands: a point, a comma, a blank or an apostrophe; empty or None: nothing.
    encoding
        Encoding of a text file, as Python names it; None: UTF-8, with or without a mark of the byte order.
    day_first
        Whether dates such as 05.01.2020 are written day, month, year; None: no, only years come first.
    sheet
        Sheet of a workbook; None: its only one.
    """

    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    day_first: bool | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.sep in _TABS:
            object.__setattr__(self, "sep", "\t")
        if self.sep is not None and not (len(self.sep) == 1 and self.sep.isascii() and _separates(self.sep)):
            raise ParameterError("sep", self.sep, "must be one character such as , ; | or the word tab")
        if self.decimal not in (None, ".", ","):
            raise ParameterError("decimal", self.decimal, "must be a point or a comma")
        if self.thousands not in (None, *_THOUSANDS):
            raise ParameterError("thousands", self.thousands, "must be a point, a comma, a blank, an apostrophe or ''")
        if self.thousands and self.thousands == (self.decimal or "."):
            raise ParameterError(
                "thousands", self.thousands, "is the sign of decimals too", "change one with `decimal`"
            )
        if self.encoding is not None and not _is_encoding(self.encoding):
            raise ParameterError("encoding", self.encoding, "is unknown", "name one such as utf-8, cp1252 or utf-16")

    def over(self, other: "TableFormat") -> "TableFormat":
        """The same, and where nothing is said, what the other says.

        >>> TableFormat(sep=";").over(TableFormat(sep=",", decimal=",")).to_dict()
        {'sep': ';', 'decimal': ','}
        """
        both = other.to_dict() | self.to_dict()
        if self.decimal and self.thousands is None and self.decimal == other.thousands:
            # Who says that this sign is one of decimals says that it is none of thousands.
            del both["thousands"]
        return TableFormat(**both)

    def to_dict(self) -> dict[str, Any]:
        """All that is said, as plain values."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @property
    def rewrites_cells(self) -> bool:
        """True if some cell may be written in another way than the plain one."""
        return self.decimal == "," or bool(self.thousands) or bool(self.day_first)

    def in_words(self) -> str:
        """For people: what differs from a plain file.

        >>> TableFormat(sep=";", decimal=",", day_first=True).in_words()
        'semicolons between cells, decimal commas, dates with the day first'
        """
        sep = None if self.sep is None else f"{_SEPARATORS.get(self.sep, repr(self.sep))} between cells"
        said = (
            sep,
            {",": "decimal commas", ".": "decimal points"}.get(self.decimal or ""),
            f"{_THOUSANDS[self.thousands]} between thousands" if self.thousands else None,
            "dates with the day first" if self.day_first else None,
            f"encoding {self.encoding}" if self.encoding else None,
            None if self.sheet is None else f"sheet {self.sheet!r}",
        )
        return ", ".join(words for words in said if words) or "a plain file"


PLAIN = TableFormat()


def format_of(entry: Any) -> TableFormat:
    """The format that a schema declares."""
    check_keys("format", entry, allowed=FORMAT_KEYS, required=())
    for key, value in entry.items():
        if key == "day_first":
            truth("format: day_first", value)
        elif not isinstance(value, str):
            raise DataError(f"format: {key} must be a text in quotes, got {value!r}.")
    return TableFormat(**entry)


def _separates(character: str) -> bool:
    return character == "\t" or (character.isprintable() and not character.isalnum() and character not in " \"'+-._")


def _is_encoding(name: str) -> bool:
    try:
        # It refuses codecs that are not between bytes and text, such as rot13.
        io.TextIOWrapper(io.BytesIO(), encoding=name).close()
    except (LookupError, ValueError):
        return False
    return True


def frame_of(rows: Any) -> pd.DataFrame:
    """Rows as a frame in which each cell keeps its type; a stream is read to its end.

    >>> frame_of(pa.table({"age": [30, None]}))["age"].tolist()
    [30, <NA>]
    """
    if isinstance(rows, pd.DataFrame):
        return rows
    if isinstance(rows, pa.RecordBatch | pa.Table) or hasattr(rows, "__arrow_c_stream__"):
        try:
            return arrow_frame(pa.table(rows))
        except (pa.ArrowException, TypeError, ValueError):
            pass
    raise DataError(f"rows must be a table of pandas, polars or Arrow, got {type(rows).__name__}.")


def is_table(values: Any) -> bool:
    """True if these are rows of named columns, as `frame_of` takes them; a column by itself is none.

    >>> [is_table(values) for values in (pd.DataFrame({"age": [30]}), pd.Series([30]), [[30]])]
    [True, False, False]
    """
    if isinstance(values, pd.DataFrame | pa.RecordBatch | pa.Table):
        return True
    column = isinstance(values, pa.ChunkedArray) or type(values).__name__ == "Series"
    return hasattr(values, "__arrow_c_stream__") and not column


def known_table(values: Any) -> Any:
    """A table that knows nothing but Arrow's interface, and may be read once, as a frame; all else as it is."""
    unknown = hasattr(values, "__arrow_c_stream__") and not hasattr(values, "to_pandas")
    return frame_of(values) if unknown and not isinstance(values, pd.DataFrame | pd.Series) else values


def arrow_frame(part: pa.Table | pa.RecordBatch) -> pd.DataFrame:
    """Rows of Arrow as a frame that keeps their types."""
    for place, field in enumerate(part.schema):
        if str(field.type) == "string_view":
            # As polars has it; pandas cannot take rows of it.
            part = part.set_column(place, field.name, part.column(place).cast(pa.large_string()))
    # In pandas' own types, whole numbers would become floats where another row has none.
    return part.to_pandas(types_mapper=pd.ArrowDtype)


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """All that a table may hold. A cell is read by itself: 1, 1.0 and "1" are the same, and "01" is a code of its own.

    Parameters
    ----------
    columns
        The inputs. Neither the label nor a protected column is ever one.
    label, positive, negative
        Column of the label and its two values.
    sensitive
        Protected columns.
    groups
        Declared values of each protected column; a group is one value of each.
    declared
        False if any of this was read from the table instead of being known in advance.
    others
        For each protected column the declared value that any other one, or none, counts as; empty: that is refused.
    sizes
        Declared number of records of each group in a table to train on, in the order of ``group_names``; empty: none.
    table
        Declared name of the table, under which the ledger adds up what was spent; empty: the name of its file.
    format
        How files with such tables are written.
    """

    columns: tuple[Column, ...]
    label: str
    positive: str
    negative: str
    sensitive: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    declared: bool = True
    others: tuple[str, ...] = ()
    sizes: tuple[float, ...] = ()
    table: str = ""
    format: TableFormat = PLAIN

    def __post_init__(self) -> None:
        if (name := repeated(self.table_columns)) is not None:
            raise DataError(f"column {name!r} is named twice; label, protected columns and inputs must differ.")
        # Making the protected columns checks their values.
        if not self.columns or len(self.sensitive) != len(self.groups) or not self.protected:
            raise DataError(
                "a schema needs at least one input column besides the label, and one protected column with its values."
            )
        if (n_groups := math.prod(map(len, self.groups))) > _MOST_GROUPS:
            raise DataError(f"the protected columns make {n_groups} groups, at most {_MOST_GROUPS} are possible.")
        if self.positive == self.negative:
            raise DataError(f"positive and negative must differ, got {self.positive!r} for both.")

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The columns that a table must have: inputs, label and protected ones."""
        return (*(column.name for column in self.columns), self.label, *self.sensitive)

    @property
    def protected(self) -> tuple[Categorical, ...]:
        """The protected columns with their values."""
        others = self.others or ("",) * len(self.sensitive)
        each = zip(self.sensitive, self.groups, others, strict=True)
        return tuple(Categorical(name=name, categories=values, other=other) for name, values, other in each)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each encoded feature."""
        return tuple(itertools.chain.from_iterable(column.feature_names for column in self.columns))

    @property
    def n_features(self) -> int:
        """Number of encoded features, d."""
        return len(self.feature_names)

    @property
    def group_names(self) -> tuple[str, ...]:
        """Name of each group: its values joined with ``&``; the last protected column changes fastest."""
        return tuple(" & ".join(values) for values in itertools.product(*self.groups))

    @property
    def encoded(self) -> EncodedColumns:
        """The public side of the inputs, for a model."""
        return EncodedColumns.of(self.columns)

    def encode(self, rows: Any, *, on_issue: OnIssue = ignore_issues) -> NDArray[np.float32]:
        """Features in [0, 1], shape (n_samples, n_features); no row depends on another.

        Cells that are not as declared are treated each by itself; ``on_issue`` hears of each column how many there
        were. The rows' own types come before that: `read_table` keeps the text of a CSV file, `pandas.read_csv` does
        not.
        """
        return inputs_of(self.cells(rows, on_issue=on_issue), self.widths)

    @property
    def widths(self) -> Widths:
        """The inputs that the cells of a row become."""
        return tuple(itertools.chain.from_iterable(column.widths for column in self.columns))

    def cells(self, rows: Any, *, on_issue: OnIssue = ignore_issues) -> list[NDArray[Any]]:
        """The cells that `encode` makes inputs of, in as many arrays as there are ``widths``."""
        frame, found = frame_of(rows), []
        for column in self.columns:
            cells, treated = column.read(column_values(frame, column.name))
            found += cells
            on_issue(treated)
        return found

    def encode_labels(self, rows: Any) -> NDArray[np.int64]:
        """1 for the positive value and 0 for the negative one, shape (n_samples,)."""
        values = Categorical(name=self.label, categories=(self.negative, self.positive))
        remedy = f"a label is {self.negative!r} or {self.positive!r}: correct the rows or leave them out"
        return category_codes(column_values(frame_of(rows), self.label), values, remedy=remedy)[0]

    def encode_groups(
        self, rows: Any, *, on_issue: OnIssue = ignore_issues
    ) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Group code of each row, shape (n_samples,), and names of all declared groups; ``on_issue`` as in `encode`."""
        frame = frame_of(rows)
        codes = np.zeros(len(frame), dtype=np.int64)
        for column in self.protected:
            own, treated = category_codes(column_values(frame, column.name), column, remedy=UNKNOWN_GROUPS)
            codes = codes * len(column.categories) + own
            on_issue(treated)
        return codes, self.group_names

    def protecting(self, names: Sequence[str]) -> "TableSchema":
        """The same table with these columns protected: no longer inputs, as little as those that were so before."""
        listed = [column for column in (*self.columns, *self.protected) if isinstance(column, Categorical)]
        values = {column.name: column.categories for column in listed}
        columns = tuple(column for column in self.columns if column.name not in names)
        return replace(self, columns=columns, sensitive=tuple(names), groups=tuple(values[name] for name in names))

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain values that JSON and YAML can hold."""
        types = {kind: name for name, kind in COLUMN_TYPES.items()}
        columns = [{"type": types[type(column)], **_plain(asdict(column))} for column in self.columns]
        # Lists, not mappings, where the order matters: group codes follow it.
        groups = [
            {
                "name": column.name,
                "groups": list(column.categories),
                **({"other": column.other} if column.other else {}),
            }
            for column in self.protected
        ]
        outcome = {"label": self.label, "positive": self.positive, "negative": self.negative}
        plain = {**outcome, "sensitive": groups, "columns": columns, "declared": self.declared}
        named: dict[str, Any] = {"table": self.table} if self.table else {}
        named |= {"format": self.format.to_dict()} if self.format != PLAIN else {}
        return plain | named | ({SIZES: self.group_sizes} if self.sizes else {})

    @property
    def group_sizes(self) -> dict[str, float]:
        """Declared number of records by group; empty if none were declared."""
        return dict(zip(self.group_names, self.sizes, strict=False))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "TableSchema":
        """The schema that these plain values describe."""
        check_keys("schema", content, allowed=SCHEMA_KEYS, required=REQUIRED_KEYS)
        sensitive = listed("sensitive", content["sensitive"])
        for entry in sensitive:
            check_keys("each entry of sensitive", entry, allowed=PROTECTED_KEYS, required=PROTECTED_KEYS[:-1])
        schema = cls(
            columns=tuple(column_of(entry) for entry in listed("columns", content["columns"])),
            label=entry_name("label", content["label"]),
            positive=entry_text("positive", content["positive"]),
            negative=entry_text("negative", content["negative"]),
            sensitive=tuple(entry_name("sensitive: name", entry["name"]) for entry in sensitive),
            groups=tuple(texts_of("sensitive: groups", entry["groups"]) for entry in sensitive),
            declared=truth("declared", content.get("declared", True)),
            others=others_of(sensitive),
            table=entry_text("table", content.get("table", "")),
            format=format_of(content.get("format", {})),
        )
        return replace(schema, sizes=_sizes(content[SIZES], schema.group_names)) if SIZES in content else schema


def _sizes(entry: Any, group_names: tuple[str, ...]) -> tuple[float, ...]:
    """Declared sizes in the order of the groups, all of which they must name."""
    check_keys(SIZES, entry, allowed=entry, required=())
    sizes = {entry_text(f"{SIZES}: name", name): size for name, size in entry.items()}
    check_keys(SIZES, sizes, allowed=group_names, required=group_names)
    limits.group_sizes(**{SIZES: sizes})
    return tuple(float(sizes[name]) for name in group_names)


def read_schema(path: str | Path) -> TableSchema:
    """The schema in a YAML or JSON file.

    Raises
    ------
    DataError
        With one line that names the file and the entry at fault.
    """
    content = read_plain(Path(path))
    try:
        return TableSchema.from_dict(content)
    except InputError as error:
        raise DataError(f"schema {str(path)!r}: {error.template}") from None


def column_values(frame: pd.DataFrame, name: str) -> pd.Series:
    """A column by its name; one that is not there is refused, with what may have been meant."""
    if name not in frame.columns:
        columns = [str(column) for column in frame.columns]
        near = [c for c in columns if c.lower() == name.lower()] or difflib.get_close_matches(name, columns, n=1)
        shown = ", ".join(columns[:12]) + (", …" if len(columns) > 12 else "")
        hint = f"did you mean {near[0]!r}?" if near else f"it has {shown}."
        raise DataError(f"the table has no column {name!r}; {hint}")
    return frame[name]


def refuse_unfilled(frame: pd.DataFrame, name: str, *, remedy: str = "fill or drop them") -> None:
    """Refuse a table without this label or protected column, or with rows in which it is not filled."""
    values = column_values(frame, name)
    absent = np.array([spelling in MISSING_WORDS for spelling in spellings_of(values)])
    refuse_missing(name, absent, values.index, remedy=remedy)


def _plain(values: Mapping[str, object]) -> dict[str, object]:
    """Without what is empty and need not be said."""
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    return {key: value for key, value in plain.items() if key not in ("other", "missing_words") or value}
