"""Guess input columns from a table; what is guessed counts as public, so every guess leaves a note."""

from typing import Any

import numpy as np
import pandas as pd

from fairdp._checks import DataError
from fairdp.data.columns import MISSING, Categorical, Column, Numeric, dates_of, numbers_of, text_of

# A number with at most so many distinct values is taken for a code, not for a quantity.
MAX_CODES = 12
# More features than this from one column are worth a word.
MANY_FEATURES = 100


def infer_columns(frame: pd.DataFrame) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Columns with types, categories and ranges read from the table, and notes on what was left out."""
    columns: list[Column] = []
    notes: list[str] = []
    for name in frame.columns:
        if not isinstance(name, str):
            raise DataError(f"column names must be text, got {name!r}; rename the column.")
        found = _infer_column(name, frame[name])
        if isinstance(found, str):
            notes.append(found)
        else:
            columns.append(found)
            notes.extend(_warning(found))
    return tuple(columns), tuple(notes)


def infer_positive(values: list[object]) -> tuple[str, tuple[str, ...]]:
    """Which of two label values is positive, never by its frequency, and a note where that is a guess."""
    texts = {text_of(value).lower(): text_of(value) for value in values}
    for known in ({"0", "1"}, {"false", "true"}, {"no", "yes"}):
        if set(texts) == known:
            return texts[max(known)], ()
    last = text_of(_sorted(values)[-1])
    return last, (f"the positive label is {last!r}, the last in sort order; name another with positive.",)


def distinct_values(values: pd.Series) -> list[object]:
    """Values that differ as text and are not missing, sorted where they can be compared."""
    try:
        return _sorted(list({text_of(value): value for value in pd.unique(values.dropna())}.values()))
    except TypeError:
        raise DataError(f"column {values.name!r} holds lists or objects; give numbers, text or dates.") from None


def _sorted(values: list[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=text_of)


def _infer_column(name: str, values: pd.Series) -> Column | str:
    """The column, or a note that says why it is left out."""
    distinct = distinct_values(values)
    if len(distinct) + bool(values.isna().any()) < 2:
        return f"column {name!r} is left out: it has the same value in every row."
    if _is_identifier(values, distinct):
        return f"column {name!r} is left out: it has another value in every row, like an identifier."
    if len(distinct) > MAX_CODES and _is_quantity(values):
        return _infer_numeric(name, values)
    texts = [text_of(value) for value in distinct]
    if values.isna().any() and MISSING not in texts:
        texts.append(MISSING)
    return Categorical(name=name, categories=tuple(texts))


def _warning(column: Column) -> list[str]:
    n_features = len(column.feature_names)
    if n_features <= MANY_FEATURES:
        return []
    return [f"column {column.name!r} becomes {n_features} features, one for each value; leave it out or group them."]


def _is_identifier(values: pd.Series, distinct: list[object]) -> bool:
    """Text that differs in every row, or a running number."""
    if not MAX_CODES < len(distinct) == len(values):
        return False
    if pd.api.types.is_integer_dtype(values):
        return int(values.max()) - int(values.min()) + 1 == len(values)
    return not _is_quantity(values)


def _is_quantity(values: pd.Series) -> bool:
    """A number or a date."""
    if pd.api.types.is_bool_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype):
        return False
    if pd.api.types.is_numeric_dtype(values) or pd.api.types.is_datetime64_any_dtype(values):
        return True
    return not (dates_of(values).isna() & values.notna()).any()


def _infer_numeric(name: str, values: pd.Series) -> Numeric:
    numbers = numbers_of(values)
    finite = numbers[np.isfinite(numbers)]
    missing = "indicator" if np.isnan(numbers).any() else "error"
    return Numeric(name=name, low=float(finite.min()), high=float(finite.max()), missing=missing)
