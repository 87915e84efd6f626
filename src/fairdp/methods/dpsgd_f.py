"""DPSGD-F: groups whose gradients are clipped more often are clipped less."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fairdp.accounting.recipe import Recipe, Statistics
from fairdp.accounting.words import LONG_GRADIENTS
from fairdp.config.training import TrainConfig
from fairdp.methods.dpsgd import dpsgd
from fairdp.training.companion import Companion, Memory, Seen

_SHARE = 0.02


@dataclass(frozen=True, kw_only=True)
class GroupAdaptiveClip(Companion):
    r"""Clip norms from how many gradients of each group are longer than the base norm :math:`C_0`.

    With noisy counts :math:`m_k` of longer and :math:`b_k` of all gradients of group k in the batch,

    .. math::
        C_k = C_0 \left( 1 + \frac{m_k / b_k}{\sum_j m_j / \sum_j b_j} \right).

    A record is in one of the 2K counts, so their sensitivity is one.
    """

    clip_norm: float
    n_groups: int

    @property
    def beside(self) -> Statistics:
        return Statistics(of="norms", size=2 * self.n_groups, share=_SHARE, what=LONG_GRADIENTS)

    def start(self) -> Memory:
        return {"factors": torch.full((self.n_groups,), 2.0)}

    def contributions(self, seen: Seen, memory: Memory) -> Tensor:
        assert seen.norms is not None
        cells = 2 * seen.groups + (seen.norms > self.clip_norm)
        return torch.nn.functional.one_hot(cells, 2 * self.n_groups).float()

    def learn(self, noisy: Tensor, memory: Memory) -> None:
        shorter, longer = noisy.clamp(min=0).view(-1, 2).T
        counted = shorter + longer
        ratios = (longer / counted) / (longer.sum() / counted.sum())
        # If no count is above zero, nothing is known, and the group is treated as average.
        memory["factors"] = 1 + ratios.nan_to_num(nan=1.0, posinf=1.0)

    def clip_factors(self, memory: Memory) -> Tensor:
        return memory["factors"]


def dpsgd_f(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Xu, Du and Wu (2021), "Removing disparate impact on model accuracy in DP-SGD", Algorithm 2, made private.

    Noise follows the largest clip norm over *all* groups: over those in the batch it would tell who is in it. Counts
    and gradient come from one sample and are accounted as one Gaussian query. Compared with in the FairDP paper.
    """
    clip = GroupAdaptiveClip(clip_norm=config.clip_norm, n_groups=len(group_sizes))
    return replace(dpsgd(config, group_sizes), companion=clip)
