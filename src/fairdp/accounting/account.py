"""What a plan spends: epsilon of every group, by PLD and by moments."""

import math

import numpy as np

from fairdp.accounting.mechanisms import RELATION, epsilon_spent
from fairdp.accounting.plan import Plan
from fairdp.accounting.selection import Selection, TrialSpend
from fairdp.accounting.spent import PrivacySpent
from fairdp.accounting.words import BY_LABEL

# Share of epsilon that private group sizes cost: enough for counts that are right to a few dozen records.
COUNTS_SHARE = 0.05


def group_sizes_epsilon(group_sizes: str, epsilon: float) -> float:
    """Pure ε that knowing the group sizes costs: none of public ones, and none beside training without noise."""
    return COUNTS_SHARE * epsilon if group_sizes == "private" and math.isfinite(epsilon) else 0.0


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
    delta = plan.budget.delta
    epsilons = [epsilon_spent(mechanism, delta) for mechanism in plan.mechanisms]
    counts_epsilon = max(m.counts_epsilon for m in plan.mechanisms) - histogram_epsilon
    n_certified = len(certified_names or group_names)
    certified = certify_epsilons(plan, epsilons, counts_epsilon, n_certified) if certify_fraction else []
    if len(group_names) > n_certified and group_sizes == "public" and BY_LABEL not in public_assumptions:
        public_assumptions = (*public_assumptions, BY_LABEL)
    epsilon_rdp = max(epsilon_spent(mechanism, delta, accountant="rdp") for mechanism in plan.mechanisms)
    if selection is not None:
        epsilons = [selection.epsilon(name, delta) for name in group_names]
        epsilon_rdp = max(epsilons)
    return PrivacySpent(
        epsilon=max(epsilons),
        delta=delta,
        epsilon_by_group=dict(zip(group_names, epsilons, strict=True)),
        accountant="pld" if selection is None else "rdp",
        epsilon_rdp=epsilon_rdp,
        noise_multiplier=float(plan.noise_multipliers.min()),
        noise_allocation=plan.recipe.noise_allocation,
        noise_std=plan.noise_std,
        planned_sizes=dict(zip(group_names, plan.recipe.group_sizes, strict=True)),
        sensitivities=dict(zip(group_names, plan.recipe.sensitivities.tolist(), strict=True)),
        sample_rate=max(plan.recipe.sample_rates),
        n_steps=plan.n_steps,
        clip_norm=plan.recipe.clip_norm,
        relation=RELATION,
        group_sizes=group_sizes,
        counts_epsilon=counts_epsilon,
        noise_seeded=noise_seeded,
        public_assumptions=public_assumptions,
        mechanisms=dict(zip(group_names, plan.mechanisms, strict=True)),
        statistics="" if plan.recipe.statistics is None else plan.recipe.statistics.what,
        statistics_multiplier=plan.statistics_std,
        histogram_epsilon=histogram_epsilon,
        certify_fraction=certify_fraction,
        certify_epsilons=dict(zip(certified_names or group_names, certified, strict=False)),
        selection=selection,
    )


def trial_spends(spent: PrivacySpent) -> dict[str, TrialSpend]:
    """What one trial with this record may spend on a record of each group; a group sampled by label counts twice."""
    held_out = spent.certify_epsilons
    return {
        name: TrialSpend(mechanism=mechanism, held_out_epsilon=held_out.get(name, max(held_out.values(), default=0.0)))
        for name, mechanism in spent.mechanisms.items()
    }


def certify_epsilons(plan: Plan, trained: list[float], counts_epsilon: float, n_groups: int) -> list[float]:
    """Pure ε of the certification records of each group: the least its training records spend, so that is no more.

    Noisy group sizes are counted over both parts, so their cost is taken off. Beside training without noise the budget
    itself is the limit.
    """
    smallest = np.reshape(trained, (n_groups, -1)).min(1).tolist()
    return [min(epsilon, plan.budget.epsilon) - counts_epsilon for epsilon in smallest]
