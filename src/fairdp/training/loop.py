"""The only training loop: sample, clip, add noise, update, project."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from fairdp.accounting.plan import Plan
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.networks.inspection import draws_at_random
from fairdp.networks.models import ScoreModel
from fairdp.training.clipping import BoundedSum
from fairdp.training.companion import Companion, Memory
from fairdp.training.noise import add_gaussian_noise
from fairdp.training.sampling import PoissonSampler
from fairdp.training.sums import BatchSums, Kept
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
    memory: Memory = field(default_factory=dict)


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
        self.sampler = PoissonSampler.of_groups(data.groups, plan.recipe.sample_rates)
        self.multipliers = plan.gradient_multipliers
        self.companion = cast(Companion | None, plan.recipe.companion)
        if self.companion is not None and not state.memory:
            state.memory = self.companion.start()
        if plan.recipe.averaging and "average" not in state.memory:
            state.memory["average"] = state.model.params.clone()
        self.sums = BatchSums(state.model, data, plan.recipe, config)
        self.draws_at_random = draws_at_random(state.model)
        if config.n_steps != plan.n_steps:
            raise ValueError(f"the plan has n_steps={plan.n_steps}, the configuration n_steps={config.n_steps}.")
        project_to_ball(state.model.heads, plan.recipe.weight_bound)

    @torch.no_grad()
    def step(self) -> None:
        """One release and what follows from it; refused when the planned releases are used up."""
        n_members = self.plan.recipe.n_members if self.state.step == self.plan.n_steps - 1 else 1
        self._update(self.release(n_members), n_members)
        self.end_step()

    @torch.no_grad()
    def release(self, n_members: int = 1) -> Tensor:
        """The noisy gradient of one step, flat; whatever is made from it costs no more privacy."""
        state = self.state
        self.check_budget()
        batch = torch.from_numpy(self.sampler.draw(state.sampling_rng))
        with self._own_coins(), self._noisy_params():
            bounded = self._released(batch, n_members)
        noisy = add_gaussian_noise(
            bounded, self._noise_std(bounded), accounted_multipliers=self.multipliers, rng=state.noise_rng
        )
        if self.companion is not None and self.companion.n_further:
            self.companion.follow(noisy[-self.companion.n_further :], state.memory)
            noisy = noisy[: -self.companion.n_further]
        return noisy

    def check_budget(self) -> None:
        """Refuse a release beyond those that were planned."""
        if self.state.step >= self.plan.n_steps:
            raise PrivacyBudgetExceeded(f"all {self.plan.n_steps} planned steps are taken; plan for more beforehand.")

    @torch.no_grad()
    def end_step(self) -> None:
        """What follows an update: the bound on the head, the count of the steps, the average."""
        project_to_ball(self.state.model.heads, self.plan.recipe.weight_bound)
        self.state.step += 1
        if self.plan.recipe.averaging:
            self._average()

    def deploy(self) -> None:
        """Put the average of the iterates, where there is one, in place of the last."""
        if self.plan.recipe.averaging:
            self.state.model.params.copy_(self.state.memory["average"])

    def _released(self, batch: Tensor, n_members: int) -> BoundedSum:
        """The gradient; the companion learns its statistics before it, on the way to it, or after."""
        own = self.companion
        # Accounted as if every step released statistics: releasing less costs no more.
        if own is None or not own.n_statistics or self.state.step % own.steps_per_look:
            return self.clipped_sum(batch, n_members)
        if own.sees_average:
            # What is seen of the average steers the next step: one pass over the records for both.
            statistics = self.sums.no_statistics()
            bounded = self.clipped_sum(batch, n_members, seen_at=self.seen_point(), statistics=statistics)
            self._learn(self.sums.bounded(statistics))
            return bounded
        if not own.needs_norms and 0 < len(batch) <= self.config.max_physical_batch_size:
            # A batch that fits is scored once: its statistics are released on the way to its gradient.
            return self.clipped_sum(batch, n_members, learn=self._learn)
        found, kept = self.bounded_statistics(batch)
        self._learn(found)
        return self.clipped_sum(batch, n_members, kept=kept)

    def clipped_sum(self, batch: Tensor, n_members: int, **options: Any) -> BoundedSum:
        """Sum of the batch's weighted, clipped gradients; with several members each record goes to a random head.

        The indices are drawn independently of the data, so removing a record moves no other one to another head.
        """
        members = None
        if n_members > 1:
            members = torch.from_numpy(self.state.sampling_rng.integers(n_members, size=len(batch)))
        return self.sums.clipped_sum(batch, self.state.memory, members=members, n_members=n_members, **options)

    def bounded_statistics(self, batch: Tensor) -> tuple[BoundedSum, Kept | None]:
        """Sum of what the batch adds to the companion's statistics, and the gradients, if they were needed for it."""
        return self.sums.bounded_statistics(batch, self.state.memory, self.seen_point())

    def seen_point(self) -> Tensor:
        """Parameters of the model whose scores the companion sees.

        Where it is to see the average, this is first the iterate and moves towards the average with every step: what
        the average will be, while a controller still changes much, and by the end what is deployed. Seen through the
        average alone, whatever a controller does would show some twenty steps later, and it would swing.
        """
        params = self.state.model.params
        if self.companion is None or not self.companion.sees_average:
            return params
        return torch.lerp(params, self.state.memory["average"], self.state.step / self.plan.n_steps)

    def _noise_std(self, bounded: BoundedSum) -> float:
        """Where clip norms differ, noise follows the largest over all groups, whoever is in the batch."""
        if not self.plan.noise_std:
            return 0.0
        return self.plan.noise_std * float((bounded.sensitivities / self.plan.recipe.sensitivities).max())

    def _learn(self, bounded: BoundedSum) -> None:
        """Tell the companion its statistics, with their noise."""
        assert self.companion is not None
        accounted = np.full(len(self.multipliers), self.plan.statistics_std)
        noisy = add_gaussian_noise(
            bounded, self.plan.statistics_std, accounted_multipliers=accounted, rng=self.state.noise_rng
        )
        self.companion.learn(noisy, self.state.memory)

    def _average(self) -> None:
        """Move the average towards the iterate; after the last step it takes its place."""
        params, average = self.state.model.params, self.state.memory["average"]
        average.lerp_(params, 1 - self.plan.recipe.averaging)
        if self.state.step == self.plan.n_steps:
            self.deploy()

    @contextmanager
    def _noisy_params(self) -> Iterator[None]:
        """Take gradients at parameters with fresh noise, and put back the very same parameters."""
        if not self.plan.recipe.parameter_noise:
            yield
            return
        params = self.state.model.params
        before = params.clone()
        noise = torch.from_numpy(self.state.noise_rng.standard_normal(len(params))).float()
        params.add_(noise, alpha=self.plan.recipe.parameter_noise)
        yield
        params.copy_(before)

    @contextmanager
    def _own_coins(self) -> Iterator[None]:
        """Let dropout take its coins from the run's generator, so that a resumed run tosses the same ones."""
        if not self.draws_at_random:
            yield
            return
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(self.state.sampling_rng.integers(2**63)))
            yield

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
        if self.plan.noise_std:
            rate = min(rate, config.largest_noise_step / self.plan.noise_std)
        state.optimizer.step(state.model.params, noisy, rate)
