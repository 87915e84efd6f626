"""What is public about the encoded inputs of a table."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from fairdp.data.columns import Column, Numeric


@dataclass(frozen=True, kw_only=True)
class EncodedColumns:
    """What is public about the inputs of a table: how many columns they come from, and which inputs are numbers.

    ``zeros`` says where zero lies on the scale of each number, ``n_indicators`` how many numbers have a second input
    that is one where the value is missing.
    """

    n_columns: int
    numeric: tuple[int, ...]
    zeros: tuple[float, ...]
    n_indicators: int

    @classmethod
    def of(cls, columns: Sequence[Column]) -> "EncodedColumns":
        """The positions of the numbers among the inputs that these columns become."""
        starts = itertools.accumulate((len(column.feature_names) for column in columns), initial=0)
        numbers = {start: column for start, column in zip(starts, columns, strict=False) if isinstance(column, Numeric)}
        return cls(
            n_columns=len(columns),
            numeric=tuple(numbers),
            zeros=tuple(column.zero for column in numbers.values()),
            n_indicators=sum(column.missing == "indicator" for column in numbers.values()),
        )

    @property
    def most_squares(self) -> float:
        """Squared norm, at most, of a row where a category is one entry, and a number hats on two scales and a bin."""
        return float(self.n_columns + 2 * len(self.numeric) + self.n_indicators)
