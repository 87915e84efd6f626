"""Arms with known sizes and rates: at their typical counts, or drawn with their noise."""

import numpy as np
from numpy.typing import NDArray

from fairdp.certify.arms import NoisyArm
from fairdp.randomness import RandBelow

Ints = NDArray[np.int64]


def typical_arm(size: int, rate: float, *, epsilon: float, folds: int) -> NoisyArm:
    """The expected counts, rounded, without noise."""
    positives = round(size * rate)
    return NoisyArm(positive=positives, negative=size - positives, epsilon=epsilon, folds=folds)


def drawn_arm(rng: np.random.Generator, size: int, rate: float, *, epsilon: float, folds: int) -> NoisyArm:
    """One draw of the counts and their noise."""
    positive, negative = drawn_counts(rng, size, rate, epsilon=epsilon, folds=folds, n_draws=1)
    return NoisyArm(positive=int(positive[0]), negative=int(negative[0]), epsilon=epsilon, folds=folds)


def drawn_counts(
    rng: np.random.Generator, size: int, rate: float, *, epsilon: float, folds: int, n_draws: int
) -> tuple[Ints, Ints]:
    """Noisy counts of positive and negative decisions, each of shape (n_draws,)."""
    positives = rng.binomial(size, rate, n_draws)
    return (
        positives + laplace_noise(rng, epsilon=epsilon, folds=folds, n_draws=n_draws),
        size - positives + laplace_noise(rng, epsilon=epsilon, folds=folds, n_draws=n_draws),
    )


def laplace_noise(rng: np.random.Generator, *, epsilon: float, folds: int, n_draws: int) -> Ints:
    """Sums of discrete Laplace noise: one draw is the difference of two geometric ones."""
    draws = rng.geometric(1 - np.exp(-epsilon), (2, folds, n_draws)).sum(1)
    return draws[0] - draws[1]


def random_below(rng: np.random.Generator) -> RandBelow:
    """A seeded source for the exact sampler of noise."""
    return lambda below: int(rng.integers(below))
