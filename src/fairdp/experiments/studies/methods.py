"""Every method on the same records, at the same budget, with its own defaults."""

from fairdp.experiments.studies.protocol import COLUMNS
from fairdp.experiments.studies.results import Findings, Run, batched, plain, table
from fairdp.experiments.sweeps.fits import Fit, Row, Trained
from fairdp.experiments.sweeps.populations import Population
from fairdp.methods import METHODS

EPSILON = 1.0
DATASETS, N_SEEDS = ("adult", "credit"), 5
QUICK_METHODS = ("dpsgd", "fairfm")
# The gap before the ratio.
METRICS = {
    name: COLUMNS[name] for name in ("auc", "accuracy", "positive_rate", "demographic_parity_difference")
} | COLUMNS


def methods_study(run: Run) -> Findings:
    """Mean and standard error over seeds of what each method reaches, as `fairdp fit` trains it."""
    datasets, methods, n_seeds = (("synthetic",), QUICK_METHODS, 2) if run.quick else (DATASETS, METHODS, N_SEEDS)
    settings = (("epsilon", EPSILON), ("certify_metrics", ("demographic_parity",)))
    cases = [(dataset, method) for dataset in datasets for method in methods]
    fits = [
        Fit(population=Population(dataset=dataset), method=method, seed=run.seed + s, settings=settings)
        for dataset, method in cases
        for s in range(n_seeds)
    ]
    rows, lines = [], []
    for (dataset, method), runs in zip(cases, batched(run.trained(fits), n_seeds), strict=True):
        spent = max(fitted["epsilon"] for fitted in runs)
        named = {"dataset": dataset, "method": method, "epsilon_spent": spent}
        rows.append(row := Row.of(named, [_shown(fitted) for fitted in runs]))
        private = "" if METHODS[method].private else " (not private)"
        certified = f"{row.mean['certified_parity_gap']:.3f}"
        lines.append(
            {"data": dataset, "method": f"`{method}`{private}", **row.texts(METRICS), "certified gap": certified}
        )
    text = (
        f"ε = {EPSILON:g}, δ = 1e-5, the defaults of each method, a fifth of the training records held out for the "
        f"certificate; mean ± standard error over {n_seeds} seeds, on the test records. A small gap beside a small "
        f"positive rate is no fairness.\n\n{table(lines)}"
    )
    return Findings({"epsilon": EPSILON, "n_seeds": n_seeds, "methods": plain(rows)}, text)


def _shown(found: Trained) -> dict[str, float]:
    return {name: found[name] for name in METRICS} | {"certified_parity_gap": found["certified_gap"]}
