"""One private training run from start to end: sizes, plan, model, loop, account."""

import hashlib
import math
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fairdp.accounting import PrivacyBudget
from fairdp.certify.gaussian import smoothing_bound
from fairdp.checkpoint import Checkpoint, check_new, fingerprint_of, read_checkpoint, restore, write_checkpoint
from fairdp.config import ModelConfig, TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.discrete import discrete_laplace
from fairdp.keys import KEY_BYTES, RandBelow, derived_key, keyed_below
from fairdp.methods import METHODS
from fairdp.training.extractors import BoundedInputs, cnn, logistic, mlp
from fairdp.training.functional import fair_functional_head
from fairdp.training.group_models import train_group_models
from fairdp.training.loop import TrainingState, train
from fairdp.training.memory import kept_memory
from fairdp.training.models import ExtractorBuilder, ScoreModel
from fairdp.training.recipe import Plan, make_plan
from fairdp.training.update import FlatOptimizer

# Share of epsilon that private group sizes cost: enough for counts that are right to a few dozen records.
COUNTS_SHARE = 0.05

# Numbers in a batch from which on a second thread pays.
_WORTH_SHARING = 200_000


@dataclass(frozen=True, kw_only=True)
class Generators:
    """Sources of chance of a run, from the operating system or, for experiments, from a seed.

    ``run_key`` is the secret of everything that is drawn besides sampling, training noise and the start: the split, the
    noise on counts, the coins.
    """

    sampling: np.random.Generator
    noise: np.random.Generator
    start: np.random.Generator
    run_key: bytes
    seeded: bool

    @classmethod
    def of(cls, seed: int | None) -> "Generators":
        """Independent streams; without a seed each starts from the operating system's entropy."""
        sampling, noise, start, keys = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4))
        key = secrets.token_bytes(KEY_BYTES) if seed is None else keys.bytes(KEY_BYTES)
        return cls(sampling=sampling, noise=noise, start=start, run_key=key, seeded=seed is not None)

    def below(self, purpose: str) -> RandBelow:
        """Whole numbers for one purpose, the same whenever this run asks for them."""
        return keyed_below(self.run_key, purpose)

    def key(self, purpose: str) -> bytes:
        """A key of 128 bits for one purpose."""
        return derived_key(self.run_key, purpose)


def seed_of(random_state: int | np.random.RandomState | np.random.Generator | None) -> int | None:
    """The seed that a user's random state stands for; None means the operating system's entropy."""
    if random_state is None:
        return None
    if isinstance(random_state, (np.random.RandomState, np.random.Generator)):
        # As many bits as the operating system would give: 31 could be tried one by one.
        return int.from_bytes(random_state.bytes(16), "little")
    if not isinstance(random_state, Integral) or random_state < 0:
        raise ValueError(f"random_state must be None or a whole number of at least 0, got {random_state!r}.")
    return int(random_state)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Who is told of each step and of the records that are trained on and held out, and where checkpoints go."""

    observe: Callable[[int, int], None] = lambda step, n_steps: None
    observe_parts: Callable[[GroupedData, GroupedData], None] = lambda train, held_out: None
    checkpoint: Path | None = None
    resume: bool = False
    seconds_between_checkpoints: float = 1.0


def noisy_sizes(
    sizes: NDArray[np.int64], *, private: bool, epsilon: float, count_noise: RandBelow
) -> tuple[tuple[float, ...], float]:
    """Group sizes to plan with and the pure epsilon they cost: the real ones for free, or noisy ones."""
    if not private or np.isinf(epsilon):
        return tuple(float(size) for size in sizes), 0.0
    share = COUNTS_SHARE * epsilon
    return tuple(max(1.0, float(size) + discrete_laplace(share, count_noise)) for size in sizes), share


def build_model(
    config: ModelConfig, shape: tuple[int, ...], module: ExtractorBuilder | None, rng: np.random.Generator
) -> ScoreModel:
    """A freshly initialised model; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**63)))
        if module is not None:
            return ScoreModel(_built(module), shape)
        if config.kind == "logistic":
            return ScoreModel(logistic(config, shape), shape)
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
        raise ValueError(
            f"module must build the extractor when it is called, got a built {kind}; pass the class or a function."
        )
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
    *,
    held_out: GroupedData | None = None,
    fixed: object = None,
    look: Callable[[int], bool] = lambda step: False,
) -> dict[str, Any]:
    """Train the model in place, from its start or from a checkpoint, until the end or until a look says enough.

    A checkpoint continues only with the same held-out records and with what else was fixed beforehand. Returns what
    there is to say of the training besides.
    """
    if plan.recipe.noise_allocation == "laplace":
        return _solve(model, data, plan, generators)
    kind = "sgd" if config.optimizer == "sgd" else "adam"
    state = TrainingState(model, FlatOptimizer(kind, config.momentum), generators.sampling, generators.noise)
    parts = [data] if held_out is None else [data, held_out]
    writer = _CheckpointWriter(progress, plan, generators)
    if progress.checkpoint:
        writer.fingerprint = fingerprint_of(parts, plan, config, model, fixed=fixed)
    if resumed is not None:
        restore(resumed, state, fingerprint=writer.fingerprint)
        # The run may have been stopped between a checkpoint and the look that was due.
        if state.step < plan.n_steps and look(state.step):
            return {}

    def after(state: TrainingState) -> bool:
        progress.observe(state.step, plan.n_steps)
        writer.write_if_due(state)
        return look(state.step)

    notes: dict[str, Any] = {}
    with kept_memory(), torch_threads(for_batch=plan.recipe.expected_batch_sizes.sum(), shape=model.shape):
        if plan.recipe.group_models:
            notes = _smoothing_notes(train_group_models(state, data, plan, config, after), plan)
        else:
            train(state, data, plan, config, after)
    check_unchanged(model)
    return notes


def check_unchanged(model: ScoreModel) -> None:
    """Refuse a trained model whose module has written down what it saw."""
    if model.has_changed_itself():
        raise ValueError("the module changed its own buffers in training, so it remembers private records; use none.")


def _solve(model: ScoreModel, data: GroupedData, plan: Plan, generators: Generators) -> dict[str, Any]:
    """The functional mechanism in place of steps."""
    # From what is accounted, so that no other noise can be added; and other records meet other noise.
    multiplier = plan.mechanisms[0].noise_multiplier
    epsilon = 1 / multiplier if multiplier else math.inf
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(part).data for part in (data.X, data.y, data.groups)))
    weights, bias = fair_functional_head(
        data,
        epsilon=epsilon,
        rand_below=generators.below(f"functional mechanism on {digest.hexdigest()} at {epsilon}"),
        n_active=next(layer.n_active for layer in model.extractor.modules() if isinstance(layer, BoundedInputs)),
    )
    model.replace_params(torch.from_numpy(np.append(weights, bias)).float())
    return {}


def _smoothing_notes(distances: tuple[float, ...], plan: Plan) -> dict[str, Any]:
    """The bound that FairSmooth has of its own, for what it is."""
    bounds = [smoothing_bound(distance, smoothing=plan.recipe.parameter_noise) for distance in distances]
    return {
        "overall_against_group_classifier": bounds,
        "what_it_is": "for any input, the most by which the expectation of the averaged model over all noise on its "
        "parameters can be from that of each group's model; no bound on a gap between groups, nor on the deployed "
        "decision, which is made from a fixed number of draws",
    }


class _CheckpointWriter:
    """Writes after the first step, the last, and at least this often in between: little is lost by an interruption."""

    def __init__(self, progress: Progress, plan: Plan, generators: Generators) -> None:
        self.progress, self.plan, self.generators = progress, plan, generators
        self.fingerprint = ""
        self._written = -math.inf

    def write_if_due(self, state: TrainingState) -> None:
        since = time.monotonic() - self._written
        due = since >= self.progress.seconds_between_checkpoints or state.step == self.plan.n_steps
        if self.progress.checkpoint is None or not due:
            return
        self._written = time.monotonic()
        write_checkpoint(
            self.progress.checkpoint,
            state,
            fingerprint=self.fingerprint,
            group_sizes=self.plan.recipe.group_sizes,
            run_key=self.generators.run_key,
            seeded=self.generators.seeded,
        )


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
