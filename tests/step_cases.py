"""What a step would release of chosen records, before its noise."""

import torch

from fairdp.streams import StepKeys
from fairdp.training.clipping import BoundedSum
from fairdp.training.loop import Trainer, members_of


def clipped_sum(trainer: Trainer, chosen: torch.Tensor, n_members: int = 1) -> BoundedSum:
    """The sum of clipped gradients."""
    blocks = [chosen.numpy()]
    batch = trainer.records.batch(blocks, members_of(blocks, n_members, StepKeys(bytes(32))))
    return trainer.sums.clipped_gradients(batch, trainer.state.memory, n_members)


def statistics_sum(trainer: Trainer, chosen: torch.Tensor) -> BoundedSum:
    """The sum of the companion's statistics."""
    return trainer.sums.statistics(trainer.records.batch([chosen.numpy()]), trainer.state.memory)
