"""Records, labels and protected groups, checked once and passed on as one thing."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp._checks import DataError
from fairdp.data.stored_rows import StoredRows

# Records that are inputs at once, where all are gone through, are a multiple of the first number, at most the second,
# and so many bytes. Models compute so many rows of tables, or fewer images, at a time: their sums do not depend on it.
BATCH, MOST_BATCH, _MOST_BYTES = 2**13, 2**17, 2**26


def bytes_of(values: NDArray[Any] | StoredRows) -> Iterator[memoryview]:
    """The bytes of values of records, some at a time: of rows their inputs, of codes wide ones, however they are kept.

    >>> b"".join(bytes_of(np.array([1], dtype=np.int8))).hex()
    '0100000000000000'
    """
    for start in range(0, len(values), BATCH):
        part = np.asarray(values[start : start + BATCH])
        if np.issubdtype(part.dtype, np.signedinteger):
            part = part.astype(np.int64, copy=False)
        yield np.ascontiguousarray(part).data


@dataclass(frozen=True, eq=False)
class GroupedData:
    """Features, binary labels and group codes of the same records.

    Printing it shows shapes only: what it holds is private.

    Parameters
    ----------
    X
        Features, shape (n_samples, n_features) or (n_samples, channels, height, width), float32; or rows of a table
        that is larger than memory, which `batches` and `StoredRows.at` read.
    y
        Labels, 0 or 1, shape (n_samples,). Those of stored rows are narrow, and so are their groups: sums overflow.
    groups
        Group codes 0 … K − 1, shape (n_samples,).
    group_names
        One public name for each code. A declared group may be empty here; training refuses it.
    weights
        Share of its full contribution that each record makes to training, in [0, 1], shape (n_samples,); None: all
        of it. Decisions are counted without weights.
    rows
        Place of each record in the table that it comes from, shape (n_samples,); None where nobody asks. Nothing that
        is computed from the records depends on it.
    expendable
        Whether a split may put the records in another order, for its first part to share their memory: a large table
        fits once, but not twice. Another split would move that part.
    """

    X: NDArray[np.float32] | StoredRows
    y: NDArray[np.int64]
    groups: NDArray[np.int64]
    group_names: tuple[str, ...]
    weights: NDArray[np.float64] | None = None
    rows: NDArray[np.signedinteger[Any]] | None = field(default=None, kw_only=True)
    expendable: bool = False

    def __post_init__(self) -> None:
        if not len(self.X) == len(self.y) == len(self.groups):
            lengths = f"{len(self.X)}, {len(self.y)} and {len(self.groups)}"
            raise DataError(f"X, y and groups must have one entry per record, got {lengths}.")
        if len(set(self.group_names)) < len(self.group_names):
            twice = next(name for name in self.group_names if self.group_names.count(name) > 1)
            raise DataError(f"group_names must differ, but two groups are called {twice!r}; rename a value.")
        if not ((self.y == 0) | (self.y == 1)).all():
            raise DataError("y must hold only 0 and 1; encode the labels, or use FairDPClassifier.fit, which does.")
        if len(self.groups) and not (self.groups.min() >= 0 and self.groups.max() < len(self.group_names)):
            raise DataError(
                f"groups must hold codes from 0 to {len(self.group_names) - 1}, one for each of group_names."
            )
        # A larger weight than one would be more than the noise is for.
        if self.weights is not None and not (
            len(self.weights) == len(self.y) and ((self.weights >= 0) & (self.weights <= 1)).all()
        ):
            raise DataError("weights must hold a number from 0 to 1 for each record; divide by the largest you allow.")

    @property
    def n_samples(self) -> int:
        """Number of records, n."""
        return len(self.y)

    def __len__(self) -> int:
        return self.n_samples

    @property
    def row_bytes(self) -> int:
        """Memory of the inputs of one record."""
        return 4 * math.prod(self.X.shape[1:])

    @property
    def n_groups(self) -> int:
        """Number of declared groups, K."""
        return len(self.group_names)

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """Records of each group, n_k, shape (n_groups,)."""
        return np.bincount(self.groups, minlength=self.n_groups)

    @property
    def inputs(self) -> NDArray[np.float32]:
        """The features in memory, all of them: of records that come in `batches`, or that are few."""
        return np.asarray(self.X)

    @property
    def codes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Labels and groups that can be computed with."""
        return self.y.astype(np.int64, copy=False), self.groups.astype(np.int64, copy=False)

    @property
    def cells(self) -> NDArray[Any]:
        """Group and label of each record as one code, 2 k + y, shape (n_samples,)."""
        # Narrow groups have room for twice as many.
        return 2 * self.groups + self.y

    def take(self, indices: NDArray[np.int64] | slice) -> "GroupedData":
        """The records at these positions, with the same declared groups; a slice shares the memory."""
        weights = None if self.weights is None else self.weights[indices]
        rows = None if self.rows is None else self.rows[indices]
        return GroupedData(self.X[indices], self.y[indices], self.groups[indices], self.group_names, weights, rows=rows)

    def batches(self, n_rows: int | None = None) -> Iterator["GroupedData"]:
        """The same records, some at a time: their inputs in memory, and labels and groups that can be computed with."""
        n_rows = n_rows or min(MOST_BATCH, BATCH * max(1, _MOST_BYTES // (BATCH * max(1, self.row_bytes))))
        for start in range(0, self.n_samples, n_rows):
            part = self.take(slice(start, start + n_rows))
            y, groups = part.codes
            yield replace(part, X=part.inputs, y=y, groups=groups)

    def share(self, rank: int, size: int) -> slice:
        """The records that one of several processes goes through: some of the `batches`, next to each other."""
        n_batches = math.ceil(self.n_samples / BATCH)
        ends = (min(self.n_samples, BATCH * round(number * n_batches / size)) for number in (rank, rank + 1))
        return slice(*ends)

    def by_label(self) -> "GroupedData":
        """The same records in finer groups: those of group k with label y have code 2 k + y."""
        names = tuple(f"{name}, label {label}" for name in self.group_names for label in (0, 1))
        return replace(self, groups=self.cells, group_names=names, expendable=False)

    def __repr__(self) -> str:
        return f"GroupedData(X: {self.X.shape}, groups: {self.n_groups})"
