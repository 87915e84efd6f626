"""How well methods with a target hold it, and what it costs, beside the reduction without privacy and a control."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairdp.experiments.studies.reduction import BOUNDS, FEATURES, Reduction, accuracy_at, reduce
from fairdp.experiments.studies.results import Findings, Run, markdown_table, mean_text
from fairdp.experiments.sweeps.fits import Fit, control_at, mean_and_error
from fairdp.experiments.sweeps.populations import Population

N_SEEDS = 5
METHODS = ("fairdp_parity", "raco_dp", "dp_postprocess")
CONTROLS = ("fairdp_parity", "dpsgd")
NO_TARGET = 1.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """A population, a notion of parity and a budget, with the gaps that are aimed at.

    Parameters
    ----------
    methods
        Methods that aim at them.
    features
        Inputs on which the reduction is run beside them.
    """

    population: Population
    targets: tuple[float, ...]
    parity: str = "demographic_parity"
    epsilon: float = 1.0
    methods: tuple[str, ...] = METHODS
    features: tuple[str, ...] = FEATURES


ADULT, FULL = Population(dataset="adult"), Population(dataset="adult_full")
FRONTIERS = tuple(
    Case(population=population, targets=targets, epsilon=epsilon)
    for epsilon in (1.0, 0.5, 2.0)
    for population, targets in (
        (ADULT, (0.05, 0.02)),
        (FULL, (0.10, 0.05, 0.02)),
        (Population(dataset="credit"), (0.01,)),
        (Population(dataset="synthetic"), (0.05, 0.02)),
    )
)
NOTIONS = (
    *(
        Case(population=population, targets=(0.05, 0.02), parity=parity)
        for population in (ADULT, FULL)
        for parity in ("equal_opportunity", "equalized_odds")
    ),
    *(Case(population=Population(dataset=name, by_race=True), targets=(0.03,)) for name in ("adult", "adult_full")),
)
SPLITS = tuple(
    Case(
        population=replace(population, split=split),
        targets=targets,
        methods=METHODS[:1],
        features=FEATURES[:n_features],
    )
    for population, targets, n_features in (
        (ADULT, (0.05, 0.02), 1),
        (FULL, (0.05, 0.02), 1),
        (Population(dataset="credit"), (0.01,), 0),
        *((Population(dataset="synthetic", bias=bias), (0.05, 0.02), 0) for bias in (0.5, 1.0, 1.5)),
    )
    for split in range(5)
)
QUICK = (Case(population=Population(dataset="synthetic"), targets=(0.05,)),)


def frontier_study(run: Run) -> Findings:
    """Demographic parity on four tables at three budgets."""
    return _study(QUICK if run.quick else FRONTIERS, run)


def notion_study(run: Run) -> Findings:
    """Equal opportunity, equalized odds, and four groups."""
    return _study(QUICK if run.quick else NOTIONS, run)


def split_study(run: Run) -> Findings:
    """Splits and populations on which no constant was chosen: each split is a seed."""
    return _study(QUICK if run.quick else SPLITS, run, n_seeds=1)


def _study(cases: Sequence[Case], run: Run, *, n_seeds: int = N_SEEDS) -> Findings:
    fits = [fit for case in cases for fit in _fits(case, range(run.seed, run.seed + (2 if run.quick else n_seeds)))]
    bounds = BOUNDS[-2:] if run.quick else BOUNDS
    asked = dict.fromkeys((case.population, case.parity, own) for case in cases for own in case.features)
    reductions = [
        Reduction(population=p, parity=parity, bound=bound, features=own)
        for p, parity, own in asked
        for bound in bounds
    ]
    trained = dict(zip(fits, run.trained(fits), strict=True))
    reduced = dict(zip(reductions, run.done(reduce, reductions, what="reductions"), strict=True))
    rows = [row for same in _alike(cases) for row in _rows(same, trained, reduced)]
    frontiers = [{**_named(task), **found} for task, found in reduced.items()]
    n_runs = rows[0]["n_runs"]
    return Findings({"n_runs": n_runs, "rows": rows, "reductions": frontiers}, _text(rows, n_runs))


def _fits(case: Case, seeds: range) -> list[Fit]:
    settings = {"epsilon": case.epsilon, "certify_fraction": 0.0}
    target = {"parity": case.parity}
    own = [
        Fit(
            population=case.population,
            method=method,
            seed=seed,
            settings=tuple((settings | target | {"max_gap": gap}).items()),
            is_control=gap == NO_TARGET,
        )
        for gap, method in _asked(case)
        for seed in seeds
    ]
    controls = [
        Fit(
            population=case.population,
            method="dpsgd",
            seed=seed,
            settings=tuple((settings | target).items()),
            is_control=True,
        )
        for seed in seeds
    ]
    return own + controls


def _asked(case: Case) -> list[tuple[float, str]]:
    """Targets and methods of a case; without a target only ours is trained."""
    return [(NO_TARGET, METHODS[0]), *((gap, method) for gap in case.targets for method in case.methods)]


def _alike(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases that differ in their split only are rows of one mean."""
    alike: dict[tuple[str, str, float], list[Case]] = {}
    for case in cases:
        alike.setdefault((str(case.population), case.parity, case.epsilon), []).append(case)
    return list(alike.values())


def _rows(
    cases: Sequence[Case],
    trained: dict[Fit, dict[str, Any]],
    reduced: dict[Reduction, dict[str, float]],
) -> list[dict[str, Any]]:
    first, rows = cases[0], []
    own = {fit: found for fit, found in trained.items() if any(_is_of(fit, case) for case in cases)}
    controls = {m: [f for fit, f in own.items() if fit.method == m and fit.is_control] for m in CONTROLS}
    for gap, method in [(NO_TARGET, "dpsgd"), *_asked(first)]:
        asked = None if method == "dpsgd" else gap
        runs = {fit: f for fit, f in own.items() if fit.method == method and dict(fit.settings).get("max_gap") == asked}
        for fit, found in runs.items():
            for kind in first.features:
                frontier = [f for task, f in reduced.items() if _is_beside(task, fit, first.parity, kind)]
                found[f"over_reduction_{kind}"] = found["accuracy"] - accuracy_at(frontier, found["gap"])
        row = {
            "population": str(first.population),
            "parity": first.parity,
            "epsilon": first.epsilon,
            "max_gap": gap,
            "method": method,
            "n_runs": len(runs),
            **mean_and_error(list(runs.values())),
        }
        rate = row["mean"]["positive_rate"]
        row["controls_at_this_rate"] = {m: control_at(found, rate) for m, found in controls.items()}
        rows.append(row)
    return rows


def _is_of(fit: Fit, case: Case) -> bool:
    settings = dict(fit.settings)
    return (fit.population, settings["parity"], settings["epsilon"]) == (case.population, case.parity, case.epsilon)


def _is_beside(task: Reduction, fit: Fit, parity: str, features: str) -> bool:
    return (task.population, task.parity, task.features) == (fit.population, parity, features)


def _named(task: Reduction) -> dict[str, Any]:
    return {
        **{"population": str(task.population), "split": task.population.split, "parity": task.parity},
        **{"bound": task.bound, "features": task.features},
    }


_SHOWN = {
    "accuracy": "accuracy",
    "gap": "test gap",
    "training_gap": "training gap",
    "positive_rate": "positive rate",
    "demographic_parity_ratio": "ratio",
    "over_reduction_raw": "over reduction",
    "over_reduction_ours": "over it on our inputs",
}


def _text(rows: list[dict[str, Any]], n_runs: int) -> str:
    shown = {name: title for name, title in _SHOWN.items() if any(name in row["mean"] for row in rows)}
    lines = [
        (
            row["population"],
            row["parity"].replace("_", " "),
            f"{row['epsilon']:g}",
            "none" if row["max_gap"] == NO_TARGET else f"{row['max_gap']:g}",
            f"`{row['method']}`",
            *(mean_text(row, name, digits=4) for name in shown),
            *(_at(row["controls_at_this_rate"][name]) for name in CONTROLS),
        )
        for row in rows
    ]
    headers = ("data", "parity", "ε", "target", "method", *shown.values(), "control", "control `dpsgd`")
    return (
        f"δ = 1e-5, no records held out, the defaults of each method; mean ± standard error over {n_runs} runs. "
        "`dp_postprocess` uses the group in its decisions, the others do not. Over reduction: accuracy minus that of "
        "fairlearn's ExponentiatedGradient without privacy, at the same test gap. Control: a model without a target, "
        "of `fairdp_parity` and of `dpsgd`, with its threshold moved to the row's positive rate: gap (accuracy).\n\n"
        + markdown_table(headers, lines)
    )


def _at(control: dict[str, float]) -> str:
    return f"{control['gap']:.3f} ({control['accuracy']:.4f})"
