"""Kinds of input column, each declared in public and encoded row by row into numbers in [0, 1]."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairdp import _checks
from fairdp._checks import DataError
from fairdp.data.cells import MISSING_WORDS, folded, spelling_of, text_of
from fairdp.data.distinct import distinct_cells, each_cell, first_row, readable_numbers, refuse_words
from fairdp.data.layout import NUMBER, Widths, inputs_of
from fairdp.data.treatments import Treated

MISSING = "?"
# Instead of a position among the categories.
_NOWHERE = -1
Cells = list[NDArray[Any]]
# What a cell is: a declared value, none, or another one.
_DECLARED, _ABSENT, _UNDECLARED = 0, 1, 2


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
        _checks.one_of(("linear", "signed_log"), transform=self.transform)
        _checks.one_of(("middle", "indicator", "error"), missing=self.missing)

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

    def read(self, values: pd.Series) -> tuple[Cells, Treated]:
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

    def read(self, values: pd.Series) -> tuple[Cells, Treated]:
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

    def read(self, values: pd.Series) -> tuple[Cells, Treated]:
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

    def read(self, values: pd.Series) -> tuple[Cells, Treated]:
        """Indicator, and what became of cells that were not as declared."""
        value = Categorical(name=self.name, categories=(self.value,), missing_words=self.missing_words)
        _, kinds = _places(values, value, missing="")
        treated = Treated(column=self.name, n_cells=len(values), missing=int((kinds == _ABSENT).sum()))
        return [kinds == _UNDECLARED], treated


Column = Numeric | Categorical | Binned | OtherThan


def category_codes(values: pd.Series, column: Categorical, *, remedy: str) -> tuple[NDArray[np.int64], Treated]:
    """Position of each row's value among the declared ones, shape (n_samples,): a label or group, which all rows have.

    A value that is not declared, or none, counts as the declared other, and is refused where there is none.
    """
    places, kinds = _places(values, column, missing=column.other)
    unknown = np.flatnonzero((places == _NOWHERE) & (kinds == _UNDECLARED))
    if len(unknown):
        held, row = spelling_of(values.iloc[unknown[0]]), first_row(unknown, values.index)
        raise DataError(
            f"column {column.name!r} holds {held!r} in row {row}, which the schema does not declare; {remedy}."
        )
    refuse_missing(column.name, places == _NOWHERE, values.index, remedy=remedy)
    return places, _treated_words(column.name, kinds)


def repeated(names: Sequence[str]) -> str | None:
    """The first name that stands twice, if one does."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _places(values: pd.Series, column: Categorical, *, missing: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Position of each cell among the categories, and what it is; by this cell and what is declared alone.

    ``missing`` is the category of a missing value, or empty.
    """
    codes, cells = distinct_cells(values)
    declared = {category: place for place, category in enumerate(column.categories)}
    known = {text_of(category): declared[category] for category in reversed(column.categories)} | declared
    words = {*column.missing_words, *map(text_of, column.missing_words)}
    absent = declared[missing] if missing else _NOWHERE
    undeclared = declared[column.other] if column.other else absent

    def place_of(cell: object) -> tuple[int, int]:
        spelling = spelling_of(cell)
        # As it stands, 01 is a code; only where no such code is declared may it be the number 1.
        place = known.get(spelling, known.get(folded(spelling)))
        if place is not None:
            return place, _DECLARED
        if spelling in MISSING_WORDS or (words and (spelling in words or text_of(cell) in words)):
            return absent, _ABSENT
        return undeclared, _UNDECLARED

    found = np.array(each_cell(values, cells, place_of), dtype=np.int64)[codes]
    return found[:, 0], found[:, 1]


def _treated_numbers(
    name: str, absent: NDArray[np.bool_], unreadable: NDArray[np.bool_], beyond: NDArray[np.bool_]
) -> Treated:
    return Treated(
        column=name,
        n_cells=len(absent),
        missing=int((absent & ~unreadable).sum()),
        unreadable=int(unreadable.sum()),
        out_of_range=int(beyond.sum()),
    )


def _treated_words(name: str, kinds: NDArray[np.int64]) -> Treated:
    _, n_absent, n_undeclared = np.bincount(kinds, minlength=3).tolist()
    return Treated(column=name, n_cells=len(kinds), missing=n_absent, undeclared=n_undeclared)


def refuse_missing(name: str, absent: NDArray[np.bool_], index: pd.Index, *, remedy: str) -> None:
    """Refuse missing values, naming the first row."""
    if absent.any():
        first = first_row(np.flatnonzero(absent), index)
        raise DataError(f"column {name!r} has {int(absent.sum())} missing values, the first in row {first}; {remedy}.")
