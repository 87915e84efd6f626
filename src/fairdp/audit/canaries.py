"""One-run audits of whole trainings: canaries that are in the data by their own fair coins, and guesses about them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fairdp.accounting.mechanisms import epsilon_spent
from fairdp.audit.bounds import epsilon_from_guesses
from fairdp.audit.findings import Finding
from fairdp.audit.interface import WatchedRun, watched_run
from fairdp.data.grouped import GroupedData
from fairdp.data.synthetic import synthetic_population
from fairdp.methods import METHODS
from fairdp.methods.functional import coefficients, features_of
from fairdp.releases import Release

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


def parameters_of(method: str, **changed: Any) -> dict[str, Any]:
    """What a method that takes steps is audited with.

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
    """How many are right if the highest scores are said to be in and the lowest, as many, to be out."""
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

    Inputs that nobody declared are the first entries of a row; a few inputs have hats and bins behind them, which say
    less, since canaries share them. The frequencies that are released before the first step are left out: a record
    with a single input moves them by little, which replay measures.
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
    """How much further than a blank record each canary is on its label's side: its loss, but for what all share."""
    blank = np.zeros_like(canaries.X[:1])
    X = torch.from_numpy(np.concatenate([canaries.X, blank]))
    if run.model.n_cells:
        # As good as a score: the chance of the canary's own cell, group and label.
        losses = -run.model.cell_chances(X).log().numpy()
        cells = 2 * canaries.groups + canaries.y
        return np.asarray(losses[-1, cells] - losses[np.arange(len(cells)), cells])
    margins = run.model.scores(X).double().numpy()
    return np.asarray((2 * canaries.y - 1) * (margins[:-1] - margins[-1]))
