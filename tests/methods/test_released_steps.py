"""The releases of whole steps, as they are taken: what leaves for the noise, with and without one record."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import make_plan
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.gradients import HeadOnly
from fairdp.networks.layers import Passed
from fairdp.networks.model import ScoreModel, logistic, mlp
from fairdp.randomness import Generators, StepKeys
from fairdp.training import loop
from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState

CONFIG = TrainConfig(
    sample_rate=0.3, n_steps=30, clip_norm=0.5, learning_rates=(7.0,), optimizer="sgd", momentum=0.5, max_gap=0.01
)
EXTRACTORS = {
    "inputs bounded once": lambda: logistic(n_active=4),
    "network": lambda: mlp(6, (5,)),
}


class Fixed:
    """A sampler whose batch is known."""

    def __init__(self, batch: list[int]) -> None:
        self.batch = batch

    def draw(self, keys: StepKeys) -> list[np.ndarray]:
        return [np.array(self.batch, dtype=np.int64)]


def people(n_samples: int = 120) -> GroupedData:
    rng = np.random.default_rng(0)
    X, groups = rng.random((n_samples, 6)).astype(np.float32), rng.integers(3, size=n_samples)
    return GroupedData(X, (X[:, 0] + 0.2 * groups > 0.8).astype(np.int64), groups, tuple("abc"))


def trainer_at(state: TrainingState, data: GroupedData, config: TrainConfig) -> Trainer:
    sizes = tuple(float(size) for size in people().group_sizes)
    plan = make_plan(METHODS["raco_dp"].recipe(config, sizes), PrivacyBudget(epsilon=2.0, delta=1e-5), n_steps=30)
    return Trainer(state, data, plan, config)


def released(state, data, config, batch, monkeypatch, told=None) -> tuple[np.ndarray, torch.Tensor]:
    """All sums of one step, each over its noise, and the noisy statistics, which are ``told`` if these are given.

    The gradient follows the statistics: what it costs is how far a record moves it once they are out.
    """
    sums, heard, add = [], [], loop.add_gaussian_noise

    def spy(bounded, noise_std, **options):
        sums.append(bounded.total.double().numpy() / noise_std)
        noisy = add(bounded, noise_std, **options)
        heard.append(noisy if told is None or heard else told)
        return heard[-1]

    trainer = trainer_at(copy.deepcopy(state), data, config)
    trainer.sampler = Fixed(batch)
    with monkeypatch.context() as patched:
        patched.setattr(loop, "add_gaussian_noise", spy)
        trainer.step()
    # Statistics and gradient, and nothing else.
    assert len(sums) == 2
    return np.concatenate(sums), heard[0]


def largest_move(config: TrainConfig, extractor: str, monkeypatch) -> float:
    """Of removing a record from the data, along a run, in units of what is accounted for its group."""
    torch.manual_seed(0)
    data, moves = people(), []
    state = TrainingState(
        ScoreModel(EXTRACTORS[extractor](), (6,)),
        FlatOptimizer("sgd", 0.5),
        Generators.of(1).steps,
    )
    trainer = trainer_at(state, data, config)
    for step in range(30):
        if step % 12 == 8:
            batch = np.random.default_rng(step).choice(data.n_samples, 25, replace=False).tolist()
            whole, told = released(state, data, config, batch, monkeypatch)
            for record in batch:
                rest = [row - (row > record) for row in batch if row != record]
                others = data.take(np.delete(np.arange(data.n_samples), record))
                without, _ = released(state, others, config, rest, monkeypatch, told)
                moves.append(np.linalg.norm(whole - without) * trainer.plan.noise_multipliers[data.groups[record]])
        trainer.step()
    return max(moves)


@pytest.mark.parametrize(
    ("parity", "extractor"),
    [
        ("demographic_parity", "inputs bounded once"),
        ("demographic_parity", "network"),
        ("equal_opportunity", "network"),
        ("equalized_odds", "inputs bounded once"),
    ],
)
def test_removing_a_record_moves_a_whole_step_by_no_more_than_is_accounted(parity, extractor, monkeypatch):
    assert 0.8 <= largest_move(replace(CONFIG, parity=parity), extractor, monkeypatch) <= 1.0


def test_parts_of_a_batch_change_nothing_of_it(monkeypatch):
    config = replace(CONFIG, max_physical_batch_size=7, positive_rate=0.3)
    assert 0.8 <= largest_move(config, "network", monkeypatch) <= 1.0


def test_that_check_notices_gradients_that_couple_records(monkeypatch):
    honest = HeadOnly.forward

    def coupled(self, X):
        passed = honest(self, X)
        mean = 2 * passed.scores.mean()
        return Passed(passed.scores, lambda gradients, members=None: passed.backward(gradients + mean, members))

    monkeypatch.setattr(HeadOnly, "forward", coupled)
    assert largest_move(CONFIG, "inputs bounded once", monkeypatch) > 1.2
