"""What the default reaches on tables and images, without a target and with each kind, beside its rivals."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fairdp.experiments.studies.results import Findings, Run, plain, table
from fairdp.experiments.sweeps.fits import Fit, Row
from fairdp.experiments.sweeps.populations import Population, load

EPSILON, N_SEEDS, N_FACE_SEEDS = 1.0, 5, 3
OURS, EARLIER, PLAIN = "fairdp_frontier", "fairdp_parity", "dpsgd"
FULL, ADULT, CREDIT, FACES, SYNTHETIC = (
    Population(dataset=name) for name in ("adult_full", "adult", "credit", "utkface", "synthetic")
)
FEW = replace(FULL, n_train=4000)
NO_TARGET = {"max_gap": 1.0}


@dataclass(frozen=True)
class Case:
    """Records and a target, with the methods that are trained for it."""

    population: Population
    target: Mapping[str, object]
    methods: tuple[str, ...] = (OURS, EARLIER)

    @property
    def words(self) -> str:
        """The target as the table names it."""
        if self.target == NO_TARGET:
            return "none"
        parity = str(self.target.get("parity", "demographic_parity")).replace("_", " ")
        ratio = self.target.get("min_ratio")
        return f"{parity} {self.target['max_gap']}" if ratio is None else f"{parity}, ratio {ratio}"


CASES = (
    *(Case(population, NO_TARGET, (OURS, EARLIER, PLAIN)) for population in (FULL, ADULT, CREDIT, FEW)),
    *(Case(FULL, {"max_gap": gap}) for gap in (0.10, 0.05, 0.02)),
    *(Case(FULL, {"max_gap": 0.02, "parity": parity}) for parity in ("equal_opportunity", "equalized_odds")),
    Case(replace(FULL, by_race=True), {"max_gap": 0.05}),
    *(Case(population, {"min_ratio": 0.8}) for population in (FULL, ADULT)),
    *(Case(Population(dataset="synthetic", bias=bias), {"min_ratio": 0.8}) for bias in (0.5, 1.0, 1.5)),
    *(Case(FACES, target, (OURS,)) for target in (NO_TARGET, {"max_gap": 0.10}, {"max_gap": 0.03})),
)
QUICK = (Case(SYNTHETIC, NO_TARGET, (OURS, PLAIN)), Case(SYNTHETIC, {"min_ratio": 0.8}, (OURS,)))
_SHOWN = {
    "accuracy": "accuracy",
    "auc": "AUC",
    "gap": "test gap",
    "training_gap": "training gap",
    "demographic_parity_ratio": "ratio",
    "positive_rate": "positive rate",
}


def tables_study(run: Run) -> Findings:
    """All training records, mean and standard error over seeds."""
    cases = QUICK if run.quick else CASES
    asked = [(case, method, _fits(case, method, run)) for case in cases for method in case.methods]
    found = iter(run.trained([fit for _, _, fits in asked for fit in fits]))
    rows = [
        Row.of(
            {"population": str(case.population), "target": case.words, "method": method},
            [next(found).numbers for _ in fits],
        )
        for case, method, fits in asked
    ]
    rows += _without_privacy([case.population for case in cases if case.target == NO_TARGET], run)
    lines = [
        {
            "data": row.named["population"],
            "target": row.named["target"],
            "method": f"`{row.named['method']}`",
            **row.texts(_SHOWN, digits=4),
        }
        for row in sorted(rows, key=lambda row: (str(row.named["target"]), str(row.named["population"])))
    ]
    text = (
        f"ε = {EPSILON:g}, δ = 1e-5, all training records (nothing held out), the defaults of each method; mean ± "
        f"standard error over {N_SEEDS} seeds, {N_FACE_SEEDS} for faces. Gaps are those of the target's notion. "
        "`boosting` (scikit-learn's HistGradientBoosting) and `logistic regression` are **not private**.\n\n"
        + table(lines)
    )
    return Findings({"epsilon": EPSILON, "rows": plain(rows)}, text)


def _fits(case: Case, method: str, run: Run) -> list[Fit]:
    n_seeds = 2 if run.quick else N_FACE_SEEDS if case.population == FACES else N_SEEDS
    target = {} if method == PLAIN else case.target
    settings = tuple({"epsilon": EPSILON, "certify_fraction": 0.0, **target}.items())
    return [
        Fit(population=_of_seed(case.population, s), method=method, seed=run.seed + s, settings=settings)
        for s in range(n_seeds)
    ]


def _of_seed(population: Population, seed: int) -> Population:
    """Where records are left out, others for every seed."""
    return population if population.n_train is None else replace(population, split=seed)


def _without_privacy(populations: list[Population], run: Run) -> list[Row]:
    """What models that see everything exactly reach on the same inputs."""
    populations = [population for population in populations if population != FACES]
    tasks = [(name, population) for population in populations for name in ("boosting", "logistic regression")]
    found = run.done(_exact, tasks, what="models without privacy")
    return [
        Row.of({"population": str(population), "target": "none", "method": name}, [numbers])
        for (name, population), numbers in zip(tasks, found, strict=True)
    ]


def _exact(task: tuple[str, Population], rng: np.random.Generator) -> dict[str, float]:
    name, population = task
    parts = load(_of_seed(population, 0))
    model = HistGradientBoostingClassifier(random_state=0) if name == "boosting" else LogisticRegression(max_iter=1000)
    with warnings.catch_warnings(action="ignore"):
        chances = model.fit(parts.train.X, parts.train.y).predict_proba(parts.test.X)[:, 1]
    decided, groups = chances >= 0.5, parts.test.groups
    rates = [float(decided[groups == group].mean()) for group in range(parts.test.n_groups)]
    return {
        "accuracy": float((decided == parts.test.y).mean()),
        "auc": float(roc_auc_score(parts.test.y, chances)),
        "gap": max(rates) - min(rates),
        "demographic_parity_ratio": min(rates) / max(*rates, 1e-9),
        "positive_rate": float(decided.mean()),
    }
