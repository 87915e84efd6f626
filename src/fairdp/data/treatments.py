"""What became of cells that were not as declared, counted by column: for the data holder, and for nobody else."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fairdp._checks import DataError

# Each with what becomes of such a cell.
_FATES = {
    "missing": "missing",
    "unreadable": "unreadable (counted as missing)",
    "undeclared": "not declared (counted as other, if there is one)",
    "out_of_range": "out of range (moved to the bounds)",
}
KINDS = tuple(_FATES)
# Lines for people; programs get all of it.
_MOST_LINES = 12


@dataclass(frozen=True, kw_only=True)
class Treated:
    """Cells of one column that were not as declared. Each was treated by itself, whatever the others hold.

    Parameters
    ----------
    column
        Its name.
    n_cells
        All cells of the column.
    missing
        Cells that are empty, or hold a word for a missing value.
    unreadable
        Words in a column of numbers, which count as missing.
    undeclared
        Values that are not among the categories, which count as the declared other.
    out_of_range
        Numbers beyond the declared bounds, which are moved to them.
    """

    column: str
    n_cells: int
    missing: int = 0
    unreadable: int = 0
    undeclared: int = 0
    out_of_range: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """Cells of each kind, as far as there are any."""
        return {kind: getattr(self, kind) for kind in KINDS if getattr(self, kind)}

    @property
    def is_mostly_unreadable(self) -> bool:
        """Whether more than half of the cells are words where numbers should be."""
        return 2 * self.unreadable > self.n_cells

    @property
    def is_mostly_out_of_range(self) -> bool:
        """Whether more than half of the cells are beyond the declared bounds, and so can no longer be told apart."""
        return 2 * self.out_of_range > self.n_cells

    def __str__(self) -> str:
        found = ", ".join(f"{count} {_FATES[kind]}" for kind, count in self.counts.items())
        return f"column {self.column!r}: of {self.n_cells} cells {found or 'all are as declared'}."


Tell = Callable[[Treated], None]


def untold(treated: Treated) -> None:
    """For callers who do not ask."""


def summed(parts: Iterable[Treated]) -> tuple[Treated, ...]:
    """One count for each column that has cells to tell of, from those of its batches, in the order of the columns.

    >>> summed([Treated(column="age", n_cells=5, missing=1), Treated(column="age", n_cells=4, missing=2)])[0].missing
    3
    """
    totals: dict[str, dict[str, int]] = {}
    for part in parts:
        total = totals.setdefault(part.column, dict.fromkeys(("n_cells", *KINDS), 0))
        for name in total:
            total[name] += getattr(part, name)
    found = (Treated(column=column, **total) for column, total in totals.items())
    return tuple(each for each in found if each.counts)


def counts_by_column(treated: Iterable[Treated]) -> dict[str, dict[str, int]]:
    """Plain values for programs."""
    return {each.column: each.counts for each in summed(treated)}


def lines_for_holder(treated: Iterable[Treated]) -> list[str]:
    """What to tell people: a line for each column, and one more where hardly anything could be read."""
    found = summed(treated)
    lines = [str(each) for each in found[:_MOST_LINES]]
    if len(found) > _MOST_LINES:
        lines.append(f"{len(found) - _MOST_LINES} more columns have cells that were not as declared.")
    lines += [f"{_mostly_unreadable(each)}." for each in found if each.is_mostly_unreadable]
    return lines + [_mostly_beyond(each) for each in found if each.is_mostly_out_of_range]


def refuse_unreadable(treated: Sequence[Treated]) -> None:
    """Refuse a file in which a column of numbers holds mostly words: it is another column, or written otherwise."""
    for each in summed(treated):
        if each.is_mostly_unreadable:
            raise DataError(f"{_mostly_unreadable(each)}; correct the file or the format.")


def _mostly_beyond(treated: Treated) -> str:
    return (
        f"warning: column {treated.column!r} lies beyond the declared bounds in {treated.out_of_range} of "
        f"{treated.n_cells} cells, which all count as the bound: its unit or time may be another than declared."
    )


def _mostly_unreadable(treated: Treated) -> str:
    return (
        f"column {treated.column!r} holds no number or date in {treated.unreadable} of {treated.n_cells} cells: it is "
        "another column than declared, or written in another format (see `decimal`, `thousands`, `day_first`; in a "
        "DataFrame, numbers and dates must have been read as such)"
    )
