"""A method as numbers: what one step of it releases."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fairdp import _checks

ALLOCATIONS = ("per_group", "average", "laplace", "none")
AVERAGES = ("none", "second_half")


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Sums that a step releases beside the gradient, with noise of their own; a record moves their norm by at most one.

    Statistics and gradient come from the same sample, so that a step is one Gaussian query on it, accounted as one.

    Parameters
    ----------
    of
        What a record's contribution is made from. ``"scores"``: its score; ``"norms"``: the norm of its gradient too.
        Both are released before the gradient and steer it.
    size
        Number of coordinates.
    share
        Part of a step's privacy that goes to the statistics: their share of the inverse variances.
    what
        What the statistics are, as a code of `fairdp.accounting.words`.
    """

    of: Literal["scores", "norms"]
    size: int
    share: float
    what: str

    def __post_init__(self) -> None:
        # With no share they would be planned, and released, without noise.
        _checks.in_unit_interval(share=self.share)


@dataclass(frozen=True, kw_only=True)
class Coordinates:
    """Coordinates that are clipped together with a record's gradient and released with it, at no further cost."""

    size: int


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A Gaussian release about all training records, outside the steps; one record moves its norm by at most one.

    Parameters
    ----------
    what
        What is released, as a code of `fairdp.accounting.words`.
    share
        Part of the whole privacy, in inverse variances.
    n_looks
        Number of releases that share it.
    """

    what: str
    share: float
    n_looks: int = 1

    def __post_init__(self) -> None:
        _checks.in_unit_interval(share=self.share)
        _checks.positive_integer(n_looks=self.n_looks)


class Companion(Protocol):
    """What a method releases beside the gradient, as far as its cost goes; what it does is for the training loop."""

    @property
    def beside(self) -> Statistics | Coordinates | None:
        """Statistics, coordinates, or nothing."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    r"""What one step of a method releases: a weighted sum of clipped gradients over Poisson samples of the groups.

    .. math::
        \sum_k \frac{\alpha_k}{m_k} \sum_{i \in B_k} g_i \min(1, C / \|g_i\|), \qquad m_k = q_k n_k.

    The normaliser :math:`m_k` is the expected batch size, a public number: the realised one is private. Where every
    group has its own optimiser the sums of the groups are released one by one, and weighted afterwards.

    Parameters
    ----------
    group_sizes
        Public (or privately counted) size of each group, :math:`n_k`.
    sample_rates
        Chance of a record of each group to be in a batch, :math:`q_k`.
    group_weights
        Weight of each group's mean gradient, :math:`\alpha_k`.
    clip_norm
        Bound on the norm of one record's gradient, :math:`C`; infinite for a method that does not clip.
    noise_allocation
        ``"average"``: one draw, just large enough for the most exposed group. ``"per_group"``: the sum of
        independent draws of :math:`\mathcal N(0, \sigma^2 C^2)` on every group's sum, as in the paper.
        ``"laplace"``: one release with Laplace noise on every group's sum, whose sensitivity is then in the L1 norm.
        ``"none"``: not private.
    weight_bound
        Bound on the norm of the head with its bias, :math:`M`.
    n_members
        Heads made in the last step, :math:`N`; one means an ordinary last step.
    companion
        What is released beside the gradient, and how it changes loss and clipping.
    parameter_noise
        Deviation of the noise on the parameters at which gradients are taken; zero for none.
    averaging
        Which average of the iterates is deployed: ``"none"`` deploys the last iterate, ``"second_half"``
        weighs those of the second half of the run alike.
    surveys
        What is released about all training records, before and after the steps.
    joint
        Whether the model has an output for each cell, group by label.
    group_models
        Whether every group trains a model of its own, all of which are averaged at the end.
    group_optimizers
        Whether every group keeps its own optimiser, and only what they make of a step is averaged.
    """

    group_sizes: tuple[float, ...]
    sample_rates: tuple[float, ...]
    group_weights: tuple[float, ...]
    clip_norm: float
    noise_allocation: str
    weight_bound: float = math.inf
    n_members: int = 1
    companion: Companion | None = None
    parameter_noise: float = 0.0
    averaging: str = "none"
    surveys: tuple[Survey, ...] = ()
    joint: bool = False
    group_models: bool = False
    group_optimizers: bool = False

    def __post_init__(self) -> None:
        _checks.positive(clip_norm=self.clip_norm, weight_bound=self.weight_bound)
        _checks.positive_integer(n_members=self.n_members)
        _checks.one_of(ALLOCATIONS, noise_allocation=self.noise_allocation)
        _checks.one_of(AVERAGES, averaging=self.averaging)
        if not len(self.group_sizes) == len(self.sample_rates) == len(self.group_weights):
            lengths = f"{len(self.group_sizes)}, {len(self.sample_rates)} and {len(self.group_weights)}"
            raise ValueError(f"group_sizes, sample_rates and group_weights need one entry per group, got {lengths}.")
        for size, rate, weight in zip(self.group_sizes, self.sample_rates, self.group_weights, strict=True):
            _checks.finite_positive(group_sizes=size, group_weights=weight)
            _checks.sample_rate(sample_rate=rate)
        if self.noise_allocation != "none" and math.isinf(self.clip_norm):
            raise ValueError(f"noise_allocation={self.noise_allocation!r} needs a finite clip_norm, got inf.")
        if self.group_optimizers and (self.noise_allocation != "per_group" or self.companion is not None):
            raise ValueError("group_optimizers need noise_allocation='per_group' and no companion.")

    @cached_property
    def statistics(self) -> Statistics | None:
        """What is released beside the gradient with noise of its own, if anything is."""
        beside = None if self.companion is None else self.companion.beside
        return beside if isinstance(beside, Statistics) else None

    @property
    def n_cells(self) -> int:
        """Outputs of a joint model; zero for an ordinary one."""
        return 2 * len(self.group_sizes) if self.joint else 0

    @cached_property
    def expected_batch_sizes(self) -> NDArray[np.float64]:
        """Expected number of records of each group in a batch, m_k."""
        return np.multiply(self.sample_rates, self.group_sizes)

    @cached_property
    def shares_in_mean(self) -> NDArray[np.float64]:
        """Factor on the sum of each group in the averaged gradient, α_k / m_k."""
        return np.asarray(self.group_weights) / self.expected_batch_sizes

    @cached_property
    def record_weights(self) -> NDArray[np.float64]:
        """Factor on the clipped gradient of a record of each group: α_k / m_k, or one where groups are apart."""
        return np.ones(len(self.group_sizes)) if self.group_optimizers else self.shares_in_mean

    @cached_property
    def sensitivities(self) -> NDArray[np.float64]:
        """How far one record of each group can move what is released: α_k C / m_k, or C in its group's own sum."""
        return self.clip_norm * self.record_weights
