"""Kinds of input column, each declared in public and encoded row by row into numbers in [0, 1].

A cell that is not as declared is treated by itself, whatever the others hold, and counted as `CellIssues`.
"""

import dataclasses
import datetime
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from reprlib import Repr
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairdp.data.cells import (
    MISSING_WORDS,
    canonical_text,
    days_of,
    distinct_cells,
    each_cell,
    first_row,
    normalized,
    number_of,
    raw_text,
    readable_numbers,
    refuse_words,
)
from fairdp.errors import DataError, one_of

# In the place of the number of inputs that a code chooses among.
NUMBER = 0

# Of each column of cells how many inputs it becomes: NUMBER for a number, which is one, or those that a code is for.
Widths = tuple[int, ...]
# The category of a missing value.
MISSING = "?"
# Instead of a position among the categories.
_NOWHERE = -1
Cells = list[NDArray[Any]]
# What a cell is: a declared value, none, or another one.
_DECLARED, _ABSENT, _UNDECLARED = 0, 1, 2
# Each with what becomes of such a cell.
_FATES = {
    "missing": "missing",
    "unreadable": "unreadable (counted as missing)",
    "undeclared": "not declared (counted as other, if there is one)",
    "out_of_range": "out of range (moved to the bounds)",
}
KINDS = tuple(_FATES)
# Lines for people; programs get all of it.
_MOST_LINES = 12
# The second of each is positive, in whatever case it is written.
_UNDERSTOOD = (("0", "1"), ("false", "true"), ("no", "yes"))
# A label with more values is another mistake.
_FEW_VALUES = 5
# How much of a value, or of a list, a message shows.
_SHOWN = Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 200
_SHOWN.maxlist = _SHOWN.maxtuple = _SHOWN.maxdict = _MOST_NAMES = 12


def inputs_of(cells: Sequence[NDArray[Any]], widths: Widths) -> NDArray[np.float32]:
    """Inputs of rows, shape (n_rows, n_inputs): numbers, and ones where codes say so.

    Parameters
    ----------
    cells
        For each width the numbers, or the codes: 0 for none of the inputs, 1 for the first of them.
    """
    X = np.zeros((len(cells[0]), n_inputs(widths)), dtype=np.float32)
    stop = 0
    for values, width in zip(cells, widths, strict=True):
        start, stop = stop, stop + max(1, width)
        if width == NUMBER:
            X[:, start] = values
        else:
            rows = np.flatnonzero(values)
            X[rows, start + values[rows].astype(np.intp) - 1] = 1.0
    return X


def n_inputs(widths: Widths) -> int:
    """Number of inputs.

    >>> n_inputs((NUMBER, 1, 5))
    7
    """
    return sum(max(1, width) for width in widths)


def row_type(widths: Widths, n_groups: int) -> np.dtype[np.void]:
    """A stored row: each cell in as few bytes as it needs, then label and group."""
    cells = [(str(place), "<f4" if width == NUMBER else _code_type(width)) for place, width in enumerate(widths)]
    return np.dtype([*cells, ("label", "<i1"), ("group", group_type(n_groups))])


def group_type(n_groups: int) -> str:
    """Type of a group code that has room for twice as many groups: they may come to be told apart by label too."""
    return "<i1" if 2 * n_groups <= 2**7 else "<i2" if 2 * n_groups <= 2**15 else "<i4"


def _code_type(width: int) -> str:
    return "<u1" if width < 2**8 else "<u2" if width < 2**16 else "<u4"


@dataclass(frozen=True, kw_only=True)
class CellIssues:
    """Cells of one column that were not as declared. Each was treated by itself, whatever the others hold.

    Parameters
    ----------
    column
        Its name.
    n_cells
        All cells of the column.
    missing
        Cells that are empty, or hold a word for a missing value.
    unreadable
        Words in a column of numbers, which count as missing.
    undeclared
        Values that are not among the categories, which count as the declared other.
    out_of_range
        Numbers beyond the declared bounds, which are moved to them.
    """

    column: str
    n_cells: int
    missing: int = 0
    unreadable: int = 0
    undeclared: int = 0
    out_of_range: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """Cells of each kind, as far as there are any."""
        return {kind: getattr(self, kind) for kind in KINDS if getattr(self, kind)}

    @property
    def is_mostly_unreadable(self) -> bool:
        """True if more than half of the cells are words where numbers should be."""
        return 2 * self.unreadable > self.n_cells

    @property
    def is_mostly_out_of_range(self) -> bool:
        """True if more than half of the cells are beyond the declared bounds, and so can no longer be told apart."""
        return 2 * self.out_of_range > self.n_cells

    def __str__(self) -> str:
        found = ", ".join(f"{count} {_FATES[kind]}" for kind, count in self.counts.items())
        return f"column {self.column!r}: of {self.n_cells} cells {found or 'all are as declared'}."


OnIssue = Callable[[CellIssues], None]


def ignore_issues(treated: CellIssues) -> None:
    """For callers who do not ask."""


def summed(parts: Iterable[CellIssues]) -> tuple[CellIssues, ...]:
    """One count for each column that has cells to tell of, from those of its batches, in the order of the columns.

    >>> summed([CellIssues(column="age", n_cells=n, missing=1) for n in (5, 4)])[0].missing
    2
    """
    totals: dict[str, dict[str, int]] = {}
    for part in parts:
        total = totals.setdefault(part.column, dict.fromkeys(("n_cells", *KINDS), 0))
        for name in total:
            total[name] += getattr(part, name)
    found = (CellIssues(column=column, **total) for column, total in totals.items())
    return tuple(each for each in found if each.counts)


def counts_by_column(treated: Iterable[CellIssues]) -> dict[str, dict[str, int]]:
    """Plain values for programs."""
    return {each.column: each.counts for each in summed(treated)}


def lines_for_holder(treated: Iterable[CellIssues]) -> list[str]:
    """Lines for people: one for each column, and one more where hardly anything could be read."""
    found = summed(treated)
    lines = [str(each) for each in found[:_MOST_LINES]]
    if len(found) > _MOST_LINES:
        lines.append(f"{len(found) - _MOST_LINES} more columns have cells that were not as declared.")
    return lines + unreadable_lines(found) + [_mostly_beyond(each) for each in found if each.is_mostly_out_of_range]


def unreadable_lines(treated: Iterable[CellIssues]) -> list[str]:
    """A line for each column of numbers that holds mostly words."""
    return [f"{_mostly_unreadable(each)}." for each in summed(treated) if each.is_mostly_unreadable]


def refuse_unreadable(treated: Sequence[CellIssues]) -> None:
    """Refuse a file in which a column of numbers holds mostly words: it is another column, or written otherwise."""
    for each in summed(treated):
        if each.is_mostly_unreadable:
            raise DataError(f"{_mostly_unreadable(each)}; correct the file or the format.")


def _mostly_beyond(treated: CellIssues) -> str:
    return (
        f"warning: column {treated.column!r} lies beyond the declared bounds in {treated.out_of_range} of "
        f"{treated.n_cells} cells, which all count as the bound: its unit or time may be another than declared."
    )


def _mostly_unreadable(treated: CellIssues) -> str:
    return (
        f"column {treated.column!r} holds no number or date in {treated.unreadable} of {treated.n_cells} cells: it is "
        "another column than declared, or written in another format (see `decimal`, `thousands`, `day_first`; in a "
        "DataFrame, numbers and dates must have been read as such)"
    )


@dataclass(frozen=True, kw_only=True)
class Numeric:
    """A number with public bounds: clipped to them, then scaled to [0, 1]. Dates count in days.

    Parameters
    ----------
    name
        Column of the table.
    low, high
        Public bounds. They must not be read from private data.
    transform
        ``"linear"``, or ``"signed_log"`` for sign(v) log(1 + abs(v)) of value and bounds before the scaling.
    missing
        ``"middle"``: a missing value, or a word in place of a number, is encoded as 1/2. ``"indicator"``: so it is, and
        a second feature is set to 1. ``"error"``: it is refused.
    missing_words
        Words and numbers that stand for a missing value in this column.
    """

    name: str
    low: float
    high: float
    transform: str = "linear"
    missing: str = "middle"
    missing_words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            bounds = f"low={self.low!r} and high={self.high!r}"
            raise DataError(f"column {self.name!r} needs finite bounds with low < high, got {bounds}.")
        one_of(("linear", "signed_log"), transform=self.transform)
        one_of(("middle", "indicator", "error"), missing=self.missing)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name, and a second for the indicator of a missing value."""
        return (self.name, f"{self.name}={MISSING}") if self.missing == "indicator" else (self.name,)

    @property
    def widths(self) -> Widths:
        """A number, and the indicator."""
        return (NUMBER, 1)[: len(self.feature_names)]

    def encode(self, values: pd.Series) -> NDArray[np.float32]:
        """Scaled values, shape (n_samples, 1 or 2)."""
        return inputs_of(self.read(values)[0], self.widths)

    def read(self, values: pd.Series) -> tuple[Cells, CellIssues]:
        """Scaled values, and what became of cells that were not as declared."""
        numbers, unreadable = readable_numbers(values, self.missing_words)
        absent = np.isnan(numbers)
        if self.missing == "error":
            refuse_words(values, unreadable)
            refuse_missing(self.name, absent, values.index, remedy="declare missing: indicator, or missing: middle")
        low, high = self._transformed(np.array([self.low, self.high]))
        scaled = (self._transformed(np.clip(numbers, self.low, self.high)) - low) / (high - low)
        cells = [np.where(absent, 0.5, scaled).astype(np.float32), absent]
        beyond = (numbers < self.low) | (numbers > self.high)
        treated = _treated_numbers(self.name, absent, unreadable, beyond)
        return cells[: len(self.widths)], treated

    @property
    def zero(self) -> float:
        """Where zero lies on the scale from 0 to 1, or the end that is nearer to it."""
        low, zero, high = self._transformed(np.array([self.low, min(max(0.0, self.low), self.high), self.high]))
        return float((zero - low) / (high - low))

    def _transformed(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sign(numbers) * np.log1p(np.abs(numbers)) if self.transform == "signed_log" else numbers


@dataclass(frozen=True, kw_only=True)
class Categorical:
    """One feature for each declared category.

    ``other`` is the declared category that any value which is not declared counts as, and ``?`` the one for a missing
    value; where only one of them is declared it stands for both, and where neither is, such a row has no category.
    ``missing_words`` stand for a missing value in this column.
    """

    name: str
    categories: tuple[str, ...]
    other: str = ""
    missing_words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.categories or len(set(self.categories)) != len(self.categories):
            twice = repeated(self.categories)
            what = "none" if twice is None else f"{twice!r} twice"
            raise DataError(f"column {self.name!r} needs distinct categories, got {what}.")
        if self.other and self.other not in self.categories:
            some = ", ".join(self.categories[:12]) + (", …" if len(self.categories) > 12 else "")
            raise DataError(f"column {self.name!r}: other must be one of its values ({some}), got {self.other!r}.")
        if (both := next((word for word in self.missing_words if word in self.categories), None)) is not None:
            raise DataError(f"column {self.name!r}: {both!r} is both a category and one of the missing words.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """``name=category`` for each category."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    @property
    def widths(self) -> Widths:
        """One code."""
        return (len(self.categories),)

    def encode(self, values: pd.Series) -> NDArray[np.float32]:
        """One-hot rows, shape (n_samples, n_categories)."""
        return inputs_of(self.read(values)[0], self.widths)

    def read(self, values: pd.Series) -> tuple[Cells, CellIssues]:
        """Codes, and what became of cells that were not as declared."""
        places, kinds = _places(values, self, missing=MISSING if MISSING in self.categories else self.other)
        return [places + 1], _treated_words(self.name, kinds)


@dataclass(frozen=True, kw_only=True)
class Binned:
    """A number reduced to the bin it falls in: bin i holds edges[i − 1] ≤ value < edges[i]; none a missing one."""

    name: str
    edges: tuple[float, ...]
    missing_words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in itertools.pairwise(self.edges))
        if not self.edges or not rising or not all(map(math.isfinite, self.edges)):
            raise DataError(f"column {self.name!r} needs increasing edges, all of them finite.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The interval of each bin."""
        limits = ["-inf", *(f"{edge:g}" for edge in self.edges), "inf"]
        return tuple(f"{self.name} in [{a}, {b})" for a, b in itertools.pairwise(limits))

    @property
    def widths(self) -> Widths:
        """One code."""
        return (len(self.edges) + 1,)

    def encode(self, values: pd.Series) -> NDArray[np.float32]:
        """One-hot rows, shape (n_samples, n_edges + 1)."""
        return inputs_of(self.read(values)[0], self.widths)

    def read(self, values: pd.Series) -> tuple[Cells, CellIssues]:
        """Codes, and what became of cells that were not as declared."""
        numbers, unreadable = readable_numbers(values, self.missing_words)
        absent = np.isnan(numbers)
        places = np.where(absent, _NOWHERE, np.searchsorted(self.edges, numbers, side="right"))
        treated = _treated_numbers(self.name, absent, unreadable, np.zeros_like(absent))
        return [places + 1], treated


@dataclass(frozen=True, kw_only=True)
class OtherThan:
    """One feature: 0 where the column holds this value or none, 1 where it holds any other."""

    name: str
    value: str
    missing_words: tuple[str, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """``name!=value``."""
        return (f"{self.name}!={self.value}",)

    @property
    def widths(self) -> Widths:
        """One indicator."""
        return (1,)

    def encode(self, values: pd.Series) -> NDArray[np.float32]:
        """Indicator, shape (n_samples, 1)."""
        return inputs_of(self.read(values)[0], self.widths)

    def read(self, values: pd.Series) -> tuple[Cells, CellIssues]:
        """Indicator, and what became of cells that were not as declared."""
        value = Categorical(name=self.name, categories=(self.value,), missing_words=self.missing_words)
        _, kinds = _places(values, value, missing="")
        treated = CellIssues(column=self.name, n_cells=len(values), missing=int((kinds == _ABSENT).sum()))
        return [kinds == _UNDECLARED], treated


Column = Numeric | Categorical | Binned | OtherThan


def category_codes(values: pd.Series, column: Categorical, *, remedy: str) -> tuple[NDArray[np.int64], CellIssues]:
    """Position of each row's value among the declared ones, shape (n_samples,): a label or group, which all rows have.

    A value that is not declared, or none, counts as the declared other, and is refused where there is none.
    """
    places, kinds = _places(values, column, missing=column.other)
    unknown = np.flatnonzero((places == _NOWHERE) & (kinds == _UNDECLARED))
    if len(unknown):
        held, row = raw_text(values.iloc[unknown[0]]), first_row(unknown, values.index)
        raise DataError(
            f"column {column.name!r} holds {held!r} in row {row}, which the schema does not declare; {remedy}."
        )
    refuse_missing(column.name, places == _NOWHERE, values.index, remedy=remedy)
    return places, _treated_words(column.name, kinds)


def chosen_positive(positive: object, texts: Sequence[str], label: str) -> str:
    """The positive one of the two values of a label; where nobody says it and it could be either, that is refused.

    >>> chosen_positive(None, ["No", "Yes"], "approved"), chosen_positive("1.0", ["0", "1"], "approved")
    ('Yes', '1')
    """
    if positive is not None:
        meant = value_meant(positive, texts)
        if meant is None:
            held = raw_text(positive)
            raise DataError(f"`positive` must be a value of label {label!r} ({', '.join(texts)}), got {held!r}.")
        return meant
    known = {canonical_text(text).lower(): text for text in texts}
    for pair in _UNDERSTOOD:
        if set(known) == set(pair):
            return known[pair[1]]
    raise _unsaid(texts, label)


def refuse_unsaid(texts: Sequence[str], label: str) -> None:
    """Refuse a label of which no two values are a pair that leaves no doubt, whichever of them are frequent."""
    known = {canonical_text(text).lower() for text in texts}
    # A column of many values is another mistake, and names people.
    if 1 < len(known) <= _FEW_VALUES and not any(known.issuperset(pair) for pair in _UNDERSTOOD):
        raise _unsaid(texts, label)


def value_meant(value: object, texts: Sequence[str]) -> str | None:
    """The one of these texts that somebody means who writes it so, or in another way: 1.0 for 1, yes for Yes.

    >>> value_meant("1.0", ["0", "1"]), value_meant("GOOD", ["bad", "good"]), value_meant(7, ["0", "1"])
    ('1', 'good', None)
    """
    for as_read in (raw_text, canonical_text, lambda text: canonical_text(text).lower(), _number):
        found = [text for text in texts if as_read(text) == as_read(value)]
        if len(found) == 1:
            return found[0]
    return None


def _number(value: object) -> object:
    number = number_of(value)
    # Whatever holds none equals nothing but itself.
    return object() if number is None or math.isnan(number) else number


def _unsaid(texts: Sequence[str], label: str) -> DataError:
    some = " or ".join(map(repr, texts[:2])) if len(texts) == 2 else ", ".join(map(repr, texts[:5]))
    return DataError(f"which value of label {label!r} is a positive decision, {some}? Say it with `positive`.")


def repeated(names: Sequence[str]) -> str | None:
    """The first name that stands twice, if one does."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _places(values: pd.Series, column: Categorical, *, missing: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Position of each cell among the categories, and what it is; by this cell and what is declared alone.

    ``missing`` is the category of a missing value, or empty.
    """
    codes, cells = distinct_cells(values)
    declared = {category: place for place, category in enumerate(column.categories)}
    known = {canonical_text(category): declared[category] for category in reversed(column.categories)} | declared
    words = {*column.missing_words, *map(canonical_text, column.missing_words)}
    absent = declared[missing] if missing else _NOWHERE
    undeclared = declared[column.other] if column.other else absent

    def place_of(cell: object) -> tuple[int, int]:
        spelling = raw_text(cell)
        # As it stands, 01 is a code; only where no such code is declared may it be the number 1.
        place = known.get(spelling, known.get(normalized(spelling)))
        if place is not None:
            return place, _DECLARED
        if spelling in MISSING_WORDS or (words and (spelling in words or canonical_text(cell) in words)):
            return absent, _ABSENT
        return undeclared, _UNDECLARED

    found = np.array(each_cell(values, cells, place_of), dtype=np.int64)[codes]
    return found[:, 0], found[:, 1]


def _treated_numbers(
    name: str, absent: NDArray[np.bool_], unreadable: NDArray[np.bool_], beyond: NDArray[np.bool_]
) -> CellIssues:
    return CellIssues(
        column=name,
        n_cells=len(absent),
        missing=int((absent & ~unreadable).sum()),
        unreadable=int(unreadable.sum()),
        out_of_range=int(beyond.sum()),
    )


def _treated_words(name: str, kinds: NDArray[np.int64]) -> CellIssues:
    _, n_absent, n_undeclared = np.bincount(kinds, minlength=3).tolist()
    return CellIssues(column=name, n_cells=len(kinds), missing=n_absent, undeclared=n_undeclared)


def refuse_missing(name: str, absent: NDArray[np.bool_], index: pd.Index, *, remedy: str) -> None:
    """Refuse missing values, naming the first row."""
    if absent.any():
        first = first_row(np.flatnonzero(absent), index)
        raise DataError(f"column {name!r} has {int(absent.sum())} missing values, the first in row {first}; {remedy}.")


COLUMN_TYPES: Mapping[str, type[Column]] = {
    "numeric": Numeric,
    "categorical": Categorical,
    "binned": Binned,
    "other_than": OtherThan,
}


def shown(value: Any) -> str:
    """A value as a message shows it: all of what is short, and the beginning of anything else."""
    return _SHOWN.repr(value)


def shown_names(names: Sequence[str]) -> str:
    """Names as a message lists them: all of a few, and the first of many."""
    return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")


def column_of(entry: Any) -> Column:
    """One input from its plain description."""
    if not isinstance(entry, Mapping) or entry.get("type") not in tuple(COLUMN_TYPES):
        kinds = ", ".join(COLUMN_TYPES)
        raise DataError(f"every column needs a name and a type ({kinds}), got {shown(entry)}.")
    kind = COLUMN_TYPES[entry["type"]]
    allowed = [field.name for field in fields(kind)]
    needed = [field.name for field in fields(kind) if field.default is dataclasses.MISSING]
    where = f"column {shown(entry.get('name'))}"
    check_keys(where, entry, allowed=("type", *allowed), required=needed)
    values = {key: _entry(f"{where}: {key}", key, entry[key]) for key in allowed if key in entry}
    return kind(**values)


def _entry(where: str, key: str, value: Any) -> Any:
    """One value of a column's description, in the type its field has."""
    if key in ("low", "high"):
        return _number_entries(where, value)
    if key == "edges":
        return tuple(_number_entries(where, edge) for edge in listed(where, value))
    if key == "name":
        return entry_name(where, value)
    return texts_of(where, value) if key in ("categories", "missing_words") else entry_text(where, value)


def _number_entries(where: str, value: Any) -> float:
    if isinstance(value, datetime.date):
        return days_of(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{where} must be a number or a date, got {shown(value)}.")
    try:
        return float(value)
    except OverflowError:
        raise DataError(f"{where} must be a number that a float can hold, got {shown(value)}.") from None


def entry_text(where: str, value: Any) -> str:
    # YAML reads an unquoted yes, no, on or off as a truth value: the word the table holds would be lost.
    if isinstance(value, bool):
        raise DataError(f"{where} was read as the truth value {value}; put it in quotes.")
    if not isinstance(value, str | int | float):
        raise DataError(f"{where} must be one word or number, got {shown(value)}.")
    return raw_text(value)


def entry_name(where: str, value: Any) -> str:
    """The name of a column, to the last blank; one that looks like a number may be written without quotes."""
    return value if isinstance(value, str) else entry_text(where, value)


def texts_of(where: str, values: Any) -> tuple[str, ...]:
    return tuple(entry_text(where, value) for value in listed(where, values))


def others_of(sensitive: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    others = tuple(entry_text("sensitive: other", entry.get("other", "")) for entry in sensitive)
    return others if any(others) else ()


def truth(where: str, value: Any) -> bool:
    """A truth value, never a word: "false" in quotes would count as true."""
    if not isinstance(value, bool):
        raise DataError(f"{where} must be true or false, without quotes, got {shown(value)}.")
    return value


def listed(where: str, values: Any) -> Sequence[Any]:
    if not isinstance(values, list | tuple):
        raise DataError(f"{where} must be a list, got {shown(values)}.")
    return values


def check_keys(where: str, content: Any, *, allowed: Sequence[str], required: Sequence[str]) -> None:
    if content is None:
        raise DataError(f"{where} is empty; write it again, as fairdp schema proposes it.")
    if not isinstance(content, Mapping):
        raise DataError(f"{where} must be a mapping of names to values, got {type(content).__name__}.")
    for key in content:
        if key not in allowed:
            raise DataError(f"{where} has the unknown key {shown(key)}; it may have {shown_names(allowed)}.")
    for key in required:
        if key not in content:
            raise DataError(f"{where} lacks the key {key!r}.")


@dataclass(frozen=True, kw_only=True)
class EncodedColumns:
    """The public side of the inputs of a table: how many columns they come from, and which inputs are numbers.

    ``zeros`` says where zero lies on the scale of each number, ``n_indicators`` how many numbers have a second input
    that is one where the value is missing.
    """

    n_columns: int
    numeric: tuple[int, ...]
    zeros: tuple[float, ...]
    n_indicators: int

    @classmethod
    def of(cls, columns: Sequence[Column]) -> "EncodedColumns":
        """The positions of the numbers among the inputs that these columns become."""
        starts = itertools.accumulate((len(column.feature_names) for column in columns), initial=0)
        numbers = {start: column for start, column in zip(starts, columns, strict=False) if isinstance(column, Numeric)}
        return cls(
            n_columns=len(columns),
            numeric=tuple(numbers),
            zeros=tuple(column.zero for column in numbers.values()),
            n_indicators=sum(column.missing == "indicator" for column in numbers.values()),
        )

    @property
    def most_squares(self) -> float:
        """Squared norm, at most, of a row where a category is one entry, a number linear splines and a bin."""
        return float(self.n_columns + 2 * len(self.numeric) + self.n_indicators)
