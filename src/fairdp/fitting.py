"""One private training run from start to end: sizes, plan, model, loop, account."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fairdp.accounting import PrivacyBudget
from fairdp.checkpoint import Checkpoint, check_new, fingerprint_of, read_checkpoint, restore, write_checkpoint
from fairdp.config import SMALLEST_BATCH, ModelConfig, TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.discrete import RandBelow, discrete_laplace
from fairdp.methods import METHODS
from fairdp.privacy import PrivacySpent, privacy_spent
from fairdp.training.loop import TrainingState, train
from fairdp.training.models import ExtractorBuilder, ScoreModel, cnn, logistic, mlp
from fairdp.training.recipe import Plan, make_plan
from fairdp.training.update import FlatOptimizer

# Share of epsilon that private group sizes cost: enough for counts that are right to a few dozen records.
COUNTS_SHARE = 0.05

# Numbers in a batch from which on a second thread pays.
_WORTH_SHARING = 200_000


@dataclass(frozen=True, kw_only=True)
class Generators:
    """Sources of chance of a run, from the operating system or, for experiments, from a seed."""

    sampling: np.random.Generator
    noise: np.random.Generator
    start: np.random.Generator
    count_noise: RandBelow
    seeded: bool

    @classmethod
    def of(cls, seed: int | None) -> "Generators":
        """Independent streams; without a seed each starts from 128 bits of the operating system's entropy."""
        sampling, noise, start, counts = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4))
        seeded = seed is not None
        count_noise = (lambda below: int(counts.integers(below))) if seeded else secrets.randbelow
        return cls(sampling=sampling, noise=noise, start=start, count_noise=count_noise, seeded=seeded)


def seed_of(random_state: int | np.random.RandomState | np.random.Generator | None) -> int | None:
    """The seed that a user's random state stands for; None means the operating system's entropy."""
    if random_state is None:
        return None
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if not isinstance(random_state, Integral) or random_state < 0:
        raise ValueError(f"random_state must be None or a whole number of at least 0, got {random_state!r}.")
    return int(random_state)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Who is told of each step, and where checkpoints go."""

    observe: Callable[[int, int], None] = lambda step, n_steps: None
    checkpoint: Path | None = None
    resume: bool = False


def planning_sizes(
    data: GroupedData, *, private: bool, epsilon: float, count_noise: RandBelow
) -> tuple[tuple[float, ...], float]:
    """Group sizes to plan with and the pure epsilon they cost: the real ones for free, or noisy ones."""
    sizes = tuple(float(size) for size in data.group_sizes)
    if not private or np.isinf(epsilon):
        return sizes, 0.0
    share = COUNTS_SHARE * epsilon
    return tuple(max(1.0, size + discrete_laplace(share, count_noise)) for size in sizes), share


def check_groups(group_names: tuple[str, ...], sizes: tuple[float, ...], sample_rate: float | None) -> None:
    """Refuse a group that has no record, or that would hardly ever be sampled."""
    for code, (name, size) in enumerate(zip(group_names, sizes, strict=True)):
        if size < 1:
            raise ValueError(
                f"sensitive_features names {len(sizes)} groups, but group {code} ({name!r}) has no training record; "
                "leave it out or merge it with another group."
            )
        if sample_rate is not None and sample_rate * size < 1:
            raise ValueError(
                f"group {name!r} has {size:.0f} records, fewer than one per batch at sample_rate={sample_rate:g}; "
                f"use sample_rate of at least {1 / size:.2g} or merge the group with another."
            )
        if sample_rate is None and len(sizes) > 1 and size < SMALLEST_BATCH:
            raise ValueError(
                f"group {name!r} has {size:.0f} records, fewer than one batch ({SMALLEST_BATCH}); "
                "merge it with another group or set sample_rate."
            )


def build_model(
    config: ModelConfig, shape: tuple[int, ...], module: ExtractorBuilder | None, rng: np.random.Generator
) -> ScoreModel:
    """A freshly initialised model; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**63)))
        if module is not None:
            return ScoreModel(_built(module), shape)
        if config.kind == "logistic":
            return ScoreModel(logistic(), shape)
        activation, normalize = config.activation, config.normalize_embedding
        if config.kind == "mlp":
            n_features = int(np.prod(shape))
            return ScoreModel(
                mlp(n_features, config.hidden, activation=activation, normalize_embedding=normalize), shape
            )
        return ScoreModel(cnn(shape, activation=activation, normalize_embedding=normalize), shape)


def _built(module: ExtractorBuilder) -> nn.Module:
    if isinstance(module, nn.Module):
        kind = type(module).__name__
        raise ValueError(f"module must be a callable that builds the extractor, got a {kind}; pass lambda: {kind}(…).")
    return module()


def plan_run(
    method: str, config: TrainConfig, budget: PrivacyBudget, sizes: tuple[float, ...], counts_epsilon: float
) -> Plan:
    """The plan of a method for groups of these sizes."""
    recipe = METHODS[method].recipe(config, sizes)
    return make_plan(recipe, budget, n_steps=config.n_steps, counts_epsilon=counts_epsilon)


def run(
    model: ScoreModel,
    data: GroupedData,
    plan: Plan,
    config: TrainConfig,
    generators: Generators,
    progress: Progress,
    resumed: Checkpoint | None,
) -> None:
    """Train the model in place, from its start or from a checkpoint, writing checkpoints on the way."""
    kind = "sgd" if config.optimizer == "sgd" else "adam"
    state = TrainingState(model, FlatOptimizer(kind, config.momentum), generators.sampling, generators.noise)
    fingerprint = fingerprint_of(data, plan, config, model) if progress.checkpoint else ""
    if resumed is not None:
        restore(resumed, state, fingerprint=fingerprint)
    every = max(1, plan.n_steps // 50)

    def after(state: TrainingState) -> None:
        progress.observe(state.step, plan.n_steps)
        if progress.checkpoint and (state.step % every == 0 or state.step == plan.n_steps):
            sizes = plan.recipe.group_sizes
            write_checkpoint(progress.checkpoint, state, fingerprint=fingerprint, group_sizes=sizes)

    with torch_threads(for_batch=plan.recipe.expected_batch_sizes.sum(), shape=model.shape):
        train(state, data, plan, config, after)


@contextmanager
def torch_threads(*, for_batch: float, shape: tuple[int, ...]) -> Iterator[None]:
    """One thread for steps of some hundred microseconds: sharing them gains nothing and stalls on a busy machine."""
    before = torch.get_num_threads()
    if for_batch * np.prod(shape) < _WORTH_SHARING:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def resumed_checkpoint(progress: Progress) -> Checkpoint | None:
    """The checkpoint that a run is asked to continue from, if it is."""
    if not progress.resume:
        if progress.checkpoint is not None:
            check_new(progress.checkpoint)
        return None
    if progress.checkpoint is None:
        raise ValueError("resume needs a checkpoint file; pass --checkpoint FILE as well.")
    return read_checkpoint(progress.checkpoint)


def account(
    plan: Plan, data: GroupedData, *, private_sizes: bool, seeded: bool, public_assumptions: tuple[str, ...]
) -> PrivacySpent:
    """What the run has spent."""
    return privacy_spent(
        plan,
        data.group_names,
        group_sizes="private" if private_sizes else "public",
        noise_seeded=seeded,
        public_assumptions=public_assumptions,
    )
