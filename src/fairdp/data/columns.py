"""Kinds of input column, each declared in public and encoded row by row into numbers in [0, 1]."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairdp import _checks
from fairdp._checks import DataError
from fairdp.data.cells import MISSING_WORDS, folded, spelling_of, text_of
from fairdp.data.distinct import distinct_cells, each_cell, first_row, numbers_of

MISSING = "?"
# Instead of a position among the categories.
_ABSENT, _UNDECLARED = -1, -2


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
        ``"error"``, or ``"indicator"``: a missing value is encoded as 1/2 with a second feature set to 1.
    """

    name: str
    low: float
    high: float
    transform: str = "linear"
    missing: str = "error"

    def __post_init__(self) -> None:
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            bounds = f"low={self.low!r} and high={self.high!r}"
            raise DataError(f"column {self.name!r} needs finite bounds with low < high, got {bounds}.")
        _checks.one_of(("linear", "signed_log"), transform=self.transform)
        _checks.one_of(("error", "indicator"), missing=self.missing)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name, and a second for the indicator of a missing value."""
        return (self.name, f"{self.name}={MISSING}") if self.missing == "indicator" else (self.name,)

    def encode(self, values: pd.Series) -> NDArray[np.float32]:
        """Scaled values, shape (n_samples, 1 or 2)."""
        numbers = numbers_of(values)
        absent = np.isnan(numbers)
        if self.missing == "error":
            refuse_missing(self.name, absent, values.index, remedy="declare missing: indicator")
        low, high = self._transformed(np.array([self.low, self.high]))
        scaled = (self._transformed(np.clip(numbers, self.low, self.high)) - low) / (high - low)
        features = np.column_stack([np.where(absent, 0.5, scaled), absent])
        return features[:, : len(self.feature_names)].astype(np.float32)

    @property
    def zero(self) -> float:
        """Where zero lies on the scale from 0 to 1, or the end that is nearer to it."""
        low, zero, high = self._transformed(np.array([self.low, min(max(0.0, self.low), self.high), self.high]))
        return float((zero - low) / (high - low))

    def _transformed(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sign(numbers) * np.log1p(np.abs(numbers)) if self.transform == "signed_log" else numbers


@dataclass(frozen=True, kw_only=True)
class Categorical:
    """One feature for each declared category. A missing value is the category ``?`` if that is declared.

    ``other`` is the declared category that any value which is not declared counts as; empty: such a value is refused.
    """

    name: str
    categories: tuple[str, ...]
    other: str = ""

    def __post_init__(self) -> None:
        if not self.categories or len(set(self.categories)) != len(self.categories):
            twice = repeated(self.categories)
            what = "none" if twice is None else f"{twice!r} twice"
            raise DataError(f"column {self.name!r} needs distinct categories, got {what}.")
        if self.other and self.other not in self.categories:
            some = ", ".join(self.categories[:12]) + (", …" if len(self.categories) > 12 else "")
            raise DataError(f"column {self.name!r}: other must be one of its values ({some}), got {self.other!r}.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """``name=category`` for each category."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def encode(self, values: pd.Series) -> NDArray[np.float32]:
        """One-hot rows, shape (n_samples, n_categories)."""
        codes = category_codes(values, self.name, self.categories, other=self.other)
        return _one_hot(codes, len(self.categories))


@dataclass(frozen=True, kw_only=True)
class Binned:
    """A number reduced to the bin it falls in: bin i holds edges[i − 1] ≤ value < edges[i]."""

    name: str
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in itertools.pairwise(self.edges))
        if not self.edges or not rising or not all(map(math.isfinite, self.edges)):
            raise DataError(f"column {self.name!r} needs increasing edges, all of them finite.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The interval of each bin."""
        limits = ["-inf", *(f"{edge:g}" for edge in self.edges), "inf"]
        return tuple(f"{self.name} in [{a}, {b})" for a, b in itertools.pairwise(limits))

    def encode(self, values: pd.Series) -> NDArray[np.float32]:
        """One-hot rows, shape (n_samples, n_edges + 1)."""
        numbers = numbers_of(values)
        refuse_missing(self.name, np.isnan(numbers), values.index, remedy="fill the row or leave it out")
        return _one_hot(np.searchsorted(self.edges, numbers, side="right"), len(self.edges) + 1)


@dataclass(frozen=True, kw_only=True)
class OtherThan:
    """One feature: 0 where the column holds this value, 1 where it holds any other."""

    name: str
    value: str

    @property
    def feature_names(self) -> tuple[str, ...]:
        """``name!=value``."""
        return (f"{self.name}!={self.value}",)

    def encode(self, values: pd.Series) -> NDArray[np.float32]:
        """Indicator, shape (n_samples, 1)."""
        codes, cells = distinct_cells(values)
        places = _places(values, cells, (self.value,), other="", missing="")[codes]
        refuse_missing(self.name, places == _ABSENT, values.index, remedy="fill the row or leave it out")
        return (places == _UNDECLARED)[:, None].astype(np.float32)


Column = Numeric | Categorical | Binned | OtherThan


@dataclass(frozen=True, kw_only=True)
class EncodedColumns:
    """What is public about the inputs of a table: how many columns they come from, and which inputs are numbers.

    ``zeros`` says where zero lies on the scale of each number, ``n_indicators`` how many numbers have a second input
    that is one where the value is missing.
    """

    n_columns: int
    numeric: tuple[int, ...]
    zeros: tuple[float, ...]
    n_indicators: int

    @classmethod
    def of(cls, columns: Sequence["Column"]) -> "EncodedColumns":
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
        """Squared norm, at most, of a row where a category is one entry, and a number hats on two scales and a bin."""
        return float(self.n_columns + 2 * len(self.numeric) + self.n_indicators)


def category_codes(
    values: pd.Series, name: str, categories: tuple[str, ...], *, other: str = "", missing: str = MISSING
) -> NDArray[np.int64]:
    """Position of each row's value among the declared categories, shape (n_samples,); ``other`` as in `Categorical`.

    A missing value counts as the category ``missing``; where that is empty or not declared it is refused.
    """
    codes, cells = distinct_cells(values)
    places = _places(values, cells, categories, other=other, missing=missing)[codes]
    unknown = np.flatnonzero(places == _UNDECLARED)
    if len(unknown):
        held, row = spelling_of(cells[codes[unknown[0]]]), first_row(unknown, values.index)
        remedy = "declare it, or a category that others count as, or correct the row"
        raise DataError(f"column {name!r} holds {held!r} in row {row}, which the schema does not declare; {remedy}.")
    remedy = f"declare the category {missing!r} or fill the row" if missing else "fill or drop them"
    refuse_missing(name, places == _ABSENT, values.index, remedy=remedy)
    return places


def repeated(names: Sequence[str]) -> str | None:
    """The first name that stands twice, if one does."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _one_hot(codes: NDArray[np.int64], n_columns: int) -> NDArray[np.float32]:
    rows = np.zeros((len(codes), n_columns), dtype=np.float32)
    rows[np.arange(len(codes)), codes] = 1.0
    return rows


def _places(
    values: pd.Series, cells: list[object], categories: tuple[str, ...], *, other: str, missing: str
) -> NDArray[np.int64]:
    """Position of each cell among the categories, or why it has none; by this cell and what is declared alone."""
    declared = {category: place for place, category in enumerate(categories)}
    known = {text_of(category): declared[category] for category in reversed(categories)} | declared

    def place_of(cell: object) -> int:
        spelling = spelling_of(cell)
        # As it stands, 01 is a code; only where no such code is declared may it be the number 1.
        place = known.get(spelling, known.get(folded(spelling)))
        if place is not None:
            return place
        if spelling in MISSING_WORDS:
            return declared.get(missing, _ABSENT)
        return declared[other] if other else _UNDECLARED

    return np.array(each_cell(values, cells, place_of), dtype=np.int64)


def refuse_missing(name: str, absent: NDArray[np.bool_], index: pd.Index, *, remedy: str) -> None:
    """Refuse missing values, naming the first row."""
    if absent.any():
        first = first_row(np.flatnonzero(absent), index)
        raise DataError(f"column {name!r} has {int(absent.sum())} missing values, the first in row {first}; {remedy}.")
