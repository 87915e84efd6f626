"""The steps that are compared: ours, one without privacy, and two with Opacus, on the same model and data."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from fairdp._checks import InputError
from fairdp.accounting.mechanisms import PrivacyBudget, SampledGaussian
from fairdp.accounting.plan import Plan
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.extractors import cnn, mlp
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.training.loop import Trainer
from fairdp.training.sampling import PoissonSampler
from fairdp.training.state import FlatOptimizer, TrainingState

Step = Callable[[], object]
Batches = Iterator[tuple[Tensor, Tensor]]

HIDDEN = (64, 64)
LEARNING_RATE = 0.1
CLIP_NORM = 1.0
NOISE_MULTIPLIER = 1.0
SAMPLING_SEED = 1
# More than a measurement takes: the last planned step makes the ensemble and is unlike the others.
N_STEPS = 10**9


@dataclass(frozen=True, kw_only=True)
class Task:
    """Random records of one shape, batches of one expected size, and how long their steps are timed.

    Parameters
    ----------
    n_rounds
        Timed rounds, in each of which every contestant takes one step.
    seconds
        Time after which no further round starts.
    n_method_rounds
        Timed rounds where methods are compared.
    """

    shape: tuple[int, ...]
    n_samples: int
    batch_size: int
    n_rounds: int
    seconds: float
    n_method_rounds: int = 2

    @property
    def sample_rate(self) -> float:
        """Chance of a record to be in a batch, q."""
        return self.batch_size / self.n_samples

    def data(self) -> GroupedData:
        """Records in two groups, the same on every call."""
        rng = np.random.default_rng(0)
        X = rng.random((self.n_samples, *self.shape), dtype=np.float32)
        y = rng.integers(2, size=self.n_samples)
        return in_groups(GroupedData(X, y, np.zeros_like(y), ("all",)), n_groups=2)

    def extractor(self) -> nn.Module:
        """The model without its head: convolutions for images, two hidden layers for a table."""
        return cnn(self.shape) if len(self.shape) == 3 else mlp(self.shape[0], HIDDEN)

    def classifier(self) -> nn.Module:
        """The whole model in ordinary torch."""
        return nn.Sequential(self.extractor(), nn.Linear(HIDDEN[-1], 1), nn.Flatten(0))


def in_groups(data: GroupedData, *, n_groups: int) -> GroupedData:
    """The same records in groups of equal size, up to one."""
    groups = np.arange(data.n_samples) % n_groups
    return replace(data, groups=groups, group_names=tuple(map(str, range(n_groups))))


def fairdp_and_nonprivate(task: Task) -> dict[str, Step]:
    """Our step and the plain one, which see the same batches."""
    data = task.data()
    return {"fairdp": fairdp_step(task, data), "nonprivate": nonprivate_step(task, data)}


def all_steps(task: Task) -> dict[str, Step]:
    """Every contestant, on the same records."""
    data = task.data()
    return {
        "fairdp": fairdp_step(task, data),
        "fairdp_16_groups": fairdp_step(task, in_groups(data, n_groups=16)),
        "nonprivate": nonprivate_step(task, data),
        "opacus": opacus_step(task, data),
        "gradsample": gradsample_step(task, data),
    }


def fairdp_step(task: Task, data: GroupedData) -> Step:
    """FairDP with a draw of noise for every group, as a run takes it: sampling, projection and checks included."""
    config = TrainConfig(
        sample_rate=task.sample_rate,
        n_steps=N_STEPS,
        clip_norm=CLIP_NORM,
        learning_rates=(LEARNING_RATE,),
        optimizer="sgd",
        noise_allocation="per_group",
    )
    recipe = METHODS["fairdp"].recipe(config, tuple(map(float, data.group_sizes)))
    mechanism = SampledGaussian(sample_rate=task.sample_rate, noise_multiplier=NOISE_MULTIPLIER, n_steps=config.n_steps)
    # The noise multiplier is given and no budget is met: how much noise is added does not change what it costs.
    plan = Plan(
        recipe=recipe,
        budget=PrivacyBudget(epsilon=1.0, delta=1e-5),
        n_steps=config.n_steps,
        noise_std=NOISE_MULTIPLIER * float(np.linalg.norm(recipe.sensitivities)),
        mechanisms=(mechanism,) * data.n_groups,
    )
    model = ScoreModel(task.extractor(), task.shape)
    state = TrainingState(model, FlatOptimizer("sgd"), Generators.of(SAMPLING_SEED).steps)
    return Trainer(state, data, plan, config).step


def nonprivate_step(task: Task, data: GroupedData) -> Step:
    """SGD as one writes it in torch, with our sampler and the data in memory."""
    model = task.classifier()
    return _sgd_step(model, _sgd(model), sampled_batches(task, data))


def opacus_step(task: Task, data: GroupedData) -> Step:
    """Opacus as its documentation shows: a data loader, made private together with model and optimiser."""
    from opacus import PrivacyEngine

    model = task.classifier()
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=_sgd(model),
        data_loader=DataLoader(TensorDataset(*_tensors(data)), batch_size=task.batch_size),
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=CLIP_NORM,
    )
    return _sgd_step(model, optimizer, (batch for epoch in iter(lambda: loader, None) for batch in epoch))


def gradsample_step(task: Task, data: GroupedData) -> Step:
    """The model and optimiser of Opacus alone, fed like ours: what per-record gradients cost without its loader."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(task.classifier())
    optimizer = DPOptimizer(
        _sgd(model),
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=CLIP_NORM,
        expected_batch_size=task.batch_size,
    )
    return _sgd_step(model, optimizer, sampled_batches(task, data))


def require_rivals() -> None:
    """Refuse, with the remedy, to compare with what is not installed."""
    for package, title in {"opacus": "Opacus", "interpret": "DP-EBM"}.items():
        try:
            importlib.import_module(package)
        except ImportError as missing:
            raise InputError(
                f"bench compares with {title}, which is missing. Run: pip install 'fairdp[bench]'"
            ) from missing


def sampled_batches(task: Task, data: GroupedData) -> Batches:
    """The batches that our step sees, drawn in the same way from the same seed."""
    X, y = _tensors(data)
    sampler = PoissonSampler.of_groups(data.groups, (task.sample_rate,) * data.n_groups)
    chain = Generators.of(SAMPLING_SEED).steps

    def draw() -> tuple[Tensor, Tensor]:
        batch = torch.from_numpy(np.concatenate(sampler.draw(chain.step())))
        return X.index_select(0, batch), y.index_select(0, batch)

    return iter(draw, None)


def _tensors(data: GroupedData) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(data.X), torch.from_numpy(data.y).to(torch.float32)


def _sgd(model: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)


def _sgd_step(model: nn.Module, optimizer: Any, batches: Batches) -> Step:
    loss_of = nn.BCEWithLogitsLoss()

    def step() -> None:
        X, y = next(batches)
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(X), y).backward()
        optimizer.step()

    return step
