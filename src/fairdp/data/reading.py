"""The schema of a table from the noisy counts of its columns: nothing here sees a row, so that nothing costs more."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from fairdp._checks import DataError
from fairdp.config.reading import SHAPES as SHAPES_NOISE
from fairdp.data.cells import number_of
from fairdp.data.columns import MISSING, Categorical, Column, Numeric
from fairdp.data.inference import FEW_WORDS, MAX_CODES
from fairdp.data.noisy_tally import NoisyTally
from fairdp.data.observed import are_counts
from fairdp.data.positive import chosen_positive
from fairdp.data.schema import TableSchema
from fairdp.data.tally import SHAPES

READ_WITH_NOISE = (
    "types, categories, ranges and groups were read from the table with noise, which epsilon includes; "
    "give a schema to declare them, and the model has all of epsilon."
)
OTHER = "other"
# Numbers of which so large a part are distinct are identifiers.
_NEARLY_ALL = 0.9
# Codes may leave so small a part of the rows to rare values.
_HARDLY_ANY = 0.02
# Numbers whose largest interval is so many times the middle one have a long tail.
_LONG_TAIL = 20.0
# Chance that noise alone makes some kind or size of some column seem frequent.
_FALSE_SHAPE = 0.01
_DECLARE = "declare it in a schema to use it"


@dataclass(frozen=True, kw_only=True)
class ReadColumn:
    """What is known of one column.

    Parameters
    ----------
    values
        Noisy counts of its frequent values, by number or in the order of the alphabet.
    shapes
        Noisy counts of its kinds and sizes, by their places in `SHAPES`: those that noise alone does not explain.
    n_rows
        Estimated number of rows of the table.
    n_whole
        Estimated number of distinct whole numbers.
    threshold
        Noisy count from which on a value is frequent.
    """

    name: str
    values: Mapping[str, int]
    shapes: Mapping[int, int]
    n_rows: float
    n_whole: float
    threshold: int

    def mass(self, *kinds: str) -> int:
        """Rows of these kinds, as far as they are frequent."""
        return sum(count for place, count in self.shapes.items() if SHAPES[place].kind in kinds)

    @property
    def rest(self) -> float:
        """Estimated rows with rare values, or none."""
        return self.n_rows - sum(self.values.values())

    @property
    def quantity(self) -> str:
        """``number`` or ``date`` if the column holds that and hardly anything else, else empty."""
        kind = max(("number", "date"), key=self.mass)
        few = not self.mass("code", "truth") and self.mass("word") <= FEW_WORDS * self.mass(kind)
        return kind if self.mass(kind) > 0 and few else ""


def schema_from(
    tally: NoisyTally, label: str, sensitive: Sequence[str], positive: object = None
) -> tuple[TableSchema, tuple[str, ...]]:
    """The schema that the noisy counts speak for, and notes on what was left out and why."""
    outcome = _values(tally, label)
    if len(outcome) != 2:
        raise _refused_label(label, outcome, tally.threshold)
    n_rows = float(sum(outcome.values()))
    texts = list(outcome)
    chosen = chosen_positive(positive, texts, label)
    groups = [_groups(_column(tally, name, n_rows)) for name in sensitive]
    found = [_input(_column(tally, name, n_rows)) for name in tally.names if name not in (label, *sensitive)]
    columns = tuple(each for each in found if not isinstance(each, str))
    left_out = tuple(each for each in found if isinstance(each, str))
    if not columns:
        why = f": {left_out[0].removesuffix('.')}" if left_out else ""
        raise DataError(f"the table has no column that can be an input{why}; or use more rows or `epsilon`.")
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
    merged = tuple(f"any other value of {column.name!r} counts as group {column.other!r}." for column in groups)
    return schema, (READ_WITH_NOISE, *merged, *left_out)


def _column(tally: NoisyTally, name: str, n_rows: float) -> ReadColumn:
    place = tally.names.index(name)
    least = _least_shape(tally)
    return ReadColumn(
        name=name,
        values=_values(tally, name),
        shapes={i: int(count) for i, count in enumerate(tally.shapes[place]) if count > least},
        n_rows=n_rows,
        n_whole=float(tally.distinct[place, 0]),
        threshold=tally.threshold,
    )


def _least_shape(tally: NoisyTally) -> float:
    """Count that no noise on any kind or size of any column reaches, but for one table in a hundred."""
    return SHAPES_NOISE * tally.std * NormalDist().inv_cdf(1 - _FALSE_SHAPE / tally.shapes.size)


def _values(tally: NoisyTally, name: str) -> dict[str, int]:
    """Frequent values of a column with their counts, in an order that does not follow the counts."""
    if name not in tally.names:
        raise DataError(f"the table has no column {name!r}; it has {', '.join(tally.names[:12])}.")
    values = tally.values[tally.names.index(name)]
    return {text: values[text] for text in sorted(values, key=_by_number)}


def _by_number(text: str) -> tuple[bool, float, str]:
    number = number_of(text)
    return (number is None, 0.0 if number is None else number, text)


def _refused_label(label: str, values: Mapping[str, int], threshold: int) -> DataError:
    count = f"{len(values)} value{'s' if len(values) != 1 else ''}"
    some = f" ({', '.join(list(values)[:5])})" if values else ""
    return DataError(
        f"label {label!r} has {count} that at least some {threshold} rows share{some}, which is what epsilon lets us "
        "see; fairdp needs exactly two; declare the table in a schema (fairdp schema), or use more rows or `epsilon`."
    )


def _groups(column: ReadColumn) -> Categorical:
    """The frequent values of a protected column, and what all others count as."""
    if not column.values:
        raise DataError(
            f"protected column {column.name!r} has no value that at least some {column.threshold} rows share, like "
            "names or free text; choose another column, or declare its values in a schema (fairdp schema)."
        )
    values = tuple(column.values)
    if OTHER in values:
        return Categorical(name=column.name, categories=values, other=OTHER)
    if column.rest > _surely(column):
        return Categorical(name=column.name, categories=(*values, OTHER), other=OTHER)
    largest = max(values, key=lambda value: column.values[value])
    return Categorical(name=column.name, categories=values, other=largest)


def _surely(column: ReadColumn) -> float:
    """What is left of the rows when its noise, that of every frequent value, hardly ever explains it."""
    return column.threshold * float(np.sqrt(1 + len(column.values) / 4))


def _input(column: ReadColumn) -> Column | str:
    """The column as an input, or a note that says why it is left out."""
    left_out = f"column {column.name!r} is left out:"
    if not column.values and not column.shapes:
        return f"{left_out} too few rows share a value or a range of it; {_DECLARE}."
    if len(column.values) == 1 and column.rest <= _surely(column):
        return f"{left_out} it has the same value in nearly every row; {_DECLARE}."
    kind = column.quantity
    if kind == "number" and column.n_whole > _NEARLY_ALL * column.n_rows:
        return f"{left_out} nearly every row has a number of its own, like an identifier; {_DECLARE}."
    few = len(column.values) <= MAX_CODES and column.rest <= max(_HARDLY_ANY * column.n_rows, _surely(column))
    codes = few and not (kind == "number" and are_counts(text for text in column.values if number_of(text) is not None))
    if kind and not (column.values and codes):
        numeric = _numeric(column, kind)
        if numeric is not None:
            return numeric
    if not column.values:
        return f"{left_out} hardly any two rows share a value, like names, numbers of cases or free text; {_DECLARE}."
    categories = tuple(column.values)
    return Categorical(
        name=column.name, categories=categories if MISSING in categories else (*categories, MISSING), other=MISSING
    )


def _numeric(column: ReadColumn, kind: str) -> Numeric | None:
    """A number with the outer ends of its frequent intervals, or none if zero is the only one."""
    places = [place for place in column.shapes if SHAPES[place].kind == kind]
    low, high = SHAPES[min(places)].low, SHAPES[max(places)].high
    if low == high:
        return None
    counts = np.array([column.shapes[place] for place in places])
    tail = kind == "number" and low >= 0 and high > _LONG_TAIL * max(_middle(places, counts), 1.0)
    transform = "signed_log" if tail else "linear"
    return Numeric(name=column.name, low=low, high=high, transform=transform, missing="indicator")


def _middle(places: Sequence[int], counts: NDArray[np.int64]) -> float:
    """Upper end of the interval of the median row."""
    reached = itertools.accumulate(counts.tolist())
    return next(SHAPES[place].high for place, so_far in zip(places, reached, strict=True) if 2 * so_far >= counts.sum())
