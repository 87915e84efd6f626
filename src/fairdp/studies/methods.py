"""Every method on the same records, at the same budget, with its own defaults."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairdp.estimators import FairDPClassifier
from fairdp.methods import METHODS
from fairdp.studies.parallel import run_tasks
from fairdp.studies.results import Findings, Run, markdown_table
from fairdp.tasks.measuring import measure
from fairdp.tasks.records import Source, load_records

EPSILON = 1.0
DATASETS, N_SEEDS = ("adult", "credit"), 5
QUICK_METHODS = ("dpsgd", "fairfm")
METRICS = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "positive_rate": "positive rate",
    "demographic_parity_difference": "parity gap",
    "demographic_parity_ratio": "ratio",
    "equal_opportunity_difference": "EOpp gap",
    "equalized_odds_difference": "EOdds gap",
}


@dataclass(frozen=True)
class _Task:
    dataset: str
    method: str
    seed: int


def methods_study(run: Run) -> Findings:
    """Mean and standard error over seeds of what each method reaches."""
    datasets, methods, n_seeds = (("synthetic",), QUICK_METHODS, 2) if run.quick else (DATASETS, METHODS, N_SEEDS)
    tasks = [_Task(d, m, run.seed + s) for d in datasets for m in methods for s in range(n_seeds)]
    found = run_tasks(_figures, tasks, run, what="trainings")
    rows = [
        _summary([figures for task, figures in zip(tasks, found, strict=True) if (task.dataset, task.method) == (d, m)])
        for d in datasets
        for m in methods
    ]
    settings = {"epsilon": EPSILON, "n_seeds": n_seeds}
    return Findings({**settings, "methods": rows}, _text(rows, n_seeds))


def _figures(task: _Task, rng: np.random.Generator) -> dict[str, Any]:
    """One run as `fairdp fit` makes it, measured on the test records."""
    source = Source(
        table=None, dataset=task.dataset, label=None, positive=None, sensitive=(), schema=None, test_fraction=0.2
    )
    records = load_records(source)
    model = FairDPClassifier(
        method=task.method, epsilon=EPSILON, certify_metrics=("demographic_parity",), random_state=task.seed
    )
    model.fit_grouped(records.train, feature_schema=None if records.schema is None else records.schema.to_dict())
    measured = measure(model, records.test)
    return {
        "dataset": task.dataset,
        "method": task.method,
        "epsilon_spent": model.privacy_.epsilon,
        "certified_parity_gap": model.certificate_["demographic_parity"]["tau"],
        **{name: measured[name] for name in METRICS},
    }


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One row: means, and the standard errors of the means."""
    numbers = {name: np.array([own[name] for own in runs]) for name in (*METRICS, "certified_parity_gap")}
    return {
        "dataset": runs[0]["dataset"],
        "method": runs[0]["method"],
        "epsilon_spent": max(own["epsilon_spent"] for own in runs),
        "mean": {name: float(values.mean()) for name, values in numbers.items()},
        "standard_error": {name: float(values.std(ddof=1) / np.sqrt(len(values))) for name, values in numbers.items()},
    }


def _text(rows: list[dict[str, Any]], n_seeds: int) -> str:
    headers = ("data", "method", *METRICS.values(), "certified gap")
    lines = [
        (
            row["dataset"],
            f"`{row['method']}`" + ("" if METHODS[row["method"]].private else " (not private)"),
            *(f"{row['mean'][name]:.3f} ± {row['standard_error'][name]:.3f}" for name in METRICS),
            f"{row['mean']['certified_parity_gap']:.3f}",
        )
        for row in rows
    ]
    return (
        f"ε = {EPSILON:g}, δ = 1e-5, the defaults of each method, a fifth of the training records held out for the "
        f"certificate; mean ± standard error over {n_seeds} seeds, on the test records. A small gap beside a small "
        "positive rate is no fairness.\n\n" + markdown_table(headers, lines)
    )
