"""Times of steps and whole fits beside those of others, measured side by side in one process."""

import gc
import importlib
import json
import os
import platform
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

from fairdp import errors
from fairdp.accounting.mechanisms import PrivacyBudget, SampledGaussian
from fairdp.accounting.plan import Plan, make_plan
from fairdp.classifier import FairDPClassifier
from fairdp.config import ModelConfig, TrainConfig
from fairdp.data.catalog import Dataset, load_dataset
from fairdp.data.grouped import GroupedData
from fairdp.errors import InputError
from fairdp.methods import METHODS
from fairdp.methods.functional import solve
from fairdp.networks.model import ScoreModel, build_model, cnn, mlp
from fairdp.randomness import Generators
from fairdp.run.fit import Progress, train_model
from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState
from fairdp.training.noise import PoissonSampler
from fairdp_lab.studies.tables import EPSILON, fitted_dp_ebm, fitted_reduction
from fairdp_lab.sweeps.workers import torch_threads

Step = Callable[[], object]
Batches = Iterator[tuple[Tensor, Tensor]]

HIDDEN = (64, 64)
LEARNING_RATE = 0.1
CLIP_NORM = 1.0
NOISE_MULTIPLIER = 1.0
SAMPLING_SEED = 1
# More than a measurement takes: the last planned step makes the ensemble and is unlike the others.
N_STEPS = 10**9
WARM_UP_ROUNDS = 3
BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-5)
# Timed together: one step is short.
BLOCK = 8
TRAINING, TRAINING_ROUNDS = 80, 3
MAX_GAP = 0.05
OURS = "fairdp_frontier"


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
                f"bench compares with {title}, which is missing. Run: pip install 'fairdp[lab]'"
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


def median_milliseconds(steps: dict[str, Step], *, n_rounds: int, seconds: float) -> tuple[dict[str, float], int]:
    """Median time of every step, and over how many rounds; in a round every contestant has its turn.

    The order is drawn anew in each round, so that everyone comes after everyone else.
    """
    order = np.random.default_rng(0)
    deadline = time.perf_counter() + seconds
    for _ in range(WARM_UP_ROUNDS):
        _one_round(steps, order)
    rounds: list[dict[str, float]] = []
    with _no_garbage_collection():
        while len(rounds) < n_rounds and (not rounds or time.perf_counter() < deadline):
            rounds.append(_one_round(steps, order))
    return {name: 1e3 * float(np.median([times[name] for times in rounds])) for name in steps}, len(rounds)


def median_cpu_seconds(fits: dict[str, Step], *, n_rounds: int) -> dict[str, float]:
    """Median processor time of whole fits, which take turns in an order drawn anew; the first round is not counted.

    Processor time, not time on the clock: a fit is long enough for other programs to come in between.
    """
    order = np.random.default_rng(0)
    rounds = [
        {str(name): _cpu_seconds(fits[name]) for name in order.permutation(list(fits))} for _ in range(n_rounds + 1)
    ]
    return {name: float(np.median([times[name] for times in rounds[1:]])) for name in fits}


def _cpu_seconds(fit: Step) -> float:
    start = time.process_time()
    fit()
    return time.process_time() - start


def _one_round(steps: dict[str, Step], order: np.random.Generator) -> dict[str, float]:
    times = {}
    for name in order.permutation(list(steps)):
        # Untimed, so that the timed step finds the caches as in training: left by its own kind, not by a rival.
        steps[name]()
        start = time.perf_counter()
        steps[name]()
        times[str(name)] = time.perf_counter() - start
    return times


def peak_megabytes(step: Step) -> float:
    """Most memory that a step not yet taken holds at one time, beyond what was held before.

    The peaks of torch's allocator and of NumPy's and Python's are taken apart and added: an upper bound, and exact
    when they fall together.
    """
    _quiet_profiler()
    # From the first step on: the profiler knows only the sizes of blocks whose allocation it saw.
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as events:
        step()
        # From the second step on: the first also fills Python's caches.
        tracemalloc.start()
        step()
        _, outside_torch = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return (_peak_of_tensors(events) + outside_torch) / 1e6


def _peak_of_tensors(events: profile) -> int:
    """Largest running sum over all that torch allocated and freed, temporaries inside kernels included."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        events.export_chrome_trace(str(trace))
        entries = json.loads(trace.read_text())["traceEvents"]
    changes = sorted((entry for entry in entries if entry["name"] == "[memory]"), key=lambda entry: entry["ts"])
    return max(accumulate((entry["args"]["Bytes"] for entry in changes), initial=0))


def _quiet_profiler() -> None:
    """Keep the profiler from announcing its start and end on standard error; it looks only at its first use."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def methods_vs_dpsgd(task: Task) -> dict[str, float]:
    """Time of some steps of each method over that of as many steps of DP-SGD.

    Of methods that are not a single run of steps, a whole training is timed, and one of DP-SGD beside it.
    """
    data = task.data()
    in_one_run = {name for name, method in METHODS.items() if method.is_one_run}
    n_rounds = task.n_method_rounds
    steps = {name: _block(name, task, data, n_rounds) for name in METHODS if name in in_one_run}
    trainings = {name: _training(name, task, data) for name in METHODS if name not in in_one_run or name == "dpsgd"}
    times = median_milliseconds(steps, n_rounds=n_rounds, seconds=task.seconds)[0]
    wholes = median_milliseconds(trainings, n_rounds=TRAINING_ROUNDS, seconds=task.seconds)[0]
    ratios = {name: seconds / wholes["dpsgd"] for name, seconds in wholes.items()}
    return ratios | {name: seconds / times["dpsgd"] for name, seconds in times.items()}


def _block(name: str, task: Task, data: GroupedData, n_rounds: int) -> Step:
    # Each round takes a block untimed and one timed.
    config = _config(task, n_steps=2 * BLOCK * (n_rounds + WARM_UP_ROUNDS))
    plan = make_plan(METHODS[name].recipe(config, _sizes(data)), BUDGET, n_steps=config.n_steps)
    generators = Generators.of(0)
    kind = ModelConfig(kind="mlp", hidden=(64, 64), n_cells=plan.recipe.n_cells)
    model = build_model(kind, task.shape, None, generators.start_seed)
    state = TrainingState(model, FlatOptimizer("adam"), generators.steps)
    trainer = Trainer(state, data, plan, config)

    def steps() -> None:
        for _ in range(BLOCK):
            trainer.step()

    return steps


def _training(name: str, task: Task, data: GroupedData) -> Step:
    config = _config(task, n_steps=TRAINING)
    plan = make_plan(METHODS[name].recipe(config, _sizes(data)), BUDGET, n_steps=TRAINING)
    linear = METHODS[name].closed_form
    kind = ModelConfig(kind="logistic", n_active=task.shape[0]) if linear else ModelConfig(kind="mlp", hidden=(64, 64))

    def train() -> None:
        generators = Generators.of(0)
        model = build_model(kind, task.shape, None, generators.start_seed)
        if linear:
            solve(model, data, plan, generators)
        else:
            train_model(model, data, plan, config, generators, Progress(), None)

    return train


def _config(task: Task, *, n_steps: int) -> TrainConfig:
    return TrainConfig(sample_rate=task.sample_rate, n_steps=n_steps, clip_norm=1.0, learning_rates=(0.005,))


def _sizes(data: GroupedData) -> tuple[float, ...]:
    return tuple(float(size) for size in data.group_sizes)


def whole_fits(n_rounds: int, n_records: int | None, *, n_threads: int) -> dict[str, Any]:
    """Processor time of each fit, and as a multiple of ours: above one means that ours takes less.

    Everyone is fitted once in each round: on all columns of the census table where its files are, or on so many records
    of the synthetic population.
    """
    dataset = None
    if n_records is None:
        with suppress(FileNotFoundError):
            dataset = load_dataset("adult_full", fetch_missing=False)
    dataset = dataset or load_dataset("synthetic")
    with threadpool_limits(n_threads):
        times = median_cpu_seconds(fits_of(dataset, n_records), n_rounds=n_rounds)
    return {
        "data": dataset.name,
        "over_ours": {name: seconds / times[OURS] for name, seconds in times.items() if name != OURS},
        "cpu_seconds": times,
    }


def fits_of(dataset: Dataset, n_records: int | None = None) -> dict[str, Step]:
    """Everyone with defaults: ours and the reduction at the same gap, ours with records held out and certified."""
    train = dataset.train.take(slice(n_records))
    described = None if dataset.schema is None else dataset.schema.to_dict()

    def ours() -> FairDPClassifier:
        return FairDPClassifier(epsilon=EPSILON, max_gap=MAX_GAP).fit_grouped(train, feature_schema=described)

    return {
        OURS: ours,
        "logistic_regression": lambda: LogisticRegression(max_iter=1000).fit(train.X, train.y),
        "dp_ebm": lambda: fitted_dp_ebm(train, dataset.schema, seed=None),
        "reduction": lambda: fitted_reduction(train, max_gap=MAX_GAP),
    }


# Adult after encoding, and grey faces; so many records that the next batch is not in the cache already.
FULL: dict[str, Any] = {
    "mlp": Task(shape=(41,), n_samples=30_000, batch_size=512, n_rounds=1_000, seconds=35.0, n_method_rounds=60),
    "cnn": Task(shape=(1, 48, 48), n_samples=8_000, batch_size=256, n_rounds=100, seconds=30.0),
    "n_fits": 5,
}
QUICK: dict[str, Any] = {
    "mlp": Task(shape=(41,), n_samples=30_000, batch_size=512, n_rounds=150, seconds=3.0, n_method_rounds=8),
    "cnn": Task(shape=(1, 48, 48), n_samples=2_000, batch_size=256, n_rounds=12, seconds=2.5),
    "n_fits": 1,
}


def run_bench(*, quick: bool = False, n_threads: int = 1) -> dict[str, Any]:
    """Ratios of times and of peak memory, with the numbers behind them.

    The contestants of a task take turns, so that a busy machine slows all of them alike: one step untimed, one timed.
    Times are medians over the rounds.

    Parameters
    ----------
    quick
        Fewer rounds: half a minute instead of three, and a less certain answer.
    n_threads
        Threads of torch. One by default: several that wait for each other on a busy machine measure the scheduler.

    Returns
    -------
    dict
        ``mlp`` and ``cnn``, each with ``step_vs_nonprivate``; ``mlp`` also with ``speedup_vs_opacus`` (used as its
        documentation shows) and ``speedup_vs_gradsample`` (its model and optimiser on our batches in memory).
        ``methods_vs_dpsgd``: steps of each method over as many steps of DP-SGD, on the table.
        ``whole_fits``: processor time of fits with defaults, and as a multiple of ours, on the ``data`` it names.
        ``groups_16_vs_2`` and ``peak_memory_vs_nonprivate``, the larger of the two tasks' ratios. ``threads``,
        ``rounds``, ``machine`` and ``versions`` say what was run and where. A speed-up is better when larger, all
        other ratios when smaller. A load average near the number of processors means that other programs took part.
    """
    return compare(**(QUICK if quick else FULL), n_threads=n_threads)


def compare(*, mlp: Task, cnn: Task, n_fits: int, n_records: int | None = None, n_threads: int = 1) -> dict[str, Any]:
    """`run_bench` on a table and on images of any size, with so many rounds of fits of any number of records."""
    errors.positive_integer(n_threads=n_threads)
    # Opacus warns of its random numbers and torch of the hooks of Opacus; neither concerns a measurement.
    with torch_threads(n_threads), warnings.catch_warnings(action="ignore"):
        require_rivals()
        load = _load_average()
        threads = torch.get_num_threads()
        mlp_times, mlp_rounds = median_milliseconds(all_steps(mlp), n_rounds=mlp.n_rounds, seconds=mlp.seconds)
        cnn_times, cnn_rounds = median_milliseconds(
            fairdp_and_nonprivate(cnn), n_rounds=cnn.n_rounds, seconds=cnn.seconds
        )
        ratios = methods_vs_dpsgd(mlp)
        wholes = whole_fits(n_fits, n_records, n_threads=threads)
        mlp_peaks, cnn_peaks = _peaks(mlp), _peaks(cnn)
    ours = mlp_times["fairdp"]
    return {
        "mlp": {
            "step_vs_nonprivate": _ratio(mlp_times),
            "speedup_vs_opacus": mlp_times["opacus"] / ours,
            "speedup_vs_gradsample": mlp_times["gradsample"] / ours,
            "milliseconds": mlp_times,
            "peak_megabytes": mlp_peaks,
        },
        "cnn": {
            "step_vs_nonprivate": _ratio(cnn_times),
            "milliseconds": cnn_times,
            "peak_megabytes": cnn_peaks,
        },
        "methods_vs_dpsgd": ratios,
        "whole_fits": wholes,
        "groups_16_vs_2": mlp_times["fairdp_16_groups"] / ours,
        "peak_memory_vs_nonprivate": max(_ratio(mlp_peaks), _ratio(cnn_peaks)),
        "threads": threads,
        "rounds": {"mlp": mlp_rounds, "cnn": cnn_rounds, "fits": n_fits},
        "machine": {"processors": os.cpu_count(), "load_average": load},
        "versions": _versions(),
    }


def _ratio(measured: dict[str, float]) -> float:
    return measured["fairdp"] / measured["nonprivate"]


def _peaks(task: Task) -> dict[str, float]:
    return {name: peak_megabytes(step) for name, step in fairdp_and_nonprivate(task).items()}


def _versions() -> dict[str, str]:
    packages = ("fairdp", "fairlearn", "interpret-core", "numpy", "opacus", "scikit-learn", "torch")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def _load_average() -> float | None:
    """Processes that wanted a processor during the last minute; not every system tells."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
