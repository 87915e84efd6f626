"""The release of a step on chosen records, before noise."""

import torch

from fairdp.randomness import StepKeys
from fairdp.training.loop import Trainer, members_of
from fairdp.training.noise import BoundedSum


def clipped_sum(trainer: Trainer, chosen: torch.Tensor, n_members: int = 1) -> BoundedSum:
    """The sum of clipped gradients."""
    blocks = [chosen.numpy()]
    batch = trainer.records.batch(blocks, members_of(blocks, n_members, StepKeys(bytes(32))))
    return trainer.sums.clipped_gradients(batch, trainer.state.memory, n_members)


def statistics_sum(trainer: Trainer, chosen: torch.Tensor) -> BoundedSum:
    """The sum of the auxiliary mechanism's statistics."""
    return trainer.sums.statistics(trainer.records.batch([chosen.numpy()]), trainer.state.memory)
