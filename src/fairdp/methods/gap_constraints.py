"""Constraints on the gaps between rates: whom each rate is about, and multipliers that follow noisy histograms."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairdp.config.training import TrainConfig
from fairdp.training.companion import Memory, Seen

_LARGEST_MULTIPLIER = 10.0
# A label is taken to be at least this frequent in its group: a noisy count near zero would make a huge gradient.
_SMALLEST_SHARE = 0.05


@dataclass(frozen=True, kw_only=True)
class GapConstraints:
    r"""The rates of every two peers lie within :math:`g`; each ordered pair of them has a multiplier.

    Cells are groups, or those records of each group that have one label. Multipliers :math:`\lambda_{ij} \ge 0` pull on
    a cell by :math:`(\sum_j \lambda_{ij} - \lambda_{ji}) / \pi_i`, where :math:`\pi_i` is its part of all records.
    """

    parity: str
    max_gap: float
    min_ratio: float
    batch_size: float
    group_sizes: tuple[float, ...]

    @classmethod
    def of(cls, config: TrainConfig, group_sizes: tuple[float, ...]) -> "GapConstraints":
        """The target that a user states."""
        return cls(
            parity=config.parity,
            max_gap=config.max_gap,
            min_ratio=config.min_ratio,
            batch_size=config.sample_rate * sum(group_sizes),
            group_sizes=group_sizes,
        )

    @property
    def n_cells(self) -> int:
        """Number of cells: one for each group, for equalized odds one for each group and label."""
        return len(self.group_sizes) * (2 if self.parity == "equalized_odds" else 1)

    def cells_of(self, seen: Seen) -> Tensor:
        """Cell of each record; records that no rate is about are in a cell after the last."""
        n_groups = len(self.group_sizes)
        return {
            "demographic_parity": lambda: seen.groups,
            "equal_opportunity": lambda: torch.where(seen.labels == 1, seen.groups, n_groups),
            "equalized_odds": lambda: seen.groups + n_groups * seen.labels.long(),
        }[self.parity]()

    def start(self) -> Memory:
        """No multipliers, and nothing counted."""
        cells = self.n_cells
        return {
            "multipliers": torch.zeros(cells, cells),
            "pulls": torch.zeros(cells),
            "counted": torch.zeros(cells),
            "n_steps": torch.zeros(1),
        }

    def histogram(self, seen: Seen, chances: Tensor) -> Tensor:
        """(1 − p, p) in the cell of each record, for its chance p of a positive decision; the last is nobody's."""
        rows = torch.zeros(len(chances), self.n_cells + 1, 2)
        rows[torch.arange(len(chances)), self.cells_of(seen)] = torch.stack([1 - chances, chances], 1)
        return rows.flatten(1)

    def learn(self, noisy: Tensor, memory: Memory, step_size: float) -> None:
        """Raise the multiplier of each pair by how far its gap exceeds what is allowed, in a noisy histogram."""
        # In NumPy, which is faster than torch with a handful of numbers.
        histogram = noisy.numpy().reshape(-1, 2)
        counted = histogram.sum(1)
        rates = np.divide(histogram[:, 1], counted, out=np.full_like(counted, 0.5), where=counted != 0).clip(0, 1)
        excess = rates[:, None] - rates[None, :] - allowed_gap(rates, self.max_gap, self.min_ratio)
        raised = (memory["multipliers"].numpy() + step_size * excess).clip(0, _LARGEST_MULTIPLIER)
        multipliers = raised * self._peers().numpy()
        memory["multipliers"] = torch.from_numpy(multipliers.astype(np.float32))
        memory["counted"] = memory["counted"] + torch.from_numpy(counted)
        memory["n_steps"] = memory["n_steps"] + 1
        memory["pulls"] = torch.from_numpy(multipliers.sum(1) - multipliers.sum(0)).float() / self._shares(memory)

    def pulls_on(self, seen: Seen, memory: Memory) -> Tensor:
        """The pull on each record: that of its cell."""
        return torch.cat([memory["pulls"], torch.zeros(1)])[self.cells_of(seen)]

    def _peers(self) -> Tensor:
        """One where the rates of two different cells should agree, else zero; shape (n_cells, n_cells)."""
        groups = 1 - torch.eye(len(self.group_sizes))
        return torch.block_diag(groups, groups) if self.parity == "equalized_odds" else groups

    def _shares(self, memory: Memory) -> Tensor:
        """Part of all records that is in each cell: public for groups, from the histograms so far for labels."""
        groups = torch.tensor(self.group_sizes) / sum(self.group_sizes)
        if self.parity == "demographic_parity":
            return groups
        counted = memory["counted"] / (self.batch_size * memory["n_steps"])
        return torch.maximum(counted, _SMALLEST_SHARE * groups.repeat(self.n_cells // len(groups)))


def allowed_gap(rates: NDArray[np.floating[Any]], max_gap: float, min_ratio: float) -> float:
    """The gap that a bound on it and a smallest ratio allow together: a ratio r allows (1 − r) times the largest."""
    return min(max_gap, (1 - min_ratio) * float(rates.max()))
