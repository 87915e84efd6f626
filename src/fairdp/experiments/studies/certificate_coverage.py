"""How often certificates are wrong where the truth is known, and whether broken ones would be noticed."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from fairdp.experiments.studies.adult_population import adult_population
from fairdp.experiments.studies.broken_twins import (
    certified_without_noise,
    clopper_pearson_without_noise,
    empty_cell_misses,
)
from fairdp.experiments.studies.coverage_text import coverage_text
from fairdp.experiments.studies.implication import ARMS, ImplicationTask, check_implication
from fairdp.experiments.studies.known_truth import (
    CONFIDENCE,
    FAILURE_PROBABILITY,
    Setting,
    finite_certificates,
    synthetic_certificates,
    synthetic_truths,
)
from fairdp.experiments.studies.results import Findings, Run
from fairdp.experiments.studies.tally import CAUGHT, tally


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much of everything is done.

    Parameters
    ----------
    certificates, many_groups, truths
        Settings on the synthetic population: full certificates for few and for 16 groups, and cheaper checks for 16.
    n_bounds
        Bounds for each of the settings of the implication, at each of two levels.
    adult_tasks, adult_certificates
        Certificates on the Adult records: how many tasks of how many.
    twin_tasks, n_certified_twins, n_plain_twins, n_draws
        Broken certificates: the construction itself in tasks of so many, plain binomial bounds, draws of empty cells.
    """

    certificates: tuple[Setting, ...]
    many_groups: tuple[Setting, ...]
    truths: tuple[Setting, ...]
    n_bounds: int
    adult_tasks: int
    adult_certificates: int
    twin_tasks: int
    n_certified_twins: int
    n_plain_twins: int
    n_draws: int


def settings(
    n_groups: Sequence[int], sizes: Sequence[int], epsilons: Sequence[float], offsets: Sequence[float], *, n_runs: int
) -> tuple[Setting, ...]:
    """Every combination."""
    return tuple(
        Setting(n_groups=k, n_samples=n, epsilon=epsilon, offset=offset, n_runs=n_runs)
        for k, n, epsilon, offset in product(n_groups, sizes, epsilons, offsets)
    )


EPSILONS = (0.1, 0.5, 1.0, 4.0)
# Positive decisions about as frequent as positive labels, and rare ones.
OFFSETS = (0.6, 1.8)
FULL = Plan(
    certificates=settings((2, 4), (40, 200, 1_000, 5_000, 30_000), EPSILONS, OFFSETS, n_runs=25),
    many_groups=settings((16,), (200, 3_000, 30_000), EPSILONS, OFFSETS, n_runs=1),
    truths=settings((16,), (200, 3_000, 30_000), EPSILONS, OFFSETS, n_runs=40),
    n_bounds=72,
    adult_tasks=20,
    adult_certificates=10,
    twin_tasks=4,
    n_certified_twins=50,
    n_plain_twins=2_000,
    n_draws=200_000,
)
QUICK = Plan(
    certificates=settings((2, 4), (40, 2_000), (1.0,), (0.6,), n_runs=2),
    many_groups=settings((16,), (3_000,), (4.0,), (0.6,), n_runs=1),
    truths=settings((16,), (30_000,), (1.0, 4.0), (0.6,), n_runs=10),
    n_bounds=1,
    adult_tasks=1,
    adult_certificates=3,
    twin_tasks=1,
    n_certified_twins=30,
    n_plain_twins=300,
    n_draws=20_000,
)
# Where noise is large beside the counts and the groups differ enough for a bound that is too small to be seen.
TWIN = Setting(n_groups=2, n_samples=1_000, epsilon=0.1, offset=0.0, n_runs=1)


def coverage_study(run: Run) -> Findings:
    """All four parts; the Adult model is trained first, so that missing data are noticed at once."""
    return carry_out(QUICK if run.quick else FULL, run)


def carry_out(plan: Plan, run: Run) -> Findings:
    """The study in any size."""
    adult, missing = _adult(plan, run)
    figures = {
        "confidence": CONFIDENCE,
        "synthetic": _synthetic(plan, run),
        "implication": _implication(plan, run),
        "adult": {"not_run": missing} if adult is None else adult,
        "broken_twins": _twins(plan, run),
    }
    return Findings(figures, coverage_text(figures))


def _adult(plan: Plan, run: Run) -> tuple[dict[str, Any] | None, str | None]:
    """Certificates on Adult records, or why there are none."""
    run.say("training a model on Adult")
    try:
        population = adult_population(n_runs=plan.adult_certificates)
    except (OSError, ValueError) as error:
        run.say(f"without the Adult part: {error}")
        return None, str(error)
    results = run.done(finite_certificates, [population] * plan.adult_tasks, what="certificates on Adult")
    taus = [result["mean_tau"] for result in results]
    return {
        "n_samples": population.n_samples,
        "epsilon": population.epsilon,
        "true_gaps": results[0]["true_gaps"],
        "mean_tau": {name: float(np.mean([tau[name] for tau in taus])) for name in taus[0]},
        **_violations(results),
    }, None


def _synthetic(plan: Plan, run: Run) -> dict[str, Any]:
    few = run.done(synthetic_certificates, plan.certificates, what="certificates")
    many = run.done(synthetic_certificates, plan.many_groups, what="certificates of 16 groups")
    truths = run.done(synthetic_truths, plan.truths, what="truths of 16 groups")
    full = [*few, *many]
    claims = [result["violations_by_claim"] for result in full]
    return {
        "all": _violations(full),
        **{f"by_{key}": _grouped(full, key) for key in ("n_groups", "n_samples", "epsilon")},
        "by_claim": {claim: sum(own[claim] for own in claims) for claim in claims[0]},
        "truth_rejected_16_groups": _violations(truths),
        "settings": full,
        "settings_truth": truths,
    }


def _grouped(results: list[dict[str, Any]], key: str) -> dict[str, Any]:
    values = sorted({result[key] for result in results})
    return {f"{value:g}": _violations([r for r in results if r[key] == value]) for value in values}


def _violations(results: list[dict[str, Any]]) -> dict[str, Any]:
    violations, trials = (sum(result[name] for result in results) for name in ("violations", "trials"))
    return tally(violations, trials, FAILURE_PROBABILITY)


def _implication(plan: Plan, run: Run) -> dict[str, Any]:
    """Counts at the usual level, and at one where truths are rejected often."""
    levels = (FAILURE_PROBABILITY, 0.4)
    tasks = [ImplicationTask(arms, level, plan.n_bounds) for level in levels for arms in ARMS]
    results = run.done(check_implication, tasks, what="implication")
    figures: dict[str, Any] = {"bounds": 0, "broken": 0}
    for level in levels:
        own = [result for task, result in zip(tasks, results, strict=True) if task.failure_probability == level]
        bounds, missed, broken = (sum(getattr(r, name) for r in own) for name in ("bounds", "missed", "broken"))
        rejected = tally(sum(result.rejected for result in own), bounds, level)
        figures[f"level_{level:g}"] = {"rejected": rejected, "missed": missed, "broken": broken}
        figures |= {"bounds": figures["bounds"] + bounds, "broken": figures["broken"] + broken}
    figures["settings"] = [
        {**asdict(task.arms), "failure_probability": task.failure_probability, **asdict(result)}
        for task, result in zip(tasks, results, strict=True)
    ]
    return figures


def _twins(plan: Plan, run: Run) -> dict[str, Any]:
    def missed(function: Callable[[Setting, np.random.Generator], int], n_tasks: int, n_runs: int, what: str) -> Any:
        tasks = [replace(TWIN, n_runs=n_runs)] * n_tasks
        return _caught(tally(sum(run.done(function, tasks, what=what)), n_tasks * n_runs, FAILURE_PROBABILITY))

    certified = missed(
        certified_without_noise, plan.twin_tasks, plan.n_certified_twins, "certified as if counts were exact"
    )
    plain = missed(clopper_pearson_without_noise, 1, plan.n_plain_twins, "Clopper–Pearson on noisy counts")
    return {"certified_without_noise": certified, "clopper_pearson_without_noise": plain, **_empty_cells(plan, run)}


def _empty_cells(plan: Plan, run: Run) -> dict[str, Any]:
    """The shortcut for a group without anybody, at a usual and at a large level, beside the proper bound."""
    rng = np.random.default_rng([run.seed, *b"empty cells"])
    figures = {}
    for level in (FAILURE_PROBABILITY / 12, 0.1):
        misses = empty_cell_misses(rng, epsilon=4.0, folds=2, failure_probability=level, n_draws=plan.n_draws)
        for name, count in misses.items():
            own = tally(count, plan.n_draws, level)
            figures[f"empty_cell_{name}_{level:.2g}"] = _caught(own) if name == "shortcut" else own
    return figures


def _caught(figures: dict[str, Any]) -> dict[str, Any]:
    return {**figures, "caught": figures["p_value"] < CAUGHT}
