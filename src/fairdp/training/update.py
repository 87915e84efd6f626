"""What happens to the parameters after a release: optimisers, projection, and the heads of the last step."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor


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


def project_to_ball(heads: Tensor, radius: float) -> None:
    """Scale down, in place, every head (w, b) whose norm exceeds M; after the step, so that the release obeys it."""
    if math.isfinite(radius):
        heads.renorm_(2, 0, radius)


def split_into_members(params: Tensor, noisy: Tensor, *, width: int, n_members: int, learning_rate: float) -> Tensor:
    r"""The last step: one SGD step of the extractor and one of each head, from its own part of the batch.

    Head j sees a part of expected size :math:`m_k / N`, so its sum is scaled by N:
    :math:`w_j = w - \eta N (S_j + \mathcal N(0, s^2 I))`.
    """
    n_extractor = params.numel() - (width + 1)
    extractor = params[:n_extractor] - learning_rate * noisy[:n_extractor]
    sums = noisy[n_extractor:].view(n_members, width + 1)
    heads = params[n_extractor:] - learning_rate * n_members * sums
    return torch.cat([extractor, heads.flatten()])
