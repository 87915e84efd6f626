"""Did the model learn to rank? Records by label and predicted probability, counted once."""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairdp.frontier.events import Floats

# Closer together at both ends: where labels are rare, all that matters happens there.
_EDGES = np.array(
    [0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98]
)
N_BINS = len(_EDGES) + 1


class Estimate(NamedTuple):
    """A number that follows from noisy counts, and its standard error."""

    value: float
    error: float


def exact_ranking(chances: Floats, labels: NDArray[np.int64]) -> Floats:
    """Records by label and probability of label 1, shape (2, N_BINS): each record is in one bin."""
    bins = np.searchsorted(_EDGES, chances, side="right")
    return np.bincount(N_BINS * labels + bins, minlength=2 * N_BINS).reshape(2, -1).astype(np.float64)


def area_under_curve(noisy: Floats, std: float) -> Estimate:
    r"""ROC-AUC from the noisy counts, equal probabilities counting half, with the error of noise and of sampling.

    To first order a count of label 1 moves it by :math:`(F_0 - \mathrm{AUC}) / n_1`, with the share :math:`F_0` of
    label 0 below its bin; one of label 0 likewise. Sampling adds at most
    :math:`\mathrm{AUC} (1 - \mathrm{AUC}) / \min(n_0, n_1)` to the variance.
    """
    sizes = np.maximum(noisy.sum(1), 1.0)
    shares = noisy / sizes[:, None]
    below = np.cumsum(shares, axis=1) - shares / 2
    area = float(shares[1] @ below[0])
    moves = np.concatenate([(below[0] - area) / sizes[1], (1 - below[1] - area) / sizes[0]])
    bounded = min(max(area, 0.0), 1.0)
    sampling = bounded * (1 - bounded) / float(sizes.min())
    return Estimate(bounded, math.sqrt(std**2 * float(moves @ moves) + sampling))


class Chance(NamedTuple):
    """What a model that learnt nothing seems to be worth on its own training records: its ROC-AUC and its gain."""

    auc: float
    gain: float


def by_chance(n_inputs: int, n_records: float, base_rate: float) -> Chance:
    r"""What a linear model reaches on its own training records if their labels are drawn at random, without noise.

    Least squares on :math:`d` inputs separates the means of the two labels by :math:`\delta` deviations,
    :math:`\delta^2 \approx d / (n b (1 - b))`. So the ROC-AUC is :math:`\Phi(\delta / \sqrt 2)`, and the accuracy
    exceeds that of a constant by at most :math:`\Phi(\delta / 2) - 1/2`. Noise makes both less.

    >>> round(by_chance(105, 32_000, 0.24).auc, 3)
    0.538
    """
    apart = math.sqrt(n_inputs / max(n_records * base_rate * (1 - base_rate), 1.0))
    law = NormalDist()
    return Chance(law.cdf(apart / math.sqrt(2)), law.cdf(apart / 2) - 0.5)
