"""The training step: Algorithm 1 of the paper, line by line, with Algorithm 2 (DP-MC) as its last step.

`Trainer.step` is one pass; `fairdp.run.fit.train_model` repeats it, and so does `steps`. A method changes what a step
does by its recipe and its auxiliary mechanism alone; nothing about the records leaves a step but by
`add_gaussian_noise`.
"""

import ctypes
import math
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, get_ident
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairdp.accounting.plan import AuxiliaryMechanism, Coordinates, LogisticLoss, Memory, Plan, Statistics
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.networks.model import ScoreModel, draws_at_random
from fairdp.randomness import Chain, StepKeys
from fairdp.training.noise import BoundedSum, PoissonSampler, Positions, add_gaussian_noise, blocks_of
from fairdp.training.sums import Block, Records, Sums, calibrate_input_layer

# Parameters of glibc's mallopt: they can be set, but not read, and once set they no longer adapt to the program.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
# The values they reach by themselves in a program that frees large blocks.
_USUAL = {_TRIM_THRESHOLD: 64 * 2**20, _MMAP_THRESHOLD: 32 * 2**20, _MMAP_MAX: 65536}
# Numbers in a batch of images above which a second thread pays off.
_WORTH_SHARING = 200_000
_LOCK = Lock()
# Runs that are under way: the thread of each, and the number of torch's threads when the first of them came.
_UNDER_WAY: list[tuple[int, int]] = []


class PrivacyBudgetExceeded(RuntimeError):
    """A step beyond those that were planned and accounted for."""


@dataclass(eq=False)
class InterimResults:
    """Findings of the looks at the held-out records so far.

    ``n_ensembles`` counts the releases that were made for them beside the steps, and ``counts`` are what each look
    released. ``kept`` are the parameters of the last look that met what is required, or of the first if that did not.
    ``missed`` says whether the last look missed it, which ends training.
    """

    n_ensembles: int = 0
    counts: list[Any] = field(default_factory=list)
    kept: Tensor | None = None
    missed: bool = False


@dataclass(eq=False)
class TrainingState:
    """Everything that changes from step to step; a checkpoint of it continues the same run.

    ``step`` counts releases, and ``chain`` holds the keys of those to come. ``average`` is that of the iterates, for
    methods that deploy it.
    """

    model: ScoreModel
    optimizer: "FlatOptimizer"
    chain: Chain
    step: int = 0
    memory: Memory = field(default_factory=dict)
    average: Tensor | None = None
    interim: InterimResults = field(default_factory=InterimResults)

    def deploy_average(self) -> None:
        """Replace the last iterate with the average of the iterates, if there is one."""
        if self.average is not None:
            self.model.params.copy_(self.average)


def steps(state: TrainingState, data: GroupedData, plan: Plan, config: TrainConfig) -> Iterator[TrainingState]:
    """Take the remaining planned steps, one at a time; the caller may look at each, and may stop."""
    trainer = Trainer(state, data, plan, config)
    while state.step < plan.n_steps:
        trainer.step()
        yield state


class Trainer:
    """The steps of one run; see `fairdp.run.certifying.Run` for the run itself.

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
        self.auxiliary: AuxiliaryMechanism = recipe.auxiliary or LogisticLoss()
        self.auxiliary_release = self.auxiliary.auxiliary_release
        if not state.step:
            calibrate_input_layer(state.model, data, plan, state.chain)
        blocks = blocks_of(data.n_samples, sum(recipe.group_sizes), recipe.expected_batch_sizes.sum())
        self.sampler = PoissonSampler.of_groups(data.groups, recipe.sample_rates, blocks=blocks)
        self.records = Records(state.model, data, recipe, max_part=config.max_physical_batch_size)
        self.sums = Sums(state.model, recipe, self.auxiliary)
        if (
            not isinstance(self.auxiliary_release, Statistics)
            and self.auxiliary.clip_factors(self.auxiliary.start()) is not None
        ):
            raise ValueError(
                "clip norms may follow released statistics only: the privacy statement tells of no others."
            )
        self.draws_at_random = draws_at_random(state.model)
        state.memory = state.memory or self.auxiliary.start()
        if recipe.averaging != "none" and state.average is None:
            state.average = state.model.params.clone()
        project_to_ball(state.model.heads, recipe.weight_bound)

    @torch.no_grad()
    def step(self) -> None:
        """One release (lines 7 to 11) and what follows from it (lines 12, 13 and 4), which costs no more privacy."""
        is_last = self.state.step == self.plan.n_steps - 1
        n_members = self.plan.recipe.n_members if is_last else 1
        self.update(self.release(n_members), n_members)
        self.settle()

    @torch.no_grad()
    def release(self, n_members: int = 1) -> Tensor:
        """The noisy gradient of one step, flat, or a row for each group; refused when planned releases are used up."""
        state = self.state
        if state.step >= self.plan.n_steps:
            raise PrivacyBudgetExceeded(f"all {self.plan.n_steps} planned steps have been taken; plan more beforehand.")
        # Counted before it is made: if anything goes wrong from here on, something may have been seen.
        state.step += 1
        return self._noisy_gradient(n_members)

    def _noisy_gradient(self, n_members: int) -> Tensor:
        """Lines 7 to 11: sample, clip and sum each group, add noise."""
        state = self.state
        keys = state.chain.step()
        chosen = self.sampler.draw(keys)  # Line 7: every group at its own rate.
        with state.model.moved_to(self._smoothed(keys)):
            coins = keys if self.draws_at_random else None
            batch = self.records.batch(chosen, members_of(chosen, n_members, keys), coins)
            memory = self._learned(batch, keys)
            bounded = self.sums.clipped_gradients(batch, memory, n_members)  # Lines 8 to 10; its sensitivity with it.
        noisy = self._with_noise(bounded, keys)  # Line 11.
        if isinstance(self.auxiliary_release, Coordinates):
            self.auxiliary.learn(noisy[-self.auxiliary_release.size :], state.memory)
            noisy = noisy[: -self.auxiliary_release.size]
        if self.plan.recipe.group_optimizers:
            # Each group's own mean; where there is one gradient for all, records have these weights already.
            noisy /= torch.from_numpy(self.plan.recipe.expected_batch_sizes[:, None])
        return noisy

    def _smoothed(self, keys: StepKeys) -> Tensor:
        """Where gradients are taken: at the parameters, or, to train a smoothed model, with fresh noise on them."""
        model, deviation = self.state.model, self.plan.recipe.parameter_noise
        if not deviation:
            return model.params
        return model.with_noise(deviation, np.random.default_rng(keys.seed("parameters")))

    def _learned(self, batch: list[Block], keys: StepKeys) -> Memory:
        """The auxiliary memory as this step's gradient is made: statistics, if any, are released first."""
        state = self.state
        if not isinstance(self.auxiliary_release, Statistics):
            return state.memory
        bounded = self.sums.statistics(batch, state.memory)
        std, multipliers = self.plan.statistics_std, self.plan.statistics_multipliers
        stream = keys.stream("statistics")
        noisy = add_gaussian_noise(bounded, std, accounted_multipliers=multipliers, stream=stream, purpose="statistics")
        state.memory = dict(state.memory)
        self.auxiliary.learn(noisy, state.memory)
        return state.memory

    def _with_noise(self, bounded: BoundedSum, keys: StepKeys) -> Tensor:
        """If clip norms differ, the noise follows the largest over all groups, whoever is in the batch."""
        std, multipliers = self.plan.noise_std, self.plan.gradient_multipliers
        std *= float((bounded.sensitivities / self.plan.recipe.sensitivities).max()) if std else 0.0
        return add_gaussian_noise(bounded, std, accounted_multipliers=multipliers, stream=keys.stream("noise"))

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
        """Line 4 and post-processing: the bound M on the head, and the average of the iterates."""
        state, recipe = self.state, self.plan.recipe
        project_to_ball(state.model.heads, recipe.weight_bound)
        if state.average is not None:
            state.average.lerp_(state.model.params, weight_in_average(state.step, self.plan.n_steps))
            if state.step == self.plan.n_steps:
                state.deploy_average()

    @torch.no_grad()
    def ensemble(self) -> Tensor:
        """Algorithm 2 from where training is, for a look: a release of its own, after which training goes on as before.

        Returns the parameters that the model would have, with all its heads.
        """
        interim, recipe = self.state.interim, self.plan.recipe
        if interim.n_ensembles >= self.plan.look_steps:
            raise PrivacyBudgetExceeded(f"all {self.plan.look_steps} planned looks have been taken.")
        interim.n_ensembles += 1
        made = self._members(self._noisy_gradient(recipe.n_members), recipe.n_members)
        project_to_ball(made[self.state.model.n_extractor_params :].view(recipe.n_members, -1), recipe.weight_bound)
        return made


def members_of(chosen: list[Positions], n_members: int, keys: StepKeys) -> list[Tensor] | None:
    """Algorithm 2: the head of each record, drawn independently of the data: removing one record moves no other."""
    if n_members == 1:
        return None
    draws = (keys.stream(f"members {number}").words(len(block)) for number, block in enumerate(chosen))
    return [torch.from_numpy((words % np.uint64(n_members)).astype(np.int64)) for words in draws]


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


def descend(state: TrainingState, noisy: Tensor, plan: Plan, config: TrainConfig) -> None:
    """One update of all parameters by the optimiser, whose step size is lowered where the noise is large.

    Groups with an optimiser each have a row of the gradient and of the optimiser's state: all start from the common
    point, and where they arrive is averaged.
    """
    number, multipliers = state.step - 1, plan.gradient_multipliers
    rate = config.step_size(
        number,
        n_groups=len(multipliers),
        n_params=state.model.params.numel(),
        noise_multiplier=float(multipliers.min()),
        noise_std=plan.mean_noise_std,
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


def project_to_ball(heads: Tensor, radius: float) -> None:
    """Scale down, in place, every head (w, b) whose norm exceeds M; after the step, so that the release obeys it."""
    if math.isfinite(radius):
        heads.renorm_(2, 0, radius)


def weight_in_average(step: int, n_steps: int) -> float:
    """Weight of the iterate after a step, the first being 1, in the average over the second half of a run."""
    return 1 / max(1, step - n_steps // 2)


@dataclass(eq=False)
class FlatOptimizer:
    """SGD with momentum or Adam on one vector; its state is a few tensors, so a checkpoint needs no pickle."""

    kind: str
    momentum: float = 0.0
    n_updates: int = 0
    state: dict[str, Tensor] = field(default_factory=dict)

    def step(self, params: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Move the parameters, in place, against a noisy gradient."""
        self.n_updates += 1
        if self.kind == "adam":
            self._adam(params, gradient, learning_rate)
        elif self.momentum:
            velocity = self._buffer("velocity", params).mul_(self.momentum).add_(gradient)
            params.sub_(velocity, alpha=learning_rate)
        else:
            params.sub_(gradient, alpha=learning_rate)

    def _adam(self, params: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Kingma and Ba (2015), Algorithm 1, with its default constants."""
        first = self._buffer("first_moment", params).lerp_(gradient, 0.1)
        second = self._buffer("second_moment", params).mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        scale = (1 - 0.999**self.n_updates) ** 0.5
        denominator = second.sqrt().add_(1e-8 * scale)
        params.addcdiv_(first, denominator, value=-learning_rate * scale / (1 - 0.9**self.n_updates))

    def _buffer(self, name: str, like: Tensor) -> Tensor:
        if name not in self.state:
            self.state[name] = torch.zeros_like(like)
        return self.state[name]


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory instead of giving it back to the system after every step.

    glibc maps blocks above 32 MB anew whenever they are asked for: a step on images, whose activations are that large,
    otherwise spends a third of its time in the kernel, which clears the pages. Other systems are left as they are.
    """
    if platform.libc_ver()[0] != "glibc":
        yield
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_MAX, 0)
    libc.mallopt(_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        for parameter, value in _USUAL.items():
            libc.mallopt(parameter, value)
        libc.malloc_trim(0)


@contextmanager
def torch_threads(*, for_batch: float, shape: tuple[int, ...]) -> Iterator[None]:
    """One thread for tables and for small batches of images.

    Steps on tables are many and short, or move memory more than they compute: where another process has the second
    core, sharing them costs a factor of two to three in processor time, because one thread spins until the other comes.

    More threads add in another order. So a run that starts beside others takes the number that the first of them found:
    a new thread of the caller would else inherit the one that another run has set for itself.
    """
    here, before = get_ident(), torch.get_num_threads()
    with _LOCK:
        usual = _UNDER_WAY[0][1] if _UNDER_WAY else before
        # A run that is started by another one, from the same thread, goes back to what that one has set.
        after = before if any(thread == here for thread, _ in _UNDER_WAY) else usual
        _UNDER_WAY.append((here, usual))
    shared = len(shape) > 1 and for_batch * np.prod(shape) >= _WORTH_SHARING
    torch.set_num_threads(usual if shared else 1)
    try:
        yield
    finally:
        torch.set_num_threads(after)
        with _LOCK:
            _UNDER_WAY.remove((here, usual))
