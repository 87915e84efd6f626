"""What the cells of a column are, seen together: for proposals, which say that they have looked at rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from fairdp.data.cells import kind_of, number_of, spelling_of, text_of
from fairdp.data.distinct import distinct_cells, each_cell

# More values than these are no groups where they are numbers.
MOST_GROUPS_OF_NUMBERS = 20


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
    words
        Rows of each word in a column of numbers or dates that has few of them; they are not in ``counts``.
    """

    kind: str
    counts: Mapping[str, int]
    n_missing: int
    whole: bool
    words: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_continuous(self) -> bool:
        """Whether these are numbers or dates of which hardly anybody has the same."""
        return self.kind in ("number", "date") and len(self.counts) > MOST_GROUPS_OF_NUMBERS


def are_counts(numbers: Iterable[str]) -> bool:
    """Whether these are small whole numbers from zero or one on, nearly without gaps, such as one of children.

    >>> are_counts(["0", "1", "2", "4"]), are_counts(["0", "1"]), are_counts(["10", "20", "30"])
    (True, False, False)
    """
    whole = [int(text) if text.isdecimal() else -1 for text in numbers]
    return len(whole) > 2 and 0 <= min(whole) <= 1 and max(whole) < 2 * len(whole)


def observe(values: pd.Series, *, few_words: float = 0.0) -> Observed:
    """Look at each cell of a column by itself; so small a part of words leaves a column of numbers one."""
    codes, cells = distinct_cells(values)
    kinds = np.array(each_cell(values, cells, kind_of))
    rows = np.bincount(np.where(codes < 0, len(cells) - 1, codes), minlength=len(cells))
    present = [int(i) for i in np.flatnonzero(rows) if kinds[i] != "missing"]
    words: list[int] = []
    main = _quantity_with_words({kind: int(rows[kinds == kind].sum()) for kind in {*kinds[present]}}, few_words)
    if main:
        words, present = [i for i in present if kinds[i] == "word"], [i for i in present if kinds[i] == main]
    kind = _common_kind({str(kinds[i]) for i in present})
    text = spelling_of if kind == "word" else text_of
    counts: dict[str, int] = {}
    for i in present:
        counts[text(cells[i])] = counts.get(text(cells[i]), 0) + int(rows[i])
    ordered = sorted(counts, key=_by_number if kind in ("number", "code") else None)
    return Observed(
        kind=kind,
        counts={each: counts[each] for each in ordered},
        n_missing=int(rows[kinds == "missing"].sum()),
        whole=kind == "number" and all(_is_whole(cells[i]) for i in present),
        words={spelling_of(cells[i]): int(rows[i]) for i in words},
    )


def _quantity_with_words(rows: Mapping[str, int], few_words: float) -> str:
    """The kind of a column of numbers or dates that has a few words; empty if it is none."""
    main, *others = sorted(rows, key=lambda kind: -rows[kind]) or [""]
    few = others == ["word"] and rows["word"] <= few_words * (rows[main] + rows["word"])
    return main if main in ("number", "date") and few else ""


def _common_kind(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    return "code" if kinds == {"number", "code"} else "word"


def _by_number(text: str) -> tuple[float, str]:
    return number_of(text) or 0.0, text


def _is_whole(cell: object) -> bool:
    return not isinstance(cell, float | np.floating) and spelling_of(cell).removeprefix("-").isdecimal()
