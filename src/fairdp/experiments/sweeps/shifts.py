"""The demographic parity gap of counted decisions when the mix of groups and labels moves."""

from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from fairdp.metrics.rates import Counts


def gap_under_shift(counts: NDArray[np.float64] | Counts, shift: float) -> float:
    r"""Largest gap when a mass of ``shift`` moves from one cell (group, label) to another, over all such pairs.

    Decisions within a cell stay as they are, so the rates follow from the new shares, without drawing records anew:
    :math:`\sum_y P'(a, y) r_{a, y} / P'(a)`. Moving mass γ from a cell to another is a total variation of γ; cells that
    hold less cannot give it.

    >>> counts = np.array([[[90, 10], [0, 0]], [[50, 0], [0, 50]]])
    >>> gap_under_shift(counts, 0.0)
    0.4
    >>> round(gap_under_shift(counts, 0.125), 6)  # half of those whom the second group refuses become accepted ones
    0.65
    """
    cells = np.asarray(counts, dtype=np.float64).reshape(-1, 2)
    sizes = cells.sum(1)
    shares = sizes / sizes.sum()
    rates = np.divide(cells[:, 1], sizes, out=np.zeros(len(sizes)), where=sizes > 0)
    found = [_gap(shares, rates)]
    for giver, taker in permutations(range(len(shares)), 2):
        if shares[giver] > shift > 0 and shares[taker] > 0:
            moved = shares.copy()
            moved[giver] -= shift
            moved[taker] += shift
            found.append(_gap(moved, rates))
    return max(found)


def _gap(shares: NDArray[np.float64], rates: NDArray[np.float64]) -> float:
    by_group = shares.reshape(-1, 2)
    accepted = (shares * rates).reshape(-1, 2).sum(1) / by_group.sum(1)
    return float(accepted.max() - accepted.min())
