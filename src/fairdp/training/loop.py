"""The only training loop: Algorithm 1 of the paper, line by line, with Algorithm 2 (DP-MC) as its last step."""

from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from torch import Tensor

from fairdp.accounting.plan import Plan
from fairdp.accounting.recipe import Coordinates, Statistics
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.networks.inspection import draws_at_random
from fairdp.streams import StepKeys
from fairdp.training.clipping import BoundedSum
from fairdp.training.companion import Companion, LogisticLoss, Memory
from fairdp.training.noise import add_gaussian_noise
from fairdp.training.records import Block, Records
from fairdp.training.sampling import PoissonSampler, Positions, blocks_of
from fairdp.training.state import TrainingState
from fairdp.training.sums import Sums
from fairdp.training.surveys import tell_input_layer
from fairdp.training.update import averaged, descend, project_to_ball, split_into_members, weight_in_average


class PrivacyBudgetExceeded(RuntimeError):
    """A step beyond those that were planned and accounted for."""


def steps(state: TrainingState, data: GroupedData, plan: Plan, config: TrainConfig) -> Iterator[TrainingState]:
    """Take the remaining planned steps, one at a time; the caller may look at each, and may stop."""
    trainer = Trainer(state, data, plan, config)
    while state.step < plan.n_steps:
        trainer.step()
        yield state


class Trainer:
    """One run on one data set.

    Group models that start from the same point and take one step of SGD average to one step along the average gradient,
    so a group is a weight per record and no group model exists. With an optimiser for every group, the gradient has a
    row for each of them, and an update makes the group models from it.
    """

    def __init__(self, state: TrainingState, data: GroupedData, plan: Plan, config: TrainConfig) -> None:
        if config.n_steps != plan.n_steps:
            raise ValueError(f"the plan has n_steps={plan.n_steps}, the configuration n_steps={config.n_steps}.")
        self.state, self.plan, self.config, recipe = state, plan, config, plan.recipe
        if state.model.n_cells != recipe.n_cells:
            raise ValueError(f"the recipe needs a model of {recipe.n_cells} cells, got one of {state.model.n_cells}.")
        # A plan knows what a companion costs; the loop knows what it does.
        self.companion = cast(Companion | None, recipe.companion) or LogisticLoss()
        self.beside = self.companion.beside
        if not state.step:
            tell_input_layer(state.model, data, plan, state.chain)
        blocks = blocks_of(data.n_samples, sum(recipe.group_sizes), recipe.expected_batch_sizes.sum())
        self.sampler = PoissonSampler.of_groups(data.groups, recipe.sample_rates, blocks=blocks)
        self.records = Records(state.model, data, recipe, max_part=config.max_physical_batch_size)
        self.sums = Sums(state.model, recipe, self.companion)
        if not isinstance(self.beside, Statistics) and self.companion.clip_factors(self.companion.start()) is not None:
            raise ValueError(
                "clip norms may follow released statistics only: the privacy statement tells of no others."
            )
        self.draws_at_random = draws_at_random(state.model)
        state.memory = state.memory or self.companion.start()
        if recipe.averaging != "none" and state.average is None:
            state.average = state.model.params.clone()
        project_to_ball(state.model.heads, recipe.weight_bound)

    @torch.no_grad()
    def step(self) -> None:
        """One release and what follows from it; refused when the planned releases are used up."""
        is_last = self.state.step == self.plan.n_steps - 1
        n_members = self.plan.recipe.n_members if is_last else 1
        self.update(self.release(n_members), n_members)
        self.settle()

    @torch.no_grad()
    def release(self, n_members: int = 1) -> Tensor:
        """The noisy gradient of one step, flat, or a row for each group; what is made from it costs no more privacy."""
        state = self.state
        if state.step >= self.plan.n_steps:
            raise PrivacyBudgetExceeded(f"all {self.plan.n_steps} planned steps have been taken; plan more beforehand.")
        # Counted before it is made: if anything goes wrong from here on, something may have been seen.
        state.step += 1
        return self._noisy_gradient(n_members)

    @torch.no_grad()
    def ensemble(self) -> Tensor:
        """Algorithm 2 from where training is, for a look: a release of its own, after which training goes on as before.

        Returns the parameters that the model would have, with all its heads.
        """
        looked, recipe = self.state.looked, self.plan.recipe
        if looked.n_ensembles >= self.plan.look_steps:
            raise PrivacyBudgetExceeded(f"all {self.plan.look_steps} planned looks have been taken.")
        looked.n_ensembles += 1
        made = self._members(self._noisy_gradient(recipe.n_members), recipe.n_members)
        project_to_ball(made[self.state.model.n_extractor_params :].view(recipe.n_members, -1), recipe.weight_bound)
        return made

    def _noisy_gradient(self, n_members: int) -> Tensor:
        state = self.state
        keys = state.chain.step()
        chosen = self.sampler.draw(keys)  # Line 7: every group at its own rate.
        with state.model.moved_to(self._smoothed(keys)):
            coins = keys if self.draws_at_random else None
            batch = self.records.batch(chosen, members_of(chosen, n_members, keys), coins)
            memory = self._learned(batch, keys)
            bounded = self.sums.clipped_gradients(batch, memory, n_members)  # Lines 8 to 10; its sensitivity with it.
        noisy = self._with_noise(bounded, keys)  # Line 11.
        if isinstance(self.beside, Coordinates):
            self.companion.learn(noisy[-self.beside.size :], state.memory)
            noisy = noisy[: -self.beside.size]
        if self.plan.recipe.group_optimizers:
            # Each group's own mean; where there is one gradient for all, records have these weights already.
            noisy /= torch.from_numpy(self.plan.recipe.expected_batch_sizes[:, None])
        return noisy

    def update(self, noisy: Tensor, n_members: int) -> None:
        """Lines 12 and 13: one update, which averages those of the groups; or Algorithm 2, which is SGD for all."""
        state, config = self.state, self.config
        if n_members == 1:
            descend(state, noisy, self.plan, config)
            return
        state.model.replace_params(self._members(noisy, n_members))

    def _members(self, noisy: Tensor, n_members: int) -> Tensor:
        noisy = averaged(noisy, self.plan) if self.plan.recipe.group_optimizers else noisy
        model, rate = self.state.model, self.config.sgd_learning_rate
        return split_into_members(model.params, noisy, size=model.head_size, n_members=n_members, learning_rate=rate)

    @torch.no_grad()
    def settle(self) -> None:
        """What follows an update: the bound M on the head (line 4), and the average of the iterates."""
        state, recipe = self.state, self.plan.recipe
        project_to_ball(state.model.heads, recipe.weight_bound)
        if state.average is not None:
            state.average.lerp_(state.model.params, weight_in_average(state.step, self.plan.n_steps))
            if state.step == self.plan.n_steps:
                state.deploy_average()

    def _learned(self, batch: list[Block], keys: StepKeys) -> Memory:
        """What the companion knows as this step's gradient is made: its statistics, if any, are released first."""
        state = self.state
        if not isinstance(self.beside, Statistics):
            return state.memory
        bounded = self.sums.statistics(batch, state.memory)
        std, multipliers = self.plan.statistics_std, self.plan.statistics_multipliers
        stream = keys.stream("statistics")
        noisy = add_gaussian_noise(bounded, std, accounted_multipliers=multipliers, stream=stream, purpose="statistics")
        state.memory = dict(state.memory)
        self.companion.learn(noisy, state.memory)
        return state.memory

    def _with_noise(self, bounded: BoundedSum, keys: StepKeys) -> Tensor:
        """If clip norms differ, the noise follows the largest over all groups, whoever is in the batch."""
        std, multipliers = self.plan.noise_std, self.plan.gradient_multipliers
        std *= float((bounded.sensitivities / self.plan.recipe.sensitivities).max()) if std else 0.0
        return add_gaussian_noise(bounded, std, accounted_multipliers=multipliers, stream=keys.stream("noise"))

    def _smoothed(self, keys: StepKeys) -> Tensor:
        """Where gradients are taken: at the parameters, or, to train a smoothed model, with fresh noise on them."""
        model, deviation = self.state.model, self.plan.recipe.parameter_noise
        if not deviation:
            return model.params
        return model.with_noise(deviation, np.random.default_rng(keys.seed("parameters")))


def members_of(chosen: list[Positions], n_members: int, keys: StepKeys) -> list[Tensor] | None:
    """Algorithm 2: the head of each record, drawn independently of the data: removing one record moves no other."""
    if n_members == 1:
        return None
    draws = (keys.stream(f"members {number}").words(len(block)) for number, block in enumerate(chosen))
    return [torch.from_numpy((words % np.uint64(n_members)).astype(np.int64)) for words in draws]
