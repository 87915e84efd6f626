"""What a schema file says, entry by entry: each in the type it must have, or one line that says where it has not."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from reprlib import Repr
from typing import Any

from fairdp._checks import DataError
from fairdp.data.cells import days_of, spelling_of
from fairdp.data.columns import Binned, Categorical, Column, Numeric, OtherThan

_SHOWN = Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 200
_SHOWN.maxlist = _SHOWN.maxtuple = _SHOWN.maxdict = _MOST_NAMES = 12

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
    needed = [field.name for field in fields(kind) if field.default is MISSING]
    where = f"column {shown(entry.get('name'))}"
    check_keys(where, entry, allowed=("type", *allowed), required=needed)
    values = {key: _entry(f"{where}: {key}", key, entry[key]) for key in allowed if key in entry}
    return kind(**values)


def _entry(where: str, key: str, value: Any) -> Any:
    """One value of a column's description, in the type its field has."""
    if key in ("low", "high"):
        return _number(where, value)
    if key == "edges":
        return tuple(_number(where, edge) for edge in listed(where, value))
    if key == "name":
        return entry_name(where, value)
    return texts_of(where, value) if key in ("categories", "missing_words") else entry_text(where, value)


def _number(where: str, value: Any) -> float:
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
    return spelling_of(value)


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
