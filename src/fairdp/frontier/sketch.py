"""One release that tells the decisions of every cell at all prices along a line."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fairdp.frontier.events import Floats


@lru_cache
def prefix_root(n_points: int) -> tuple[Floats, float]:
    r"""The square root :math:`L` of the matrix of prefix sums, and how far one record can move :math:`L h` (L2).

    A record adds one to the first entry of :math:`h` if its decision is positive at the first price, and plus or minus
    one where its decision turns. So it adds one column of :math:`L`, or the first less another.

    References
    ----------
    Fichtenberger, Henzinger, Upadhyay (2023), Constant matters: fine-grained error bound on differentially private
    continual observation (the factorisation); its noise is near the least possible.
    """
    ratios = (2 * np.arange(1, n_points) - 1) / (2 * np.arange(1, n_points))
    first = np.cumprod(np.concatenate([[1.0], ratios]))
    rows, columns = np.indices((n_points, n_points))
    root = np.where(rows >= columns, first[np.abs(rows - columns)], 0.0)
    one, two = np.linalg.norm(root, axis=0), np.linalg.norm(root[:, :1] - root, axis=0)
    return root, float(max(one.max(), two.max()))


def turning_points(values: Floats, pulls: Floats, positions: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    r"""At which position each record's decision :math:`a - \lambda s \ge 0` turns, and what it is at the first one.

    It is a line in :math:`\lambda`, so it turns at most once; a record that does not turn between the first and the
    last position gets their number.

    Parameters
    ----------
    values, pulls
        :math:`a` and :math:`s` of each record, shape (n_records,).
    positions
        Rising :math:`\lambda`, shape (n_positions,).
    """
    start = values - positions[0] * pulls >= 0
    moving = pulls != 0
    zeros = np.divide(values, pulls, out=np.full_like(values, np.inf), where=moving)
    # A positive decision is lost beyond the zero; a negative one turns at it, where the sum is no longer below zero.
    places = np.where(start, np.searchsorted(positions, zeros, "right"), np.searchsorted(positions, zeros, "left"))
    turns = moving & (start == (pulls > 0))
    # Rounding may put the zero before the first position, where it is known to be not yet behind.
    return np.where(turns, np.maximum(places, 1), len(positions)), start


def exact_sketch(values: Floats, pulls: Floats, cells: NDArray[np.int64], n_cells: int, positions: Floats) -> Floats:
    """The sums to be released, before noise: L times the changes of each cell, shape (n_cells, n_positions).

    Divided by the sensitivity, so that one record moves them by at most one.
    """
    return sketch_of(changes_of(values, pulls, cells, n_cells, positions))


def changes_of(values: Floats, pulls: Floats, cells: NDArray[np.int64], n_cells: int, positions: Floats) -> Floats:
    """Whole numbers that can be added up: where decisions of each cell begin or turn, (n_cells, n_positions)."""
    places, start = turning_points(values, pulls, positions)
    changes = np.zeros((n_cells, len(positions) + 1))
    np.add.at(changes, (cells, places), np.where(start, -1.0, 1.0))
    changes[:, 0] += np.bincount(cells[start], minlength=n_cells)
    return changes[:, :-1]


def sketch_of(changes: Floats) -> Floats:
    """The sums of these changes, those of all records."""
    root, sensitivity = prefix_root(changes.shape[1])
    return changes @ root.T / sensitivity


def counts_of(noisy: Floats) -> Floats:
    """Noisy numbers of positive decisions of every cell at every position, from the released sums."""
    root, sensitivity = prefix_root(noisy.shape[1])
    return sensitivity * noisy @ root.T


def covariance_of(n_positions: int, std: float) -> Floats:
    """Covariance of the counts of one cell, shape (n_positions, n_positions), for noise of a deviation."""
    root, sensitivity = prefix_root(n_positions)
    return (std * sensitivity) ** 2 * root @ root.T
