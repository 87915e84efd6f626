"""RaCO-DP: a constraint on the gap between the groups' rates, held by multipliers that follow a private histogram."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fairdp.accounting.recipe import Recipe, Statistics
from fairdp.accounting.words import SOFT_PREDICTIONS, SOFT_PREDICTIONS_BY_LABEL
from fairdp.config.training import TrainConfig
from fairdp.methods.dpsgd import dpsgd
from fairdp.methods.gap_constraints import GapConstraints
from fairdp.training.companion import Companion, Memory, Seen

_SHARE = 0.06
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

    constraints: GapConstraints
    dual_rate: float

    @property
    def beside(self) -> Statistics:
        what = SOFT_PREDICTIONS if self.constraints.parity == "demographic_parity" else SOFT_PREDICTIONS_BY_LABEL
        return Statistics(of="scores", size=2 * self.constraints.n_cells, share=_SHARE, what=what)

    def start(self) -> Memory:
        return self.constraints.start()

    def contributions(self, seen: Seen, memory: Memory) -> Tensor:
        # Records that no rate is about are in the last cell, which is not released.
        return self.constraints.histogram(seen, torch.sigmoid(seen.scores))[:, : self.beside.size]

    def learn(self, noisy: Tensor, memory: Memory) -> None:
        self.constraints.learn(noisy, memory, self.dual_rate)

    def score_gradient(self, seen: Seen, memory: Memory) -> Tensor:
        p, pulls = torch.sigmoid(seen.scores), self.constraints.pulls_on(seen, memory)
        return p - seen.labels + pulls * p * (1 - p)


def raco_dp(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Yaghini et al. (2026), "Private rate-constrained optimization", with Gaussian noise on the histogram too.

    The user states the allowed gap. Multipliers and gradient see the histogram of the same sample, so both are
    accounted as one Gaussian query, where the published code adds up two separately sampled ones. The record's pull
    follows public numbers only, so clipping bounds it. Not in the FairDP paper; the state of the art that came after.
    Its sample rate, epochs and optimiser are in `fairdp.config.defaults`.
    """
    constraints = GapConstraints.of(config, group_sizes)
    companion = RateConstraints(constraints=constraints, dual_rate=_ASCENT / config.n_steps)
    return replace(dpsgd(config, group_sizes), companion=companion)
