"""The check of grids, blocks and angles: a truth that is not rejected lies within the bound, without exception."""

from dataclasses import dataclass

import numpy as np

from fairdp.certify.arms import NoisyArm
from fairdp.certify.gaps import gap_bound
from fairdp.certify.pairs import pair_bound, truth_rejected
from fairdp.experiments.studies.simulation import drawn_arm


@dataclass(frozen=True)
class Arms:
    """Two or three arms of known sizes and rates."""

    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    epsilon: float
    folds: int


# Empty cells, rates of zero and one, one arm far larger than the other, groups of three.
ARMS = (
    Arms((236, 1332), (0.16, 0.20), 1.0, 1),
    Arms((2154, 4358), (0.08, 0.13), 1.0, 2),
    Arms((0, 50), (0.5, 0.5), 1.0, 1),
    Arms((0, 0), (0.0, 1.0), 1.0, 1),
    Arms((0, 300), (1.0, 0.3), 4.0, 1),
    Arms((3, 800), (1.0, 0.0), 0.5, 1),
    Arms((20, 20), (0.0, 1.0), 1.0, 1),
    Arms((200, 200), (1.0, 1.0), 0.5, 2),
    Arms((118, 666), (0.02, 0.01), 0.1, 1),
    Arms((40, 4000), (0.97, 0.9), 4.0, 1),
    Arms((300, 600, 900), (0.1, 0.15, 0.3), 1.0, 1),
    Arms((0, 50, 500), (0.5, 0.2, 0.6), 0.5, 1),
    Arms((20, 20, 20), (0.0, 0.5, 1.0), 4.0, 1),
    Arms((1000, 1500, 2500), (0.02, 0.05, 0.03), 0.1, 2),
)


@dataclass(frozen=True)
class ImplicationTask:
    """Draws of one setting at one level."""

    arms: Arms
    failure_probability: float
    n_bounds: int


@dataclass(frozen=True)
class Implications:
    """How many truths were rejected, bounds missed the truth, and bounds missed a truth that was not rejected."""

    bounds: int
    rejected: int
    missed: int
    broken: int


def check_implication(task: ImplicationTask, rng: np.random.Generator) -> Implications:
    """Draw arms, bound them, and compare with the truth."""
    low, *_, high = (int(i) for i in np.argsort(task.arms.rates, kind="stable"))
    rates = task.arms.rates[high], task.arms.rates[low]
    sizes = task.arms.sizes[high], task.arms.sizes[low]
    level, rejected, missed = task.failure_probability, [], []
    for _ in range(task.n_bounds):
        arms = [
            drawn_arm(rng, size, rate, epsilon=task.arms.epsilon, folds=task.arms.folds)
            for size, rate in zip(task.arms.sizes, task.arms.rates, strict=True)
        ]
        rejected.append(truth_rejected(arms[high], arms[low], rates, sizes, failure_probability=level))
        difference, ratio = _bounds(arms, high, low, level)
        too_small = difference < rates[0] - rates[1] - 1e-12
        missed.append(too_small or (rates[1] > 0 and ratio < rates[0] / rates[1] - 1e-9))
    broken = sum(miss and not no for miss, no in zip(missed, rejected, strict=True))
    return Implications(task.n_bounds, sum(rejected), sum(missed), broken)


def _bounds(arms: list[NoisyArm], high: int, low: int, failure_probability: float) -> tuple[float, float]:
    """Bounds on the largest difference and the largest quotient of rates."""
    if len(arms) == 2:
        bound = pair_bound(arms[high], arms[low], failure_probability=failure_probability)
        return bound.difference, bound.ratio
    gap = gap_bound(arms, failure_probability=failure_probability)
    return gap.tau, 1 / gap.ratio if gap.ratio > 0 else np.inf
