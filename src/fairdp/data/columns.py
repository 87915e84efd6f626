"""Kinds of input column, each declared in public and encoded row by row into numbers in [0, 1]."""

import datetime
import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairdp import _checks
from fairdp._checks import DataError

MISSING = "?"


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
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
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
            raise DataError(f"column {self.name!r} needs distinct categories, got {list(self.categories)}.")
        if self.other and self.other not in self.categories:
            declared = ", ".join(self.categories)
            raise DataError(f"column {self.name!r}: other must be one of its values ({declared}), got {self.other!r}.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """``name=category`` for each category."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def encode(self, values: pd.Series) -> NDArray[np.float32]:
        """One-hot rows, shape (n_samples, n_categories)."""
        codes = category_codes(values, self.name, self.categories, other=self.other)
        return np.eye(len(self.categories), dtype=np.float32)[codes]


@dataclass(frozen=True, kw_only=True)
class Binned:
    """A number reduced to the bin it falls in: bin i holds edges[i − 1] ≤ value < edges[i]."""

    name: str
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.edges or any(a >= b for a, b in itertools.pairwise(self.edges)):
            raise DataError(f"column {self.name!r} needs increasing edges, got {list(self.edges)}.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The interval of each bin."""
        limits = ["-inf", *(f"{edge:g}" for edge in self.edges), "inf"]
        return tuple(f"{self.name} in [{a}, {b})" for a, b in itertools.pairwise(limits))

    def encode(self, values: pd.Series) -> NDArray[np.float32]:
        """One-hot rows, shape (n_samples, n_edges + 1)."""
        numbers = numbers_of(values)
        refuse_missing(self.name, np.isnan(numbers), values.index, remedy="fill the row or leave it out")
        return np.eye(len(self.edges) + 1, dtype=np.float32)[np.searchsorted(self.edges, numbers, side="right")]


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
        codes, uniques = _factorized(values)
        refuse_missing(self.name, codes < 0, values.index, remedy="fill the row or leave it out")
        differs = np.array([text_of(unique) != self.value for unique in uniques], dtype=np.float32)
        return differs[codes][:, None]


Column = Numeric | Categorical | Binned | OtherThan


@dataclass(frozen=True, kw_only=True)
class EncodedColumns:
    """What is public about the inputs of a table: how many columns they come from, and which inputs are numbers."""

    n_columns: int
    numeric: tuple[int, ...]

    @classmethod
    def of(cls, columns: Sequence["Column"]) -> "EncodedColumns":
        """The positions of the numbers among the inputs that these columns become."""
        numeric, position = [], 0
        for column in columns:
            if isinstance(column, Numeric):
                numeric.append(position)
            position += len(column.feature_names)
        return cls(n_columns=len(columns), numeric=tuple(numeric))


def text_of(value: object) -> str:
    """The text under which a value is declared and compared, the same whatever type a file reader chose.

    >>> [text_of(value) for value in (1, 1.0, "1", True, "White ")]
    ['1', '1', '1', 'True', 'White']
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def category_codes(values: pd.Series, name: str, categories: tuple[str, ...], *, other: str = "") -> NDArray[np.int64]:
    """Position of each row's value among the declared categories, shape (n_samples,); ``other`` as in `Categorical`."""
    codes, uniques = _factorized(values)
    position = {category: i for i, category in enumerate(categories)}
    texts = [text_of(unique) for unique in uniques]
    if other:
        texts = [text if text in position else other for text in texts]
    for i, text in enumerate(texts):
        if text not in position:
            row = first_row(np.flatnonzero(codes == i), values.index)
            remedy = "declare it, or a category that others count as, or correct the row"
            raise DataError(
                f"column {name!r} holds {text!r} in row {row}, which the schema does not declare; {remedy}."
            )
    if MISSING not in position:
        refuse_missing(name, codes < 0, values.index, remedy=f"declare the category {MISSING!r} or fill the row")
    # Code −1 marks a missing value: it picks the last entry.
    return np.array([*(position[text] for text in texts), position.get(MISSING, -1)], dtype=np.int64)[codes]


def numbers_of(values: pd.Series) -> NDArray[np.float64]:
    """The column as floats with NaN for missing; dates become days since 1970-01-01."""
    if pd.api.types.is_datetime64_any_dtype(values):
        return _days(values)
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    # Each value is a number or a date by itself: what one row means must not depend on the others.
    other = np.isnan(numbers) & values.notna().to_numpy(dtype=bool)
    if other.any():
        days = _days(dates_of(values[other]))
        wrong = np.flatnonzero(other)[np.isnan(days)]
        if len(wrong):
            value, row = values.iloc[wrong[0]], first_row(wrong, values.index)
            raise DataError(f"column {values.name!r} holds {value!r} in row {row}, which is not a number; correct it.")
        # Conversion may have handed out a view of the table.
        numbers = numbers.copy()
        numbers[other] = days
    return numbers


def dates_of(values: pd.Series) -> pd.Series:
    """Values read as ISO 8601 dates, missing where they are none."""
    texts = values.map(text_of, na_action="ignore")
    return pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)


def days_of(date: datetime.date) -> float:
    """Days from 1970-01-01 to a date."""
    return float((datetime.date(date.year, date.month, date.day) - datetime.date(1970, 1, 1)).days)


def _days(dates: pd.Series) -> NDArray[np.float64]:
    since = pd.to_datetime(dates, utc=True) - pd.Timestamp(0, tz="UTC")
    return np.asarray(since / pd.Timedelta(days=1), dtype=np.float64)


def refuse_missing(name: str, absent: NDArray[np.bool_], index: pd.Index, *, remedy: str) -> None:
    """Refuse missing values, naming the first row."""
    if absent.any():
        first = first_row(np.flatnonzero(absent), index)
        raise DataError(f"column {name!r} has {int(absent.sum())} missing values, the first in row {first}; {remedy}.")


def first_row(positions: NDArray[np.intp], index: pd.Index) -> int:
    """The first of these rows as people count, from 1; in a batch from its place in the table."""
    before = index.start if isinstance(index, pd.RangeIndex) and index.step == 1 else 0
    return before + int(positions[0]) + 1


def _factorized(values: pd.Series) -> tuple[NDArray[np.int64], list[Hashable]]:
    """Codes and distinct values; code −1 is a missing value."""
    try:
        codes, uniques = pd.factorize(values)
    except TypeError:
        raise DataError(f"column {values.name!r} holds lists or objects; give numbers, text or dates.") from None
    return codes.astype(np.int64), list(uniques)
