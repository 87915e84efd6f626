"""What one cell of a table says, by itself: its text, its number, its date. No rule here sees a second cell."""

import datetime
import math
import re
from collections.abc import Hashable
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd

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
_NANOSECONDS = 86_400 * 10**9


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


def spelling_of(value: object) -> str:
    """The text of a cell as it stands, without blanks around it; of a value with a type, its only text.

    >>> [spelling_of(value) for value in ("01 ", "1.0", 1, 1.0, True, None, datetime.date(2020, 1, 5))]
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


def text_of(value: object) -> str:
    """The text under which a value is declared and compared: the same for every way to write a number or a date.

    >>> [text_of(value) for value in (1, 1.0, "1.0", "01", "true", "White ", "2020/1/5")]
    ['1', '1', '1', '01', 'True', 'White', '2020-01-05']
    """
    spelling = spelling_of(value)
    # Leading zeros make a code: 01 is not 1.
    return spelling if _PADDED.fullmatch(spelling) and not _MOMENT.fullmatch(spelling) else folded(spelling)


def folded(spelling: str) -> str:
    """Another text that may stand for the same value: a number without leading zeros, a truth value, a date.

    >>> [folded(text) for text in ("01", "+1.50", "TRUE", "2020-01-05T00:00", "1e5", "word")]
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
    spelling = spelling_of(value)
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
    spelling = spelling_of(value)
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
