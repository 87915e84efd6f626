"""The noise that a recipe needs, and everything that is public about a run before it starts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairdp import _checks
from fairdp.accounting.calibration import noise_multiplier_for, survey_std
from fairdp.accounting.mechanisms import (
    LaplaceRelease,
    Mechanism,
    PrivacyBudget,
    SampledGaussian,
    joint_multiplier,
    reading_epsilon,
)
from fairdp.accounting.reading import Reading
from fairdp.accounting.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A recipe with its noise: everything public about a run before it starts.

    Parameters
    ----------
    noise_std
        Standard deviation of the noise on every coordinate of what is released, s: of the weighted sum, or of every
        group's own; where a companion changes the clip norms it grows with the largest.
    mechanisms
        What is accounted for a record of each group: statistics and gradient as one query.
    look_steps
        Steps that are released and accounted like the others but not trained on: each makes the ensemble of one look.
    statistics_std
        Standard deviation of the noise on the companion's statistics, of which a record moves the norm by one.
    survey_stds
        The same for every release outside the steps, by what it is.
    """

    recipe: Recipe
    budget: PrivacyBudget
    n_steps: int
    noise_std: float
    mechanisms: tuple[Mechanism, ...]
    look_steps: int = 0
    statistics_std: float = 0.0
    survey_stds: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # What is accounted must be what is run: a plan changed in one place only is refused.
        if tuple(m.sample_rate for m in self.mechanisms) != tuple(self.recipe.sample_rates):
            raise ValueError("mechanisms must be accounted at the recipe's sample_rates.")
        if any(m.n_steps != self.n_releases for m in self.mechanisms):
            raise ValueError(f"mechanisms must be accounted for n_steps={self.n_releases}.")
        if set(self.survey_stds) != {survey.what for survey in self.recipe.surveys}:
            raise ValueError("survey_stds must name the recipe's surveys.")

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
        """What the accounted multipliers ask of the gradient's noise, beside that of the statistics."""
        return _beside(self.noise_multipliers, self.statistics_std) if self.statistics_std else self.noise_multipliers

    @cached_property
    def statistics_multipliers(self) -> NDArray[np.float64]:
        """What is accounted for the statistics' noise: a record of any group moves them by at most one."""
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

    Looks at a model with several heads, ``n_looks`` of them, need a step more each, but for the last one, which finds
    them made.
    """
    _checks.positive_integer(n_steps=n_steps, n_looks=n_looks)
    look_steps = n_looks - 1 if recipe.n_members > 1 else 0
    paid = _Paid(counts_epsilon, counts_std, _survey_stds(recipe, budget), look_steps, reading)
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
    """What is released beside the steps: pure counts, noisy sizes, surveys, the heads of looks, and columns."""

    counts_epsilon: float
    counts_std: float
    survey_stds: dict[str, float]
    look_steps: int
    reading: Reading | None

    def surveys_multiplier(self, recipe: Recipe) -> float:
        """Noise multiplier of all surveys together; zero for none."""
        each = [std for survey in recipe.surveys for std in [self.survey_stds[survey.what]] * survey.n_looks]
        return joint_multiplier(*each) if any(each) else 0.0


def _survey_stds(recipe: Recipe, budget: PrivacyBudget) -> dict[str, float]:
    return {survey.what: survey_std(budget, survey.share, survey.n_looks) for survey in recipe.surveys}


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
        survey_stds=paid.survey_stds,
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
