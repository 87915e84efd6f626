"""What training by each method costs beside DP-SGD: the same records, model, batches and number of steps."""

from collections.abc import Callable

from fairdp import fitting
from fairdp.accounting import PrivacyBudget
from fairdp.bench.contestants import Step, Task
from fairdp.config import ModelConfig, TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.training.recipe import make_plan

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-5)


def trainings(task: Task, *, n_steps: int) -> dict[str, Step]:
    """One training by every method, as a user's run makes it; a method without steps takes none."""
    data = task.data()
    return {name: _training(name, task, data, n_steps) for name in METHODS}


def _training(name: str, task: Task, data: GroupedData, n_steps: int) -> Callable[[], object]:
    config = TrainConfig(sample_rate=task.sample_rate, n_steps=n_steps, clip_norm=1.0, learning_rates=(0.005,))
    sizes = tuple(float(size) for size in data.group_sizes)
    plan = make_plan(METHODS[name].recipe(config, sizes), BUDGET, n_steps=n_steps)
    linear = METHODS[name].tables_only
    kind = ModelConfig(kind="logistic", n_active=task.shape[0]) if linear else ModelConfig(kind="mlp", hidden=(64, 64))

    def train() -> object:
        generators = fitting.Generators.of(0)
        model = fitting.build_model(kind, task.shape, None, generators.start)
        return fitting.run(model, data, plan, config, generators, fitting.Progress(), None)

    return train


def ratios_to_dpsgd(milliseconds: dict[str, float]) -> dict[str, float]:
    """Training time of every method over that of DP-SGD."""
    return {name: own / milliseconds["dpsgd"] for name, own in milliseconds.items()}
