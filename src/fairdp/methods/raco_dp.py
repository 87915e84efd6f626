"""RaCO-DP: a constraint on the gap between the groups' rates, held by multipliers that follow a private histogram."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fairdp.accounting.recipe import Recipe, Statistics
from fairdp.accounting.words import SOFT_PREDICTIONS, SOFT_PREDICTIONS_BY_LABEL
from fairdp.config.training import TrainConfig
from fairdp.methods.control import allowed_gap
from fairdp.methods.dpsgd import dpsgd
from fairdp.training.companion import Companion, Memory, Seen

_SHARE = 0.06
_LARGEST_MULTIPLIER = 10.0
# A label is taken to be at least this frequent in its group: a noisy count near zero would make a huge gradient.
_SMALLEST_SHARE = 0.05
# Ascent over a whole run on a gap that is exceeded by one.
_ASCENT = 100.0


@dataclass(frozen=True, kw_only=True)
class RateConstraints(Companion):
    r"""Descent on the parameters and ascent on the multipliers of the Lagrangian.

    .. math::
        \min_\theta \max_{\lambda \ge 0} \; L(\theta) + \sum_{i,j} \lambda_{ij} (R_i - R_j - g)

    over all ordered pairs of cells whose soft rates :math:`R` should agree. A record adds (1 − p, p) to the histogram
    of its cell, a vector of norm at most one.
    """

    parity: str
    max_gap: float
    min_ratio: float
    batch_size: float
    group_sizes: tuple[float, ...]
    dual_rate: float

    @property
    def beside(self) -> Statistics:
        what = SOFT_PREDICTIONS if self.parity == "demographic_parity" else SOFT_PREDICTIONS_BY_LABEL
        return Statistics(of="scores", size=2 * self._n_cells, share=_SHARE, what=what)

    @property
    def _n_cells(self) -> int:
        return _n_cells_of(self.parity, len(self.group_sizes))

    def start(self) -> Memory:
        cells = self._n_cells
        return {
            "multipliers": torch.zeros(cells, cells),
            "pulls": torch.zeros(cells),
            "counted": torch.zeros(cells),
            "n_steps": torch.zeros(1),
        }

    def contributions(self, seen: Seen, memory: Memory) -> Tensor:
        cells, p = _cells_of(self.parity, seen, len(self.group_sizes)), torch.sigmoid(seen.scores)
        rows = torch.zeros(len(p), self._n_cells + 1, 2)
        # Records that no rate is about go to a cell after the last, which is not released.
        rows[torch.arange(len(p)), cells] = torch.stack([1 - p, p], 1)
        return rows[:, :-1].flatten(1)

    def learn(self, noisy: Tensor, memory: Memory) -> None:
        # In NumPy, which is faster than torch with a handful of numbers.
        histogram = noisy.numpy().reshape(-1, 2)
        counted = histogram.sum(1)
        rates = np.divide(histogram[:, 1], counted, out=np.full_like(counted, 0.5), where=counted != 0).clip(0, 1)
        excess = rates[:, None] - rates[None, :] - allowed_gap(rates, self.max_gap, self.min_ratio)
        raised = (memory["multipliers"].numpy() + self.dual_rate * excess).clip(0, _LARGEST_MULTIPLIER)
        multipliers = raised * _peers(self.parity, len(self.group_sizes)).numpy()
        memory["multipliers"] = torch.from_numpy(multipliers.astype(np.float32))
        memory["counted"] = memory["counted"] + torch.from_numpy(counted)
        memory["n_steps"] = memory["n_steps"] + 1
        memory["pulls"] = torch.from_numpy(multipliers.sum(1) - multipliers.sum(0)).float() / self._shares(memory)

    def _shares(self, memory: Memory) -> Tensor:
        """Part of all records that is in each cell: public for groups, from the histograms so far for labels."""
        groups = torch.tensor(self.group_sizes) / sum(self.group_sizes)
        if self.parity == "demographic_parity":
            return groups
        counted = memory["counted"] / (self.batch_size * memory["n_steps"])
        return torch.maximum(counted, _SMALLEST_SHARE * groups.repeat(self._n_cells // len(groups)))

    def score_gradient(self, seen: Seen, memory: Memory) -> Tensor:
        p = torch.sigmoid(seen.scores)
        pulls = torch.cat([memory["pulls"], torch.zeros(1)])[_cells_of(self.parity, seen, len(self.group_sizes))]
        return p - seen.labels + pulls * p * (1 - p)


def raco_dp(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Yaghini et al. (2026), "Private rate-constrained optimization", with Gaussian noise on the histogram too.

    The user states the allowed gap. Multipliers and gradient see the histogram of the same sample, so both are
    accounted as one Gaussian query, where the published code adds up two separately sampled ones. The record's pull
    follows public numbers only, so clipping bounds it. Not in the FairDP paper; the state of the art that came after.
    Its sample rate, epochs and optimiser are in `fairdp.config.defaults`.
    """
    constraints = RateConstraints(
        parity=config.parity,
        max_gap=config.max_gap,
        min_ratio=config.min_ratio,
        batch_size=config.sample_rate * sum(group_sizes),
        group_sizes=group_sizes,
        dual_rate=_ASCENT / config.n_steps,
    )
    return replace(dpsgd(config, group_sizes), companion=constraints)


def _n_cells_of(parity: str, n_groups: int) -> int:
    """Number of cells: one for each group, for equalized odds one for each group and label."""
    return n_groups * (2 if parity == "equalized_odds" else 1)


def _cells_of(parity: str, seen: Seen, n_groups: int) -> Tensor:
    """Cell of each record; records that no rate is about are in a cell after the last."""
    return {
        "demographic_parity": lambda: seen.groups,
        "equal_opportunity": lambda: torch.where(seen.labels == 1, seen.groups, n_groups),
        "equalized_odds": lambda: seen.groups + n_groups * seen.labels.long(),
    }[parity]()


def _peers(parity: str, n_groups: int) -> Tensor:
    """One where the rates of two different cells should agree, else zero; shape (n_cells, n_cells)."""
    groups = 1 - torch.eye(n_groups)
    return torch.block_diag(groups, groups) if parity == "equalized_odds" else groups
