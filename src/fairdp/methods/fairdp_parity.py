"""Our earlier method, kept as a baseline: counted decisions steer how much each cell is pulled towards the others."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fairdp.accounting.recipe import Recipe, Statistics
from fairdp.accounting.words import DECISIONS, DECISIONS_BY_LABEL
from fairdp.config.training import TrainConfig
from fairdp.methods.dpsgd import dpsgd
from fairdp.methods.gap_constraints import GapConstraints
from fairdp.training.companion import Companion, Memory, Seen

_SHARE = 0.2
# Ascent over a run whose steps did not fall, on a gap or a positive rate that is exceeded by one.
_ASCENT = 200.0
# Clipping would cut larger pulls on small cells but leave the opposite ones on large cells, until everybody is refused.
_LARGEST_PULL = 3.5


@dataclass(frozen=True, kw_only=True)
class ParityControl(Companion):
    r"""Ascent on multipliers by decisions, with steps that fall to zero; descent on a convex surrogate.

    A record is in one count, that of its cell and decision. Its loss is, for a pull :math:`c` on its cell,

    .. math::
        \ell(z, y) + c^+ \mathrm{softplus}(z) + c^- \mathrm{softplus}(-z),

    a logistic loss with c more negative (or positive) labels: convex, and it does not saturate, so that a gap is not
    closed by refusing everybody.

    Parameters
    ----------
    positive_rate
        Part of all records that should be decided positively; None leaves it free.
    """

    constraints: GapConstraints
    positive_rate: float | None
    n_steps: int

    @property
    def beside(self) -> Statistics:
        what = DECISIONS if self.constraints.parity == "demographic_parity" else DECISIONS_BY_LABEL
        # The positive rate is about everybody, so that those whom no other rate is about are counted too.
        n_cells = self.constraints.n_cells + (self.constraints.parity == "equal_opportunity")
        return Statistics(of="scores", size=2 * n_cells, share=_SHARE, what=what)

    def start(self) -> Memory:
        return self.constraints.start() | {"rate_pull": torch.zeros(1)}

    def contributions(self, seen: Seen, memory: Memory) -> Tensor:
        return self.constraints.histogram(seen, (seen.scores >= 0).float())[:, : self.beside.size]

    def learn(self, noisy: Tensor, memory: Memory) -> None:
        # The steps fall to zero, so that the iterates that are averaged at the end have settled.
        fall = (1 - float(memory["n_steps"]) / self.n_steps) / self.n_steps
        self.constraints.learn(noisy[: 2 * self.constraints.n_cells], memory, _ASCENT * fall)
        if self.positive_rate is not None:
            exceeded = float(noisy[1::2].sum()) / self.constraints.batch_size - self.positive_rate
            raised = memory["rate_pull"] + _ASCENT * fall * exceeded
            memory["rate_pull"] = raised.clamp(-_LARGEST_PULL, _LARGEST_PULL)

    def score_gradient(self, seen: Seen, memory: Memory) -> Tensor:
        # All are scaled alike, so that they stay in balance.
        scale = _LARGEST_PULL / max(float(memory["pulls"].abs().max()), _LARGEST_PULL)
        pulls = scale * self.constraints.pulls_on(seen, memory) + memory["rate_pull"]
        # (1 + |c|) p − y for a positive pull; a negative one adds its size to the labels too.
        return seen.scores.sigmoid() * (1 + pulls.abs()) + pulls.clamp(max=0.0) - seen.labels


def fairdp_parity(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Our own method before `fairdp_frontier`: DP-SGD under a constraint on the gap that the user states.

    Each step releases the decisions of its sample, counted by group, and the clipped gradient: one Gaussian query.
    Multipliers follow the noisy rates; they are public by then, and enter the gradient through a convex surrogate. The
    average over the second half of the steps is deployed.
    """
    control = ParityControl(
        constraints=GapConstraints.of(config, group_sizes),
        positive_rate=config.positive_rate,
        n_steps=config.n_steps,
    )
    return replace(dpsgd(config, group_sizes), companion=control, averaging="second_half")
