"""Infer the schema of a table from a tally of its columns: exact for a proposal, noisy where a private model shows it.

One record adds one to the count of its value, one to the count of its kind and size, and at most one to the number of
distinct values, in every column. The exact tally is the one with noise 0: what is inferred from it counts as public,
and every guess leaves a note. A noisy tally has been paid for, and nothing inferred from it costs more.
"""

import datetime
import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from numpy.typing import NDArray

from fairdp.config import DISTINCT, FEWEST, SHAPES, VALUES
from fairdp.data.cells import canonical_text, days_of, distinct_cells, each_cell, kind_of, number_of
from fairdp.data.columns import MISSING, Categorical, Column, Numeric, chosen_positive
from fairdp.data.schema import PLAIN, TableFormat, TableSchema, column_values, refuse_unfilled
from fairdp.errors import DataError
from fairdp.randomness import RandBelow, discrete_gaussian
from fairdp.releases import OPEN_DOMAIN, release

READ_FROM_TABLE = (
    "types, categories, ranges and groups were read from the table and count as public; "
    "give a schema to declare them in advance."
)
READ_WITH_NOISE = (
    "types, categories, ranges and groups were read from the table with noise, which epsilon includes; "
    "give a schema to declare them, and the model has all of epsilon."
)
PURPOSE = "reading"
OTHER, UNKNOWN = "other", "unknown"
# A number with at most so many distinct values is taken for a code, unless they count something from zero or one on.
MAX_CODES = 12
# More values than these are no groups where they are numbers.
MOST_GROUPS_OF_NUMBERS = 20
# Of more values than these the most frequent are listed.
MOST_CATEGORIES = 100
# A column of numbers may have words in so small a part of the rows with a number; they count as missing.
FEW_WORDS = 0.05
# A value that fewer people have may tell who they are.
RARE = 10
# In so many rows a quantity has the same value twice.
_MANY_ROWS = 1000
# With noise, whole numbers of which so large a part are distinct are identifiers.
_NEARLY_ALL = 0.9
# With noise, codes may leave so small a part of the rows to rare values.
_HARDLY_ANY = 0.02
# Numbers whose largest value is so many times their median have a long tail.
_LONG_TAIL = 20.0
# Chance that noise alone makes some kind or size of some column seem frequent.
_FALSE_SHAPE = 0.01
_DECLARE = "declare it in a schema to use it"
# Numbers are told apart by sign, first digit and power of ten; smaller ones count as zero, larger ones with the last.
_SMALLEST_POWER, _LARGEST_POWER = -3, 8
# Dates are told apart by five years.
_FIRST_YEAR, _LAST_YEAR, _YEARS = 1900, 2050, 5


_HEAD = """\
# For the people in this table a positive decision is: {decision}
# Rates, gaps and certificates are about that one. If it is the other one, exchange "positive" and "negative" below.
#
# A proposal, read from the rows of {table}. Everything below has looked at private data: a category that one
# person has, or a largest value, is that person's. Go through it line by line:
#   - replace bounds and categories by what you know of the column, not of these rows;
#   - remove columns that must not be used; what stands for the label or a group in disguise is your call;
#   - then set "declared: true". Until you do, models trained with this file say that it was read from the table.
# How to write each line: docs/reference/schema.md.
declared: false
"""


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


_DATES = [
    Shape(kind="date", low=days_of(datetime.date(year, 1, 1)), high=days_of(datetime.date(year + _YEARS, 1, 1)))
    for year in range(_FIRST_YEAR, _LAST_YEAR, _YEARS)
]
_KINDS = ("missing", "truth", "code", "word")
ALL_SHAPES = (*(Shape(kind=kind) for kind in _KINDS), *_numbers(), *_DATES)
_ZERO = ALL_SHAPES.index(Shape(kind="number"))
_STARTS = np.array([shape.low for shape in _DATES])


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    """Counts of each value, kind and size in the columns of a table: private while it is exact.

    Parameters
    ----------
    names
        The columns, which are public.
    values
        For each column the rows of every text that stands in it; with noise, of those that reach the ``threshold``.
    shapes
        Rows of each column by `ALL_SHAPES`, shape (n_columns, n_shapes).
    distinct
        Number of different texts of each column: whole numbers, and all others, shape (n_columns, 2).
    std
        Deviation of the noise on the counts of values; zero: exact.
    threshold
        Count from which on a value is frequent.
    """

    names: tuple[str, ...]
    values: tuple[Mapping[str, int], ...]
    shapes: NDArray[np.int64]
    distinct: NDArray[np.int64]
    std: float = 0.0
    threshold: int = RARE


def tally_of(frame: pd.DataFrame) -> Tally:
    """Count every column of a table, whose names must be text."""
    for name in frame.columns:
        if not isinstance(name, str):
            raise DataError(f"column names must be text, got {name!r}; rename the column.")
    columns = [_counted(frame[name]) for name in frame.columns]
    n_whole = [sum(text.removeprefix("-").isdecimal() for text in values) for values, _ in columns]
    return Tally(
        names=tuple(frame.columns),
        values=tuple(values for values, _ in columns),
        shapes=np.array([shapes for _, shapes in columns]),
        distinct=np.array([(n, len(values) - n) for n, (values, _) in zip(n_whole, columns, strict=True)]),
    )


def shape_of(cell: object) -> int:
    """The place of a cell among `ALL_SHAPES`, by itself."""
    kind = kind_of(cell)
    if kind in _KINDS:
        return _KINDS.index(kind)
    number = number_of(cell)
    assert number is not None
    if kind == "date":
        return ALL_SHAPES.index(_DATES[0]) + max(0, int(np.searchsorted(_STARTS, number, side="right")) - 1)
    return _ZERO + _steps_from_zero(number)


def _steps_from_zero(number: float) -> int:
    """Number of intervals that a number lies above the one of zero, or below it."""
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
        if _KINDS[0] != ALL_SHAPES[places[i]].kind:
            text = canonical_text(cells[i])
            values[text] = values.get(text, 0) + int(rows[i])
    return values, np.bincount(places, weights=rows, minlength=len(ALL_SHAPES)).astype(np.int64)


def released_tally(tally: Tally, *, std: float, threshold: int, below: Callable[[str], RandBelow]) -> Tally:
    """Add noise to all counts, and keep of the values those that reach the threshold.

    ``below`` gives chance for a purpose, which names the counts too: where it follows from a seed, other counts must
    not meet the same noise.
    """
    # In an order that does not follow the rows.
    cells = np.array(
        [(place, text, count) for place, counts in enumerate(tally.values) for text, count in sorted(counts.items())],
        dtype=OPEN_DOMAIN,
    )
    rand_below = below(f"{PURPOSE} {_digest(cells, tally)} at {std}")

    def noisy(exact: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
        drawn = [discrete_gaussian(factor * std, rand_below) for _ in range(exact.size)]
        return exact + np.array(drawn, dtype=np.int64).reshape(exact.shape)

    def left(exact: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
        scale = factor * std
        return release(noisy(exact, factor), purpose=PURPOSE, law="discrete_gaussian", scale=scale, exact=exact)

    # What fewer people have can reach no threshold; others do not change its noise.
    candidates = cells[cells["count"] >= FEWEST]
    candidates["count"] = noisy(candidates["count"], VALUES)
    frequent = candidates[candidates["count"] >= threshold]
    found = release(frequent, purpose=PURPOSE, law="discrete_gaussian", scale=VALUES * std, exact=cells)
    values: list[dict[str, int]] = [{} for _ in tally.names]
    for place, text, count in found.tolist():
        values[place][text] = count
    return Tally(
        names=tally.names,
        values=tuple(values),
        shapes=left(tally.shapes, SHAPES),
        distinct=left(tally.distinct, DISTINCT),
        std=std,
        threshold=threshold,
    )


def _digest(cells: NDArray[np.void], tally: Tally) -> str:
    """A name of all counts."""
    digest = hashlib.sha256(repr((tally.names, cells.tolist())).encode())
    digest.update(tally.shapes.tobytes() + tally.distinct.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class ColumnTally:
    """One column of a tally.

    Parameters
    ----------
    values
        Counts of its values, or with noise of the frequent ones, by number or in the order of the alphabet.
    shapes
        Counts of its kinds and sizes, by their places in `ALL_SHAPES`: those that noise alone does not explain.
    n_rows
        Rows of the table, as far as they are known.
    n_whole
        Number of distinct whole numbers.
    threshold
        Count from which on a value is frequent.
    exact
        Whether no noise is on any of this, and all values are known.
    """

    name: str
    values: Mapping[str, int]
    shapes: Mapping[int, int]
    n_rows: float
    n_whole: float
    threshold: int
    exact: bool

    def mass(self, *kinds: str) -> int:
        """Rows of these kinds, as far as they are frequent."""
        return sum(count for place, count in self.shapes.items() if ALL_SHAPES[place].kind in kinds)

    @property
    def rest(self) -> float:
        """Rows without any of the values: it is missing there or, with noise, may be rare."""
        return self.n_rows - sum(self.values.values())

    @property
    def margin(self) -> float:
        """Rows that may seem left over by the noise on every frequent value; hardly ever more."""
        return 0.0 if self.exact else self.threshold * math.sqrt(1 + len(self.values) / 4)

    @property
    def quantity(self) -> str:
        """``number`` or ``date`` if the column holds that and hardly anything else, else empty."""
        kind = max(("number", "date"), key=self.mass)
        others = self.mass("number", "date", "code", "truth") - self.mass(kind)
        few_words = self.mass("word") <= FEW_WORDS * self.mass(kind)
        return kind if self.mass(kind) > 0 and not others and few_words else ""

    @property
    def words(self) -> dict[str, int]:
        """Rows of each word in a column of numbers or dates."""
        return {text: count for text, count in self.values.items() if kind_of(text) == "word"}


def column_tally(tally: Tally, name: str, n_rows: float) -> ColumnTally:
    """All that is known of a column, in an order that does not follow the counts."""
    if name not in tally.names:
        raise DataError(f"the table has no column {name!r}; it has {', '.join(tally.names[:12])}.")
    place = tally.names.index(name)
    values = tally.values[place]
    # A count that no noise on any kind or size of any column reaches, but for one table in a hundred.
    least = SHAPES * tally.std * NormalDist().inv_cdf(1 - _FALSE_SHAPE / tally.shapes.size)
    return ColumnTally(
        name=name,
        values={text: values[text] for text in sorted(values, key=_by_number)},
        shapes={i: int(count) for i, count in enumerate(tally.shapes[place]) if count > least},
        n_rows=n_rows,
        n_whole=float(tally.distinct[place, 0]),
        threshold=tally.threshold,
        exact=tally.std == 0,
    )


def infer_schema(
    frame: pd.DataFrame, label: str, sensitive: Sequence[str], positive: object = None
) -> tuple[TableSchema, tuple[str, ...]]:
    """A schema with types, categories and ranges read from the table as it stands, and notes for the user.

    What is read from private records is outside the privacy guarantee: the schema says ``declared=False``.
    """
    return _schema_of(frame, tally_of(frame), label, sensitive, positive)


def _schema_of(
    frame: pd.DataFrame, tally: Tally, label: str, sensitive: Sequence[str], positive: object
) -> tuple[TableSchema, tuple[str, ...]]:
    sensitive = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    refuse_unfilled(frame, label)
    for name in sensitive:
        column_values(frame, name)
    stored = {name: getattr(frame[name].dtype, "pyarrow_dtype", None) for name in tally.names}
    categorical = {
        name
        for name, kind in stored.items()
        if isinstance(frame[name].dtype, pd.CategoricalDtype) or (kind is not None and pa.types.is_dictionary(kind))
    }
    return schema_from(tally, label, sensitive, positive, categorical=categorical)


def schema_from(
    tally: Tally, label: str, sensitive: Sequence[str], positive: object = None, *, categorical: Collection[str] = ()
) -> tuple[TableSchema, tuple[str, ...]]:
    """The schema that the counts speak for, and notes on what was left out and why.

    ``categorical`` are columns of which the table itself says that they hold categories, though written as numbers.
    """
    outcome = column_tally(tally, label, 0.0).values
    if len(outcome) != 2:
        raise _refused_label(label, list(outcome), tally)
    n_rows, texts = float(sum(outcome.values())), list(outcome)
    chosen = chosen_positive(positive, texts, label)
    groups = [_groups(column_tally(tally, name, n_rows)) for name in sensitive]
    inputs = [name for name in tally.names if name not in (label, *sensitive)]
    found = [_input(column_tally(tally, name, n_rows), categorical=name in categorical) for name in inputs]
    columns = tuple(each for each in found if not isinstance(each, str))
    left_out = tuple(each for each in found if isinstance(each, str))
    if not columns:
        why = f": {left_out[0].removesuffix('.')}" if left_out else ""
        remedy = "" if tally.std == 0 else "; or use more rows or `epsilon`"
        raise DataError(f"the table has no column that can be an input{why}{remedy}.")
    schema = TableSchema(
        columns=columns,
        label=label,
        positive=chosen,
        negative=texts[1 - texts.index(chosen)],
        sensitive=tuple(sensitive),
        groups=tuple(column.categories for column in groups),
        others=tuple(column.other for column in groups),
        declared=False,
    )
    if tally.std == 0:
        return schema, (READ_FROM_TABLE, *left_out)
    merged = (f"other values of {column.name!r} are assigned to group {column.other!r}." for column in groups)
    return schema, (READ_WITH_NOISE, *merged, *left_out)


def are_counts(numbers: Iterable[str]) -> bool:
    """True for small whole numbers from zero or one on, nearly without gaps, such as one of children.

    >>> are_counts(["0", "1", "2", "4"]), are_counts(["0", "1"]), are_counts(["10", "20", "30"])
    (True, False, False)
    """
    whole = [int(text) if text.isdecimal() else -1 for text in numbers]
    return len(whole) > 2 and 0 <= min(whole) <= 1 and max(whole) < 2 * len(whole)


def refuse_continuous(column: ColumnTally) -> None:
    """Refuse a protected column of numbers: a group is what many people share."""
    n_numbers = len(column.values) - len(column.words)
    if column.quantity and n_numbers > MOST_GROUPS_OF_NUMBERS:
        raise DataError(
            f"protected column {column.name!r} holds {n_numbers} different numbers, and each would be a group; "
            "put them into a few ranges, such as 18-29 and 30-59, in a column of its own, and name that one."
        )


def _by_number(text: str) -> tuple[bool, float, str]:
    number = number_of(text)
    return (number is None, 0.0 if number is None else number, text)


def _refused_label(label: str, texts: Sequence[str], tally: Tally) -> DataError:
    count = f"{len(texts)} value{'s' if len(texts) != 1 else ''}"
    some = f" ({', '.join(texts[:5])}{', …' if len(texts) > 5 else ''})" if texts else ""
    if tally.std == 0:
        remedy = "make it binary or choose another column"
        return DataError(f"label {label!r} has {count}{some}; fairdp needs exactly two; {remedy}.")
    return DataError(
        f"label {label!r} has {count} that at least some {tally.threshold} rows share{some}, which is what epsilon "
        "lets us see; fairdp needs exactly two; declare the table in a schema (fairdp schema), or use more rows or "
        "`epsilon`."
    )


def _groups(column: ColumnTally) -> Categorical:
    """The values of a protected column, with noise the frequent ones, and what everybody else counts as."""
    values = tuple(column.values)
    if column.exact:
        refuse_continuous(column)
        if not column.rest:
            return Categorical(name=column.name, categories=values)
        unknown = _named_like(UNKNOWN, values)
        listed = (text for text in values if text != unknown)
        return Categorical(name=column.name, categories=(*listed, unknown), other=unknown)
    if not values:
        raise DataError(
            f"protected column {column.name!r} has no value that at least some {column.threshold} rows share, like "
            "names or free text; choose another column, or declare its values in a schema (fairdp schema)."
        )
    if OTHER in values:
        return Categorical(name=column.name, categories=values, other=OTHER)
    if column.rest > column.margin:
        return Categorical(name=column.name, categories=(*values, OTHER), other=OTHER)
    largest = max(values, key=lambda value: column.values[value])
    return Categorical(name=column.name, categories=values, other=largest)


def _named_like(word: str, texts: Sequence[str]) -> str:
    """A word, as it stands in the column already if it does."""
    return next((text for text in texts if text.lower() == word), word)


def _input(column: ColumnTally, *, categorical: bool) -> Column | str:
    """The column as an input, or a note that says why it is left out."""
    left_out = f"column {column.name!r} is left out:"
    every, remedy = ("every row", "") if column.exact else ("nearly every row", f"; {_DECLARE}")
    if not column.values and not column.shapes:
        return f"{left_out} too few rows share a value or a range of it{remedy}."
    if len(column.values) + (column.rest > column.margin) < 2 and (column.values or column.exact):
        return f"{left_out} it has the same value in {every}{remedy}."
    kind = "" if categorical else column.quantity
    if _is_identifier(column, kind):
        return f"{left_out} it has another value in {every}, like an identifier{remedy}."
    numbers = [text for text in column.values if number_of(text) is not None]
    # All values are known where there is no noise; with it, rare ones may be the most.
    known = column.exact or column.rest <= max(_HARDLY_ANY * column.n_rows, column.margin)
    codes = known and 0 < len(numbers) <= MAX_CODES and not (kind == "number" and are_counts(numbers))
    numeric = _numeric(column, kind) if kind and not codes else None
    if numeric is not None:
        return numeric
    if column.exact:
        rare = sum(count for count in column.values.values() if count < column.threshold)
        if len(column.values) > MOST_CATEGORIES and 2 * rare > sum(column.values.values()):
            return f"{left_out} most rows have a value that hardly anybody shares, like free text."
        return _exact_categories(column) or f"{left_out} no {column.threshold} rows share a value."
    if not column.values:
        return f"{left_out} hardly any two rows share a value, like names, numbers of cases or free text{remedy}."
    # Whatever is rare counts as missing: how much of it there is was not asked.
    categories = tuple(column.values)
    return Categorical(
        name=column.name, categories=categories if MISSING in categories else (*categories, MISSING), other=MISSING
    )


def _exact_categories(column: ColumnTally) -> Categorical | None:
    """The frequent values, and what all others count as; missing ones too where they are few."""
    counts = column.values
    frequent = [text for text, count in counts.items() if count >= column.threshold]
    if not frequent:
        return None
    most = set(sorted(frequent, key=lambda text: (-counts[text], text))[:MOST_CATEGORIES])
    other = _named_like(OTHER, tuple(counts))
    listed = [text for text in counts if text in most - {other, MISSING}]
    missing = [MISSING] if MISSING in most or column.rest >= column.threshold else []
    return Categorical(name=column.name, categories=(*listed, other, *missing), other=other)


def _is_identifier(column: ColumnTally, kind: str) -> bool:
    """Whole numbers of which nearly everybody has one; where all values are known, also text, and few running numbers.

    Without noise every row must have its own value, and in few rows whole numbers must run on without a gap: there a
    quantity may differ in every row too.
    """
    if not column.exact:
        return kind == "number" and column.n_whole > _NEARLY_ALL * column.n_rows
    if not MAX_CODES < len(column.values) == column.n_rows:
        return False
    if column.n_whole < column.n_rows:
        return not kind
    numbers = [int(text) for text in column.values]
    return column.n_rows >= _MANY_ROWS or max(numbers) - min(numbers) + 1 == column.n_rows


def _numeric(column: ColumnTally, kind: str) -> Numeric | None:
    """A number, or None if zero is the only one.

    Bounds are the smallest and largest one or, with noise, the outer ends of the frequent intervals. Next month
    somebody may lack a value, whether or not anybody does now.
    """
    words: tuple[str, ...] = ()
    if column.exact:
        found = {text: count for text, count in column.values.items() if kind_of(text) == kind}
        numbers = np.repeat([number_of(text) or 0.0 for text in found], list(found.values()))
        finite = numbers[np.isfinite(numbers)]
        if not finite.size:
            return None
        low, high, middle = float(finite.min()), float(finite.max()), float(np.median(numbers))
        words = tuple(sorted(word for word, count in column.words.items() if count >= column.threshold))
    else:
        places = [place for place in column.shapes if ALL_SHAPES[place].kind == kind]
        reached = np.cumsum([column.shapes[place] for place in places])
        low, high = ALL_SHAPES[places[0]].low, ALL_SHAPES[places[-1]].high
        middle = ALL_SHAPES[places[int(np.argmax(2 * reached >= reached[-1]))]].high
    if low == high:
        return None
    tail = kind == "number" and low >= 0 and high > _LONG_TAIL * max(middle, 1.0)
    transform = "signed_log" if tail else "linear"
    return Numeric(name=column.name, low=low, high=high, transform=transform, missing="indicator", missing_words=words)


def proposed_schema(
    frame: pd.DataFrame,
    *,
    table: str,
    label: str,
    sensitive: tuple[str, ...],
    positive: object,
    written: TableFormat = PLAIN,
) -> str:
    """YAML with comments, and with the format in which the table was read; `read_schema` reads it."""
    tally = tally_of(frame)
    schema, notes = _schema_of(frame, tally, label, sensitive, positive)
    seen = {name: column_tally(tally, name, len(frame)) for name in tally.names}
    outcome = {"label": schema.label, "positive": schema.positive, "negative": schema.negative}
    decision = f"{schema.label} = {schema.positive}"
    lines = [_HEAD.format(table=table, decision=" ".join(decision.split())), _yaml(outcome)]
    if written != PLAIN:
        lines.append(f"format: {_flow(written.to_dict())}\n")
    lines.append("sensitive:\n")
    lines += [_protected(column, seen[column.name]) for column in schema.protected]
    lines.append(_groups_note(schema, frame))
    lines.append("columns:\n")
    lines += [_proposed(column, seen[column.name]) for column in schema.columns]
    lines += [f"# {note}\n" for note in notes if note != READ_FROM_TABLE]
    return "".join(lines)


def _protected(column: Categorical, seen: ColumnTally) -> str:
    entry = {"name": column.name, "groups": list(column.categories)} | ({"other": column.other} if column.other else {})
    line = f"  - {_flow(entry)}\n"
    if column.other:
        line += f"    # Whoever has no value here, or another one, is in the group {column.other!r}.\n"
    rare = [text for text in column.categories if text != column.other and seen.values.get(text, 0) < RARE]
    if not rare:
        return line
    shown = ", ".join(rare[:5]) + (", …" if len(rare) > 5 else "")
    return line + f"    # Fewer than {RARE} rows each: {shown}. Whoever reads this file learns that they are there.\n"


def _groups_note(schema: TableSchema, frame: pd.DataFrame) -> str:
    """Groups that are too small to learn from or to certify, with their sizes."""
    codes, names = schema.encode_groups(frame)
    sizes = np.bincount(codes, minlength=len(names))
    small = [f"{name!r} {size}" for name, size in zip(names, sizes, strict=True) if size < 50 * RARE]
    if not small:
        return ""
    return (
        f"  # Small groups: {', '.join(small)} rows. How they are treated may be hidden by noise, and the smaller\n"
        "  # they are, the less a certificate says (fairdp plan). To merge them, list fewer values and add, for\n"
        "  # instance, 'other: rest' with 'rest' among them, which others then count as.\n"
    )


def _proposed(column: Column, seen: ColumnTally) -> str:
    if isinstance(column, Numeric):
        return _proposed_numeric(column, seen)
    assert isinstance(column, Categorical)
    entry = {"name": column.name, "type": "categorical", "categories": list(column.categories), "other": column.other}
    line = f"  - {_flow(entry)}\n"
    merged = [count for text, count in seen.values.items() if text not in column.categories]
    if not merged:
        return line
    several = f"{len(merged)} more values" if len(merged) > 1 else "One more value"
    share = f"{100 * sum(merged) / seen.n_rows:.2g} % of the rows"
    return f"{line}    # {several}, in {share}, and any that is new, count as {column.other!r}.\n"


def _proposed_numeric(column: Numeric, seen: ColumnTally) -> str:
    entry: dict[str, object] = {"name": column.name, "type": "numeric"}
    if seen.quantity == "date":
        entry |= {"low": _date(column.low, -1), "high": _date(column.high, 1)}
    else:
        entry |= {"low": round_number(column.low, up=False), "high": round_number(column.high, up=True)}
        if column.transform != "linear":
            entry["transform"] = column.transform
    entry["missing"] = column.missing
    if column.missing_words:
        entry["missing_words"] = list(column.missing_words)
    line = f"  - {_flow(entry)}\n"
    if seen.words:
        share = f"{100 * sum(seen.words.values()) / seen.n_rows:.2g} % of the rows"
        line += f"    # Words in place of a number, in {share}, count as missing.\n"
    return line


def _date(days: float, years: int) -> datetime.date:
    """The first of January around a date, outwards: a birthday is a person's, a year is not."""
    year = (datetime.date(1970, 1, 1) + datetime.timedelta(days=math.floor(days))).year
    return datetime.date(year + (years if years > 0 else 0), 1, 1)


def round_number(value: float, *, up: bool) -> float:
    """The next number with one significant digit, so that a bound is nobody's value.

    >>> [round_number(v, up=True) for v in (90, 99_999, 0.37, 0, -17)]
    [90.0, 100000.0, 0.4, 0.0, -10.0]
    >>> round_number(17, up=False), round_number(-17, up=False)
    (10.0, -20.0)
    """
    if value == 0:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(abs(value)))
    steps = math.ceil(value / unit) if up else math.floor(value / unit)
    return float(f"{steps * unit:.1g}") if steps else 0.0


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000)


def _flow(value: Any) -> str:
    """On one line; dates and words that YAML would take for something else come out quoted or plain, as needed."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=True, width=10**9).strip()
