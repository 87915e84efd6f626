"""Released counts of a deployed model's scores, by group, label and bin: calibration and medians follow from them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairdp.certify.release import Counts, release_counts
from fairdp.config.certificate import SCORE_EDGES
from fairdp.randomness import RandBelow


@dataclass(frozen=True, kw_only=True)
class ScoreCounts:
    """How many certification records of each group and label have a score in each bin, with noise.

    A score is the model's chance of label 1, as `predict_proba` gives it. Counted once, for the deployed model.

    Parameters
    ----------
    epsilons
        Pure ε that a record of each group spends on this release; each count has a discrete Laplace draw of its own.
    edges
        Inner edges of the bins, fixed before anybody was counted; a score on an edge is in the bin above it.
    counts
        The released counts, shape (n_groups, 2, n_bins), with as many bins as edges and one more.
    """

    epsilons: tuple[float, ...]
    edges: tuple[float, ...]
    counts: tuple[tuple[tuple[int, ...], ...], ...]


def binned(
    scores: NDArray[np.float64], labels: NDArray[np.int64], groups: NDArray[np.int64], n_groups: int
) -> NDArray[np.int64]:
    """Exact numbers of records by group, label and bin of their score, shape (n_groups, 2, n_bins): still private.

    >>> binned(np.array([0.04, 0.05, 1.0]), np.array([0, 1, 1]), np.array([0, 0, 0]), 1)[0].sum(0).tolist()
    [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    """
    n_bins = len(SCORE_EDGES) + 1
    cells = (2 * groups + labels) * n_bins + np.searchsorted(SCORE_EDGES, scores, side="right")
    return np.bincount(cells, minlength=2 * n_groups * n_bins).reshape(n_groups, 2, n_bins)


def release_scores(counts: Counts, *, epsilons: Sequence[float], rand_below: RandBelow) -> ScoreCounts | None:
    """Counts of scores with exact discrete Laplace noise; None if no ε is kept for them."""
    if not min(epsilons):
        return None
    noisy = release_counts(counts, epsilon=epsilons, rand_below=rand_below, purpose="scores")
    counted = tuple(tuple(tuple(int(n) for n in row) for row in group) for group in noisy)
    return ScoreCounts(epsilons=tuple(epsilons), edges=SCORE_EDGES, counts=counted)
