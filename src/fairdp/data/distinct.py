"""A column's cells at the speed of columns, each to the bits that the rules for one cell give."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairdp._checks import DataError
from fairdp.data.cells import Moment, number_of, spelling_of

# What Arrow and `number_of` read alike, in every version of Arrow.
_PLAIN_NUMBER = r"^-?[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,2})?$"
_T = TypeVar("_T")
_PER_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def distinct_cells(values: pd.Series) -> tuple[NDArray[np.int64], list[object]]:
    """Code of each row and the cell that each code stands for; the last cell, None, has the code −1.

    Two codes may stand for equal cells, but no code for cells that differ.
    """
    array = arrow_of(values)
    codes, cells = _distinct_objects(values.tolist()) if array is None else _distinct_arrow(array)
    return codes, [*cells, None]


def spellings_of(values: pd.Series) -> list[str]:
    """The text of each cell as it stands."""
    codes, cells = distinct_cells(values)
    return np.array(each_cell(values, cells, spelling_of), dtype=object)[codes].tolist()


def numbers_of(values: pd.Series) -> NDArray[np.float64]:
    """The column as floats with NaN for missing; dates become days since 1970-01-01. Words are refused."""
    numbers, unreadable = readable_numbers(values)
    refuse_words(values, unreadable)
    return numbers


def readable_numbers(
    values: pd.Series, missing_words: Sequence[str] = ()
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The column as floats with NaN for missing and for cells that hold no number, and which cells these last are.

    A cell with one of the ``missing_words``, or the same number or date as one, is missing.
    """
    numbers, unreadable = _numbers_and_words(values, frozenset(missing_words))
    declared = [number for number in map(number_of, missing_words) if number is not None]
    if declared:
        numbers = np.where(np.isin(numbers, declared), np.nan, numbers)
    return numbers, unreadable


def refuse_words(values: pd.Series, unreadable: NDArray[np.bool_]) -> None:
    """Refuse a column in which a number is a word, naming the first."""
    if unreadable.any():
        positions = np.flatnonzero(unreadable)
        held, row = spelling_of(values.iloc[positions[0]]), first_row(positions, values.index)
        raise DataError(f"column {values.name!r} holds {held!r} in row {row}, which is not a number; correct it.")


def _numbers_and_words(
    values: pd.Series, missing_words: frozenset[str]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    array, none = arrow_of(values), np.zeros(len(values), dtype=bool)
    if array is None:
        return _numbers_of_distinct(values, missing_words)
    if pa.types.is_floating(array.type):
        return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64) + 0.0, none
    if pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
        # Unsafe is only the rounding of whole numbers above 2**53, to the nearest float as for a single cell.
        return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), none
    if pa.types.is_large_string(array.type):
        return _numbers_of_texts(values, array, missing_words)
    if _is_moment(array.type):
        days, rest, per_day = _days_and_rest(array)
        return np.where(array.is_null().to_numpy(zero_copy_only=False), np.nan, days + rest / per_day), none
    return _numbers_of_distinct(values, missing_words)


def each_cell(values: pd.Series, cells: Sequence[object], rule: Callable[[object], _T]) -> list[_T]:
    """What a rule makes of each cell; things that are no cells are refused."""
    try:
        return [rule(cell) for cell in cells]
    except TypeError:
        raise DataError(f"column {values.name!r} holds lists or objects; give numbers, text or dates.") from None


def first_row(positions: NDArray[np.intp], index: pd.Index) -> int:
    """The first of these rows as people count, from 1; in a batch from its place in the table."""
    before = index.start if isinstance(index, pd.RangeIndex) and index.step == 1 else 0
    return before + int(positions[0]) + 1


def arrow_of(values: pd.Series) -> pa.Array | None:
    """The column in Arrow's memory, where a cell's value does not depend on the others; None if that is no help."""
    if values.dtype == object:
        return None
    try:
        array = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError):
        return None
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if pa.types.is_string(array.type) or str(array.type) == "string_view":
        return array.cast(pa.large_string())
    return None if isinstance(array.type, pa.BaseExtensionType) else array


def _distinct_objects(values: list[object]) -> tuple[NDArray[np.int64], list[object]]:
    """Only cells of the same plain type are compared: True, 1 and 1.0 are equal in Python, and not the same cell."""
    seen: dict[tuple[type, object], int] = {}
    cells: list[object] = []
    codes = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        kind = type(value)
        known = seen.get((kind, value)) if kind in (str, int, float, bool) else None
        if known is None:
            known = len(cells)
            cells.append(value)
            if kind in (str, int, float, bool):
                seen[kind, value] = known
        codes[row] = known
    return codes, cells


def _distinct_arrow(array: pa.Array) -> tuple[NDArray[np.int64], list[object]]:
    if pa.types.is_null(array.type):
        return np.full(len(array), -1, dtype=np.int64), []
    if not pa.types.is_dictionary(array.type):
        try:
            array = array.dictionary_encode()
        except pa.ArrowNotImplementedError:
            # Lists and structures, which the rules for one cell refuse.
            return np.arange(len(array)), array.to_pylist()
    codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, _cells(array.dictionary)


def _cells(array: pa.Array) -> list[object]:
    if pa.types.is_floating(array.type):
        # As numbers of their own precision, not of Python's.
        return list(array.to_numpy(zero_copy_only=False))
    if not _is_moment(array.type):
        return array.to_pylist()
    zoned = pa.types.is_timestamp(array.type) and array.type.tz is not None
    days, rest, per_day = _days_and_rest(array)
    nanoseconds = rest * (_PER_DAY["ns"] // per_day)
    absent = array.is_null().to_pylist()
    moments = zip(days.tolist(), nanoseconds.tolist(), absent, strict=True)
    return [None if gone else Moment(day, part, zoned) for day, part, gone in moments]


def _is_moment(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)


def _days_and_rest(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Whole days since 1970, what is left of the day, and how much of that a day has."""
    if pa.types.is_date32(array.type):
        days = array.cast(pa.int32()).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return days, np.zeros_like(days), 1
    per_day = _PER_DAY["ms" if pa.types.is_date64(array.type) else array.type.unit]
    counts = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    days, rest = np.divmod(counts, per_day)
    return days, rest, per_day


def _numbers_of_texts(
    values: pd.Series, array: pa.Array, missing_words: frozenset[str]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """As of distinct cells, but fast where all or most are plain numbers."""
    texts = pc.ascii_trim(array, " \t")
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
    try:
        numbers = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        plain = pc.match_substring_regex(texts, _PLAIN_NUMBER)
        numbers = pc.if_else(plain, texts, pa.scalar(None, texts.type)).cast(pa.float64())
    found = np.array(numbers.to_numpy(zero_copy_only=False)) + 0.0
    # Arrow knows more words for NaN than there are for a missing value, and does not know dates.
    rest = np.isnan(found) & texts.is_valid().to_numpy(zero_copy_only=False)
    unreadable = np.zeros(len(found), dtype=bool)
    if rest.any():
        found[rest], unreadable[rest] = _numbers_of_distinct(values[rest], missing_words)
    return found, unreadable


def _numbers_of_distinct(
    values: pd.Series, missing_words: frozenset[str]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers, by the rule for one cell, and which cells hold none."""

    def number(cell: object) -> float | None:
        return np.nan if missing_words and spelling_of(cell) in missing_words else number_of(cell)

    codes, cells = distinct_cells(values)
    numbers = each_cell(values, cells, number)
    none = np.array([number is None for number in numbers])
    return np.array([np.nan if number is None else number for number in numbers])[codes], none[codes]
