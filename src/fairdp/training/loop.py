"""The only training loop: sample, clip, add noise, update, project."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.training.backprop import Backprop, backprop_of
from fairdp.training.clipping import BoundedSum, add_bounded_rows, clip_and_add, gradient_norms
from fairdp.training.companion import Memory, Seen
from fairdp.training.gradients import ApartTerm, LayerTerm
from fairdp.training.inspection import draws_at_random
from fairdp.training.models import ScoreModel
from fairdp.training.noise import add_gaussian_noise
from fairdp.training.recipe import Plan
from fairdp.training.sampling import PoissonSampler
from fairdp.training.update import FlatOptimizer, project_to_ball, split_into_members

# The factor on the clip norm of methods that have but one.
_ONE = torch.ones(1)


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


class Kept(NamedTuple):
    """Gradients of a whole batch that were needed before they are summed, with their norms."""

    terms: list[LayerTerm]
    norms: Tensor


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
        self.groups = torch.from_numpy(data.groups)
        self.sampler = PoissonSampler.of_groups(data.groups, plan.recipe.sample_rates)
        self.weights = torch.from_numpy(plan.recipe.record_weights[data.groups]).to(torch.float32)
        self.multipliers = plan.gradient_multipliers
        self.companion = plan.recipe.companion
        if self.companion is not None and not state.memory:
            state.memory = self.companion.start()
        if plan.recipe.averaging and "average" not in state.memory:
            state.memory["average"] = state.model.params.clone()
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
        with self._own_coins(), self._noisy_params():
            # A batch that fits is scored once: its statistics are released on the way to its gradient.
            one_pass = self._sees_scores and 0 < len(batch) <= self.config.max_physical_batch_size
            kept = None if one_pass else self._release_statistics(batch)
            bounded = self.clipped_sum(batch, n_members, kept, learning=one_pass)
        # Where clip norms differ, noise follows the largest over all groups, whoever is in the batch.
        noise_std = self.plan.noise_std * float(self._clip_factors().max())
        noisy = add_gaussian_noise(bounded, noise_std, accounted_multipliers=self.multipliers, rng=state.noise_rng)
        if self.companion is not None and self.companion.n_further:
            self.companion.follow(noisy[-self.companion.n_further :], state.memory)
            noisy = noisy[: -self.companion.n_further]
        self._update(noisy, n_members)
        project_to_ball(state.model.heads, recipe.weight_bound)
        state.step += 1
        if recipe.averaging:
            self._average()

    def _average(self) -> None:
        """Move the average towards the iterate; after the last step it takes its place."""
        params, average = self.state.model.params, self.state.memory["average"]
        average.lerp_(params, 1 - self.plan.recipe.averaging)
        if self.state.step == self.plan.n_steps:
            params.copy_(average)

    def bounded_statistics(self, batch: Tensor) -> tuple[BoundedSum, Kept | None]:
        """Sum of what the batch adds to the companion's statistics; the gradients too, if they were needed and fit."""
        assert self.companion is not None
        total, kept = torch.zeros(self.companion.n_statistics, dtype=torch.float64), None
        parts = self._parts(batch)
        for part in parts:
            seen, kept = self._seen(part)
            self._add_statistics(seen, total)
        # One batch's gradients fit into memory; those of the last of several parts are not all.
        kept = kept if len(parts) == 1 else None
        return self._statistics(total), kept

    def clipped_sum(
        self, batch: Tensor, n_members: int, kept: Kept | None = None, *, learning: bool = False
    ) -> BoundedSum:
        """Sum of the batch's weighted, clipped gradients; with several members each record goes to a random head.

        The indices are drawn independently of the data, so removing a record moves no other one to another head.
        """
        model, recipe = self.state.model, self.plan.recipe
        n_params = model.n_extractor_params + n_members * (model.width + 1)
        n_further = 0 if self.companion is None else self.companion.n_further
        # Parts are summed in double precision: over many records single precision would round past the bound.
        total = torch.zeros(n_params + n_further, dtype=torch.float64)
        members = None
        if n_members > 1:
            members = torch.from_numpy(self.state.sampling_rng.integers(n_members, size=len(batch)))
        factors = self._clip_factors()
        for part, heads in zip(self._parts(batch), self._parts(batch if members is None else members), strict=True):
            subtotal = torch.zeros(n_params + n_further)
            own_heads = None if members is None else heads
            terms = kept.terms if kept else self._terms(part, own_heads, subtotal[n_params:], learning=learning)[0]
            own = factors if len(factors) == 1 else factors.index_select(0, self.groups.index_select(0, part))
            weights = self.weights.index_select(0, part)
            clip_and_add(
                terms,
                weights,
                clip_norm=recipe.clip_norm * own,
                total=subtotal[:n_params],
                norms=kept.norms if kept else None,
            )
            total += subtotal
        return BoundedSum(total, recipe.sensitivities * factors.numpy())

    def _parts(self, batch: Tensor) -> tuple[Tensor, ...]:
        return torch.split(batch, self.config.max_physical_batch_size) if len(batch) else ()

    def _clip_factors(self) -> Tensor:
        """Factor on the clip norm of each group, or a single one for all."""
        factors = None if self.companion is None else self.companion.clip_factors(self.state.memory)
        return _ONE if factors is None else factors

    def _release_statistics(self, batch: Tensor) -> Kept | None:
        """Let the companion learn what it wants to know; returns the gradients, if they are at hand already."""
        if self.companion is None or not self.companion.n_statistics:
            return None
        bounded, kept = self.bounded_statistics(batch)
        self._learn(bounded)
        return kept

    @property
    def _sees_scores(self) -> bool:
        """Whether the companion's statistics are of the scores that the gradient is made from."""
        own = self.companion
        return own is not None and bool(own.n_statistics) and not own.needs_norms and not own.sees_average

    def _learn(self, bounded: BoundedSum) -> None:
        """Tell the companion its statistics, with their noise."""
        assert self.companion is not None
        accounted = np.full(len(self.multipliers), self.plan.statistics_std)
        noisy = add_gaussian_noise(
            bounded, self.plan.statistics_std, accounted_multipliers=accounted, rng=self.state.noise_rng
        )
        self.companion.learn(noisy, self.state.memory)

    def _add_statistics(self, seen: Seen, total: Tensor) -> None:
        assert self.companion is not None
        # A record without a finite score contributes nothing, though what it would decide is a number.
        add_bounded_rows(self.companion.statistics(seen, self.state.memory), seen.is_finite(), total)

    def _statistics(self, total: Tensor) -> BoundedSum:
        return BoundedSum(total, np.ones(len(self.plan.recipe.group_sizes)))

    def _seen(self, part: Tensor) -> tuple[Seen, Kept | None]:
        """Records as the companion sees them before the gradient is made; with norms, their gradients too."""
        assert self.companion is not None
        if self.companion.needs_norms:
            terms, seen = self._terms(part, None, torch.empty(0))
            assert seen is not None
            norms = gradient_norms(terms)
            return replace(seen, norms=norms), Kept(terms, norms)
        with self._average_in_place():
            head = self.state.model.heads[0]
            scores = torch.addmv(head[-1], self.state.model.embed(self.X.index_select(0, part)), head[:-1])
        return Seen(scores, self.y.index_select(0, part), self.groups.index_select(0, part)), None

    def _terms(
        self, part: Tensor, heads: Tensor | None, further: Tensor, *, learning: bool = False
    ) -> tuple[list[LayerTerm], Seen | None]:
        """Gradients of some records, with what the companion wants clipped together with them, and what it saw."""
        labels, seen = self.y.index_select(0, part), None

        def score_gradient(scores: Tensor) -> Tensor:
            nonlocal seen
            if self.companion is None:
                return torch.sigmoid(scores).sub_(labels)
            seen = Seen(scores, labels, self.groups.index_select(0, part))
            if learning:
                total = torch.zeros(self.companion.n_statistics, dtype=torch.float64)
                self._add_statistics(seen, total)
                self._learn(self._statistics(total))
            return self.companion.score_gradient(seen, self.state.memory)

        terms = self.backprop(self.X.index_select(0, part), score_gradient, heads)
        if len(further):
            assert self.companion is not None
            assert seen is not None
            terms.append(ApartTerm(self.companion.further(seen, self.state.memory), further))
        return terms, seen

    @contextmanager
    def _average_in_place(self) -> Iterator[None]:
        """Let the model be the average, for a companion that looks at it, and then the iterate again."""
        if self.companion is None or not self.companion.sees_average:
            yield
            return
        params = self.state.model.params
        before = params.clone()
        params.copy_(self.state.memory["average"])
        yield
        params.copy_(before)

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
        state.optimizer.step(state.model.params, noisy, rate)
