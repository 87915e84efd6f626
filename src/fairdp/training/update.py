"""What happens to the parameters after a release: one step, projection, and the heads of the last step."""

import math

import torch
from torch import Tensor

from fairdp.accounting.plan import Plan
from fairdp.config.training import TrainConfig
from fairdp.training.state import FlatOptimizer, TrainingState


def descend(state: TrainingState, noisy: Tensor, plan: Plan, config: TrainConfig) -> None:
    """One update of all parameters by the optimiser, whose step size is lowered where the noise is large.

    Groups with an optimiser each have a row of the gradient and of the optimiser's state: all start from the common
    point, and where they arrive is averaged.
    """
    number, multipliers = state.step - 1, plan.gradient_multipliers
    rate = config.step_size(
        number, n_groups=len(multipliers), noise_multiplier=float(multipliers.min()), noise_std=plan.mean_noise_std
    )
    if state.optimizer.kind == "adam" and config.is_after_adam(number):
        state.optimizer = FlatOptimizer("sgd", config.momentum)
    if not plan.recipe.group_optimizers:
        state.optimizer.step(state.model.params, noisy, rate)
        return
    groups = state.model.params.expand_as(noisy).clone()
    state.optimizer.step(groups, noisy, rate)
    state.model.params.copy_(averaged(groups, plan))


def averaged(groups: Tensor, plan: Plan) -> Tensor:
    """Line 13: the mean of what the groups have made, a row each, with their weights α_k."""
    return torch.tensor(plan.recipe.group_weights) @ groups


def weight_in_average(step: int, n_steps: int) -> float:
    """Weight of the iterate after a step, the first being 1, in the average over the second half of a run."""
    return 1 / max(1, step - n_steps // 2)


def project_to_ball(heads: Tensor, radius: float) -> None:
    """Scale down, in place, every head (w, b) whose norm exceeds M; after the step, so that the release obeys it."""
    if math.isfinite(radius):
        heads.renorm_(2, 0, radius)


def split_into_members(params: Tensor, noisy: Tensor, *, size: int, n_members: int, learning_rate: float) -> Tensor:
    r"""The last step: one SGD step of the extractor and one of each head, from its own part of the batch.

    Head j sees a part of expected size :math:`m_k / N`, so its sum is scaled by N:
    :math:`w_j = w - \eta N (S_j + \mathcal N(0, s^2 I))`.
    """
    n_extractor = params.numel() - size
    extractor = params[:n_extractor] - learning_rate * noisy[:n_extractor]
    sums = noisy[n_extractor:].view(n_members, size)
    heads = params[n_extractor:] - learning_rate * n_members * sums
    return torch.cat([extractor, heads.flatten()])
