"""Auxiliary mechanisms: a method's own part in every step, for methods that release more than DP-SGD's gradient."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairdp.accounting.plan import AuxiliaryMechanism, BatchView, Coordinates, Memory, Statistics
from fairdp.accounting.spent import LONG_GRADIENTS, SOFT_PREDICTIONS, SOFT_PREDICTIONS_BY_LABEL
from fairdp.parameters import CERTIFIABLE

# Parts of a step's privacy for the counts of dpsgd_f and for the histogram of raco_dp.
_COUNTS_SHARE, _HISTOGRAM_SHARE = 0.02, 0.06
# Of dp_fermi: bound on the adversary's matrix, and its step size.
_LARGEST_NORM = 5.0
_ASCENT_RATE = 0.05
# The adversary's gradient is the longer one: scaled down, it leaves the model's its share of the common clip norm.
_SCALE = 0.1
_LARGEST_MULTIPLIER = 10.0
# A label is taken to be at least this frequent in its group: a noisy count near zero would make a huge gradient.
_SMALLEST_SHARE = 0.05


@dataclass(frozen=True, kw_only=True)
class GroupAdaptiveClip(AuxiliaryMechanism):
    r"""Clip norms from how many gradients of each group are longer than the base norm :math:`C_0`.

    With noisy counts :math:`m_k` of longer and :math:`b_k` of all gradients of group k in the batch,

    .. math::
        C_k = C_0 \left( 1 + \frac{m_k / b_k}{\sum_j m_j / \sum_j b_j} \right).

    A record is in one of the 2K counts, so their sensitivity is one.
    """

    clip_norm: float
    n_groups: int

    @property
    def auxiliary_release(self) -> Statistics:
        return Statistics(of="norms", size=2 * self.n_groups, share=_COUNTS_SHARE, what=LONG_GRADIENTS)

    def start(self) -> Memory:
        return {"factors": torch.full((self.n_groups,), 2.0)}

    def contributions(self, view: BatchView, memory: Memory) -> Tensor:
        assert view.norms is not None
        cells = 2 * view.groups + (view.norms > self.clip_norm)
        return torch.nn.functional.one_hot(cells, 2 * self.n_groups).float()

    def learn(self, noisy: Tensor, memory: Memory) -> None:
        shorter, longer = noisy.clamp(min=0).view(-1, 2).T
        counted = shorter + longer
        ratios = (longer / counted) / (longer.sum() / counted.sum())
        # If no count is above zero, nothing is known, and the group is treated as average.
        memory["factors"] = 1 + ratios.nan_to_num(nan=1.0, posinf=1.0)

    def clip_factors(self, memory: Memory) -> Tensor:
        return memory["factors"]


@dataclass(frozen=True, kw_only=True)
class Adversary(AuxiliaryMechanism):
    r"""The matrix W of the min-max form of exponential Rényi mutual information.

    .. math::
        \psi_i = -\sum_j p_{ij} \|w_j\|^2 + 2 \sum_j p_{ij} w_{j s_i} / \sqrt{P(s_i)} - 1,

    with :math:`p_{i1}` the chance of a positive decision about record i, :math:`p_{i0} = 1 - p_{i1}`, and
    :math:`w_j` one vector over the groups for each decision. The record's gradients with respect to the model and to W
    are clipped together.
    """

    weight: float
    group_shares: tuple[float, ...]

    @property
    def auxiliary_release(self) -> Coordinates:
        return Coordinates(size=2 * len(self.group_shares))

    def start(self) -> Memory:
        return {"W": torch.zeros(2, len(self.group_shares))}

    def score_gradient(self, view: BatchView, memory: Memory) -> Tensor:
        p, W = torch.sigmoid(view.scores), memory["W"]
        gain = 2 * (W[1] - W[0])[view.groups] * self._inverse_roots()[view.groups] - W[1].square().sum()
        return p - view.labels + self.weight * (gain + W[0].square().sum()) * p * (1 - p)

    def contributions(self, view: BatchView, memory: Memory) -> Tensor:
        p = torch.sigmoid(view.scores)
        chances = torch.stack([1 - p, p], 1)
        indicators = torch.nn.functional.one_hot(view.groups, len(self.group_shares)) * self._inverse_roots()
        return _SCALE * (2 * chances[:, :, None] * (indicators[:, None, :] - memory["W"])).flatten(1)

    def learn(self, noisy: Tensor, memory: Memory) -> None:
        W = memory["W"] + _ASCENT_RATE / _SCALE * noisy.view_as(memory["W"])
        memory["W"] = W * min(1.0, _LARGEST_NORM / max(float(W.norm()), 1e-12))

    def _inverse_roots(self) -> Tensor:
        return torch.tensor(self.group_shares).rsqrt()


@dataclass(frozen=True, kw_only=True)
class RateConstraints(AuxiliaryMechanism):
    r"""Descent on the parameters and ascent on the multipliers of the Lagrangian of `raco_dp`.

    .. math::
        \min_\theta \max_{\lambda \ge 0} \; L(\theta) + \sum_{i,j} \lambda_{ij} (R_i - R_j - g)

    over all ordered pairs of cells whose soft rates :math:`R` should agree. Cells are groups, or those records of each
    group that have one label. A record adds (1 − p, p) to the histogram of its cell, a vector of norm at most one.
    Multipliers pull on a cell by :math:`(\sum_j \lambda_{ij} - \lambda_{ji}) / \pi_i`, where :math:`\pi_i` is its part
    of all records.
    """

    parity: str
    max_gap: float
    min_ratio: float
    batch_size: float
    group_sizes: tuple[float, ...]
    dual_rate: float

    @property
    def auxiliary_release(self) -> Statistics:
        what = SOFT_PREDICTIONS_BY_LABEL if CERTIFIABLE[self.parity].labels else SOFT_PREDICTIONS
        return Statistics(of="scores", size=2 * self.n_cells, share=_HISTOGRAM_SHARE, what=what)

    @property
    def n_cells(self) -> int:
        """Number of cells: one for each group and rate that is compared."""
        return len(self.group_sizes) * len(CERTIFIABLE[self.parity].rates)

    def cells_of(self, view: BatchView) -> Tensor:
        """Cell of each record; records that no rate is about are in a cell after the last."""
        labels = CERTIFIABLE[self.parity].labels
        cells = torch.full_like(view.groups, self.n_cells) if labels else view.groups
        for place, label in enumerate(labels):
            cells = torch.where(view.labels == label, view.groups + place * len(self.group_sizes), cells)
        return cells

    def start(self) -> Memory:
        cells = self.n_cells
        return {
            "multipliers": torch.zeros(cells, cells),
            "pulls": torch.zeros(cells),
            "counted": torch.zeros(cells),
            "n_steps": torch.zeros(1),
        }

    def contributions(self, view: BatchView, memory: Memory) -> Tensor:
        chances = torch.sigmoid(view.scores)
        rows = torch.zeros(len(chances), self.n_cells + 1, 2)
        rows[torch.arange(len(chances)), self.cells_of(view)] = torch.stack([1 - chances, chances], 1)
        # Records that no rate is about are in the last cell, which is not released.
        return rows.flatten(1)[:, : self.auxiliary_release.size]

    def learn(self, noisy: Tensor, memory: Memory) -> None:
        """Raise the multiplier of each pair by how far its gap exceeds what is allowed, in a noisy histogram."""
        # In NumPy, which is faster than torch with a handful of numbers.
        histogram = noisy.numpy().reshape(-1, 2)
        counted = histogram.sum(1)
        rates = np.divide(histogram[:, 1], counted, out=np.full_like(counted, 0.5), where=counted != 0).clip(0, 1)
        excess = rates[:, None] - rates[None, :] - allowed_gap(rates, self.max_gap, self.min_ratio)
        raised = (memory["multipliers"].numpy() + self.dual_rate * excess).clip(0, _LARGEST_MULTIPLIER)
        multipliers = raised * self._peers().numpy()
        memory["multipliers"] = torch.from_numpy(multipliers.astype(np.float32))
        memory["counted"] = memory["counted"] + torch.from_numpy(counted)
        memory["n_steps"] = memory["n_steps"] + 1
        memory["pulls"] = torch.from_numpy(multipliers.sum(1) - multipliers.sum(0)).float() / self._shares(memory)

    def score_gradient(self, view: BatchView, memory: Memory) -> Tensor:
        p, pulls = torch.sigmoid(view.scores), torch.cat([memory["pulls"], torch.zeros(1)])[self.cells_of(view)]
        return p - view.labels + pulls * p * (1 - p)

    def _peers(self) -> Tensor:
        """One where the rates of two different cells should agree, else zero; shape (n_cells, n_cells)."""
        groups = 1 - torch.eye(len(self.group_sizes))
        n_rates = len(CERTIFIABLE[self.parity].rates)
        return torch.block_diag(*[groups] * n_rates) if n_rates > 1 else groups

    def _shares(self, memory: Memory) -> Tensor:
        """Part of all records that is in each cell: public for groups, from the histograms so far for labels."""
        groups = torch.tensor(self.group_sizes) / sum(self.group_sizes)
        if not CERTIFIABLE[self.parity].labels:
            return groups
        counted = memory["counted"] / (self.batch_size * memory["n_steps"])
        return torch.maximum(counted, _SMALLEST_SHARE * groups.repeat(self.n_cells // len(groups)))


def allowed_gap(rates: NDArray[np.floating[Any]], max_gap: float, min_ratio: float) -> float:
    """The gap that a bound on it and a smallest ratio allow together: a ratio r allows (1 − r) times the largest."""
    return min(max_gap, (1 - min_ratio) * float(rates.max()))
