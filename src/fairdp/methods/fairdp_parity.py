"""Private parity without collapse: a constraint on the decisions of the averaged model, held by a controller."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fairdp.accounting.recipe import Recipe, Statistics
from fairdp.accounting.words import DECISIONS, DECISIONS_BY_LABEL, MOST_CLIP_ROOM
from fairdp.config.training import TrainConfig
from fairdp.methods.control import BandControl, Rates, allowed_gap
from fairdp.methods.dpsgd import dpsgd
from fairdp.training.companion import Companion, Memory, Seen

if TYPE_CHECKING:  # A plan needs the recipe, and should not wait for torch.
    from torch import Tensor

_SHARE = 0.2
_INTEGRAL, _PROPORTIONAL = 1.8, 13.6
# The overall rate responds to a pull on everybody more strongly than a gap does to pulls that sum to zero.
_RATE_INTEGRAL, _RATE_PROPORTIONAL = 0.3, 3.0
_SMOOTHING = 0.8
_LARGEST_PULL = 10.0
# How far the clip norm follows the largest pull, where cells depend on labels, and by how much at most.
_ROOM, _MOST_ROOM = 0.7, MOST_CLIP_ROOM
# A label is assumed to be at least this frequent in its group, until the counts say otherwise.
_SMALLEST_SHARE = 0.02


@dataclass(frozen=True, kw_only=True)
class ParityControl(Companion):
    r"""Decisions of the averaged model, counted by cell, steer how much each cell is pulled towards the others.

    Cells are groups, or groups and labels where rates are about people of one label. A record adds :math:`\pm 1` to its
    cell for a positive or negative decision; where cells depend on labels, it adds a one beside it, both over
    :math:`\sqrt2`, so that the sizes of the cells are counted too. Its loss is, for a pull :math:`c` on its cell,

    .. math::
        \ell(z, y) + c^+ \mathrm{softplus}(z) + c^- \mathrm{softplus}(-z),

    a logistic loss with c more negative (or positive) labels: convex, and it does not saturate, so that a gap is not
    closed by refusing everybody.

    Parameters
    ----------
    min_ratio
        Smallest over largest rate that is allowed: a gap of (1 - ratio) times the largest rate. Zero allows any.
    positive_rate
        Part of all records that should be decided positively; None leaves it free.
    """

    parity: str
    max_gap: float
    min_ratio: float
    positive_rate: float | None
    batch_size: float
    group_sizes: tuple[float, ...]
    n_steps: int
    steps_per_look: int = 1

    @property
    def beside(self) -> Statistics:
        n_statistics = len(self._group_shares) * (2 if self._by_label else 1)
        what = DECISIONS_BY_LABEL if self._by_label else DECISIONS
        return Statistics(of="average", size=n_statistics, share=_SHARE, what=what, every=self.steps_per_look)

    @property
    def _by_label(self) -> bool:
        return self.parity != "demographic_parity"

    @cached_property
    def _group_shares(self) -> Rates:
        """Share of all records that is in the group of each cell."""
        shares = np.array(self.group_sizes) / sum(self.group_sizes)
        return np.tile(shares, 2) if self._by_label else shares

    @cached_property
    def _peers(self) -> tuple[slice, ...]:
        """Cells whose rates should agree with each other; those of negative labels come first."""
        n_groups = len(self.group_sizes)
        first, second = slice(0, n_groups), slice(n_groups, 2 * n_groups)
        peers = {"demographic_parity": (first,), "equal_opportunity": (second,), "equalized_odds": (first, second)}
        return peers[self.parity]

    def _cells(self, seen: Seen) -> "Tensor":
        return seen.groups + len(self.group_sizes) * seen.labels.long() if self._by_label else seen.groups

    def start(self) -> Memory:
        import torch

        # Until the counts say more, half of each group has either label.
        shares = torch.from_numpy(self._group_shares * (0.5 if self._by_label else 1.0))
        # Each in its own memory: a checkpoint cannot hold two names for the same tensor.
        cells = {name: torch.zeros_like(shares) for name in ("counted", "rates", "integral", "pulls")}
        return {"shares": shares, **cells, **{name: shares.new_zeros(1) for name in ("rate_pull", "look")}}

    def contributions(self, seen: Seen, memory: Memory) -> "Tensor":
        cells, n_cells = self._cells(seen)[:, None], len(self._group_shares)
        decided = (2.0 * (seen.scores >= 0) - 1.0)[:, None]
        rows = seen.scores.new_zeros(len(seen.scores), n_cells * (2 if self._by_label else 1))
        if not self._by_label:
            return rows.scatter_(1, cells, decided)
        return rows.scatter_(1, cells, decided / 2**0.5).scatter_(1, cells + n_cells, 2**-0.5)

    def learn(self, noisy: "Tensor", memory: Memory) -> None:
        look = float(memory["look"]) + 1
        sums = noisy.double().numpy()
        shares = memory["shares"].numpy()
        if self._by_label:
            sums, counted = 2**0.5 * sums.reshape(2, -1)
            counted = memory["counted"].numpy() + counted
            shares = np.maximum(counted / (look * self.batch_size), _SMALLEST_SHARE * self._group_shares)
            memory["counted"] = memory["shares"].new_tensor(counted)
        rates = sums / (2 * self.batch_size * shares) + 0.5
        kept = _SMOOTHING**self.steps_per_look
        weighted = kept * memory["rates"].numpy() + (1 - kept) * rates
        smoothed = (weighted / (1 - kept**look)).clip(0.0, 1.0)
        # The integral gains fall to zero, so that the iterates averaged at the end have settled.
        fall = self.steps_per_look * (1 - (look - 1) * self.steps_per_look / self.n_steps)
        integral, pulls = memory["integral"].numpy().copy(), np.zeros_like(rates)
        for peers in self._peers:
            control = BandControl(
                shares=shares[peers],
                width=allowed_gap(smoothed[peers], self.max_gap, self.min_ratio),
                integral=_INTEGRAL * fall,
                proportional=_PROPORTIONAL,
                largest=_LARGEST_PULL,
            )
            integral[peers] = control.raised(integral[peers], rates[peers])
            pulls[peers] = integral[peers] + control.damping(smoothed[peers])
        pulls /= shares
        if self.positive_rate is not None:
            pulls += self._rate_pull(rates @ shares, smoothed @ shares, fall, memory)
        new = {"shares": shares, "rates": weighted, "integral": integral, "pulls": pulls, "look": np.full(1, look)}
        memory.update({name: memory["shares"].new_tensor(value) for name, value in new.items()})

    def _rate_pull(self, rate: float, smoothed: float, fall: float, memory: Memory) -> float:
        """Pull on everybody towards the target overall rate."""
        assert self.positive_rate is not None
        raised = float(memory["rate_pull"]) + _RATE_INTEGRAL * fall * (rate - self.positive_rate)
        raised = min(max(raised, -_LARGEST_PULL), _LARGEST_PULL)
        memory["rate_pull"] = memory["rate_pull"].new_full((1,), raised)
        return raised + _RATE_PROPORTIONAL * (smoothed - self.positive_rate)

    def clip_factors(self, memory: Memory) -> "Tensor | None":
        """Room for pulls on cells with few records: if clipped away, the others would pull down but not up."""
        if not self._by_label:
            return None
        largest = 1 + float(memory["pulls"].abs().max())
        return memory["pulls"].new_full((1,), min(max(_ROOM * largest, 1.0), _MOST_ROOM)).float()

    def score_gradient(self, seen: Seen, memory: Memory) -> "Tensor":
        pulls = memory["pulls"].float().index_select(0, self._cells(seen))
        # (1 + |c|) p − y for a positive pull; a negative one adds its size to the labels too.
        return seen.scores.sigmoid().mul_(1 + pulls.abs()).add_(pulls.clamp(max=0.0)).sub_(seen.labels)


def fairdp_parity(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Our own method: DP-SGD under a constraint on the gap between the groups' decisions, stated by the user.

    Each step releases the decisions of the averaged iterate, counted by group, beside the clipped gradient: one
    Gaussian query on one sample. A controller turns the noisy rates into a pull on each group, public by then, which
    enters the gradient through a convex surrogate. The average of the iterates is deployed.
    """
    control = ParityControl(
        parity=config.parity,
        max_gap=config.max_gap,
        min_ratio=config.min_ratio,
        positive_rate=config.positive_rate,
        batch_size=config.sample_rate * sum(group_sizes),
        group_sizes=group_sizes,
        n_steps=config.n_steps,
        steps_per_look=config.steps_per_look,
    )
    return replace(dpsgd(config, group_sizes), companion=control, averaging="recent")
