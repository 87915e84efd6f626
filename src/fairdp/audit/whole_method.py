"""Two-world tests of a whole method where it is one release: every draw is a canary that meets nobody else's.

A method that takes steps is planned for a single step on all records, and is then one Gaussian release. Its canaries
have a coordinate each, which no other record moves and which has noise of its own, so that a training with many of them
is as many draws. A closed form has a polynomial for every group, with noise of its own: a group for every canary.
"""

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp.audit.bounds import EventCounts, epsilon_from_events, epsilon_of_mu, mu_from_events
from fairdp.audit.canaries import Coins, Floats, Population, joint_scores, parameters_of, population, start_of
from fairdp.audit.findings import Finding
from fairdp.audit.interface import WatchedRun, watched_run
from fairdp.audit.two_worlds import events
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.methods.functional import coefficients, features_of

# With one head: a canary goes to only one of several, and hides among them.
ONE_STEP: dict[str, Any] = {"n_steps": 1, "sample_rate": 1.0, "n_members": 1}
# A polynomial, its noise and its minimiser take some milliseconds for every ten canaries.
_DEARER = 5
# The least that a group may be declared to have.
_GROUP = 16


def audit_method(
    method: str,
    *,
    epsilon: float,
    delta: float,
    n_draws: int,
    n_canaries: int,
    failure_probability: float,
    seed: int | None = None,
) -> Finding:
    """Lower bound on the ε of a method that makes one release, from about this many draws in each world."""
    if METHODS[method].closed_form:
        return _audit_closed_form(
            method, epsilon=epsilon, n_draws=-(-n_draws // _DEARER), failure_probability=failure_probability, seed=seed
        )
    rng = np.random.default_rng(seed)
    people = population(n_canaries, rng)
    seeds = rng if seed is not None else None
    with_record, without = [], []
    for _ in range(max(1, n_draws // n_canaries)):
        coins = rng.random(n_canaries) < 0.5
        # Everybody is there once and away once: both worlds have the same canaries.
        for included in (coins, ~coins):
            run = _one_step(method, people, included, epsilon=epsilon, delta=delta, rng=seeds)
            scores = step_scores(run, people)
            with_record.append(scores[included])
            without.append(scores[~included])
    counts = events(np.concatenate(with_record), np.concatenate(without), 0.5)
    mu = mu_from_events(counts, failure_probability=failure_probability)
    return _finding("one step", run.privacy.epsilon, delta, epsilon_of_mu(mu, delta), counts, failure_probability)


def _one_step(
    method: str, people: Population, included: Coins, *, epsilon: float, delta: float, rng: np.random.Generator | None
) -> WatchedRun:
    return watched_run(
        people.world(included),
        sizes=people.sizes,
        seed=None if rng is None else int(rng.integers(2**63)),
        start=start_of(method, people),
        method=method,
        epsilon=epsilon,
        delta=delta,
        **parameters_of(method, **ONE_STEP),
    )


def step_scores(run: WatchedRun, people: Population) -> Floats:
    """The coordinate of each canary in the only gradient, in units of what a record of its group may add."""
    release, canaries = run.gradients()[0], people.canaries
    # A method that changes its clip norms changes its noise with them.
    added = run.plan.recipe.sensitivities[canaries.groups] * (float(np.max(release.scale)) / run.plan.noise_std)
    if run.model.n_cells:
        return joint_scores(run, canaries, [release]) * np.max(release.scale) / added
    first = people.everybody.X.shape[1] - people.n_canaries
    coordinates = release.noisy[first : first + people.n_canaries]
    return np.asarray(coordinates * (1 - 2 * canaries.y) / added)


def _audit_closed_form(
    method: str, *, epsilon: float, n_draws: int, failure_probability: float, seed: int | None
) -> Finding:
    """A group for every canary."""
    without, with_record = (
        polynomial_draws(method, present, epsilon=epsilon, n_draws=n_draws, seed=seed) for present in (False, True)
    )
    # The ratio has the same law in both worlds but for its sign.
    counts = events(with_record, without, 0.0)
    lower = epsilon_from_events(counts, delta=0.0, failure_probability=failure_probability)
    return _finding("one release", epsilon, 0.0, lower, counts, failure_probability)


def polynomial_draws(method: str, present: bool, *, epsilon: float, n_draws: int, seed: int | None) -> Floats:
    """Log-likelihood ratios of the canary in every group's polynomial: all groups have one, or none has."""
    record = np.ones((1, 1), dtype=np.float32)
    n_records = n_draws * present
    data = GroupedData(
        np.repeat(record, n_records, axis=0),
        np.zeros(n_records, dtype=np.int64),
        np.arange(n_records),
        tuple(f"group {number}" for number in range(n_draws)),
    )
    run = watched_run(
        data,
        sizes=(_GROUP,) * n_draws,
        seed=None if seed is None else 2 * seed + present,
        method=method,
        epsilon=epsilon,
        delta=0.01 / (_GROUP * n_draws),
    )
    noisy: NDArray[np.float64] = np.array(run.noisy("polynomial"))
    added = coefficients(features_of(record), np.zeros(1, dtype=np.int64))
    return np.asarray(((np.abs(noisy) - np.abs(noisy - added)) / run.releases[0].scale).sum(1))


def _finding(
    what: str, epsilon: float, delta: float, lower: float, counts: EventCounts, failure_probability: float
) -> Finding:
    return Finding(
        test=f"{what}, two worlds",
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=lower,
        failure_probability=failure_probability,
        counts=asdict(counts),
    )
