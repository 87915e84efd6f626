"""The only training loop: sample, clip, add noise, update, project."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.training.backprop import Backprop, backprop_of
from fairdp.training.clipping import BoundedSum, clip_and_add
from fairdp.training.inspection import draws_at_random
from fairdp.training.models import ScoreModel
from fairdp.training.noise import add_gaussian_noise
from fairdp.training.recipe import Plan
from fairdp.training.sampling import PoissonSampler
from fairdp.training.update import FlatOptimizer, project_to_ball, split_into_members


class PrivacyBudgetExceeded(RuntimeError):
    """A step beyond those that were planned and accounted for."""


@dataclass(eq=False)
class TrainingState:
    """Everything that changes from step to step; a checkpoint of it continues the same run."""

    model: ScoreModel
    optimizer: FlatOptimizer
    sampling_rng: np.random.Generator
    noise_rng: np.random.Generator
    step: int = 0


Observer = Callable[[TrainingState], bool | None]


def train(state: TrainingState, data: GroupedData, plan: Plan, config: TrainConfig, observe: Observer) -> None:
    """Take all the steps that the plan has left, or until the observer, told of each, says that it is enough."""
    trainer = Trainer(state, data, plan, config)
    while state.step < plan.n_steps:
        trainer.step()
        if observe(state):
            return


class Trainer:
    """One run on one data set.

    Group models that start from the same point and take one step average to one step along the average gradient, so
    a group is a weight per record and no group model ever exists.
    """

    def __init__(self, state: TrainingState, data: GroupedData, plan: Plan, config: TrainConfig) -> None:
        self.state, self.plan, self.config = state, plan, config
        # Torch wants memory it may write to, though nothing here writes; only read-only arrays are copied.
        self.X = torch.from_numpy(np.require(data.X, np.float32, ["C", "W"]))
        self.y = torch.tensor(data.y, dtype=torch.float32)
        self.sampler = PoissonSampler.of_groups(data.groups, plan.recipe.sample_rates)
        self.weights = torch.from_numpy(plan.recipe.record_weights[data.groups]).to(torch.float32)
        self.sensitivities, self.multipliers = plan.recipe.sensitivities, plan.noise_multipliers
        self.backprop: Backprop = backprop_of(state.model)
        self.draws_at_random = draws_at_random(state.model)
        if config.n_steps != plan.n_steps:
            raise ValueError(f"the plan has n_steps={plan.n_steps}, the configuration n_steps={config.n_steps}.")
        project_to_ball(state.model.heads, plan.recipe.weight_bound)

    @torch.no_grad()
    def step(self) -> None:
        """One release and what follows from it; refused when the planned releases are used up."""
        state, recipe = self.state, self.plan.recipe
        if state.step >= self.plan.n_steps:
            raise PrivacyBudgetExceeded(f"all {self.plan.n_steps} planned steps are taken; plan for more beforehand.")
        n_members = recipe.n_members if state.step == self.plan.n_steps - 1 else 1
        batch = torch.from_numpy(self.sampler.draw(state.sampling_rng))
        with self._own_coins():
            bounded = self.clipped_sum(batch, n_members)
        noisy = add_gaussian_noise(
            bounded, self.plan.noise_std, accounted_multipliers=self.multipliers, rng=state.noise_rng
        )
        self._update(noisy, n_members)
        project_to_ball(state.model.heads, recipe.weight_bound)
        state.step += 1

    def clipped_sum(self, batch: Tensor, n_members: int) -> BoundedSum:
        """Sum of the batch's weighted, clipped gradients; with several members each record goes to a random head.

        The indices are drawn independently of the data, so removing a record moves no other one to another head.
        """
        model = self.state.model
        size = model.n_extractor_params + n_members * (model.width + 1)
        # Parts are summed in double precision: over many records single precision would round past the bound.
        total = torch.zeros(size, dtype=torch.float64)
        members = None
        if n_members > 1:
            members = torch.from_numpy(self.state.sampling_rng.integers(n_members, size=len(batch)))
        records = self.config.max_physical_batch_size
        for start in range(0, len(batch), records):
            part, subtotal = batch[start : start + records], torch.zeros(size)
            heads = None if members is None else members[start : start + records]
            terms = self.backprop(self.X.index_select(0, part), self._loss_gradient(part), heads)
            clip_and_add(
                terms, self.weights.index_select(0, part), clip_norm=self.plan.recipe.clip_norm, total=subtotal
            )
            total += subtotal
        return BoundedSum(total, self.sensitivities)

    @contextmanager
    def _own_coins(self) -> Iterator[None]:
        """Let dropout take its coins from the run's generator, so that a resumed run tosses the same ones."""
        if not self.draws_at_random:
            yield
            return
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(self.state.sampling_rng.integers(2**63)))
            yield

    def _loss_gradient(self, part: Tensor) -> Callable[[Tensor], Tensor]:
        """∂/∂z of the logistic loss, σ(z) − y."""
        labels = self.y.index_select(0, part)
        return lambda scores: torch.sigmoid(scores).sub_(labels)

    def _update(self, noisy: Tensor, n_members: int) -> None:
        state, config = self.state, self.config
        if n_members > 1:
            members = split_into_members(
                state.model.params,
                noisy,
                width=state.model.width,
                n_members=n_members,
                learning_rate=config.sgd_learning_rate,
            )
            state.model.replace_params(members)
            return
        smallest = float(self.multipliers.min())
        rate = config.learning_rate(state.step, n_groups=len(self.multipliers), noise_multiplier=smallest)
        if config.optimizer == "adam_then_sgd" and state.step >= 0.9 * self.plan.n_steps:
            rate = config.sgd_learning_rate
            if state.optimizer.kind == "adam":
                state.optimizer = FlatOptimizer("sgd", config.momentum)
        state.optimizer.step(state.model.params, noisy, rate)
