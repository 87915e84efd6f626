"""Cells, the events whose rates a fairness notion compares, and what a positive decision is worth under prices."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Records whose decisions are counted at once: counts do not depend on it.
_RECORDS = 2**17
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Events:
    """The rates that a notion compares: those of groups, or of groups with one label, or of both labels in turn.

    Cell 2 a + y holds the records of group a with label y; an event is made of one or two cells. Events of one band
    should have the same rate of positive decisions.
    """

    parity: str
    n_groups: int

    @cached_property
    def members(self) -> Floats:
        """One where an event contains a cell, shape (n_events, n_cells)."""
        groups = np.eye(self.n_groups)
        negative, positive = np.kron(groups, [[1.0, 0.0]]), np.kron(groups, [[0.0, 1.0]])
        return {
            "demographic_parity": negative + positive,
            "equal_opportunity": positive,
            "equalized_odds": np.vstack([negative, positive]),
        }[self.parity]

    @property
    def bands(self) -> NDArray[np.int64]:
        """Band of each event, shape (n_events,)."""
        return np.repeat(np.arange(len(self.members) // self.n_groups), self.n_groups)

    @property
    def groups(self) -> NDArray[np.int64]:
        """Group of each event, shape (n_events,)."""
        return np.tile(np.arange(self.n_groups), len(self.members) // self.n_groups)

    def sizes(self, cell_sizes: Floats) -> Floats:
        """Records of each event, at least one: sizes are noisy."""
        return np.maximum(self.members @ cell_sizes, 1.0)

    def pulls(self, prices: Floats, cell_sizes: Floats) -> Floats:
        r"""What prices take from the value of a positive decision in a cell, :math:`\sum_{e \ni c} \nu_e / \pi_e`."""
        shares = self.sizes(cell_sizes) / max(float(cell_sizes.sum()), 1.0)
        return (prices / shares) @ self.members


def summed(chances: Floats, values: Floats) -> Floats:
    """Σ_c v_c P_c of each record: not a matrix product, whose last digit depends on where a record stands."""
    return np.asarray(np.einsum("nc,c->n", chances, values))


def parts_of(chances: Floats, cells: NDArray[Any]) -> Iterator[tuple[Floats, NDArray[np.int64]]]:
    """Chances and cells of the same records, some at a time; once without any, if there are none."""
    for start in range(0, max(1, len(cells)), _RECORDS):
        here = slice(start, start + _RECORDS)
        yield chances[here], cells[here].astype(np.int64, copy=False)


def accepted(chances: Floats, cells: NDArray[Any], values: Floats) -> NDArray[np.int64]:
    """How many records of each cell are decided positively under these values, shape (n_cells,)."""
    counts = np.zeros(len(values), dtype=np.int64)
    for believed, own in parts_of(chances, cells):
        counts += np.bincount(own[summed(believed, values) >= 0], minlength=len(values))
    return counts


def plain_values(n_cells: int, cost_ratio: float) -> Floats:
    """What a positive decision is worth without prices: R for label 1, minus one for label 0."""
    return np.where(np.arange(n_cells) % 2 == 1, cost_ratio, -1.0)


def tilted(prices: Floats, min_ratio: float) -> Floats:
    r"""Prices that add up to zero, as a ratio needs them: :math:`\sum \nu^+ = \rho \sum \nu^-`.

    That is where the Lagrangian of :math:`\rho\, m \le r_e \le m` is stationary in :math:`m`. Low rates are raised more
    than high ones are lowered, so that a ratio is not approached by refusing everybody, which never meets it.
    """
    return np.where(prices < 0, prices / min_ratio, prices) if min_ratio else prices


def line_prices(cell_sizes: Floats, min_ratio: float) -> Floats:
    """Prices of two groups; for a ratio, the one with fewer positive labels is taken for the one to be raised."""
    prices = np.array([-1.0, 1.0])
    first, second = cell_sizes[1::2] / cell_sizes.reshape(-1, 2).sum(1)
    return tilted(-prices if min_ratio and second < first else prices, min_ratio)


def total_price(prices: Floats) -> float:
    """Points of accuracy (or of cost) that are paid for a point of gap."""
    return float(np.maximum(prices, 0.0).sum())
