"""Reasons in words: what stands in a person's row beside what the column is compared with."""

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairdp.data.cells import MISSING_WORDS, kind_of, spelling_of, text_of
from fairdp.data.columns import MISSING, Binned, Numeric, OtherThan
from fairdp.data.distinct import distinct_cells, readable_numbers
from fairdp.run.references import Reference

NO_COLUMN = "no column: none at its reference alone would raise the score"
REFUSES_ALL = "no column: the rule of this model refuses everybody"


def coin_in_words(chance: float) -> str:
    """The reason of people whom their score would have accepted, and their coin did not.

    >>> coin_in_words(0.9)
    'the coin: the score is high enough, which gave a positive decision a chance of 0.9'
    """
    return f"the coin: the score is high enough, which gave a positive decision a chance of {chance:.3g}"


def lines_of(
    reference: Reference, frame: pd.DataFrame, rows: NDArray[np.intp], records: NDArray[np.float32]
) -> NDArray[np.object_]:
    """What is said of a column to the people in these rows."""
    codes, cells = distinct_cells(frame[reference.column.name].iloc[rows])
    lines = np.full(len(cells), "", dtype=object)
    for code, first in zip(*np.unique(codes, return_index=True), strict=True):
        inputs = records[rows[first], reference.where]
        lines[code] = f"{reference.column.name} {_compared(reference, cells[code], inputs)}"
    return np.asarray(lines[codes])


def _compared(reference: Reference, cell: object, inputs: NDArray[np.float32]) -> str:
    column, spelling = reference.column, spelling_of(cell)
    if isinstance(column, Numeric | Binned):
        return _compared_number(reference, cell)
    if isinstance(column, OtherThan):
        wanted = repr(column.value)
        return (
            f"{spelling!r}: the reference is {wanted if reference.cell == column.value else f'anything but {wanted}'}"
        )
    counted = column.categories[int(inputs.argmax())] if inputs.any() else "none of the declared"
    # Of columns that were read with noise, rare values count as missing ones too: whoever has given theirs is told so.
    if spelling in (MISSING, *column.missing_words) or (spelling in MISSING_WORDS and spelling != counted):
        return f"missing: the reference is {reference.cell!r}"
    also = "" if text_of(spelling) == text_of(counted) else f", counted as {counted!r}"
    return f"{spelling!r}{also}: the reference is {reference.cell!r}"


def _compared_number(reference: Reference, cell: object) -> str:
    """A number beside another one, or beside a bin; a date beside a date."""
    (number,), _ = readable_numbers(pd.Series([cell], dtype=object), reference.column.missing_words)
    is_date = kind_of(cell) == "date"
    wanted = _number_in_words(reference, is_date=is_date)
    if math.isnan(number):
        return f"missing: the reference is {wanted}"
    below = number < float(reference.cell)
    words = ("earlier" if below else "later") if is_date else ("lower" if below else "higher")
    return f"{spelling_of(cell)}: {words} than the reference {wanted}"


def _number_in_words(reference: Reference, *, is_date: bool) -> str:
    column, number = reference.column, float(reference.cell)
    if isinstance(column, Binned):
        limits = [-math.inf, *column.edges, math.inf]
        place = int(np.searchsorted(column.edges, number, side="right"))
        low, high = (_said(limit, is_date=is_date) for limit in limits[place : place + 2])
        return f"(below {high})" if place == 0 else f"({low} or more{f', below {high}' if high else ''})"
    return _said(number, is_date=is_date)


def _said(number: float, *, is_date: bool) -> str:
    """A number without an exponent, or the date that it counts the days to; nothing for no limit."""
    if math.isinf(number):
        return ""
    if is_date:
        return str(np.datetime64(math.floor(number), "D"))
    return spelling_of(number)
