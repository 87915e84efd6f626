"""Theorem 4 measured: excess risk of the last iterate against the number of steps, and against the clip norm."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import NonlinearConstraint, minimize
from scipy.special import expit

from fairdp.accounting.mechanisms import PrivacyBudget, noise_multiplier_for
from fairdp.accounting.plan import Plan, make_plan
from fairdp.config import (
    TrainConfig,
    gradient_norm,
    lipschitz_constant,
    printed_bound,
    shamir_zhang_bound,
)
from fairdp.data.grouped import GroupedData
from fairdp.errors import with_error
from fairdp.methods import fairdp
from fairdp.networks.model import ScoreModel, logistic
from fairdp.randomness import Generators
from fairdp.training.loop import FlatOptimizer, TrainingState, steps
from fairdp_lab.studies.protocol import Findings, Run, batched, table
from fairdp_lab.sweeps.fits import Population, load

Floats = NDArray[np.float64]
DELTA = 1e-5
WEIGHT_BOUND = 1.0
SAMPLE_RATE = 0.01
LOOKS = (100, 178, 316, 562, 1_000, 1_778, 3_162, 5_623, 10_000)
MULTIPLIERS = (2.0, 20.0)
EPSILONS = (0.1, 1.0)
CLIP_SHARES = (0.125, 0.25, 0.5, 1.0, 2.0)
CLIP_STEPS = 1_000


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
        r"""Upper bound on the excess risk of a head.

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
        """Configuration of the run: one head, and a domain whose diameter is known, 2M."""
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


@dataclass(frozen=True, kw_only=True)
class _Size:
    """Sizes of the study: by default in full, at about three minutes of processor time."""

    dataset: str = "adult"
    looks: tuple[int, ...] = LOOKS
    multipliers: tuple[float, ...] = MULTIPLIERS
    epsilons: tuple[float, ...] = EPSILONS
    clip_shares: tuple[float, ...] = CLIP_SHARES
    clip_steps: int = CLIP_STEPS
    n_seeds: int = 4


QUICK = _Size(
    dataset="synthetic",
    looks=(10, 32, 100),
    multipliers=(20.0,),
    epsilons=(0.1,),
    clip_shares=(0.5, 1.0),
    clip_steps=50,
    n_seeds=2,
)


@dataclass(frozen=True)
class Curve:
    """A run's excess risks at its looks, one row for each seed."""

    part: str
    descent: Descent
    excess: tuple[tuple[float, ...], ...]

    @property
    def slope(self) -> tuple[float, float]:
        """Exponent of T, and its standard error over seeds."""
        return _mean([slope_of(self.descent.looks, row) for row in self.excess])

    def named(self) -> dict[str, object]:
        """Columns that tell the run apart."""
        descent = self.descent
        return {
            "part": self.part,
            "epsilon": descent.epsilon,
            "noise_multiplier": descent.noise_multiplier,
            "clip_share": descent.clip_share,
        }

    def rows(self) -> list[dict[str, object]]:
        """A row for each look: what was measured, and both bounds."""
        columns = zip(self.descent.looks, zip(*self.excess, strict=True), strict=True)
        found = []
        for n_steps, column in columns:
            mean, error = _mean(column)
            measured = {"n_steps": n_steps, "excess_risk": mean, "standard_error": error}
            found.append({**self.named(), **measured, **bounds_of(self.descent, n_steps)})
        return found


def bounds_of(descent: Descent, n_steps: int) -> dict[str, float]:
    """Theorem 4 after so many steps: as Shamir and Zhang prove it, sampling included, and as the paper prints it."""
    plan, config = descent.plan(), descent.config()
    recipe, n_params = plan.recipe, convex_head(descent.dataset, descent.weight_bound).rows.shape[1]
    numbers = {"n_groups": len(recipe.group_sizes), "n_params": n_params, "noise_multiplier": descent.noise_multiplier}
    sampling = np.square(recipe.group_weights) @ ((1 - descent.sample_rate) / recipe.expected_batch_sizes)
    longest = gradient_norm(
        clip_norm=config.clip_norm, noise_std=plan.noise_std, n_params=n_params, sampling=float(sampling)
    )
    first = config.learning_rate(0, **numbers, noise_std=plan.noise_std)
    return {
        "bound": shamir_zhang_bound(n_steps, diameter=config.diameter, gradient_norm=longest, first_rate=first),
        "printed_bound": printed_bound(n_steps, **numbers, clip_norm=config.clip_norm),
    }


def convergence_study(run: Run) -> Findings:
    """Rate in T at fixed noise, at fixed ε, and what the clip norm does beside β."""
    from fairdp_lab.drawing import rate_figure

    size = QUICK if run.quick else _Size(dataset=run.datasets[0] if run.datasets else "adult")
    problem = convex_head(size.dataset, WEIGHT_BOUND)
    asked = list(_descents(size))
    tasks = [descent for _, descent in asked for _ in range(size.n_seeds)]
    found = batched(run.done(excess_risks, tasks, what="descents"), size.n_seeds)
    curves = [
        Curve(part, descent, tuple(tuple(row) for row in its))
        for (part, descent), its in zip(asked, found, strict=True)
    ]
    rows = [row for curve in curves for row in curve.rows()]
    at_zero = problem.risk(0 * problem.optimum) - problem.least_risk
    setting = {
        "dataset": size.dataset,
        "weight_bound": WEIGHT_BOUND,
        "sample_rate": SAMPLE_RATE,
        "lipschitz_constant": problem.lipschitz_constant,
        "n_params": problem.rows.shape[1],
        "least_risk": problem.least_risk,
        "least_risk_known_to": problem.gap(problem.optimum),
        "excess_risk_of_zero": at_zero,
        "n_seeds": size.n_seeds,
    }
    slopes = _slopes(curves, size)
    drawing = rate_figure(rows, at_zero=at_zero, n_seeds=size.n_seeds)
    text = _told(setting, slopes, rows, size)
    return Findings({**setting, "slopes": slopes, "rows": rows}, text, runs=list(_tidy(curves)), drawings={"": drawing})


def _descents(size: _Size) -> Iterator[tuple[str, Descent]]:
    """At fixed noise one run passes all looks, for its steps do not depend on T; at fixed ε each T is a run."""
    base = Descent(
        dataset=size.dataset,
        weight_bound=WEIGHT_BOUND,
        sample_rate=SAMPLE_RATE,
        looks=size.looks,
        noise_multiplier=size.multipliers[0],
    )
    for multiplier in size.multipliers:
        yield "fixed noise", replace(base, noise_multiplier=multiplier)
    for epsilon, n_steps in product(size.epsilons, size.looks[::2]):
        yield "fixed epsilon", at_budget(replace(base, looks=(n_steps,)), epsilon)
    for epsilon, share in product(size.epsilons, size.clip_shares):
        yield "clip norm", at_budget(replace(base, clip_share=share, looks=(size.clip_steps,)), epsilon)


def _slopes(curves: Sequence[Curve], size: _Size) -> list[dict[str, object]]:
    """Exponents of T at fixed noise, from all looks and from those of the second half."""
    late = len(size.looks) // 2
    slopes = []
    for curve in curves:
        if curve.part == "fixed noise":
            end = replace(curve.descent, looks=curve.descent.looks[late:])
            second = replace(curve, descent=end, excess=tuple(row[late:] for row in curve.excess))
            found = {"all": curve.slope, "second_half": second.slope}
            slopes.append({"noise_multiplier": curve.descent.noise_multiplier, "from": size.looks[late], **found})
    return slopes


def _told(
    setting: Mapping[str, Any], slopes: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], size: _Size
) -> str:
    """The three tables, each with what it would show if the theorem's reading held."""
    first, last = size.looks[0], size.looks[-1]
    with_log = slope_of(size.looks, [np.log(n) / np.sqrt(n) for n in size.looks])
    falls = [
        {
            "σ": f"{slope['noise_multiplier']:g}",
            f"T = {first} to {last}": with_error(*slope["all"], digits=2),
            f"T = {slope['from']} to {last}": with_error(*slope["second_half"], digits=2),
        }
        for slope in slopes
    ]
    parts = [
        f"A linear head on {setting['dataset']} ({setting['n_params']} parameters), projected to norm M = "
        f"{WEIGHT_BOUND:g}, so that Q = 2M; group-balanced logistic risk; q = {SAMPLE_RATE:g}; C = β = "
        f"{setting['lipschitz_constant']:.3f}; steps Q/(G√t). The least risk, {setting['least_risk']:.6f}, is known to "
        f"{setting['least_risk_known_to']:.0e}; the head 0 is {setting['excess_risk_of_zero']:.4f} above it. Mean ± "
        f"standard error over {size.n_seeds} runs.",
        "## Fixed noise\n\nThe last iterate's excess risk after T steps, and its bounds.",
        table(_lines(rows, "fixed noise")),
        f"Exponent of T: log T/√T has {with_log:.2f} over these T, 1/√T has -0.50.",
        table(falls),
        "## Fixed ε\n\nThe noise grows with T.",
        table(_lines(rows, "fixed epsilon")),
        f"## The clip norm\n\nAfter {size.clip_steps} steps. At C = β nothing is cut; below, less noise is added, and "
        "long gradients are shortened.",
        table(_lines(rows, "clip norm")),
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _lines(rows: Sequence[Mapping[str, Any]], part: str) -> list[dict[str, object]]:
    """Rows of a part as readers see them; bounds are told where the theorem holds."""
    lines = []
    for row in rows:
        if row["part"] == part:
            line: dict[str, object] = {"ε": f"{row['epsilon']:g}"} if row["epsilon"] else {}
            line |= {"σ": f"{row['noise_multiplier']:.3g}"}
            line |= {"C/β": f"{row['clip_share']:g}"} if part == "clip norm" else {"T": row["n_steps"]}
            line |= {"excess risk": with_error(row["excess_risk"], row["standard_error"], digits=5)}
            if part == "fixed noise":
                line |= {"excess risk · √T": f"{row['excess_risk'] * row['n_steps'] ** 0.5:.3f}"}
            if part != "clip norm":
                line |= {"bound": f"{row['bound']:.3g}", "as printed": f"{row['printed_bound']:.3g}"}
            lines.append(line)
    return lines


def _tidy(curves: Sequence[Curve]) -> Iterator[dict[str, object]]:
    """A row for each run and look."""
    for curve in curves:
        for number, row in enumerate(curve.excess):
            for n_steps, excess in zip(curve.descent.looks, row, strict=True):
                yield {**curve.named(), "run": number, "n_steps": n_steps, "excess_risk": excess}


def _mean(values: Sequence[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
