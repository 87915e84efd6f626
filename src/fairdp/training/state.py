"""What changes from step to step: parameters, optimiser, generators, memory."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fairdp.networks.models import ScoreModel
from fairdp.streams import Chain
from fairdp.training.companion import Memory


@dataclass(eq=False)
class FlatOptimizer:
    """SGD with momentum or Adam on one vector; its state is a few tensors, so a checkpoint needs no pickle."""

    kind: str
    momentum: float = 0.0
    n_updates: int = 0
    state: dict[str, Tensor] = field(default_factory=dict)

    def step(self, params: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Move the parameters, in place, against a noisy gradient."""
        self.n_updates += 1
        if self.kind == "adam":
            self._adam(params, gradient, learning_rate)
        elif self.momentum:
            velocity = self._buffer("velocity", params).mul_(self.momentum).add_(gradient)
            params.sub_(velocity, alpha=learning_rate)
        else:
            params.sub_(gradient, alpha=learning_rate)

    def _adam(self, params: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Kingma and Ba (2015), Algorithm 1, with its default constants."""
        first = self._buffer("first_moment", params).lerp_(gradient, 0.1)
        second = self._buffer("second_moment", params).mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        scale = (1 - 0.999**self.n_updates) ** 0.5
        denominator = second.sqrt().add_(1e-8 * scale)
        params.addcdiv_(first, denominator, value=-learning_rate * scale / (1 - 0.9**self.n_updates))

    def _buffer(self, name: str, like: Tensor) -> Tensor:
        if name not in self.state:
            self.state[name] = torch.zeros_like(like)
        return self.state[name]


@dataclass(eq=False)
class Looked:
    """What looks at the held-out records have found so far.

    ``n_ensembles`` counts the releases that were made for them beside the steps, and ``counts`` are what each look
    released. ``kept`` are the parameters of the last look that met what is required, or of the first if that did not.
    ``missed`` says whether the last look missed it, which ends training.
    """

    n_ensembles: int = 0
    counts: list[Any] = field(default_factory=list)
    kept: Tensor | None = None
    missed: bool = False


@dataclass(eq=False)
class TrainingState:
    """Everything that changes from step to step; a checkpoint of it continues the same run.

    ``step`` counts releases, and ``chain`` holds the keys of those to come. ``average`` is that of the iterates, for
    methods that deploy it.
    """

    model: ScoreModel
    optimizer: FlatOptimizer
    chain: Chain
    step: int = 0
    memory: Memory = field(default_factory=dict)
    average: Tensor | None = None
    looked: Looked = field(default_factory=Looked)

    def deploy_average(self) -> None:
        """Replace the last iterate with the average of the iterates, if there is one."""
        if self.average is not None:
            self.model.params.copy_(self.average)
