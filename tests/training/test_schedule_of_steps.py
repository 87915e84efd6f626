"""What changes along a run besides the iterate: its average, looks at decisions, and how far noise may carry a step."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import make_plan
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.extractors import logistic
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.training.loop import Trainer
from fairdp.training.state import FlatOptimizer, TrainingState

CONFIG = TrainConfig(sample_rate=0.3, n_steps=12, clip_norm=0.5, learning_rates=(2.0,), optimizer="sgd", max_gap=0.01)


def trainer(config: TrainConfig = CONFIG) -> Trainer:
    rng = np.random.default_rng(0)
    X, groups = rng.random((200, 3)).astype(np.float32), rng.integers(2, size=200)
    data = GroupedData(X, (X[:, 0] > 0.5).astype(np.int64), groups, ("a", "b"))
    sizes = tuple(float(size) for size in data.group_sizes)
    recipe = METHODS["fairdp_parity"].recipe(config, sizes)
    plan = make_plan(recipe, PrivacyBudget(epsilon=1.0, delta=1e-5), n_steps=config.n_steps)
    state = TrainingState(ScoreModel(logistic(), (3,)), FlatOptimizer("sgd"), Generators.of(1).steps)
    return Trainer(state, data, plan, config)


def test_the_average_of_the_iterates_is_deployed():
    """By hand: from the start, each iterate comes in with weight .05; after the last step it is the model."""
    run = trainer()
    model = run.state.model
    average, iterate = model.params.double().clone(), None
    for _ in range(CONFIG.n_steps - 1):
        run.step()
        iterate = model.params.double().clone()
        average = 0.95 * average + 0.05 * iterate
    torch.testing.assert_close(run.state.average.double(), average)
    # The last iterate is seen before the average takes its place.
    seen = []
    project = run.state.optimizer.step
    run.state.optimizer.step = lambda params, *rest: (project(params, *rest), seen.append(params.double().clone()))
    run.step()
    assert not torch.equal(seen[0], iterate)
    torch.testing.assert_close(model.params.double(), 0.95 * average + 0.05 * seen[0])


@pytest.mark.parametrize(("steps_per_look", "looks"), [(1, 12), (4, 3), (5, 3)])
def test_decisions_are_counted_at_some_steps_only(steps_per_look, looks):
    run = trainer(replace(CONFIG, steps_per_look=steps_per_look))
    for _ in range(CONFIG.n_steps):
        run.step()
    assert float(run.state.memory["look"]) == looks


@pytest.mark.parametrize(("largest", "rate"), [(np.inf, 2.0), (1e-3, None)])
def test_large_noise_shortens_the_steps(largest, rate):
    """The deviation of the noise that a step adds to a parameter is at most what is asked for."""
    run = trainer(replace(CONFIG, largest_noise_step=largest))
    rates = []
    run.state.optimizer.step = lambda params, noisy, rate: rates.append(rate)
    run.step()
    assert run.plan.noise_std > 1e-3 / 2.0, "otherwise nothing is shortened"
    assert rates == [pytest.approx(rate or 1e-3 / run.plan.noise_std)]
