"""What a run would cost, from public numbers alone."""

from typing import Any

from fairdp import _validate
from fairdp.accounting import PrivacyBudget
from fairdp.config import check_groups, train_config
from fairdp.methods import METHODS
from fairdp.privacy import privacy_spent
from fairdp.training.recipe import make_plan


def plan_report(
    *,
    group_sizes: tuple[int, ...],
    method: str,
    epsilon: float,
    delta: float,
    sample_rate: float | None,
    n_steps: int | None,
    clip_norm: float | None,
    weight_bound: float,
    n_members: int,
    noise_allocation: str,
) -> dict[str, Any]:
    """Noise and epsilon per group of a run on groups of these sizes, with the defaults of the MLP."""
    _validate.one_of(METHODS, method=method)
    for size in group_sizes:
        _validate.positive_integer(group_sizes=size)
    budget = PrivacyBudget(epsilon=epsilon, delta=delta)
    budget.check_for(sum(group_sizes))
    names = tuple(f"group {index}" for index in range(len(group_sizes)))
    check_groups(names, tuple(float(size) for size in group_sizes), sample_rate)
    config = train_config(
        "mlp",
        min(group_sizes),
        sample_rate=sample_rate,
        n_steps=n_steps,
        clip_norm=clip_norm,
        learning_rate=None,
        weight_bound=weight_bound,
        n_members=n_members,
        noise_allocation=noise_allocation,
    )
    recipe = METHODS[method].recipe(config, tuple(float(size) for size in group_sizes))
    plan = make_plan(recipe, budget, n_steps=config.n_steps)
    spent = privacy_spent(plan, names, group_sizes="public", noise_seeded=False)
    return {
        "method": method,
        "group_sizes": list(group_sizes),
        "expected_batch_sizes": recipe.expected_batch_sizes.tolist(),
        "sensitivities": recipe.sensitivities.tolist(),
        "privacy": spent.to_dict(),
    }
