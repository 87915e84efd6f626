"""What a plan spends: epsilon of every group, by PLD and by moments."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fairdp.accounting.calibration import SIZES_SHARE, sizes_std
from fairdp.accounting.mechanisms import (
    RELATION,
    Mechanism,
    PrivacyBudget,
    SampledGaussian,
    bound_by,
    reading_epsilon,
)
from fairdp.accounting.plan import Plan
from fairdp.accounting.selection import Selection, TrialSpend
from fairdp.accounting.spent import PrivacySpent
from fairdp.accounting.words import BY_LABEL, DECLARED, EXACT, NOISY, PUBLIC
from fairdp.config.parameters import ACCOUNTANTS

# Share of epsilon that counting the groups of fresh records costs, which a certificate has to itself: enough for counts
# that are right to a few dozen records.
FRESH_SIZES_SHARE = 0.05


@dataclass(frozen=True, kw_only=True)
class SizesNoise:
    """How the sizes of the groups are counted: with discrete Laplace noise of a pure ε, or with Gaussian noise."""

    epsilon: float = 0.0
    std: float = 0.0


def known_sizes(chosen: object, *, private: bool) -> str:
    """How group sizes are known, as a code, if this was chosen for a method and budget that are private or not."""
    if chosen is None:
        return NOISY if private else EXACT
    return PUBLIC if chosen == PUBLIC else DECLARED


def sizes_noise(group_sizes: str, budget: PrivacyBudget, *, pure: bool) -> SizesNoise:
    """What counting the training records of each group takes out of a budget: nothing, unless it is done with noise.

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
    counts = SizesNoise(
        epsilon=max(mechanism.counts_epsilon for mechanism in plan.mechanisms) - histogram_epsilon,
        std=counts_std_of(plan.mechanisms, selection),
    )
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
        counts_epsilon=counts.epsilon,
        counts_std=counts.std,
        noise_seeded=noise_seeded,
        public_assumptions=public_assumptions,
        mechanisms=dict(zip(group_names, plan.mechanisms, strict=True)),
        statistics="" if plan.recipe.statistics is None else plan.recipe.statistics.what,
        statistics_multiplier=plan.statistics_std,
        surveys=dict(plan.survey_stds),
        histogram_epsilon=histogram_epsilon,
        certify_fraction=certify_fraction,
        certify_epsilons=dict(zip(certified_names or group_names, certified, strict=False)),
        reading=reading,
        selection=selection,
    )


def trial_spends(spent: PrivacySpent) -> dict[str, TrialSpend]:
    """What one trial with this record may spend on a record of each group; a group sampled by label counts twice."""
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
