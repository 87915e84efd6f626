"""Private parity without collapse: a constraint on the decisions of the averaged model, held by a controller."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fairdp.config import TrainConfig
from fairdp.methods.dpsgd import dpsgd
from fairdp.training.companion import Companion, Memory, Seen
from fairdp.training.control import BandControl
from fairdp.training.parity import cells_of, n_cells
from fairdp.training.recipe import Recipe

_INTEGRAL, _PROPORTIONAL = 1.8, 13.6
_SMOOTHING = 0.8
_AVERAGING = 0.95
# How far the clip norm follows the largest pull, where cells depend on labels, and by how much at most.
_ROOM, _MOST_ROOM = 0.7, 6.0
# A label is taken to be at least this frequent in its group, until the counts know better.
_SMALLEST_SHARE = 0.02


@dataclass(frozen=True, kw_only=True)
class ParityControl(Companion):
    r"""Decisions of the averaged model, counted by cell, steer how much each cell is pulled towards the others.

    A record in cell j adds :math:`\pm 1` for a positive or negative decision of the averaged model, which is the model
    that will be deployed. Where cells depend on labels, it adds a one beside it, both over :math:`\sqrt2`, so that the
    sizes of the cells are counted too. Its loss is, for a pull :math:`c` on its cell,

    .. math::
        \ell(z, y) + c^+ \mathrm{softplus}(z) + c^- \mathrm{softplus}(-z),

    a logistic loss with c more negative (or positive) labels: convex, and it does not saturate, so that a gap is not
    closed by refusing everybody.
    """

    parity: str
    max_gap: float
    batch_size: float
    group_sizes: tuple[float, ...]
    n_steps: int
    share: float = 0.2
    sees_average: bool = True

    @property
    def what(self) -> str:
        by = "group and label, with their sizes" if self._counts_cells else "group"
        return f"the decisions of the averaged model, counted for each {by}"

    @property
    def n_statistics(self) -> int:
        return self._n_cells * (2 if self._counts_cells else 1)

    @property
    def _n_cells(self) -> int:
        return n_cells(self.parity, len(self.group_sizes))

    @property
    def _counts_cells(self) -> bool:
        return self.parity != "demographic_parity"

    def start(self) -> Memory:
        cells = self._n_cells
        shares = torch.tensor(self.group_sizes, dtype=torch.float64) / sum(self.group_sizes)
        # Until the counts say more, half of each group has either label.
        prior = shares if not self._counts_cells else 0.5 * shares.repeat(cells // len(shares))
        zeros = torch.zeros(cells, dtype=torch.float64)
        return {"shares": prior, "seen": zeros, "pulls": zeros, "integral": zeros, "rates": zeros, "step": zeros[:1]}

    def statistics(self, seen: Seen, memory: Memory) -> Tensor:
        cells = cells_of(self.parity, seen, len(self.group_sizes))
        rows = torch.nn.functional.one_hot(cells, self._n_cells + 1)[:, :-1].float()
        decided = rows * torch.where(seen.scores >= 0, 1.0, -1.0)[:, None]
        return torch.cat([decided, rows], 1) / 2**0.5 if self._counts_cells else decided

    def learn(self, noisy: Tensor, memory: Memory) -> None:
        step = float(memory["step"]) + 1
        memory["step"] = torch.full((1,), step, dtype=torch.float64)
        noisy = noisy.double()
        if self._counts_cells:
            noisy = noisy.view(2, -1) * 2**0.5
            memory["seen"] = memory["seen"] + noisy[1]
            counted = memory["seen"] / (step * self.batch_size)
            memory["shares"] = torch.maximum(counted, _SMALLEST_SHARE * memory["shares"].new_tensor(self._floor()))
            noisy = noisy[0]
        rates = (noisy / (2 * self.batch_size * memory["shares"]) + 0.5).numpy()
        memory["rates"] = _SMOOTHING * memory["rates"] + (1 - _SMOOTHING) * torch.from_numpy(rates)
        smoothed = np.clip(memory["rates"].numpy() / (1 - _SMOOTHING**step), 0.0, 1.0)
        integral, pulls = memory["integral"].numpy().copy(), np.empty(self._n_cells)
        shares = memory["shares"].numpy()
        for start in range(0, self._n_cells, len(self.group_sizes)):
            own = slice(start, start + len(self.group_sizes))
            # The integral gain falls to zero, so that what is averaged at the end has come to rest.
            control = BandControl(
                shares=shares[own],
                width=self.max_gap,
                integral=_INTEGRAL * (1 - (step - 1) / self.n_steps),
                proportional=_PROPORTIONAL,
            )
            integral[own] = control.raised(integral[own], rates[own])
            pulls[own] = integral[own] + control.damping(smoothed[own])
        memory["integral"], memory["pulls"] = torch.from_numpy(integral), torch.from_numpy(pulls / shares)

    def _floor(self) -> list[float]:
        groups = [size / sum(self.group_sizes) for size in self.group_sizes]
        return groups * (self._n_cells // len(groups))

    def clip_factors(self, memory: Memory) -> Tensor | None:
        """Room for pulls on cells that few records are in: clipped away, they would pull down but not up."""
        if not self._counts_cells:
            return None
        largest = 1 + float(memory["pulls"].abs().max())
        return torch.full((1,), min(max(_ROOM * largest, 1.0), _MOST_ROOM))

    def score_gradient(self, seen: Seen, memory: Memory) -> Tensor:
        p = torch.sigmoid(seen.scores)
        pulls = torch.cat([memory["pulls"].float(), torch.zeros(1)])
        own = pulls[cells_of(self.parity, seen, len(self.group_sizes))]
        return p - seen.labels + torch.where(own > 0, own * p, own * (1 - p))


def fairdp_parity(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Our own method: DP-SGD under a constraint on the gap between the groups' decisions, stated by the user.

    Each step releases the decisions of the averaged iterate, counted by group, beside the clipped gradient: one
    Gaussian query on one sample. A controller turns the noisy rates into a pull on each group, public by then, which
    enters the gradient through a convex surrogate. The average of the iterates is deployed.
    """
    control = ParityControl(
        parity=config.parity,
        max_gap=config.max_gap,
        batch_size=config.sample_rate * sum(group_sizes),
        group_sizes=group_sizes,
        n_steps=config.n_steps,
    )
    return replace(dpsgd(config, group_sizes), companion=control, averaging=_AVERAGING)
