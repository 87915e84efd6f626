"""The demographic parity gap of counted decisions when the mix of groups and labels moves."""

import math
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
    shares, rates = _cells(counts)
    found = [_gap(shares, rates)]
    for giver, taker in permutations(range(len(shares)), 2):
        if shares[giver] > shift > 0 and shares[taker] > 0:
            moved = shares.copy()
            moved[giver] -= shift
            moved[taker] += shift
            found.append(_gap(moved, rates))
    return max(found)


def gap_under_reversal(counts: NDArray[np.float64] | Counts, shift: float) -> float:
    r"""The gap when the tie between group and label is loosened and then reversed, by a total variation of ``shift``.

    This is how An et al. (2022), whom the paper cites for its shift, move Pr(a, y): the cells of two groups and two
    labels have shares of .1, .4, .4, .1 where they train and of .4, .1, .1, .4 where they test, so that groups and
    labels stay as frequent as they were and only who has which label changes
    (https://github.com/umd-huang-lab/transfer-fairness, ``Sshift2``). Here each of the two cells that hold more than
    independence would give them loses γ/2, and each of the other two gains it; theirs is γ = .6. Not a number if a cell
    has less to give, or if there are other than two groups.

    >>> counts = np.array([[[30, 10], [0, 10]], [[5, 5], [0, 40]]])  # shares .4, .1, .1, .4
    >>> gap_under_reversal(counts, 0.0)
    0.5
    >>> round(gap_under_reversal(counts, 0.6), 6)  # shares .1, .4, .4, .1: rates .85 and .6
    0.25
    """
    shares, rates = _cells(counts)
    if len(shares) != 4:
        return math.nan
    # In the order group 0 with labels 0 and 1, group 1 with labels 0 and 1; the sign says which two hold more.
    more = np.sign(shares[0] * shares[3] - shares[1] * shares[2]) * np.array([1, -1, -1, 1])
    moved = shares - shift / 2 * more
    return _gap(moved, rates) if (moved > 0).all() else math.nan


def _cells(counts: NDArray[np.float64] | Counts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share and acceptance rate of each cell (group, label); a cell without people accepts nobody."""
    cells = np.asarray(counts, dtype=np.float64).reshape(-1, 2)
    sizes = cells.sum(1)
    return sizes / sizes.sum(), np.divide(cells[:, 1], sizes, out=np.zeros(len(sizes)), where=sizes > 0)


def _gap(shares: NDArray[np.float64], rates: NDArray[np.float64]) -> float:
    by_group = shares.reshape(-1, 2)
    accepted = (shares * rates).reshape(-1, 2).sum(1) / by_group.sum(1)
    return float(accepted.max() - accepted.min())
