"""What a step of each method costs beside one of DP-SGD: the same records, model and batches."""

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import make_plan
from fairdp.config.model import ModelConfig
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.experiments.bench.contestants import Step, Task
from fairdp.experiments.bench.meters import WARM_UP_ROUNDS, median_milliseconds
from fairdp.methods import METHODS
from fairdp.methods.functional import solve
from fairdp.networks.building import build_model
from fairdp.randomness import Generators
from fairdp.run.fit import train_model
from fairdp.run.progress import Progress
from fairdp.training.loop import Trainer
from fairdp.training.state import FlatOptimizer, TrainingState

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-5)
# Timed together: one step is short.
BLOCK = 8
TRAINING, TRAINING_ROUNDS = 80, 3


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
