"""Changes along a run besides the iterate: its average, and how far noise may carry a step."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import make_plan
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.model import ScoreModel, logistic
from fairdp.randomness import Generators
from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState

CONFIG = TrainConfig(sample_rate=0.3, n_steps=12, clip_norm=0.5, learning_rates=(2.0,), optimizer="sgd", max_gap=0.01)


def trainer(config: TrainConfig = CONFIG) -> Trainer:
    rng = np.random.default_rng(0)
    X, groups = rng.random((200, 3)).astype(np.float32), rng.integers(2, size=200)
    data = GroupedData(X, (X[:, 0] > 0.5).astype(np.int64), groups, ("a", "b"))
    sizes = tuple(float(size) for size in data.group_sizes)
    recipe = replace(METHODS["raco_dp"].recipe(config, sizes), averaging="second_half")
    plan = make_plan(recipe, PrivacyBudget(epsilon=1.0, delta=1e-5), n_steps=config.n_steps)
    state = TrainingState(ScoreModel(logistic(), (3,)), FlatOptimizer("sgd"), Generators.of(1).steps)
    return Trainer(state, data, plan, config)


def test_the_average_of_the_iterates_is_deployed():
    """By hand: the mean of the last six of twelve iterates, each seen before the average takes the last one's place."""
    run, iterates = trainer(), []
    step = run.state.optimizer.step
    run.state.optimizer.step = lambda params, *rest: (step(params, *rest), iterates.append(params.double().clone()))
    for _ in range(CONFIG.n_steps):
        run.step()
    assert len(iterates) == CONFIG.n_steps
    torch.testing.assert_close(run.state.model.params.double(), torch.stack(iterates[6:]).mean(0))
    assert not torch.allclose(iterates[-1], run.state.model.params.double())


@pytest.mark.parametrize(("largest", "rate"), [(np.inf, 2.0), (1e-3, None)])
def test_large_noise_shortens_the_steps(largest, rate):
    """The deviation of the noise that a step adds to a parameter is at most what is asked for."""
    run = trainer(replace(CONFIG, largest_noise_step=largest))
    rates = []
    run.state.optimizer.step = lambda params, noisy, rate: rates.append(rate)
    run.step()
    assert run.plan.noise_std > 1e-3 / 2.0, "otherwise nothing is shortened"
    assert rates == [pytest.approx(rate or 1e-3 / run.plan.noise_std)]
