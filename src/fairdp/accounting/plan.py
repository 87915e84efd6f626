"""Recipe and plan: what one step of a method releases, with how much noise, and what that spends.

A recipe has no noise; `make_plan` finds the least that keeps every group within a budget, and `privacy_spent` accounts
for a plan. What a method does at a step beyond DP-SGD is its `AuxiliaryMechanism`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairdp import errors
from fairdp.accounting.mechanisms import (
    RELATION,
    SIZES_SHARE,
    LaplaceRelease,
    Mechanism,
    PrivacyBudget,
    Reading,
    SampledGaussian,
    bound_by,
    joint_multiplier,
    noise_multiplier_for,
    query_std,
    reading_epsilon,
    sizes_std,
)
from fairdp.accounting.selection import Selection, TrialSpend
from fairdp.accounting.spent import BY_LABEL, DECLARED, EXACT, NOISY, PUBLIC, PrivacySpent
from fairdp.parameters import ACCOUNTANTS

if TYPE_CHECKING:
    from torch import Tensor

# Released numbers that a method carries from step to step. Whatever follows from them is post-processing.
Memory: TypeAlias = "dict[str, Tensor]"

ALLOCATIONS = ("per_group", "average", "laplace", "none")
AVERAGES = ("none", "second_half")
# Share of epsilon that counting the groups of fresh records costs, which a certificate has to itself: enough for counts
# that are right to a few dozen records.
FRESH_SIZES_SHARE = 0.05


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
        What the statistics are, as a code of `fairdp.accounting.spent`.
    """

    of: Literal["scores", "norms"]
    size: int
    share: float
    what: str

    def __post_init__(self) -> None:
        # With no share they would be planned, and released, without noise.
        errors.in_unit_interval(share=self.share)


@dataclass(frozen=True, kw_only=True)
class Coordinates:
    """Coordinates that are clipped together with a record's gradient and released with it, at no further cost."""

    size: int


@dataclass(frozen=True, kw_only=True)
class Query:
    """A Gaussian release about all training records, outside the steps; one record moves its norm by at most one.

    Parameters
    ----------
    what
        What is released, as a code of `fairdp.accounting.spent`.
    share
        Part of the whole privacy, in inverse variances.
    n_looks
        Number of releases that share it; not looks at held-out records.
    """

    what: str
    share: float
    n_looks: int = 1

    def __post_init__(self) -> None:
        errors.in_unit_interval(share=self.share)
        errors.positive_integer(n_looks=self.n_looks)


@dataclass(frozen=True, eq=False)
class BatchView:
    """Some records of a batch, as a method sees them: scores, labels, group codes, gradient norms before clipping.

    Each has shape (n_records,); ``norms`` only for statistics of norms.
    """

    scores: "Tensor"
    labels: "Tensor"
    groups: "Tensor"
    norms: "Tensor | None" = None

    def is_finite(self) -> "Tensor":
        """Which records have finite scores and gradients."""
        return self.scores.isfinite() if self.norms is None else self.norms.isfinite()


class AuxiliaryMechanism(Protocol):
    """A method's own part in every step; anything it leaves out works as in DP-SGD.

    A method states only how a record contributes to what is released (``auxiliary_release``); the loop bounds the
    contribution, adds the noise that was planned for it, and hands back the noisy sum.
    """

    @property
    def auxiliary_release(self) -> Statistics | Coordinates | None:
        """Statistics or coordinates released with the gradient, or nothing."""
        return None

    def start(self) -> Memory:
        """The memory before the first step."""
        return {}

    def contributions(self, view: BatchView, memory: Memory) -> "Tensor":
        """Each record's part of what is released beside the gradient, shape (n_records, ``auxiliary_release.size``)."""
        return view.scores.new_empty(len(view.scores), 0)

    def learn(self, noisy: "Tensor", memory: Memory) -> None:
        """Take the noisy sum of the contributions into memory."""
        return

    def score_gradient(self, view: BatchView, memory: Memory) -> "Tensor":
        """∂loss/∂z of each record; the logistic loss has σ(z) − y."""
        return view.scores.sigmoid().sub_(view.labels)

    def clip_factors(self, memory: Memory) -> "Tensor | None":
        """Factor on the clip norm of each group; None for one."""
        return None


class LogisticLoss(AuxiliaryMechanism):
    """Nothing beyond DP-SGD."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    r"""One step of a method: it releases a weighted sum of clipped gradients over Poisson samples of the groups.

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
    auxiliary
        What is released beside the gradient, and how it changes loss and clipping.
    parameter_noise
        Deviation of the noise on the parameters at which gradients are taken; zero for none.
    averaging
        Which average of the iterates is deployed: ``"none"`` deploys the last iterate, ``"second_half"``
        weighs those of the second half of the run alike.
    queries
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
    auxiliary: AuxiliaryMechanism | None = None
    parameter_noise: float = 0.0
    averaging: str = "none"
    queries: tuple[Query, ...] = ()
    joint: bool = False
    group_models: bool = False
    group_optimizers: bool = False

    def __post_init__(self) -> None:
        errors.positive(clip_norm=self.clip_norm, weight_bound=self.weight_bound)
        errors.positive_integer(n_members=self.n_members)
        errors.one_of(ALLOCATIONS, noise_allocation=self.noise_allocation)
        errors.one_of(AVERAGES, averaging=self.averaging)
        if not len(self.group_sizes) == len(self.sample_rates) == len(self.group_weights):
            lengths = f"{len(self.group_sizes)}, {len(self.sample_rates)} and {len(self.group_weights)}"
            raise ValueError(f"group_sizes, sample_rates and group_weights need one entry per group, got {lengths}.")
        for size, rate, weight in zip(self.group_sizes, self.sample_rates, self.group_weights, strict=True):
            errors.finite_positive(group_sizes=size, group_weights=weight)
            errors.sample_rate(sample_rate=rate)
        if self.noise_allocation != "none" and math.isinf(self.clip_norm):
            raise ValueError(f"noise_allocation={self.noise_allocation!r} needs a finite clip_norm, got inf.")
        if self.group_optimizers and (self.noise_allocation != "per_group" or self.auxiliary is not None):
            raise ValueError("group_optimizers need noise_allocation='per_group' and no auxiliary mechanism.")

    @cached_property
    def statistics(self) -> Statistics | None:
        """Sums released beside the gradient with noise of their own, if there are any."""
        auxiliary_release = None if self.auxiliary is None else self.auxiliary.auxiliary_release
        return auxiliary_release if isinstance(auxiliary_release, Statistics) else None

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
        """L2 sensitivity of a step to one record of each group: α_k C / m_k, or C in its group's own sum."""
        return self.clip_norm * self.record_weights


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A recipe with its noise and its number of steps: what a run releases, fixed before it starts.

    Parameters
    ----------
    recipe, budget, n_steps
        What a step releases, what it must stay within, and how many steps train the model.
    noise_std
        Standard deviation of the noise on every coordinate of what is released, s: of the weighted sum, or of every
        group's own; where an auxiliary mechanism changes the clip norms it grows with the largest.
    mechanisms
        What is accounted for a record of each group: statistics and gradient as one query.
    look_steps
        Steps that are released and accounted like the others but not trained on: each makes the ensemble of one look.
    statistics_std
        Standard deviation of the noise on the auxiliary mechanism's statistics, of which a record moves the norm by
        one.
    query_stds
        The same for every release outside the steps, by what it is.
    """

    recipe: Recipe
    budget: PrivacyBudget
    n_steps: int
    noise_std: float
    mechanisms: tuple[Mechanism, ...]
    look_steps: int = 0
    statistics_std: float = 0.0
    query_stds: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # What is accounted must be what is run: a plan changed in one place only is refused.
        if tuple(m.sample_rate for m in self.mechanisms) != tuple(self.recipe.sample_rates):
            raise ValueError("mechanisms must be accounted at the recipe's sample_rates.")
        if any(m.n_steps != self.n_releases for m in self.mechanisms):
            raise ValueError(f"mechanisms must be accounted for n_steps={self.n_releases}.")
        if set(self.query_stds) != {query.what for query in self.recipe.queries}:
            raise ValueError("query_stds must name the recipe's queries.")

    @property
    def n_releases(self) -> int:
        """All noisy steps, those that only a look needs included."""
        return self.n_steps + self.look_steps

    @cached_property
    def noise_multipliers(self) -> NDArray[np.float64]:
        """Accounted noise over sensitivity for each group."""
        return np.array([mechanism.noise_multiplier for mechanism in self.mechanisms])

    @cached_property
    def mean_noise_std(self) -> float:
        """Deviation of the noise on the averaged gradient, by which the parameters move."""
        if not self.recipe.group_optimizers:
            return self.noise_std
        return self.noise_std * float(np.linalg.norm(self.recipe.shares_in_mean))

    @cached_property
    def gradient_multipliers(self) -> NDArray[np.float64]:
        """Noise over sensitivity of the gradient alone, beside the noise of the statistics."""
        return _beside(self.noise_multipliers, self.statistics_std) if self.statistics_std else self.noise_multipliers

    @cached_property
    def statistics_multipliers(self) -> NDArray[np.float64]:
        """Noise over sensitivity of the statistics: a record of any group moves them by at most one."""
        return np.full(len(self.mechanisms), self.statistics_std)


def make_plan(
    recipe: Recipe,
    budget: PrivacyBudget,
    *,
    n_steps: int,
    n_looks: int = 1,
    counts_epsilon: float = 0.0,
    counts_std: float = 0.0,
    reading: Reading | None = None,
    noisy_sizes: bool = False,
    noise_multiplier: float | None = None,
) -> Plan:
    r"""Find the least noise with which every group stays within the budget, or take the noise that is given.

    ``average``: :math:`s = \max_k z_k \Delta_k` with :math:`z_k` the multiplier that the rate of group k needs; each
    group is then accounted with its own :math:`s / \Delta_k`, which is larger than needed for all but one group.
    ``per_group``: :math:`s = \sigma C \sqrt{\sum_k (\alpha_k / m_k)^2}` with one σ for all groups, which is what
    parallel composition over the groups accounts; the sum of the independent draws is a single Gaussian. Where groups
    have their own optimisers, every group's sum is released, with a draw of deviation :math:`s = \sigma C`.
    Statistics get their share of the largest :math:`1 / z_k^2`, the gradient what is left in each group. What is
    counted beside is paid first: at a pure ε, or sizes with discrete Gaussian noise of a deviation; and so is the
    reading of a table whose columns are not declared.

    Noisy sizes are a release too, and :math:`s / \Delta_k` follows from them: accounted with it, a group would seem to
    spend least in just the outcomes in which its count tells most. Then each is accounted with :math:`z_k`, which was
    fixed before anybody was counted.

    A given ``noise_multiplier`` takes the place of every :math:`z_k`: it is that of the most exposed group.

    Looks at held-out records, ``n_looks`` of them, with a model of several heads need a step more each, but for the
    last one, which finds them made.
    """
    errors.positive_integer(n_steps=n_steps, n_looks=n_looks)
    look_steps = n_looks - 1 if recipe.n_members > 1 else 0
    query_stds = {query.what: query_std(budget, query.share, query.n_looks) for query in recipe.queries}
    paid = _Paid(counts_epsilon, counts_std, query_stds, look_steps, reading)
    if recipe.noise_allocation == "none" or math.isinf(budget.epsilon):
        return _plan(recipe, budget, n_steps, 0.0, np.zeros(len(recipe.group_sizes)), paid)
    training = replace(budget, epsilon=budget.epsilon - counts_epsilon)
    if recipe.noise_allocation == "laplace":
        return _laplace_plan(recipe, budget, training.epsilon, counts_epsilon, reading)
    needed = np.array(
        [
            noise_multiplier
            or noise_multiplier_for(
                training,
                sample_rate=rate,
                n_steps=n_steps + look_steps,
                counts_std=counts_std,
                surveys_multiplier=paid.surveys_multiplier(recipe),
                reading=reading,
            )
            for rate in recipe.sample_rates
        ]
    )
    share = recipe.statistics.share if recipe.statistics is not None else 0.0
    statistics_std = float(needed.max()) / math.sqrt(share) if share else 0.0
    if share:
        needed = _beside(needed, statistics_std)
    if recipe.noise_allocation == "average":
        noise_std = float((needed * recipe.sensitivities).max())
        multipliers = needed if noisy_sizes else noise_std / recipe.sensitivities
    else:
        multipliers = np.full_like(needed, needed.max())
        moved = recipe.sensitivities.max() if recipe.group_optimizers else np.linalg.norm(recipe.sensitivities)
        noise_std = float(needed.max() * moved)
    if share:
        multipliers = np.array([joint_multiplier(multiplier, statistics_std) for multiplier in multipliers])
    return _plan(recipe, budget, n_steps, noise_std, multipliers, paid, statistics_std)


class _Paid(NamedTuple):
    """Releases beside the steps: pure counts, noisy sizes, queries, the heads of looks, and columns."""

    counts_epsilon: float
    counts_std: float
    query_stds: dict[str, float]
    look_steps: int
    reading: Reading | None

    def surveys_multiplier(self, recipe: Recipe) -> float:
        """Noise multiplier of all queries together; zero for none."""
        each = [std for query in recipe.queries for std in [self.query_stds[query.what]] * query.n_looks]
        return joint_multiplier(*each) if any(each) else 0.0


def _plan(
    recipe: Recipe,
    budget: PrivacyBudget,
    n_steps: int,
    noise_std: float,
    multipliers: NDArray[np.float64],
    paid: _Paid,
    statistics_std: float = 0.0,
) -> Plan:
    mechanisms = tuple(
        SampledGaussian(
            sample_rate=rate,
            noise_multiplier=float(z),
            n_steps=n_steps + paid.look_steps,
            counts_epsilon=paid.counts_epsilon,
            counts_std=paid.counts_std,
            surveys_multiplier=paid.surveys_multiplier(recipe),
            reading=paid.reading,
        )
        for rate, z in zip(recipe.sample_rates, multipliers, strict=True)
    )
    return Plan(
        recipe=recipe,
        budget=budget,
        n_steps=n_steps,
        look_steps=paid.look_steps,
        noise_std=noise_std,
        mechanisms=mechanisms,
        statistics_std=statistics_std,
        query_stds=paid.query_stds,
    )


def _laplace_plan(
    recipe: Recipe, budget: PrivacyBudget, epsilon: float, counts_epsilon: float, reading: Reading | None
) -> Plan:
    """One release at a pure ε, whatever the number of steps asked for; the reading of a table has its own before."""
    epsilon -= reading_epsilon(reading, budget.delta)
    release = LaplaceRelease(noise_multiplier=1 / epsilon, counts_epsilon=counts_epsilon, reading=reading)
    return Plan(
        recipe=recipe,
        budget=budget,
        n_steps=1,
        noise_std=float(recipe.sensitivities.max()) / epsilon,
        mechanisms=(release,) * len(recipe.group_sizes),
    )


def _beside(joint: NDArray[np.float64], other: float) -> NDArray[np.float64]:
    """The multiplier that makes, together with another query's, this joint one: the inverse of `joint_multiplier`."""
    return 1 / np.sqrt(1 / joint**2 - 1 / other**2)


@dataclass(frozen=True, kw_only=True)
class SizesNoise:
    """Noise on the sizes of the groups: discrete Laplace noise of a pure ε, or Gaussian noise of a deviation."""

    epsilon: float = 0.0
    std: float = 0.0


def known_sizes(chosen: object, *, private: bool) -> str:
    """Code of how group sizes are known, by choice; by default counted, with noise if training is private."""
    if chosen is None:
        return NOISY if private else EXACT
    return PUBLIC if chosen == PUBLIC else DECLARED


def sizes_noise(group_sizes: str, budget: PrivacyBudget, *, pure: bool) -> SizesNoise:
    """Noise on the counted training records of each group, out of the budget; none where sizes are known otherwise.

    A method with a pure guarantee keeps it: its sizes have Laplace noise.
    """
    if group_sizes != NOISY:
        return SizesNoise()
    return SizesNoise(epsilon=SIZES_SHARE * budget.epsilon) if pure else SizesNoise(std=sizes_std(budget))


def privacy_spent(
    plan: Plan,
    group_names: tuple[str, ...],
    *,
    certified_names: tuple[str, ...] | None = None,
    group_sizes: str,
    noise_seeded: bool,
    public_assumptions: tuple[str, ...] = (),
    certify_fraction: float = 0.0,
    histogram_epsilon: float = 0.0,
    selection: Selection | None = None,
) -> PrivacySpent:
    """Account for all the steps of a plan, group by group, and for a certificate from a held-out fraction.

    Where the groups that are sampled are finer than those that are certified, ``certified_names`` names the latter. A
    plan that is one trial of a selection spends what the selection does.
    """
    delta, accountant = plan.budget.delta, plan.budget.stated_by
    bounds = {name: [bound_by(name, mechanism, delta) for mechanism in plan.mechanisms] for name in ACCOUNTANTS}
    epsilons = bounds[accountant]
    counts_epsilon = max(mechanism.counts_epsilon for mechanism in plan.mechanisms) - histogram_epsilon
    n_certified = len(certified_names or group_names)
    # What is stated by either accountant must hold for the records that are held out, too.
    least = [min(pair) for pair in zip(*bounds.values(), strict=True)]
    reading = plan.mechanisms[0].reading if selection is None else selection.reading
    certified = certify_epsilons(plan, least, n_certified) if certify_fraction else []
    if len(group_names) > n_certified and group_sizes == PUBLIC and BY_LABEL not in public_assumptions:
        public_assumptions = (*public_assumptions, BY_LABEL)
    if selection is not None:
        accountant = "rdp"
        epsilons = [selection.epsilon(name, delta) for name in group_names]
        bounds = {"rdp": epsilons, "pld": [math.inf]}
    return PrivacySpent(
        epsilon=max(epsilons),
        delta=delta,
        epsilon_by_group=dict(zip(group_names, epsilons, strict=True)),
        accountant=accountant,
        epsilon_rdp=max(bounds["rdp"]),
        epsilon_pld=max(bounds["pld"]),
        noise_multiplier=float(plan.noise_multipliers.min()),
        noise_allocation=plan.recipe.noise_allocation,
        noise_std=plan.noise_std,
        mean_noise_std=plan.mean_noise_std,
        group_optimizers=plan.recipe.group_optimizers,
        planned_sizes=dict(zip(group_names, plan.recipe.group_sizes, strict=True)),
        sensitivities=dict(zip(group_names, plan.recipe.sensitivities.tolist(), strict=True)),
        sample_rate=max(plan.recipe.sample_rates),
        n_steps=plan.n_releases,
        look_steps=plan.look_steps,
        clip_norm=plan.recipe.clip_norm,
        relation=RELATION,
        group_sizes=group_sizes,
        counts_epsilon=counts_epsilon,
        counts_std=counts_std_of(plan.mechanisms, selection),
        noise_seeded=noise_seeded,
        public_assumptions=public_assumptions,
        mechanisms=dict(zip(group_names, plan.mechanisms, strict=True)),
        statistics="" if plan.recipe.statistics is None else plan.recipe.statistics.what,
        statistics_multiplier=plan.statistics_std,
        surveys=dict(plan.query_stds),
        histogram_epsilon=histogram_epsilon,
        certify_fraction=certify_fraction,
        certify_epsilons=dict(zip(certified_names or group_names, certified, strict=False)),
        reading=reading,
        selection=selection,
    )


def trial_spends(spent: PrivacySpent) -> dict[str, TrialSpend]:
    """Largest spending of one trial with this record, by group; a group sampled by label counts twice."""
    held_out = spent.certify_epsilons
    return {
        name: TrialSpend(mechanism=mechanism, held_out_epsilon=held_out.get(name, max(held_out.values(), default=0.0)))
        for name, mechanism in spent.mechanisms.items()
    }


def counts_std_of(mechanisms: Iterable[Mechanism], selection: Selection | None) -> float:
    """Deviation of the noise on sizes, from where it is paid: in one run, or once for a whole search."""
    if selection is not None:
        return selection.counts_std
    sampled = [mechanism for mechanism in mechanisms if isinstance(mechanism, SampledGaussian)]
    return max((mechanism.counts_std for mechanism in sampled), default=0.0)


def certify_epsilons(plan: Plan, trained: list[float], n_groups: int) -> list[float]:
    """Pure ε of the certification records of each group: the least its training records spend, so that is no more.

    Group sizes are counted over the training records alone, so that these pay nothing for them; but columns that are
    not declared are read from all records. Beside training without noise the budget itself is the limit.
    """
    smallest = np.reshape(trained, (n_groups, -1)).min(1).tolist()
    read = reading_epsilon(plan.mechanisms[0].reading, plan.budget.delta)
    return [min(epsilon, plan.budget.epsilon) - read for epsilon in smallest]
