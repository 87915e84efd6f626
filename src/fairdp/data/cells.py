"""The cells of a table, each by itself: its text, its number, its date. No rule here sees a second cell.

The rules for columns give what those for one cell would, computed once for equal cells or in Arrow's memory.
"""

import datetime
import math
import re
from collections.abc import Callable, Hashable, Sequence
from decimal import Decimal
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairdp.errors import DataError

# Words that stand for a missing value in whatever column they are, unless the schema declares the word itself.
MISSING_WORDS = frozenset(
    {"", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NULL", "null", "None", "NaT", "NaN", "nan"}
    | {"-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
)
_TRUTH = {"True": True, "true": True, "TRUE": True, "False": False, "false": False, "FALSE": False}
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity))")
# Without an exponent: 1e5 and 0e12 are codes as often as they are numbers.
_DECIMAL = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?")
_PADDED = re.compile(r"[+-]?0[0-9].*")
_MOMENT = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})|([-/.])([0-9]{1,2})\3([0-9]{1,2}))"
    r"(?:[T ]([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:\.([0-9]{1,9}))?)?)?(?: ?(Z|[+-][0-9]{2}(?::?[0-9]{2})?))?)?"
)
# What Arrow and `number_of` read alike, in every version of Arrow.
_PLAIN_NUMBER = r"^-?[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,2})?$"
_PER_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_NANOSECONDS = _PER_DAY["ns"]

_T = TypeVar("_T")


class Moment(NamedTuple):
    """A date or a time: whole days since 1970-01-01, nanoseconds of the day, and whether a zone (UTC) is known."""

    days: int
    nanoseconds: int
    zoned: bool

    def __str__(self) -> str:
        date = str(np.datetime64(self.days, "D"))
        if not self.nanoseconds and not self.zoned:
            return date
        seconds, rest = divmod(self.nanoseconds, 10**9)
        part = f".{rest:09d}".removesuffix("000") if rest else ""
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return f"{date} {clock}{part}{'+00:00' if self.zoned else ''}"

    @property
    def number(self) -> float:
        """Days since 1970-01-01, to the same bits whatever unit the time was stored in."""
        return self.days + self.nanoseconds / _NANOSECONDS


def raw_text(value: object) -> str:
    """The text of a cell as it stands, without blanks around it; of a value with a type, its only text.

    >>> [raw_text(value) for value in ("01 ", "1.0", 1, 1.0, True, None, datetime.date(2020, 1, 5))]
    ['01', '1.0', '1', '1', 'True', '', '2020-01-05']

    Raises
    ------
    TypeError
        If the value is no number, text or date.
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    # numpy counts durations among the whole numbers.
    if isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return _float_text(value)
    if isinstance(value, Decimal):
        return "" if value.is_nan() else _folded(f"{value:f}")
    if value is None or value is pd.NA or value is pd.NaT:
        return ""
    if isinstance(value, datetime.date | np.datetime64):
        return str(_moment_of_date(value) or "")
    if not isinstance(value, Moment) and (not isinstance(value, Hashable) or isinstance(value, bytes | tuple)):
        raise TypeError(type(value))
    return str(value).strip()


def canonical_text(value: object) -> str:
    """The text under which a value is declared and compared: the same for every way to write a number or a date.

    >>> [canonical_text(value) for value in (1, 1.0, "1.0", "01", "true", "White ", "2020/1/5")]
    ['1', '1', '1', '01', 'True', 'White', '2020-01-05']
    """
    spelling = raw_text(value)
    # Leading zeros make a code: 01 is not 1.
    return spelling if _PADDED.fullmatch(spelling) and not _MOMENT.fullmatch(spelling) else normalized(spelling)


def normalized(spelling: str) -> str:
    """Another text that may stand for the same value: a number without leading zeros, a truth value, a date.

    >>> [normalized(text) for text in ("01", "+1.50", "TRUE", "2020-01-05T00:00", "1e5", "word")]
    ['1', '1.5', 'True', '2020-01-05', '1e5', 'word']
    """
    if spelling in _TRUTH:
        return str(_TRUTH[spelling])
    # Most words are settled by their first letter.
    if not spelling[:1].isdigit() and spelling[:1] not in ("+", "-", "."):
        return spelling
    moment = moment_of(spelling)
    return str(moment) if moment is not None else _folded(spelling)


def number_of(value: object) -> float | None:
    """The number that a cell holds: NaN if the value is missing, a date in days, 1 and 0 for truth values, else None.

    >>> [number_of(value) for value in ("1e3", " .5", "TRUE", "1970-01-11", "1_000", "NA")]
    [1000.0, 0.5, 1.0, 10.0, None, nan]
    """
    if isinstance(value, int | float | np.integer | np.floating | np.bool_) and not isinstance(value, np.timedelta64):
        try:
            # Adding zero makes −0 the same as 0.
            return float(value) + 0.0
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    spelling = raw_text(value)
    if spelling in MISSING_WORDS:
        return math.nan
    if _NUMBER.fullmatch(spelling):
        return float(spelling) + 0.0
    if spelling in _TRUTH:
        return float(_TRUTH[spelling])
    moment = moment_of(spelling)
    return None if moment is None else moment.number


def kind_of(value: object) -> str:
    """``missing``, ``truth``, ``number``, ``code`` (a number with leading zeros), ``date`` or ``word``."""
    spelling = raw_text(value)
    if spelling in MISSING_WORDS:
        return "missing"
    if spelling in _TRUTH:
        return "truth"
    if _NUMBER.fullmatch(spelling):
        return "code" if _PADDED.fullmatch(spelling) else "number"
    return "word" if moment_of(spelling) is None else "date"


def moment_of(spelling: str) -> Moment | None:
    """A date as in ISO 8601, with or without a time and a zone; None if the text is none."""
    match = _MOMENT.fullmatch(spelling)
    if match is None:
        return None
    year, only_month, _, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        date = datetime.date(int(year), int(only_month or month), int(day or 1))
        clock = datetime.time(int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return None
    seconds = clock.hour * 3600 + clock.minute * 60 + clock.second - _offset(zone or "Z")
    nanoseconds = seconds * 10**9 + int((fraction or "").ljust(9, "0"))
    days, rest = divmod(nanoseconds, _NANOSECONDS)
    return Moment(date.toordinal() - datetime.date(1970, 1, 1).toordinal() + days, rest, zone is not None)


def days_of(date: datetime.date) -> float:
    """Days from 1970-01-01 to a date."""
    return float((datetime.date(date.year, date.month, date.day) - datetime.date(1970, 1, 1)).days)


def _offset(zone: str) -> int:
    """Seconds that a zone is before UTC."""
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (-1 if zone[0] == "-" else 1) * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)


def _moment_of_date(value: datetime.date | np.datetime64) -> Moment | None:
    """None for the time that is no time."""
    if not isinstance(value, datetime.datetime) and isinstance(value, datetime.date):
        return Moment(value.toordinal() - datetime.date(1970, 1, 1).toordinal(), 0, False)
    time = pd.Timestamp(value)
    if pd.isna(time):
        return None
    utc = time if time.tzinfo is None else time.tz_convert("UTC")
    nanoseconds = (utc.hour * 3600 + utc.minute * 60 + utc.second) * 10**9 + utc.microsecond * 1000 + utc.nanosecond
    days = int(utc.to_datetime64().astype("datetime64[D]").astype(np.int64))
    return Moment(days, nanoseconds, time.tzinfo is not None)


def _float_text(value: float | np.floating) -> str:
    number = float(value)
    if math.isnan(number):
        return ""
    if number.is_integer():
        return str(int(number))
    # A number of single precision has a short text of its own.
    return str(value) if isinstance(value, np.float32 | np.float16) else repr(number)


def _folded(spelling: str) -> str:
    """A number that is written without an exponent, in the one way that floats are written; any other text as it is."""
    match = _DECIMAL.fullmatch(spelling)
    if match is None or not (match[2] or match[3]) or math.isinf(float(spelling)):
        return spelling
    sign, whole, fraction = match[1], match[2].lstrip("0"), (match[3] or "").rstrip("0")
    if fraction:
        return _float_text(float(spelling))
    # Digit by digit: a float would change numbers above 2**53.
    return f"{'-' if sign == '-' and whole else ''}{whole or '0'}"


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
    return np.array(each_cell(values, cells, raw_text), dtype=object)[codes].tolist()


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
        held, row = raw_text(values.iloc[positions[0]]), first_row(positions, values.index)
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
    """The values of a rule for each cell; things that are no cells are refused."""
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
    nanoseconds = rest * (_NANOSECONDS // per_day)
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
        return np.nan if missing_words and raw_text(cell) in missing_words else number_of(cell)

    codes, cells = distinct_cells(values)
    numbers = each_cell(values, cells, number)
    none = np.array([number is None for number in numbers])
    return np.array([np.nan if number is None else number for number in numbers])[codes], none[codes]
