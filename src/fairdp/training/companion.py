"""What a method may do at every step besides following the clipped gradient of the logistic loss."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:  # A plan asks a companion what it costs, and should not wait for torch.
    from torch import Tensor

# Released numbers that a method carries from step to step. Whatever follows from them is post-processing.
Memory: TypeAlias = "dict[str, Tensor]"


@dataclass(frozen=True, eq=False)
class Seen:
    """Some records of a batch, as a method sees them: scores, labels, group codes, gradient norms before clipping.

    Each has shape (n_records,); ``norms`` only where a method asks for them.
    """

    scores: "Tensor"
    labels: "Tensor"
    groups: "Tensor"
    norms: "Tensor | None" = None

    def is_finite(self) -> "Tensor":
        """Which records have finite scores and gradients."""
        return self.scores.isfinite() if self.norms is None else self.norms.isfinite()


class Companion(Protocol):
    """Statistics that are released before the gradient, and what the method makes of them.

    Statistics, gradient and further coordinates come from the same sample, so a step is one Gaussian query on it,
    accounted as one. A method states only how a record contributes; noise is added where all noise is added.
    """

    needs_norms: bool = False
    # Whether statistics are of the averaged model's scores, not of the iterate's, and how often they are asked for.
    sees_average: bool = False
    steps_per_look: int = 1

    @property
    def what(self) -> str:
        """Code of the statistics in the privacy record; `fairdp.accounting.words` has the words."""
        return ""

    @property
    def n_statistics(self) -> int:
        """Number of statistics, zero for none."""
        return 0

    @property
    def n_further(self) -> int:
        """Number of coordinates that are clipped together with the gradient, zero for none."""
        return 0

    @property
    def share(self) -> float:
        """Part of a step's privacy that goes to the statistics: their share of the inverse variances."""
        return 0.0

    def start(self) -> Memory:
        """What is known before the first step."""
        return {}

    def statistics(self, seen: Seen, memory: Memory) -> "Tensor":
        """What each record adds to the statistics, shape (n_records, n_statistics), rows of norm at most one."""
        return seen.scores.new_empty(len(seen.scores), 0)

    def learn(self, noisy: "Tensor", memory: Memory) -> None:
        """Take the noisy statistics into memory."""
        return

    def score_gradient(self, seen: Seen, memory: Memory) -> "Tensor":
        """∂loss/∂z of each record; the logistic loss has σ(z) − y."""
        return seen.scores.sigmoid().sub_(seen.labels)

    def clip_factors(self, memory: Memory) -> "Tensor | None":
        """Factor on the clip norm of each group; None for one."""
        return None

    def further(self, seen: Seen, memory: Memory) -> "Tensor":
        """Each record's further coordinates, shape (n_records, n_further)."""
        return seen.scores.new_empty(len(seen.scores), 0)

    def follow(self, noisy: "Tensor", memory: Memory) -> None:
        """Take the noisy sum of the further coordinates into memory."""
        return
