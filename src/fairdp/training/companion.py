"""What a method may do at every step besides following the clipped gradient of the logistic loss."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from fairdp.accounting.recipe import Coordinates, Statistics

if TYPE_CHECKING:  # A plan asks a companion what it costs, and should not wait for torch.
    from torch import Tensor

# Released numbers that a method carries from step to step. Whatever follows from them is post-processing.
Memory: TypeAlias = "dict[str, Tensor]"


@dataclass(frozen=True, eq=False)
class Seen:
    """Some records of a batch, as a method sees them: scores, labels, group codes, gradient norms before clipping.

    Each has shape (n_records,); ``norms`` only for statistics of norms.
    """

    scores: "Tensor"
    labels: "Tensor"
    groups: "Tensor"
    norms: "Tensor | None" = None

    def is_finite(self) -> "Tensor":
        """Which records have finite scores and gradients."""
        return self.scores.isfinite() if self.norms is None else self.norms.isfinite()


class Companion(Protocol):
    """What a method does at every step; what it leaves out works as in DP-SGD.

    A method states only how a record contributes to what is released (``beside``); the loop bounds the contribution,
    adds the noise that was planned for it, and hands back the noisy sum.
    """

    @property
    def beside(self) -> Statistics | Coordinates | None:
        """What is released beside the gradient."""
        return None

    def start(self) -> Memory:
        """What is known before the first step."""
        return {}

    def contributions(self, seen: Seen, memory: Memory) -> "Tensor":
        """What each record adds to what is released beside the gradient, shape (n_records, ``beside.size``)."""
        return seen.scores.new_empty(len(seen.scores), 0)

    def learn(self, noisy: "Tensor", memory: Memory) -> None:
        """Take the noisy sum of the contributions into memory."""
        return

    def score_gradient(self, seen: Seen, memory: Memory) -> "Tensor":
        """∂loss/∂z of each record; the logistic loss has σ(z) − y."""
        return seen.scores.sigmoid().sub_(seen.labels)

    def clip_factors(self, memory: Memory) -> "Tensor | None":
        """Factor on the clip norm of each group; None for one."""
        return None


class LogisticLoss(Companion):
    """Nothing beyond DP-SGD."""
