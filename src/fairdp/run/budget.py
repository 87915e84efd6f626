"""The budget of a run: as it was chosen, or as the chosen noise and number of steps will spend it."""

from collections.abc import Mapping
from typing import Any

from fairdp._checks import ParameterError
from fairdp.accounting.account import sizes_noise
from fairdp.accounting.calibration import epsilon_for
from fairdp.accounting.mechanisms import (
    LARGEST_EPSILON,
    SMALLEST_EPSILON,
    PrivacyBudget,
    SampledGaussian,
    epsilon_spent,
)
from fairdp.accounting.plan import make_plan
from fairdp.accounting.words import NOISY
from fairdp.config.defaults import defaults_of, train_config
from fairdp.methods import METHODS
from fairdp.run.goal import PrivacyGoal

# A recipe needs sizes, but what it costs at a given rate and noise multiplier does not depend on them.
_ANY_SIZE = 1e6


def budget_of(
    goal: PrivacyGoal, *, method: str, kind: str, training: Mapping[str, Any], n_groups: int, group_sizes: str
) -> PrivacyBudget:
    """The budget of a run, with the ε that was chosen or the one that follows.

    What follows is found before anybody is counted, and must not depend on sizes: records are sampled at the rate that
    was chosen or at the default, which is then not raised for small groups. Whatever is released beside the steps gets
    the same share of this ε as it gets of one that was chosen.
    """
    goal.check_for(method, counted=group_sizes == NOISY)
    if not goal.epsilon_follows:
        return goal.budget()
    # Nor does it depend on weights, whose names are held against those of the groups later on.
    chosen = {**at_fixed_rate(training, method, kind), "group_weights": None}
    config = train_config(kind, method, (_ANY_SIZE,) * n_groups, **chosen)
    recipe = METHODS[method].recipe(config, (_ANY_SIZE,) * n_groups)
    given: dict[str, Any] = {"noise_multiplier": goal.noise_multiplier, "n_steps": goal.n_steps}

    def spent_within(epsilon: float) -> float:
        budget = goal.budget(_in_range(goal, epsilon))
        given_and_paid = {**given, **paid_beside(method, budget, group_sizes)}
        plan = make_plan(recipe, budget, **given_and_paid, noisy_sizes=True)
        return max(epsilon_spent(one, goal.delta, accountant=budget.stated_by) for one in set(plan.mechanisms))

    steps = SampledGaussian(sample_rate=max(recipe.sample_rates), **given)
    alone = epsilon_spent(steps, goal.delta, accountant=goal.budget(1.0).stated_by)
    return goal.budget(epsilon_for(spent_within, alone))


def _in_range(goal: PrivacyGoal, epsilon: float) -> float:
    """Refuse noise for which ε would be none that a budget may have."""
    if epsilon < SMALLEST_EPSILON:
        raise ParameterError(
            "noise_multiplier",
            goal.noise_multiplier,
            f"with `n_steps`={goal.n_steps} spends less than {SMALLEST_EPSILON} in ε",
            "use less noise or more steps",
        )
    if epsilon > LARGEST_EPSILON:
        raise ParameterError(
            "noise_multiplier",
            goal.noise_multiplier,
            f"with `n_steps`={goal.n_steps} spends more than {LARGEST_EPSILON} in ε",
            "use more noise or fewer steps",
        )
    return epsilon


def at_fixed_rate(training: Mapping[str, Any], method: str, kind: str) -> dict[str, Any]:
    """The numbers of a run with a sampling rate that does not follow from the sizes of the groups."""
    rate = training["sample_rate"]
    return {**training, "sample_rate": defaults_of(kind, method).sample_rate if rate is None else rate}


def paid_beside(method: str, budget: PrivacyBudget, group_sizes: str) -> dict[str, float]:
    """What is counted beside steps and surveys, as `make_plan` takes it: decisions, and sizes that are not known."""
    sizes = sizes_noise(group_sizes, budget, pure=METHODS[method].closed_form)
    histogram = METHODS[method].histogram_epsilon(budget.epsilon)
    return {"counts_epsilon": sizes.epsilon + histogram, "counts_std": sizes.std}
