"""How often each value, kind and size occurs in the columns of a table: all that reading its columns looks at.

One record adds one to the count of its value, one to the count of its kind and size, and at most one to the number of
distinct values, in every column.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairdp._checks import DataError
from fairdp.data.cells import kind_of, number_of, text_of
from fairdp.data.distinct import distinct_cells, each_cell

# Numbers are told apart by sign, first digit and power of ten; smaller ones count as zero, larger ones with the last.
_SMALLEST_POWER, _LARGEST_POWER = -3, 8
# Dates are told apart by five years.
_FIRST_YEAR, _LAST_YEAR, _YEARS = 1900, 2050, 5


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A kind of cell and, for numbers and dates (in days), the interval it lies in: the same for all tables."""

    kind: str
    low: float = 0.0
    high: float = 0.0


def _numbers() -> list[Shape]:
    powers = range(_SMALLEST_POWER, _LARGEST_POWER + 1)
    ends = [(float(f"{digit}e{power}"), float(f"{digit + 1}e{power}")) for power in powers for digit in range(1, 10)]
    positive = [Shape(kind="number", low=low, high=high) for low, high in ends]
    negative = [Shape(kind="number", low=-high, high=-low) for low, high in reversed(ends)]
    return [*negative, Shape(kind="number"), *positive]


def _days(year: int) -> float:
    return float((datetime.date(year, 1, 1) - datetime.date(1970, 1, 1)).days)


_DATES = [
    Shape(kind="date", low=_days(year), high=_days(year + _YEARS)) for year in range(_FIRST_YEAR, _LAST_YEAR, _YEARS)
]
_KINDS = ("missing", "truth", "code", "word")
SHAPES = (*(Shape(kind=kind) for kind in _KINDS), *_numbers(), *_DATES)
_ZERO = SHAPES.index(Shape(kind="number"))
_STARTS = np.array([shape.low for shape in _DATES])


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    """What the cells of a table are, before any noise: private.

    Parameters
    ----------
    names
        The columns, which are public.
    values
        For each column the rows of every text that stands in it.
    shapes
        Rows of each column by `SHAPES`, shape (n_columns, n_shapes).
    distinct
        Number of different texts of each column: whole numbers, and all others, shape (n_columns, 2).
    """

    names: tuple[str, ...]
    values: tuple[Mapping[str, int], ...]
    shapes: NDArray[np.int64]
    distinct: NDArray[np.int64]


def tally_of(frame: pd.DataFrame) -> Tally:
    """Count every column of a table."""
    names = column_names(frame)
    columns = [_counted(frame[name]) for name in names]
    values = tuple(counts for counts, _ in columns)
    return Tally(
        names=names,
        values=values,
        shapes=np.array([shapes for _, shapes in columns]),
        distinct=np.array([_distinct(counts) for counts in values]),
    )


def column_names(frame: pd.DataFrame) -> tuple[str, ...]:
    """The names of a table's columns, which must be text."""
    for name in frame.columns:
        if not isinstance(name, str):
            raise DataError(f"column names must be text, got {name!r}; rename the column.")
    return tuple(frame.columns)


def shape_of(cell: object) -> int:
    """The place of a cell among `SHAPES`, by itself."""
    kind = kind_of(cell)
    if kind in _KINDS:
        return _KINDS.index(kind)
    number = number_of(cell)
    assert number is not None
    if kind == "date":
        return SHAPES.index(_DATES[0]) + max(0, int(np.searchsorted(_STARTS, number, side="right")) - 1)
    return _ZERO + _steps_from_zero(number)


def _steps_from_zero(number: float) -> int:
    """How many intervals a number lies above the one of zero, or below it."""
    largest = 10.0 ** (_LARGEST_POWER + 1)
    written = f"{min(abs(number), 0.999 * largest):.16e}"
    digit, power = int(written[0]), int(written.split("e")[1])
    if power < _SMALLEST_POWER or not digit:
        return 0
    steps = 9 * (power - _SMALLEST_POWER) + digit
    return steps if number > 0 else -steps


def _counted(column: pd.Series) -> tuple[dict[str, int], NDArray[np.int64]]:
    """Rows of every text, without missing ones, and of every shape."""
    codes, cells = distinct_cells(column)
    places = np.array(each_cell(column, cells, shape_of))
    rows = np.bincount(np.where(codes < 0, len(cells) - 1, codes), minlength=len(cells))
    values: dict[str, int] = {}
    for i in np.flatnonzero(rows):
        if _KINDS[0] != SHAPES[places[i]].kind:
            text = text_of(cells[i])
            values[text] = values.get(text, 0) + int(rows[i])
    return values, np.bincount(places, weights=rows, minlength=len(SHAPES)).astype(np.int64)


def _distinct(values: Mapping[str, int]) -> tuple[int, int]:
    n_whole = sum(text.removeprefix("-").isdecimal() for text in values)
    return n_whole, len(values) - n_whole
