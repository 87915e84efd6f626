"""Guess the schema of a table; what is guessed counts as public, so every guess leaves a note."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from fairdp._checks import DataError
from fairdp.data.columns import MISSING, Categorical, Column, Numeric
from fairdp.data.distinct import readable_numbers
from fairdp.data.observed import Observed, are_counts, observe
from fairdp.data.positive import chosen_positive
from fairdp.data.schema import TableSchema, column_values, refuse_unfilled

READ_FROM_TABLE = (
    "types, categories, ranges and groups were read from the table and count as public; "
    "give a schema to declare them in advance."
)
# A number with at most so many distinct values is taken for a code, unless they count something from zero or one on.
MAX_CODES = 12
# A column of numbers may have so small a part of words; they count as missing.
FEW_WORDS = 0.05
# In so many rows a quantity has the same value twice.
_MANY_ROWS = 1000
# A value that fewer people have may tell who they are.
RARE = 10
# Of more values than these the most frequent are listed.
MOST_CATEGORIES = 100
OTHER, UNKNOWN = "other", "unknown"


def infer_schema(
    frame: pd.DataFrame, label: str, sensitive: Sequence[str], positive: object = None
) -> tuple[TableSchema, tuple[str, ...]]:
    """A schema with types, categories and ranges read from the table, and notes for the user.

    What is read from private records is outside the privacy guarantee: the schema says ``declared=False``.
    """
    sensitive = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    refuse_unfilled(frame, label)
    texts = list(observe(frame[label]).counts)
    if len(texts) != 2:
        some = ", ".join(texts[:5]) + (", …" if len(texts) > 5 else "")
        remedy = "make it binary or choose another column"
        count = f"{len(texts)} value{'s' if len(texts) != 1 else ''}"
        raise DataError(f"label {label!r} has {count} ({some}); fairdp needs exactly two; {remedy}.")
    chosen = chosen_positive(positive, texts, label)
    protected = [_observed_groups(frame, name) for name in sensitive]
    columns, notes = infer_columns(frame.drop(columns=[label, *sensitive]))
    if not columns and notes:
        raise DataError(f"the table has no column that can be an input: {notes[0]}")
    schema = TableSchema(
        columns=columns,
        label=label,
        positive=chosen,
        negative=texts[1 - texts.index(chosen)],
        sensitive=sensitive,
        groups=tuple(column.categories for column in protected),
        others=tuple(column.other for column in protected),
        declared=False,
    )
    return schema, (READ_FROM_TABLE, *notes)


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
    return tuple(columns), tuple(notes)


def refuse_continuous(values: pd.Series) -> None:
    """Refuse a protected column of numbers: a group is what many people share."""
    seen = observe(values)
    if seen.is_continuous:
        raise DataError(
            f"protected column {values.name!r} holds {len(seen.counts)} different numbers, and each would be a group; "
            "put them into a few ranges, such as 18-29 and 30-59, in a column of its own, and name that one."
        )


def _observed_groups(frame: pd.DataFrame, name: str) -> Categorical:
    """The values of a protected column, and a group for people of whom it is not known, where there are any."""
    values = column_values(frame, name)
    refuse_continuous(values)
    seen = observe(values)
    texts = tuple(seen.counts)
    if not seen.n_missing:
        return Categorical(name=name, categories=texts)
    unknown = _named_like(UNKNOWN, texts)
    return Categorical(name=name, categories=(*(text for text in texts if text != unknown), unknown), other=unknown)


def _named_like(word: str, texts: Sequence[str]) -> str:
    """A word, as it stands in the column already if it does."""
    return next((text for text in texts if text.lower() == word), word)


def _infer_column(name: str, values: pd.Series) -> Column | str:
    """The column, or a note that says why it is left out."""
    seen = observe(values, few_words=FEW_WORDS)
    if len(seen.counts) + bool(seen.n_missing) + len(seen.words) < 2:
        return f"column {name!r} is left out: it has the same value in every row."
    if _is_identifier(values, seen):
        return f"column {name!r} is left out: it has another value in every row, like an identifier."
    if _is_quantity(values, seen) and (len(seen.counts) > MAX_CODES or are_counts(seen.counts)):
        return _infer_numeric(name, values, seen)
    if _is_free_text(seen):
        return f"column {name!r} is left out: most rows have a value that hardly anybody shares, like free text."
    return _infer_categorical(name, seen)


def _infer_categorical(name: str, seen: Observed) -> Categorical | str:
    """The frequent values, and what all others count as; missing ones too where they are few."""
    frequent = [text for text, count in seen.counts.items() if count >= RARE]
    if not frequent:
        return f"column {name!r} is left out: no {RARE} rows share a value."
    most = set(sorted(frequent, key=lambda text: (-seen.counts[text], text))[:MOST_CATEGORIES])
    other = _named_like(OTHER, tuple(seen.counts))
    listed = [text for text in seen.counts if text in most - {other, MISSING}]
    missing = [MISSING] if MISSING in most or seen.n_missing >= RARE else []
    return Categorical(name=name, categories=(*listed, other, *missing), other=other)


def _is_identifier(values: pd.Series, seen: Observed) -> bool:
    """Text that differs in every row, a running number, or whole numbers of which many people have one each."""
    if not MAX_CODES < len(seen.counts) == len(values):
        return False
    if seen.whole:
        numbers = [int(text) for text in seen.counts]
        return len(values) >= _MANY_ROWS or max(numbers) - min(numbers) + 1 == len(values)
    return not _is_quantity(values, seen)


def _is_free_text(seen: Observed) -> bool:
    """Very many values, and most rows with one that few others have: as categories they would name people."""
    rare = sum(count for count in seen.counts.values() if count < RARE)
    return len(seen.counts) > MOST_CATEGORIES and 2 * rare > sum(seen.counts.values())


def _is_quantity(values: pd.Series, seen: Observed) -> bool:
    """A number or a date, unless the table itself says that it is a category."""
    stored = values.dtype.pyarrow_dtype if isinstance(values.dtype, pd.ArrowDtype) else None
    coded = isinstance(values.dtype, pd.CategoricalDtype) or (stored is not None and pa.types.is_dictionary(stored))
    return seen.kind in ("number", "date") and not coded


def _infer_numeric(name: str, values: pd.Series, seen: Observed) -> Numeric:
    """Next month somebody may lack a value, whether or not anybody does now."""
    numbers, _ = readable_numbers(values)
    finite = numbers[np.isfinite(numbers)]
    words = tuple(sorted(word for word, count in seen.words.items() if count >= RARE))
    return Numeric(
        name=name, low=float(finite.min()), high=float(finite.max()), missing="indicator", missing_words=words
    )
