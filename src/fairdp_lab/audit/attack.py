"""Attacks on single releases, on methods as one release, and on whole trainings with canaries.

Each attack tells from what was released whether a record was there, and bounds ε from below by how often it is right.
All tests of one command share one failure probability.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fairdp.accounting.mechanisms import PrivacyBudget, epsilon_spent, gaussian_mu, noise_multiplier_for, sizes_loss
from fairdp.accounting.plan import Plan, SizesNoise
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.bounds import release_counts
from fairdp.data.datasets import synthetic_population
from fairdp.data.grouped import GroupedData
from fairdp.ledger.ledger import Spending
from fairdp.methods import METHODS
from fairdp.methods.functional import coefficients, features_of, l1_sensitivities, noise_scales, noisy_coefficients
from fairdp.networks.model import ScoreModel
from fairdp.randomness import Generators
from fairdp.releases import Release, watching
from fairdp.run.certifying import Run, counted_sizes
from fairdp.run.fit import Progress, fit
from fairdp.run.plan import checked
from fairdp.run.predictor import Predictor
from fairdp.training.noise import BoundedSum, add_gaussian_noise
from fairdp_lab.audit.bounds import (
    EventCounts,
    epsilon_from_events,
    epsilon_from_guesses,
    epsilon_of_mu,
    mu_from_events,
)

# Sensitivity of the Gaussian release that is tested; not one, so that a forgotten factor shows.
_SENSITIVITY = 0.25
Floats = NDArray[np.float64]
Coins = NDArray[np.bool_]
# Shares of the canaries about which a guess is made, the most conspicuous first; each is a test of its own.
GUESSED = (0.1, 0.3, 1.0)
# The bound of one run loses 2 m δ to δ, more than the few false alarms that are allowed: it is made at a smaller δ, and
# beside the ε that is accounted there.
SMALL_DELTA = 1e-8
# So long that a canary's gradient is clipped at every step and its direction is all but its own coordinate.
_LENGTH = 20.0
_N_ORDINARY, _N_SHARED = 60, 4
# A polynomial has as many coefficients as pairs of features, each with noise of its own.
_MOST_OF_CLOSED_FORM = 100
# Small steps of plain SGD leave the canaries' gradients as they are at the start: the sum of all releases, and so the
# final model, tells the most about who was there. The public interface allows all of it.
TRAINING: dict[str, Any] = {
    "module": nn.Flatten,
    "optimizer": "sgd",
    "learning_rate": 0.01,
    "sgd_learning_rate": 0.01,
    "clip_norm": 1.0,
    "sample_rate": 0.5,
    "n_steps": 20,
    "n_members": 2,
}
# With one head: a canary goes to only one of several, and hides among them.
ONE_STEP: dict[str, Any] = {"n_steps": 1, "sample_rate": 1.0, "n_members": 1}
# A polynomial, its noise and its minimiser take some milliseconds for every ten canaries.
_DEARER = 5
# The least that a group may be declared to have.
_GROUP = 16
# Chance of any false alarm in a whole command.
FALSE_ALARM = 1e-3
# Tests of a method: one release, and two views of one run with each share of guesses.
_TESTS_OF_A_METHOD = 1 + 2 * len(GUESSED)
# Draws of whole methods, as a share of those of a single release: each is a training.
_OF_METHODS = 5
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A lower bound on ε, and the ε that it must not pass.

    Parameters
    ----------
    test
        What was tested, and how.
    epsilon, delta
        What is stated.
    epsilon_lower
        What the attack shows; zero: nothing.
    failure_probability
        Chance that the bound is above the true ε.
    counts
        The counts that the bound is made from, by name.
    """

    test: str
    epsilon: float
    delta: float
    epsilon_lower: float
    failure_probability: float
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """True if the statement survives."""
        return self.epsilon_lower <= self.epsilon


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchedRun:
    """A finished training and all that has left the records on the way.

    Parameters
    ----------
    plan, privacy
        What was planned, and what is stated.
    releases
        Every release in its order; the values before noise, in ``exact``, are for checks and not for attacks.
    model, predictor
        The final model and the rule that decides by it.
    """

    plan: Plan
    privacy: PrivacySpent
    releases: tuple[Release, ...]
    model: ScoreModel
    predictor: Predictor

    def noisy(self, purpose: str) -> list[NDArray[Any]]:
        """The released values of one purpose, in their order."""
        return [release.noisy for release in self.releases if release.purpose == purpose]

    def gradients(self) -> list[Release]:
        """The noisy gradients of all steps, each with its noise."""
        return [release for release in self.releases if release.purpose == "gradient"]


def watched_run(
    data: GroupedData,
    *,
    sizes: Sequence[int],
    seed: int | None = None,
    start: NDArray[np.floating] | None = None,
    **parameters: Any,
) -> WatchedRun:
    """Train once and keep every release.

    Parameters
    ----------
    data
        The records of this world; a group may be empty.
    sizes
        Declared size of every group, the same in all worlds; with ``grouping="attribute_and_label"`` labels are
        declared to be equally frequent.
    seed
        Of all chance in the run; None takes the operating system's.
    start
        Parameters before the first step, flat, the head with its bias last; None starts as a fit does.
    parameters
        Any of `FairDPClassifier` but those of the certificate: ``method``, ``epsilon``, ``n_steps`` and so on.
    """
    finer = parameters.get("grouping") == "attribute_and_label"
    each = [size / (1 + finer) for size in sizes for _ in range(1 + finer)]
    names = (data.by_label() if finer else data).group_names
    chosen = checked(
        **{**parameters, "random_state": seed, "certify_fraction": 0.0}, group_sizes=dict(zip(names, each, strict=True))
    )
    planned: list[Run] = []
    releases: list[Release] = []

    def begin_at_start(run: Run) -> None:
        planned.append(run)
        if start is not None:
            run.model.replace_params(torch.from_numpy(np.array(start, dtype=np.float32)))

    def keep(release: Release) -> NDArray[Any]:
        # What leaves may be changed in place later on.
        releases.append(replace(release, noisy=np.array(release.noisy), exact=np.array(release.exact)))
        return release.noisy

    with watching(keep):
        model, fitted = fit(chosen, data, Spending(None, command="audit"), Progress(before_training=begin_at_start))
    return WatchedRun(
        plan=planned[0].plan,
        privacy=fitted.privacy,
        releases=tuple(releases),
        model=model,
        predictor=fitted.predictor,
    )


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
    draw: Callable[[bool, int, Generators], Floats]
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
    return _finding(tested.name, tested.epsilon, tested.delta, lower, counts, failure_probability)


def events(with_record: Floats, without: Floats, threshold: float) -> EventCounts:
    """Counts of draws that reach a threshold, in either world."""
    return EventCounts(
        with_record=int((with_record >= threshold).sum()),
        draws_with=len(with_record),
        without_record=int((without >= threshold).sum()),
        draws_without=len(without),
    )


def noisy_count(epsilon: float) -> SingleRelease:
    """A count with discrete Laplace noise, of pure ε: the cells of certificates and of histograms."""

    def draw(with_record: bool, n_draws: int, generators: Generators) -> Floats:
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

    def draw(with_record: bool, n_draws: int, generators: Generators) -> Floats:
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

    def draw(with_record: bool, n_draws: int, generators: Generators) -> Floats:
        # As with the Gaussian sum: all of the sensitivity in every coordinate, with the noise of a single one.
        n_releases = -(-n_draws // (d * (d + 1) // 2))
        coefs = np.repeat([0.0, with_record * moved], [d, d * (d + 1) // 2])
        noise = generators.below("audit of a polynomial")
        return np.concatenate(
            [noisy_coefficients(coefs, scales=scales, rand_below=noise)[d:] for _ in range(n_releases)]
        )

    # Beyond both values the densities differ by the whole factor.
    return SingleRelease(name="noisy polynomial", epsilon=epsilon / 2, delta=0.0, draw=draw, threshold=moved)


def gaussian_sum(epsilon: float, delta: float) -> SingleRelease:
    """A bounded sum with Gaussian noise, moved by exactly its sensitivity."""
    budget = PrivacyBudget(epsilon=epsilon, delta=delta)
    multiplier = noise_multiplier_for(budget, sample_rate=1.0, n_steps=1)

    def draw(with_record: bool, n_draws: int, generators: Generators) -> Floats:
        # The noise is independent from coordinate to coordinate and knows nothing of the sum. So a vector that moves
        # by the sensitivity in *every* coordinate, with the noise of a single one, is that many draws of a sum of one
        # coordinate; as one release of a vector it would be far from private.
        total = torch.full((n_draws,), with_record * _SENSITIVITY, dtype=torch.float64)
        noisy = add_gaussian_noise(
            BoundedSum(total, np.array([_SENSITIVITY])),
            multiplier * _SENSITIVITY,
            accounted_multipliers=np.array([multiplier]),
            stream=generators.steps.step().stream("noise"),
        )
        return noisy.double().numpy()

    return SingleRelease(
        name="Gaussian release",
        epsilon=epsilon,
        delta=delta,
        draw=draw,
        threshold=_SENSITIVITY / 2,
        times=4,
        gaussian=True,
    )


def parameters_of(method: str, **changed: Any) -> dict[str, Any]:
    """Parameters with which a method that takes steps is audited.

    A target that asks for nothing pulls at no canary. A joint model is attacked with its own rows, as most people have
    it. The noise of a smoothed model has a public seed and hides nothing; with hardly any of it the attack need not
    take it off.
    """
    found = {**TRAINING, **changed}
    if METHODS[method].takes_target:
        found |= {"max_gap": 1.0}
    if METHODS[method].joint:
        found |= {"module": None, "model": "logistic"}
    return found | {"parameter_noise": 1e-4, "n_draws": 10} if METHODS[method].smooths else found


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """Ordinary records, always there, and canaries, who may be; ``sizes`` are declared, the same in all worlds."""

    everybody: GroupedData
    n_canaries: int
    sizes: tuple[int, ...]

    @property
    def canaries(self) -> GroupedData:
        """The canaries alone."""
        return self.everybody.take(slice(self.everybody.n_samples - self.n_canaries, None))

    def world(self, included: Coins) -> GroupedData:
        """The ordinary records and the canaries whose coins fell so."""
        ordinary = np.ones(self.everybody.n_samples - self.n_canaries, dtype=bool)
        return self.everybody.take(np.flatnonzero(np.concatenate([ordinary, included])))


def population(n_canaries: int, rng: np.random.Generator) -> Population:
    """Canaries with one feature each that nobody shares, of both labels and both groups in turn."""
    ordinary = synthetic_population(n_features=_N_SHARED).sample(_N_ORDINARY, rng)
    X = np.zeros((_N_ORDINARY + n_canaries, _N_SHARED + n_canaries), dtype=np.float32)
    X[:_N_ORDINARY, :_N_SHARED] = ordinary.X
    X[_N_ORDINARY:, _N_SHARED:] = _LENGTH * np.eye(n_canaries)
    number = np.arange(n_canaries)
    everybody = GroupedData(
        X,
        np.concatenate([ordinary.y, number % 2]),
        np.concatenate([ordinary.groups, number // 2 % 2]),
        ordinary.group_names,
    )
    of_group = n_declared(n_canaries) // 2
    return Population(everybody=everybody, n_canaries=n_canaries, sizes=(of_group, of_group))


def n_declared(n_canaries: int) -> int:
    """Records that both groups are declared to have together: the ordinary ones, and half of the canaries."""
    return 2 * ((_N_ORDINARY + n_canaries // 2) // 2)


@dataclass(frozen=True, kw_only=True, eq=False)
class CanaryRun:
    """One training with canaries.

    Parameters
    ----------
    included
        Whose coins fell so that they were in the data.
    scores
        By what is seen of the run: how much it speaks for each canary's presence.
    epsilon, delta
        What is accounted, at a δ that suits the bound; a pure ε has δ = 0.
    """

    included: Coins
    scores: dict[str, Floats]
    epsilon: float
    delta: float

    def findings(self, *, failure_probability: float) -> list[Finding]:
        """A lower bound for each thing that is seen and each share of guesses; the probability is that of each."""
        return [self._finding(seen, share, failure_probability) for seen in self.scores for share in GUESSED]

    def _finding(self, seen: str, share: float, failure_probability: float) -> Finding:
        n_canaries = len(self.included)
        n_guesses = max(1, round(share * n_canaries))
        counts = {
            "canaries": n_canaries,
            "guesses": n_guesses,
            "right": right_guesses(self.scores[seen], self.included, n_guesses),
        }
        lower = epsilon_from_guesses(**counts, delta=self.delta, failure_probability=failure_probability)
        return Finding(
            test=f"one run, {seen}, {n_guesses} guesses",
            epsilon=self.epsilon,
            delta=self.delta,
            epsilon_lower=lower,
            failure_probability=failure_probability,
            counts=counts,
        )


def right_guesses(scores: Floats, included: Coins, n_guesses: int) -> int:
    """Number of right guesses if the highest scores are said to be in and the lowest, as many, to be out."""
    order = np.argsort(scores, kind="stable")
    n_in = n_guesses // 2
    said_out, said_in = order[: n_guesses - n_in], order[len(order) - n_in :]
    return int(included[said_in].sum() + (~included[said_out]).sum())


def canary_run(
    method: str, *, epsilon: float, delta: float, n_canaries: int, seed: int | None = None, **changed: Any
) -> CanaryRun:
    """Train once with canaries and score them, from all releases (white box) and from the final model alone.

    ``changed`` are parameters of the training that are to differ from the usual ones.
    """
    closed_form = METHODS[method].closed_form
    if closed_form:
        n_canaries = min(n_canaries, _MOST_OF_CLOSED_FORM)
    rng = np.random.default_rng(seed)
    people = population(n_canaries, rng)
    included = rng.random(n_canaries) < 0.5
    parameters = {} if closed_form else {**parameters_of(method, **changed), "start": start_of(method, people)}
    run = watched_run(
        people.world(included),
        sizes=people.sizes,
        seed=seed,
        method=method,
        epsilon=epsilon,
        delta=delta,
        **parameters,
    )
    white_box = polynomial_scores(run, people) if closed_form else gradient_scores(run, people.canaries)
    return CanaryRun(
        included=included,
        scores={"white box": white_box, "final model": final_scores(run, people.canaries)},
        **stated_of(run, delta=min(delta, SMALL_DELTA)),
    )


def start_of(method: str, people: Population) -> Floats | None:
    """Where all scores are zero: a joint model starts there by itself, whatever its rows are."""
    return None if METHODS[method].joint else np.zeros(people.everybody.X.shape[1] + 1)


def stated_of(run: WatchedRun, *, delta: float) -> dict[str, float]:
    """The ε that is accounted at another δ than the one that was planned for; a pure one has δ = 0."""
    if run.plan.recipe.noise_allocation == "laplace":
        return {"epsilon": run.privacy.epsilon, "delta": 0.0}
    return {"epsilon": max(epsilon_spent(mechanism, delta) for mechanism in run.plan.mechanisms), "delta": delta}


def gradient_scores(run: WatchedRun, canaries: GroupedData) -> Floats:
    """Inner products of each canary's gradient with all noisy gradients, each over its noise.

    The score is linear in the inputs, so a gradient is the input, against the label; the bias, which everybody moves,
    would say nothing. Where the last step has several heads, a canary went to one of them, and all are looked at.
    """
    if run.model.n_cells:
        return joint_scores(run, canaries, run.gradients())
    directions = canaries.X * ((1 - 2 * canaries.y) / np.linalg.norm(canaries.X, axis=1))[:, None]
    width = directions.shape[1] + 1
    total = np.zeros(width)
    for release in run.gradients():
        # Coordinates that are released with the gradient stand behind it.
        heads = release.noisy[: release.noisy.size // width * width].reshape(-1, width)
        total += heads.sum(0) / np.max(release.scale)
    return np.asarray(directions @ total[:-1])


def joint_scores(run: WatchedRun, canaries: GroupedData, releases: Iterable[Release]) -> Floats:
    """The same for a joint model: each canary's input pulls its own cell up and all others down, as at the start.

    Inputs that nobody declared are the first entries of a row; a few inputs have linear splines and bins behind them,
    which say less, since canaries share them. The frequencies that are released before the first step are left out: a
    record with a single input moves them by little, which replay measures.
    """
    n_cells, n_inputs = run.model.n_cells, canaries.X.shape[1]
    directions = canaries.X / np.linalg.norm(canaries.X, axis=1)[:, None]
    pulls = 1 / n_cells - np.eye(n_cells)[2 * canaries.groups + canaries.y]
    pulls /= np.linalg.norm(pulls, axis=1)[:, None]
    heads = np.zeros((n_cells, n_inputs))
    for release in releases:
        heads += release.noisy.reshape(n_cells, -1)[:, :n_inputs] / np.max(release.scale)
    return np.asarray(((directions @ heads.T) * pulls).sum(1))


def polynomial_scores(run: WatchedRun, people: Population) -> Floats:
    """Inner products of what each canary adds to its group's polynomial with the noisy one, each over its noise.

    What anybody adds, with whatever inputs, is left out.
    """
    canaries, noisy = people.canaries, run.noisy("polynomial")
    scale = np.asarray(run.releases[0].scale)
    features, blank = features_of(canaries.inputs), features_of(np.zeros_like(canaries.inputs[:1]))
    scores = []
    for number, group in enumerate(canaries.groups):
        label = canaries.y[number : number + 1]
        added = coefficients(features[number : number + 1], label) - coefficients(blank, label)
        scores.append((added / scale) @ (noisy[group] / scale))
    return np.array(scores)


def final_scores(run: WatchedRun, canaries: GroupedData) -> Floats:
    """Distance of each canary from a blank record, on its label's side: its loss, but for what all share."""
    blank = np.zeros_like(canaries.X[:1])
    X = torch.from_numpy(np.concatenate([canaries.X, blank]))
    if run.model.n_cells:
        # As good as a score: the chance of the canary's own cell, group and label.
        losses = -run.model.cell_chances(X).log().numpy()
        cells = 2 * canaries.groups + canaries.y
        return np.asarray(losses[-1, cells] - losses[np.arange(len(cells)), cells])
    margins = run.model.scores(X).double().numpy()
    return np.asarray((2 * canaries.y - 1) * (margins[:-1] - margins[-1]))


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
    with_record, without = [], []
    for _ in range(max(1, n_draws // n_canaries)):
        coins = rng.random(n_canaries) < 0.5
        # Everybody is there once and away once: both worlds have the same canaries.
        for included in (coins, ~coins):
            run = watched_run(
                people.world(included),
                sizes=people.sizes,
                seed=None if seed is None else int(rng.integers(2**63)),
                start=start_of(method, people),
                method=method,
                epsilon=epsilon,
                delta=delta,
                **parameters_of(method, **ONE_STEP),
            )
            scores = step_scores(run, people)
            with_record.append(scores[included])
            without.append(scores[~included])
    counts = events(np.concatenate(with_record), np.concatenate(without), 0.5)
    mu = mu_from_events(counts, failure_probability=failure_probability)
    return _finding("one step", run.privacy.epsilon, delta, epsilon_of_mu(mu, delta), counts, failure_probability)


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


@dataclass(frozen=True, kw_only=True)
class MethodAttack:
    """Findings of the attacks on one method.

    Parameters
    ----------
    release
        The method as one release, in two worlds.
    one_run
        A training with canaries, by what is seen of it and by the number of guesses.
    """

    release: Finding
    one_run: tuple[Finding, ...]

    @property
    def epsilon(self) -> float:
        """The ε that is stated."""
        return self.release.epsilon

    @property
    def epsilon_lower(self) -> float:
        """The largest lower bound at the δ that is stated; one at a larger δ holds there all the more."""
        return max(test.epsilon_lower for test in self.findings if test.delta >= self.release.delta)

    @property
    def best_run(self) -> Finding:
        """The largest lower bound from one run, beside what is accounted at its δ."""
        return max(self.one_run, key=lambda test: test.epsilon_lower)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All tests."""
        return (self.release, *self.one_run)


@dataclass(frozen=True, kw_only=True)
class AttackReport:
    """Findings of all attacks of one command."""

    releases: tuple[Finding, ...]
    methods: dict[str, MethodAttack]
    n_tests: int

    @property
    def failed(self) -> list[Finding]:
        """The tests whose lower bound passes what is stated."""
        of_methods = [finding for found in self.methods.values() for finding in found.findings]
        return [finding for finding in (*self.releases, *of_methods) if not finding.passed]

    @property
    def passed(self) -> bool:
        """True if no lower bound passes what is stated."""
        return not self.failed


def attack(
    methods: tuple[str, ...],
    *,
    epsilon: float,
    delta: float,
    n_draws: int,
    n_canaries: int,
    seed: int | None = None,
    say: Say = lambda line: None,
) -> AttackReport:
    """Attack the single releases of fairdp and every one of these methods, which are private.

    All tests together raise a false alarm with probability at most ``FALSE_ALARM`` (Bonferroni).
    """
    tested = single_releases(epsilon, delta)
    n_tests = len(tested) + _TESTS_OF_A_METHOD * len(methods)
    each = FALSE_ALARM / n_tests
    releases = []
    for release in tested:
        say(f"attack: {release.name}")
        releases.append(audit_release(release, n_draws=n_draws, failure_probability=each, seed=seed))
    found = {}
    for method in methods:
        say(f"attack: {method}")
        found[method] = _attack_method(method, epsilon, delta, n_draws, n_canaries, each, seed)
    return AttackReport(releases=tuple(releases), methods=found, n_tests=n_tests)


def _attack_method(
    method: str, epsilon: float, delta: float, n_draws: int, n_canaries: int, each: float, seed: int | None
) -> MethodAttack:
    assert METHODS[method].private
    release = audit_method(
        method,
        epsilon=epsilon,
        delta=delta,
        n_draws=n_draws // _OF_METHODS,
        n_canaries=n_canaries,
        failure_probability=each,
        seed=seed,
    )
    run = canary_run(method, epsilon=epsilon, delta=delta, n_canaries=n_canaries, seed=seed)
    found = [replace(test, test=f"{method}: {test.test}") for test in run.findings(failure_probability=each)]
    return MethodAttack(release=replace(release, test=f"{method}: {release.test}"), one_run=tuple(found))
