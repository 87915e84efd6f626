"""What changes from step to step."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fairdp.networks.models import ScoreModel
from fairdp.training.companion import Memory
from fairdp.training.optimizer import FlatOptimizer


@dataclass(eq=False)
class TrainingState:
    """Everything that changes from step to step; a checkpoint of it continues the same run.

    ``step`` counts releases. ``average`` is that of the iterates, for methods that deploy it.
    """

    model: ScoreModel
    optimizer: FlatOptimizer
    sampling_rng: np.random.Generator
    noise_rng: np.random.Generator
    step: int = 0
    memory: Memory = field(default_factory=dict)
    average: Tensor | None = None

    def between_iterate_and_average(self, share: float) -> Tensor:
        """The iterate where there is no average; else parameters that lie this share of the way from it to the average.

        Statistics of the average are taken at a share that grows from zero to one: what the average will be, while a
        controller still changes much, and by the end what is deployed. Seen through the average alone, whatever a
        controller does would show some twenty steps later, and it would swing.
        """
        params = self.model.params
        return params if self.average is None else torch.lerp(params, self.average, share)

    def deploy_average(self) -> None:
        """Put the average of the iterates, where there is one, in place of the last iterate."""
        if self.average is not None:
            self.model.params.copy_(self.average)
