"""DP-FERMI: an adversary that bounds how much decisions reveal about the group, trained by the same private steps."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fairdp.accounting.recipe import Coordinates, Recipe
from fairdp.config.training import TrainConfig
from fairdp.methods.dpsgd import dpsgd
from fairdp.training.companion import Companion, Memory, Seen

_LARGEST_NORM = 5.0
_ASCENT_RATE = 0.05
# The adversary's gradient is the longer one: scaled down, it leaves the model's its share of the common clip norm.
_SCALE = 0.1


@dataclass(frozen=True, kw_only=True)
class Adversary(Companion):
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
    def beside(self) -> Coordinates:
        return Coordinates(size=2 * len(self.group_shares))

    def start(self) -> Memory:
        return {"W": torch.zeros(2, len(self.group_shares))}

    def score_gradient(self, seen: Seen, memory: Memory) -> Tensor:
        p, W = torch.sigmoid(seen.scores), memory["W"]
        gain = 2 * (W[1] - W[0])[seen.groups] * self._inverse_roots()[seen.groups] - W[1].square().sum()
        return p - seen.labels + self.weight * (gain + W[0].square().sum()) * p * (1 - p)

    def contributions(self, seen: Seen, memory: Memory) -> Tensor:
        p = torch.sigmoid(seen.scores)
        chances = torch.stack([1 - p, p], 1)
        indicators = torch.nn.functional.one_hot(seen.groups, len(self.group_shares)) * self._inverse_roots()
        return _SCALE * (2 * chances[:, :, None] * (indicators[:, None, :] - memory["W"])).flatten(1)

    def learn(self, noisy: Tensor, memory: Memory) -> None:
        W = memory["W"] + _ASCENT_RATE / _SCALE * noisy.view_as(memory["W"])
        memory["W"] = W * min(1.0, _LARGEST_NORM / max(float(W.norm()), 1e-12))

    def _inverse_roots(self) -> Tensor:
        return torch.tensor(self.group_shares).rsqrt()


def dp_fermi(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Lowy, Gupta and Razaviyayn (2023), "Stochastic differentially private and fair learning", per record.

    The original protects the sensitive attribute only, so its ε cannot be compared with any other here. In this form
    the whole record is protected: both gradients of a record are clipped together, and the shares of the groups come
    from sizes that are public or privately counted. Not run in the FairDP paper.
    """
    shares = tuple(size / sum(group_sizes) for size in group_sizes)
    return replace(dpsgd(config, group_sizes), companion=Adversary(weight=config.fairness_weight, group_shares=shares))
