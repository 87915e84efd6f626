"""Guess the schema of a table; what is guessed counts as public, so every guess leaves a note."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from fairdp._checks import DataError
from fairdp.data.cells import kind_of, number_of, spelling_of, text_of
from fairdp.data.columns import MISSING, Categorical, Column, Numeric
from fairdp.data.distinct import distinct_cells, each_cell, numbers_of
from fairdp.data.schema import TableSchema, refuse_unfilled

READ_FROM_TABLE = (
    "types, categories, ranges and groups were read from the table and count as public; "
    "give a schema to declare them in advance."
)
# A number with at most so many distinct values is taken for a code, not for a quantity.
MAX_CODES = 12
# In so many rows a quantity has the same value twice.
_MANY_ROWS = 1000
# A value that fewer people have may tell who they are.
RARE = 10
# More features than this from one column are worth a word.
MANY_FEATURES = 100


def infer_schema(
    frame: pd.DataFrame, label: str, sensitive: Sequence[str], positive: object = None
) -> tuple[TableSchema, tuple[str, ...]]:
    """A schema with types, categories and ranges read from the table, and notes for the user.

    What is read from private records is outside the privacy guarantee: the schema says ``declared=False``.
    """
    sensitive = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    texts = _observed_texts(frame, label)
    if len(texts) != 2:
        some = ", ".join(texts[:5]) + (", …" if len(texts) > 5 else "")
        remedy = "make it binary or choose another column"
        count = f"{len(texts)} value{'s' if len(texts) != 1 else ''}"
        raise DataError(f"label {label!r} has {count} ({some}); fairdp needs exactly two; {remedy}.")
    chosen, label_notes = chosen_positive(positive, texts, label)
    groups = tuple(tuple(_observed_texts(frame, name)) for name in sensitive)
    columns, notes = infer_columns(frame.drop(columns=[label, *sensitive]))
    schema = TableSchema(
        columns=columns,
        label=label,
        positive=chosen,
        negative=texts[1 - texts.index(chosen)],
        sensitive=sensitive,
        groups=groups,
        declared=False,
    )
    return schema, (READ_FROM_TABLE, *label_notes, *notes)


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


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What the cells of a column are.

    Parameters
    ----------
    kind
        What all of them are that are not missing: ``truth``, ``number``, ``code`` (numbers, some with leading zeros),
        ``date`` or else ``word``.
    counts
        Rows of each text, in the order of the numbers or of the alphabet. Words keep their spelling; numbers that are
        written in several ways have one text.
    n_missing
        Rows without a value.
    whole
        Whether all are whole numbers that are written as such.
    """

    kind: str
    counts: Mapping[str, int]
    n_missing: int
    whole: bool


def observe(values: pd.Series) -> Observed:
    """Look at each cell of a column by itself."""
    codes, cells = distinct_cells(values)
    kinds = np.array(each_cell(values, cells, kind_of))
    rows = np.bincount(np.where(codes < 0, len(cells) - 1, codes), minlength=len(cells))
    present = [i for i in np.flatnonzero(rows) if kinds[i] != "missing"]
    kind = _common_kind({str(kinds[i]) for i in present})
    text = spelling_of if kind == "word" else text_of
    counts: dict[str, int] = {}
    for i in present:
        counts[text(cells[i])] = counts.get(text(cells[i]), 0) + int(rows[i])
    ordered = sorted(counts, key=_by_number if kind in ("number", "code") else None)
    return Observed(
        kind=kind,
        counts={each: counts[each] for each in ordered},
        n_missing=int(rows.sum() - sum(counts.values())),
        whole=kind == "number" and all(_is_whole(cells[i]) for i in present),
    )


def chosen_positive(positive: object, texts: Sequence[str], label: str) -> tuple[str, tuple[str, ...]]:
    """The value of the label that the user calls positive, or a guess, never by frequency, with a note on it."""
    if positive is None:
        return _guessed_positive(texts)
    for text in (spelling_of(positive), text_of(positive)):
        if text in texts:
            return text, ()
    raise DataError(f"`positive` must be a value of label {label!r} ({', '.join(texts)}), got {text!r}.")


def _guessed_positive(texts: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    known = {text.lower(): text for text in texts}
    for pair in ({"0", "1"}, {"false", "true"}, {"no", "yes"}):
        if set(known) == pair:
            return known[max(pair)], ()
    last = texts[-1]
    return last, (f"the positive label is {last!r}, the last in sort order; name another with positive.",)


def _observed_texts(frame: pd.DataFrame, name: str) -> list[str]:
    """The values of a label or protected column."""
    refuse_unfilled(frame, name)
    return list(observe(frame[name]).counts)


def _common_kind(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    return "code" if kinds == {"number", "code"} else "word"


def _by_number(text: str) -> tuple[float, str]:
    return number_of(text) or 0.0, text


def _is_whole(cell: object) -> bool:
    return not isinstance(cell, float | np.floating) and spelling_of(cell).removeprefix("-").isdecimal()


def _infer_column(name: str, values: pd.Series) -> Column | str:
    """The column, or a note that says why it is left out."""
    seen = observe(values)
    if len(seen.counts) + bool(seen.n_missing) < 2:
        return f"column {name!r} is left out: it has the same value in every row."
    if _is_identifier(values, seen):
        return f"column {name!r} is left out: it has another value in every row, like an identifier."
    if len(seen.counts) > MAX_CODES and _is_quantity(values, seen):
        return _infer_numeric(name, values)
    if _is_free_text(seen):
        return f"column {name!r} is left out: most rows have a value that hardly anybody shares, like free text."
    texts = list(seen.counts)
    if seen.n_missing and MISSING not in texts:
        texts.append(MISSING)
    return Categorical(name=name, categories=tuple(texts))


def _warning(column: Column) -> list[str]:
    n_features = len(column.feature_names)
    if n_features <= MANY_FEATURES:
        return []
    return [f"column {column.name!r} becomes {n_features} features, one for each value; leave it out or group them."]


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
    return len(seen.counts) > MANY_FEATURES and 2 * rare > sum(seen.counts.values())


def _is_quantity(values: pd.Series, seen: Observed) -> bool:
    """A number or a date, unless the table itself says that it is a category."""
    stored = values.dtype.pyarrow_dtype if isinstance(values.dtype, pd.ArrowDtype) else None
    coded = isinstance(values.dtype, pd.CategoricalDtype) or (stored is not None and pa.types.is_dictionary(stored))
    return seen.kind in ("number", "date") and not coded


def _infer_numeric(name: str, values: pd.Series) -> Numeric:
    numbers = numbers_of(values)
    finite = numbers[np.isfinite(numbers)]
    missing = "indicator" if np.isnan(numbers).any() else "error"
    return Numeric(name=name, low=float(finite.min()), high=float(finite.max()), missing=missing)
