"""The counts that a certificate is made from: their noise, and the arms they form."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairdp import _checks
from fairdp.certify.arms import NoisyArm
from fairdp.certify.gaps import uses_score_box
from fairdp.randomness import RandBelow, discrete_laplace
from fairdp.releases import leave

Counts = NDArray[np.int64]

# Share of a group that its smaller label is planned to have, when cells are judged small before looking.
PLANNED_CELL = 0.1


def release_counts(
    counts: Counts, *, epsilon: float | Sequence[float], rand_below: RandBelow, purpose: str = "look"
) -> Counts:
    """Counts with exact discrete Laplace noise: a record is in one cell, so this costs its group's pure ε in all."""
    epsilons = per_group(epsilon, len(counts))
    _checks.finite_positive(epsilon=min(epsilons))
    noise = [[discrete_laplace(group_epsilon, rand_below) for _ in range(counts[0].size)] for group_epsilon in epsilons]
    noisy = counts + np.array(noise, dtype=np.int64).reshape(counts.shape)
    scales = np.broadcast_to(1 / np.reshape(epsilons, (-1,) + (1,) * (counts.ndim - 1)), counts.shape)
    return leave(noisy, purpose=purpose, law="laplace", scale=scales, exact=counts)


def per_group(epsilon: float | Sequence[float], n_groups: int) -> tuple[float, ...]:
    """One ε for each group."""
    if isinstance(epsilon, Sequence):
        return tuple(float(value) for value in epsilon)
    return (float(epsilon),) * n_groups


def small(epsilons: Sequence[float], expected_sizes: Sequence[float], kind: str) -> bool:
    """Whether the smallest arm of a kind of rate is expected to be too small for pairs, by public numbers."""
    share = 1.0 if kind == "positive" else PLANNED_CELL
    return any(uses_score_box(epsilon, share * size) for epsilon, size in zip(epsilons, expected_sizes, strict=True))


def arms_of(counts: Counts, kind: str, epsilons: tuple[float, ...]) -> list[NoisyArm]:
    """One arm per group: all of its records, or those of one label."""
    folds = 2 if kind == "positive" else 1
    cells = counts.sum(1) if kind == "positive" else counts[:, int(kind == "true_positive")]
    return [
        NoisyArm(positive=int(p), negative=int(n), epsilon=epsilon, folds=folds)
        for (n, p), epsilon in zip(cells, epsilons, strict=True)
    ]
