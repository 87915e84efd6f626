"""The records of a run as a model takes them."""

import numpy as np
import torch
from torch import nn

from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.models import ScoreModel
from fairdp.training.records import Records


class Frozen(nn.Module):
    """An own forward without anything to train: its embeddings would be the same at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.fixed = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X * self.fixed


def records(extractor: nn.Module) -> Records:
    X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    data = GroupedData(X, np.arange(8) % 2, np.arange(8) // 4, ("a", "b"))
    config = TrainConfig(sample_rate=0.5, n_steps=2, clip_norm=1.0, learning_rates=(0.1,))
    recipe = METHODS["dpsgd"].recipe(config, (4.0, 4.0))
    return Records(ScoreModel(extractor, (3,)), data, recipe, max_part=4)


def test_embeddings_of_a_module_that_mixes_records_are_not_kept():
    """Kept ones would be made many at a time, and a module of unknown layers sees one record at a time."""
    assert not records(Frozen()).is_embedded


def test_embeddings_are_kept_where_nothing_changes_them():
    assert records(nn.Sequential(nn.Flatten(), nn.Sigmoid())).is_embedded
    assert not records(nn.Sequential(nn.Linear(3, 2), nn.Sigmoid())).is_embedded
