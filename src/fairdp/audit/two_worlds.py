"""Two-world tests of single releases: the real code, many times with a record and many times without it."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fairdp.accounting.account import SizesNoise
from fairdp.accounting.calibration import gaussian_mu, noise_multiplier_for
from fairdp.accounting.mechanisms import PrivacyBudget, sizes_loss
from fairdp.audit.bounds import EventCounts, epsilon_from_events, epsilon_of_mu, mu_from_events
from fairdp.audit.findings import Finding
from fairdp.certify.release import release_counts
from fairdp.methods.functional import l1_sensitivities, noise_scales, release
from fairdp.randomness import Generators
from fairdp.run.hold_out import counted_sizes
from fairdp.training.clipping import BoundedSum
from fairdp.training.noise import add_gaussian_noise

Draws = NDArray[np.float64]

# Sensitivity of the Gaussian release that is tested; not one, so that a forgotten factor shows.
_SENSITIVITY = 0.25


@dataclass(frozen=True, kw_only=True, eq=False)
class SingleRelease:
    """A release that can be drawn in both worlds.

    To have another release tested, describe it so and add it to `single_releases`.

    Parameters
    ----------
    epsilon, delta
        What is stated of one release.
    draw
        Independent draws with or without the record: ``draw(with_record, n_draws, generators)``.
    threshold
        The event that tells the worlds apart is a draw of at least this, fixed beforehand.
    times
        How many times as many draws to take, where they cost next to nothing.
    gaussian
        Whether the release is one Gaussian without sampling, so that a bound on μ is one on ε.
    """

    name: str
    epsilon: float
    delta: float
    draw: Callable[[bool, int, Generators], Draws]
    threshold: float
    times: int = 1
    gaussian: bool = False


def single_releases(epsilon: float, delta: float) -> tuple[SingleRelease, ...]:
    """The releases that fairdp makes, each at the ε and δ that it states."""
    return (noisy_count(epsilon), group_size(epsilon, delta), noisy_polynomial(epsilon), gaussian_sum(epsilon, delta))


def audit_release(
    tested: SingleRelease, *, n_draws: int, failure_probability: float, seed: int | None = None
) -> Finding:
    """Lower bound on the ε of a release, from this many draws in each of two worlds."""
    generators = (Generators.of(None if seed is None else 2 * seed + world) for world in (0, 1))
    without, with_record = (
        tested.draw(world, tested.times * n_draws, chance)
        for world, chance in zip((False, True), generators, strict=True)
    )
    counts = events(with_record, without, tested.threshold)
    if tested.gaussian:
        mu = mu_from_events(counts, failure_probability=failure_probability)
        lower = epsilon_of_mu(mu, tested.delta)
    else:
        lower = epsilon_from_events(counts, delta=tested.delta, failure_probability=failure_probability)
    return Finding(
        test=f"{tested.name}, two worlds",
        epsilon=tested.epsilon,
        delta=tested.delta,
        epsilon_lower=lower,
        failure_probability=failure_probability,
        counts=asdict(counts),
    )


def events(with_record: Draws, without: Draws, threshold: float) -> EventCounts:
    """How often draws reach a threshold in either world."""
    return EventCounts(
        with_record=int((with_record >= threshold).sum()),
        draws_with=len(with_record),
        without_record=int((without >= threshold).sum()),
        draws_without=len(without),
    )


def noisy_count(epsilon: float) -> SingleRelease:
    """A count with discrete Laplace noise, of pure ε: the cells of certificates and of histograms."""

    def draw(with_record: bool, n_draws: int, generators: Generators) -> Draws:
        # Each cell has its own noise, whatever the others hold: a release of many cells is that many of one.
        cells = np.full((1, n_draws), int(with_record))
        noise = generators.below("audit of a count")
        return release_counts(cells, epsilon=epsilon, rand_below=noise).ravel().astype(np.float64)

    # "At least one" has the chances 1 / (1 + e^−ε) and 1 / (1 + e^ε): their ratio is e^ε, and no event has a larger.
    return SingleRelease(name="noisy count", epsilon=epsilon, delta=0.0, draw=draw, threshold=1.0)


def group_size(epsilon: float, delta: float) -> SingleRelease:
    """The size of a group with discrete Gaussian noise, as it is counted before training, for the whole of ε and δ.

    A run gives it a hundredth of its privacy, of which so many draws would show nothing; the code is the same.
    """
    std = 1 / gaussian_mu(PrivacyBudget(epsilon=epsilon, delta=delta))
    noise = SizesNoise(std=std)

    def draw(with_record: bool, n_draws: int, generators: Generators) -> Draws:
        # As with cells: each group's size has its own noise.
        exact = np.full(n_draws, int(with_record))
        return counted_sizes(exact, noise, generators.below("audit of a size")).astype(np.float64)

    # The law is discrete, so μ says nothing of it: events do, one in the tail more than one in the middle.
    stated = float(sizes_loss(std).get_epsilon_for_delta(delta))
    threshold = float(math.ceil(1.8 * std))
    return SingleRelease(name="noisy group size", epsilon=stated, delta=delta, draw=draw, threshold=threshold)


def noisy_polynomial(epsilon: float) -> SingleRelease:
    """The quadratic part of the functional mechanism, at half of ε, moved by exactly its L1 sensitivity."""
    n_features = 100
    moved, scales = l1_sensitivities(n_features).quadratic, noise_scales(n_features, epsilon=epsilon)
    d = n_features + 1

    def draw(with_record: bool, n_draws: int, generators: Generators) -> Draws:
        # As with the Gaussian sum: all of the sensitivity in every coordinate, with the noise of a single one.
        n_releases = -(-n_draws // (d * (d + 1) // 2))
        coefs = np.repeat([0.0, with_record * moved], [d, d * (d + 1) // 2])
        noise = generators.below("audit of a polynomial")
        return np.concatenate([release(coefs, scales=scales, rand_below=noise)[d:] for _ in range(n_releases)])

    # Beyond both values the densities differ by the whole factor.
    return SingleRelease(name="noisy polynomial", epsilon=epsilon / 2, delta=0.0, draw=draw, threshold=moved)


def gaussian_sum(epsilon: float, delta: float) -> SingleRelease:
    """A bounded sum with Gaussian noise, moved by exactly its sensitivity."""
    budget = PrivacyBudget(epsilon=epsilon, delta=delta)
    multiplier = noise_multiplier_for(budget, sample_rate=1.0, n_steps=1)

    def draw(with_record: bool, n_draws: int, generators: Generators) -> Draws:
        # The noise is independent from coordinate to coordinate and knows nothing of the sum. So a vector that moves
        # by the sensitivity in *every* coordinate, with the noise of a single one, is that many draws of a sum of one
        # coordinate; as one release of a vector it would be far from private.
        total = torch.full((n_draws,), with_record * _SENSITIVITY, dtype=torch.float64)
        return released_sum(BoundedSum(total, np.array([_SENSITIVITY])), multiplier, generators)

    return SingleRelease(
        name="Gaussian release",
        epsilon=epsilon,
        delta=delta,
        draw=draw,
        threshold=_SENSITIVITY / 2,
        times=4,
        gaussian=True,
    )


def released_sum(bounded: BoundedSum, multiplier: float, generators: Generators) -> Draws:
    """A sum as training releases it."""
    std = multiplier * float(bounded.sensitivities.max())
    accounted = np.full(len(bounded.sensitivities), multiplier)
    stream = generators.steps.step().stream("noise")
    noisy = add_gaussian_noise(bounded, std, accounted_multipliers=accounted, stream=stream)
    return noisy.double().numpy()
