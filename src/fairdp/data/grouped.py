"""Records, labels and protected groups, checked once and passed on as one thing."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fairdp._checks import DataError


@dataclass(frozen=True, eq=False)
class GroupedData:
    """Features, binary labels and group codes of the same records.

    Printing it shows shapes only: what it holds is private.

    Parameters
    ----------
    X
        Features, shape (n_samples, n_features) or (n_samples, channels, height, width), float32.
    y
        Labels, 0 or 1, shape (n_samples,).
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

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    groups: NDArray[np.int64]
    group_names: tuple[str, ...]
    weights: NDArray[np.float64] | None = None
    rows: NDArray[np.int64] | None = field(default=None, kw_only=True)
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

    @property
    def n_groups(self) -> int:
        """Number of declared groups, K."""
        return len(self.group_names)

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """Records of each group, n_k, shape (n_groups,)."""
        return np.bincount(self.groups, minlength=self.n_groups)

    def take(self, indices: NDArray[np.int64] | slice) -> "GroupedData":
        """The records at these positions, with the same declared groups; a slice shares the memory."""
        weights = None if self.weights is None else self.weights[indices]
        rows = None if self.rows is None else self.rows[indices]
        return GroupedData(self.X[indices], self.y[indices], self.groups[indices], self.group_names, weights, rows=rows)

    def by_label(self) -> "GroupedData":
        """The same records in finer groups: those of group k with label y have code 2 k + y."""
        names = tuple(f"{name}, label {label}" for name in self.group_names for label in (0, 1))
        return replace(self, groups=2 * self.groups + self.y, group_names=names, expendable=False)

    def __repr__(self) -> str:
        return f"GroupedData(X: {self.X.shape}, groups: {self.n_groups})"
