"""A convex problem with a known optimum: a linear head in a ball, trained by the loop itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import NonlinearConstraint, minimize
from scipy.special import expit

from fairdp.accounting.calibration import noise_multiplier_for
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import Plan, make_plan
from fairdp.config.theorem_4 import lipschitz_constant
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.experiments.sweeps.populations import Population, load
from fairdp.methods.fairdp import fairdp
from fairdp.networks.extractors import logistic
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.training.loop import steps
from fairdp.training.state import FlatOptimizer, TrainingState

Floats = NDArray[np.float64]
DELTA = 1e-5


@dataclass(frozen=True, eq=False)
class ConvexHead:
    """The group-balanced logistic risk of linear heads (w, b) of norm at most M: what FairDP's steps go down.

    Each group's mean loss has the same weight; nothing but the head is trained, so that all parameters are bounded.
    """

    data: GroupedData
    weight_bound: float

    @cached_property
    def rows(self) -> Floats:
        """Inputs with the constant of the bias."""
        return np.column_stack([self.data.inputs.astype(np.float64), np.ones(self.data.n_samples)])

    @cached_property
    def lipschitz_constant(self) -> float:
        """Longest gradient of a record, β."""
        return lipschitz_constant(float(np.linalg.norm(self.data.inputs.astype(np.float64), axis=1).max()))

    @cached_property
    def _weights(self) -> Floats:
        return 1 / (self.data.n_groups * self.data.group_sizes[self.data.groups])

    def risk(self, head: Floats) -> float:
        """Mean over the groups of their mean logistic losses."""
        scores = self.rows @ head
        return float(self._weights @ np.logaddexp(0.0, np.where(self.data.y == 1, -scores, scores)))

    def gradient(self, head: Floats) -> Floats:
        """Its gradient."""
        return np.asarray(self.rows.T @ (self._weights * (expit(self.rows @ head) - self.data.y)))

    @cached_property
    def optimum(self) -> Floats:
        """The head in the ball with the least risk."""
        bound = self.weight_bound
        ball = NonlinearConstraint(lambda head: [float(head @ head)], 0.0, bound**2, jac=lambda head: 2 * head)
        found = minimize(
            self.risk,
            np.zeros(self.rows.shape[1]),
            jac=self.gradient,
            method="SLSQP",
            constraints=[ball],
            options={"maxiter": 500, "ftol": 1e-13},
        )
        head = np.asarray(found.x, dtype=np.float64)
        return head * min(1.0, bound / float(np.linalg.norm(head)))

    def gap(self, head: Floats) -> float:
        r"""How far the risk of a head is from the least one, at most.

        A convex risk lies above its tangent: :math:`f(\theta) - f(\theta') \le \langle \nabla f(\theta), \theta -
        \theta' \rangle \le \langle \nabla f(\theta), \theta \rangle + M \|\nabla f(\theta)\|` over the ball.
        """
        slope = self.gradient(head)
        return float(slope @ head + self.weight_bound * np.linalg.norm(slope))

    @cached_property
    def least_risk(self) -> float:
        """Risk of the optimum."""
        return self.risk(self.optimum)


@lru_cache(maxsize=2)
def convex_head(dataset: str, weight_bound: float) -> ConvexHead:
    """The problem on the training records of a named data set."""
    return ConvexHead(load(Population(dataset=dataset)).train, weight_bound)


@dataclass(frozen=True, kw_only=True)
class Descent:
    """One run on the problem, with the steps of Shamir and Zhang.

    Parameters
    ----------
    epsilon
        Budget that the noise was found for, if for any.
    clip_share
        Clip norm over the longest gradient, C/β.
    looks
        Numbers of steps after which the risk is taken; the last is the length of the run.
    """

    dataset: str
    weight_bound: float
    sample_rate: float
    looks: tuple[int, ...]
    noise_multiplier: float
    epsilon: float | None = None
    clip_share: float = 1.0

    def config(self) -> TrainConfig:
        """How the run is trained: one head, and a domain whose diameter is known, 2M."""
        longest = convex_head(self.dataset, self.weight_bound).lipschitz_constant
        return TrainConfig(
            sample_rate=self.sample_rate,
            n_steps=self.looks[-1],
            clip_norm=self.clip_share * longest,
            learning_rates=(1.0,),
            schedule="shamir_zhang",
            diameter=2 * self.weight_bound,
            optimizer="sgd",
            weight_bound=self.weight_bound,
            n_members=1,
        )

    def plan(self) -> Plan:
        """Its noise, groups and sampling; with the noise given, the budget does not matter."""
        sizes = convex_head(self.dataset, self.weight_bound).data.group_sizes
        return make_plan(
            fairdp(self.config(), tuple(float(size) for size in sizes)),
            PrivacyBudget(epsilon=self.epsilon or 1.0, delta=DELTA),
            n_steps=self.looks[-1],
            noise_multiplier=self.noise_multiplier,
        )


def at_budget(descent: Descent, epsilon: float) -> Descent:
    """The same with the noise that a budget needs for the length of the run."""
    budget = PrivacyBudget(epsilon=epsilon, delta=DELTA)
    needed = noise_multiplier_for(budget, sample_rate=descent.sample_rate, n_steps=descent.looks[-1])
    return replace(descent, noise_multiplier=needed, epsilon=epsilon)


def excess_risks(descent: Descent, rng: np.random.Generator) -> list[float]:
    """Risk above the least one after each look's number of steps."""
    problem = convex_head(descent.dataset, descent.weight_bound)
    chain = Generators.of(int(rng.integers(2**63))).steps
    model = ScoreModel(logistic(), problem.data.X.shape[1:])
    state = TrainingState(model, FlatOptimizer("sgd"), chain)
    found, looks = [], set(descent.looks)
    for after in steps(state, problem.data, descent.plan(), descent.config()):
        if after.step in looks:
            found.append(problem.risk(after.model.params.double().numpy()) - problem.least_risk)
    return found


def slope_of(looks: Sequence[int], values: Sequence[float]) -> float:
    """Exponent of a power of T, by least squares on logarithms.

    >>> round(slope_of([10, 100, 1000], [1.0, 0.1, 0.01]), 6)
    -1.0
    """
    return float(np.polyfit(np.log(looks), np.log(values), 1)[0])
