"""A separate model for every group, and their average."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from fairdp.accounting.plan import Plan
from fairdp.certify.gaussian import smoothing_bound
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.training.loop import steps
from fairdp.training.state import FlatOptimizer, TrainingState


def train_group_models(
    state: TrainingState, data: GroupedData, plan: Plan, config: TrainConfig, observe: Callable[[TrainingState], None]
) -> tuple[float, ...]:
    """Train the model once on each group, from the same start, and set it to the average of the parameters.

    Returns how far the average is from the parameters of each group, ‖θ − θ_k‖.
    """
    start, finished = state.model.params.clone(), []
    for group in range(data.n_groups):
        members = data.take(np.flatnonzero(data.groups == group))
        alone = replace(
            members, groups=np.zeros_like(members.groups), group_names=members.group_names[group : group + 1]
        )
        state.model.replace_params(start.clone())
        state.optimizer, state.step = FlatOptimizer(state.optimizer.kind, config.momentum), 0
        for _ in steps(state, alone, _plan_of(plan, group), config):
            observe(state)
        finished.append(state.model.params.clone())
    average = torch.stack(finished).mean(0)
    state.model.replace_params(average)
    return tuple(float((average - params).norm()) for params in finished)


def _plan_of(plan: Plan, group: int) -> Plan:
    """The plan of one group's own model."""
    one = slice(group, group + 1)
    recipe = replace(
        plan.recipe,
        group_sizes=plan.recipe.group_sizes[one],
        sample_rates=plan.recipe.sample_rates[one],
        group_weights=(1.0,),
    )
    return replace(plan, recipe=recipe, mechanisms=plan.mechanisms[one])


def smoothing_notes(distances: tuple[float, ...], plan: Plan) -> dict[str, list[float]]:
    """FairSmooth's own bound, for each group and any input.

    It is the most by which the expectation of the averaged model, over all noise on its parameters, can be from that of
    the group's model: no bound on a gap between groups, nor on the deployed decision, which is made from a fixed number
    of draws.
    """
    bounds = [smoothing_bound(distance, smoothing=plan.recipe.parameter_noise) for distance in distances]
    return {"overall_against_group_classifier": bounds}
