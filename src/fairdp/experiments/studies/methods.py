"""Every method on the same records, at the same budget, with its own defaults."""

from typing import Any

from fairdp.experiments.studies.results import Findings, Run, markdown_table, mean_text
from fairdp.experiments.sweeps.fits import Fit, mean_and_error
from fairdp.experiments.sweeps.populations import Population
from fairdp.methods import METHODS

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


def methods_study(run: Run) -> Findings:
    """Mean and standard error over seeds of what each method reaches, as `fairdp fit` trains it."""
    datasets, methods, n_seeds = (("synthetic",), QUICK_METHODS, 2) if run.quick else (DATASETS, METHODS, N_SEEDS)
    settings = (("epsilon", EPSILON), ("certify_metrics", ("demographic_parity",)))
    fits = [
        Fit(population=Population(dataset=d), method=m, seed=run.seed + s, settings=settings)
        for d in datasets
        for m in methods
        for s in range(n_seeds)
    ]
    found = run.trained(fits)
    rows = [
        {"dataset": fits[i].population.dataset, "method": fits[i].method, **_summary(found[i : i + n_seeds])}
        for i in range(0, len(fits), n_seeds)
    ]
    return Findings({"epsilon": EPSILON, "n_seeds": n_seeds, "methods": rows}, _text(rows, n_seeds))


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    row = mean_and_error(runs)
    for name, numbers in row.items():
        shown = {metric: numbers[metric] for metric in METRICS}
        row[name] = {**shown, "certified_parity_gap": numbers["certified_gap"]}
    return {"epsilon_spent": max(own["epsilon"] for own in runs), **row}


def _text(rows: list[dict[str, Any]], n_seeds: int) -> str:
    headers = ("data", "method", *METRICS.values(), "certified gap")
    lines = [
        (
            row["dataset"],
            f"`{row['method']}`" + ("" if METHODS[row["method"]].private else " (not private)"),
            *(mean_text(row, name) for name in METRICS),
            f"{row['mean']['certified_parity_gap']:.3f}",
        )
        for row in rows
    ]
    return (
        f"ε = {EPSILON:g}, δ = 1e-5, the defaults of each method, a fifth of the training records held out for the "
        f"certificate; mean ± standard error over {n_seeds} seeds, on the test records. A small gap beside a small "
        "positive rate is no fairness.\n\n" + markdown_table(headers, lines)
    )
