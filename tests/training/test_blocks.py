"""Blocks of records: who is in one does not depend on the others, and sums over them do not depend on the cut."""

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import make_plan
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.extractors import mlp
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.streams import StepKeys
from fairdp.training.loop import Trainer, members_of
from fairdp.training.state import FlatOptimizer, TrainingState


def trainer_of(method: str, n_samples: int, *, sample_rate: float, sizes: tuple[float, ...]) -> Trainer:
    config = TrainConfig(sample_rate=sample_rate, n_steps=12, clip_norm=1.0, learning_rates=(0.05,))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 4)).astype(np.float32)
    data = GroupedData(X, (X[:, 0] + X[:, 1] > 0).astype(np.int64), np.arange(n_samples) % 2, ("a", "b"))
    plan = make_plan(METHODS[method].recipe(config, sizes), PrivacyBudget(epsilon=2.0, delta=1e-5), n_steps=12)
    state = TrainingState(ScoreModel(mlp(4, (5,)), (4,)), FlatOptimizer("adam"), Generators.of(1).steps)
    return Trainer(state, data, plan, config)


def test_heads_of_other_blocks_are_drawn_apart():
    blocks, keys = [np.arange(500), np.arange(500, 1000)], StepKeys(bytes(32))
    first, second = members_of(blocks, 4, keys)
    assert not torch.equal(first, second)
    assert set(first.tolist()) == {0, 1, 2, 3}
    fewer, _ = members_of([blocks[0][:-1], blocks[1]], 4, keys)
    assert torch.equal(fewer, first[:-1])


def test_blocks_follow_the_planned_sizes():
    """Of 5,000 records where 6,000 were planned: how many there are must not move anybody to another block."""
    trainer = trainer_of("dpsgd", 5000, sample_rate=0.9, sizes=(3000.0, 3000.0))
    assert [block.start for block in trainer.sampler.blocks] == [0, 3000]


@pytest.mark.parametrize("method", ["dpsgd", "raco_dp"])
def test_blocks_change_a_step_by_rounding_only(method):
    trainer = trainer_of(method, 60, sample_rate=0.2, sizes=(30.0, 30.0))
    chosen = np.arange(0, 60, 2)
    cut = [chosen[:7], chosen[7:7], chosen[7:20], chosen[20:]]
    memory = trainer.state.memory
    sums = [trainer.sums.clipped_gradients(trainer.records.batch(blocks), memory).total for blocks in ([chosen], cut)]
    torch.testing.assert_close(*sums, rtol=1e-5, atol=1e-7)
    if method == "raco_dp":
        found = [trainer.sums.statistics(trainer.records.batch(b), memory).total for b in ([chosen], cut)]
        torch.testing.assert_close(*found, rtol=1e-6, atol=1e-7)
