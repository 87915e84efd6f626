"""How well methods with a target hold it, and what it costs, beside the reduction without privacy and a control."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from fairdp.experiments.studies.reduction import BOUNDS, FEATURES, Reduction, accuracy_at, reduce
from fairdp.experiments.studies.results import Findings, Run, batched, plain, table
from fairdp.experiments.sweeps.fits import Fit, Row, Trained, control_at
from fairdp.experiments.sweeps.populations import Population

N_SEEDS, N_FACE_SEEDS = 5, 3
METHODS = ("fairdp_parity", "raco_dp", "dp_postprocess")
NO_TARGET = 1.0
# Methods without a target, and the gap that says so.
CONTROLS: tuple[tuple[str, float | None], ...] = (("fairdp_parity", NO_TARGET), ("dpsgd", None))


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

    @property
    def asked(self) -> list[tuple[str, float | None]]:
        """Methods and the gaps that they aim at; without a target only the controls are trained."""
        return [*CONTROLS[::-1], *((method, gap) for gap in self.targets for method in self.methods)]

    def fit(self, method: str, max_gap: float | None, seed: int) -> Fit:
        """One training."""
        return fit_of(
            self.population, method, seed, max_gap=max_gap, settings={"epsilon": self.epsilon, "parity": self.parity}
        )


def fit_of(
    population: Population, method: str, seed: int, *, max_gap: float | None, settings: Mapping[str, object]
) -> Fit:
    """A training on all records unless the settings say otherwise; a control is one without a target."""
    target = {} if max_gap is None else {"max_gap": max_gap}
    return Fit(
        population=population,
        method=method,
        seed=seed,
        settings=tuple({"epsilon": 1.0, "certify_fraction": 0.0, **settings, **target}.items()),
        is_control=max_gap in (None, NO_TARGET),
    )


ADULT, FULL, CREDIT, FACES, SYNTHETIC = (
    Population(dataset=name) for name in ("adult", "adult_full", "credit", "utkface", "synthetic")
)
FACE_CASES = (("dpsgd", None), ("fairdp", None), *(("fairdp_parity", gap) for gap in (1.0, 0.1, 0.03)))
CERTIFIED_TARGETS = (0.02, 0.01)
FRONTIERS = tuple(
    Case(population=population, targets=targets, epsilon=epsilon)
    for epsilon in (1.0, 0.5, 2.0)
    for population, targets in (
        (ADULT, (0.05, 0.02)),
        (FULL, (0.10, 0.05, 0.02)),
        (CREDIT, (0.01,)),
        (SYNTHETIC, (0.05, 0.02)),
    )
)
NOTIONS = (
    *(
        Case(population=population, targets=(0.05, 0.02), parity=parity)
        for population in (ADULT, FULL)
        for parity in ("equal_opportunity", "equalized_odds")
    ),
    *(Case(population=replace(population, by_race=True), targets=(0.03,)) for population in (ADULT, FULL)),
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
        (CREDIT, (0.01,), 0),
        *((Population(dataset="synthetic", bias=bias), (0.05, 0.02), 0) for bias in (0.5, 1.0, 1.5)),
    )
    for split in range(5)
)
QUICK = (Case(population=SYNTHETIC, targets=(0.05,)),)


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
    seeds = range(run.seed, run.seed + (2 if run.quick else n_seeds))
    fits = [case.fit(method, gap, seed) for case in cases for method, gap in case.asked for seed in seeds]
    asked = dict.fromkeys((case.population, case.parity, features) for case in cases for features in case.features)
    tasks = [
        Reduction(population=population, parity=parity, bound=bound, features=features)
        for (population, parity, features), bound in product(asked, BOUNDS[-2:] if run.quick else BOUNDS)
    ]
    trained = dict(zip(fits, run.trained(fits), strict=True))
    reduced = dict(zip(tasks, run.done(reduce, tasks, what="reductions"), strict=True))
    found = [row for same in _alike(cases) for row in _rows(same, seeds, trained, reduced)]
    frontiers = [{**task.named(), **reached} for task, reached in reduced.items()]
    rows, n_runs = [row for row, _ in found], found[0][0].named["n_runs"]
    shown = {name: title for name, title in _SHOWN.items() if any(name in row.mean for row in rows)}
    lines = [
        {
            "data": row.named["population"],
            "parity": str(row.named["parity"]).replace("_", " "),
            "ε": f"{row.named['epsilon']:g}",
            "target": _target(row),
            "method": f"`{row.named['method']}`",
            **row.texts(shown, digits=4),
            "control": controls["fairdp_parity"],
            "control `dpsgd`": controls["dpsgd"],
        }
        for row, controls in found
    ]
    text = (
        f"δ = 1e-5, no records held out, the defaults of each method; mean ± standard error over {n_runs} runs. "
        "`dp_postprocess` uses the group in its decisions, the others do not. Over reduction: accuracy minus that of "
        "fairlearn's ExponentiatedGradient without privacy, at the same test gap. Control: a model without a target, "
        "of `fairdp_parity` and of `dpsgd`, with its threshold moved to the row's positive rate: gap (accuracy).\n\n"
        + table(lines)
    )
    return Findings({"n_runs": n_runs, "rows": plain(rows), "reductions": frontiers}, text)


_SHOWN = {
    "accuracy": "accuracy",
    "gap": "test gap",
    "training_gap": "training gap",
    "positive_rate": "positive rate",
    "demographic_parity_ratio": "ratio",
    "over_reduction_raw": "over reduction",
    "over_reduction_ours": "over it on our inputs",
}


def _alike(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases that differ in their split only are rows of one mean."""
    alike: dict[tuple[str, str, float], list[Case]] = {}
    for case in cases:
        alike.setdefault((str(case.population), case.parity, case.epsilon), []).append(case)
    return list(alike.values())


Controlled = tuple[Row, Mapping[str, str]]


def _rows(
    cases: Sequence[Case],
    seeds: Iterable[int],
    trained: Mapping[Fit, Trained],
    reduced: Mapping[Reduction, Mapping[str, float]],
) -> list[Controlled]:
    first = cases[0]
    fits = {asked: [case.fit(*asked, seed) for case in cases for seed in seeds] for asked in first.asked}
    controls = {asked[0]: [trained[fit] for fit in fits[asked]] for asked in CONTROLS}
    named = {"population": str(first.population), "parity": first.parity, "epsilon": first.epsilon}
    rows = []
    for (method, gap), group in fits.items():
        runs = [{**trained[fit].numbers, **_over_reduction(fit, trained[fit], first, reduced)} for fit in group]
        about = {"max_gap": NO_TARGET if gap is None else gap, "method": method, "n_runs": len(runs)}
        rows.append(_controlled(Row.of({**named, **about}, runs), controls))
    return rows


def _over_reduction(
    fit: Fit, found: Trained, case: Case, reduced: Mapping[Reduction, Mapping[str, float]]
) -> dict[str, float]:
    """Accuracy minus that of the reduction on the same records at the same gap, for each kind of inputs."""
    over = {}
    for kind in case.features:
        beside = (fit.population, case.parity, kind)
        frontier = [
            reached for task, reached in reduced.items() if (task.population, task.parity, task.features) == beside
        ]
        over[f"over_reduction_{kind}"] = found["accuracy"] - accuracy_at(frontier, found["gap"])
    return over


def _controlled(row: Row, controls: Mapping[str, Sequence[Trained]]) -> Controlled:
    """A row with models without a target moved to its positive rate, and these as a table shows them."""
    at = {name: control_at(runs, row.mean["positive_rate"]) for name, runs in controls.items()}
    shown = {name: f"{control['gap']:.3f} ({control['accuracy']:.4f})" for name, control in at.items()}
    return replace(row, named={**row.named, "controls_at_this_rate": at}), shown


def _target(row: Row) -> str:
    return "none" if row.named["max_gap"] in (None, NO_TARGET) else f"{row.named['max_gap']:g}"


def faces_study(run: Run) -> Findings:
    """A frontier on images, with models without a target moved to the same positive rate beside it."""
    population, n_seeds = (SYNTHETIC, 1) if run.quick else (FACES, N_FACE_SEEDS)
    cases = FACE_CASES[:3] if run.quick else FACE_CASES
    fits = [
        fit_of(population, method, run.seed + s, max_gap=gap, settings={})
        for method, gap in cases
        for s in range(n_seeds)
    ]
    runs = dict(zip(cases, batched(run.trained(fits), n_seeds), strict=True))
    controls = {method: runs[method, gap] for method, gap in cases if gap in (None, NO_TARGET)}
    found = [
        _controlled(Row.of({"method": method, "max_gap": gap}, [fitted.numbers for fitted in its]), controls)
        for (method, gap), its in runs.items()
    ]
    names = ("auc", "accuracy", "gap", "training_gap", "positive_rate", "demographic_parity_ratio")
    lines = [
        {"method": f"`{row.named['method']}`", "target": _target(row)}
        | row.texts({name: name for name in names}, digits=4)
        | {f"control `{name}`": told for name, told in beside.items()}
        for row, beside in found
    ]
    text = (
        f"ε = 1, δ = 1e-5, nothing held out; mean ± standard error over {n_seeds} seeds. Controls: models without a "
        f"target whose threshold is moved to the row's positive rate: gap (accuracy).\n\n{table(lines)}"
    )
    return Findings({"epsilon": 1.0, "n_seeds": n_seeds, "rows": plain(row for row, _ in found)}, text)


def certified_study(run: Run) -> Findings:
    """What is certified of models that aim at a gap."""
    population, n_seeds = (SYNTHETIC, 2) if run.quick else (ADULT, N_SEEDS)
    settings = {"certify_fraction": 0.2, "certify_metrics": ("demographic_parity",)}
    fits = [
        fit_of(population, "fairdp_parity", run.seed + s, max_gap=gap, settings=settings)
        for gap in CERTIFIED_TARGETS
        for s in range(n_seeds)
    ]
    runs = zip(CERTIFIED_TARGETS, batched(run.trained(fits), n_seeds), strict=True)
    rows = [Row.of({"max_gap": gap}, [fitted.numbers for fitted in its]) for gap, its in runs]
    lines = [{"target": _target(row), **row.texts(_CERTIFIED, digits=4)} for row in rows]
    text = (
        f"{population}, ε = 1, δ = 1e-5, a fifth of the training records held out, confidence .95 for gap and ratio "
        f"together; mean ± standard error over {n_seeds} seeds.\n\n{table(lines)}"
    )
    return Findings({"epsilon": 1.0, "confidence": 0.95, "n_seeds": n_seeds, "rows": plain(rows)}, text)


_CERTIFIED = {
    "accuracy": "accuracy",
    "gap": "test gap",
    "certified_gap": "certified gap",
    "demographic_parity_ratio": "test ratio",
    "certified_ratio": "certified ratio",
    "positive_rate": "positive rate",
}
