"""Two further figures of `fairdp_parity`: on faces with a network, and with the certificate."""

from typing import Any

from fairdp.experiments.studies.results import Findings, Run, markdown_table, mean_text
from fairdp.experiments.sweeps.fits import Fit, control_at, mean_and_error
from fairdp.experiments.sweeps.populations import Population

FACES, ADULT = Population(dataset="utkface"), Population(dataset="adult")
SYNTHETIC = Population(dataset="synthetic")
FACE_CASES = (("dpsgd", None), ("fairdp", None), *(("fairdp_parity", gap) for gap in (1.0, 0.1, 0.03)))
N_FACE_SEEDS, N_SEEDS = 3, 5
CERTIFIED_TARGETS = (0.02, 0.01)


def faces_study(run: Run) -> Findings:
    """A frontier on images, with models without a target moved to the same positive rate beside it."""
    population, n_seeds = (SYNTHETIC, 1) if run.quick else (FACES, N_FACE_SEEDS)
    cases = FACE_CASES[:3] if run.quick else FACE_CASES
    fits = [_fit(population, method, run.seed + s, max_gap=gap) for method, gap in cases for s in range(n_seeds)]
    found = run.trained(fits)
    by_case = {case: found[i * n_seeds : (i + 1) * n_seeds] for i, case in enumerate(cases)}
    controls = {method: by_case[method, gap] for method, gap in cases if gap in (None, 1.0)}
    rows = []
    for (method, gap), runs in by_case.items():
        row: dict[str, Any] = {"method": method, "max_gap": gap, **mean_and_error(runs)}
        rate = row["mean"]["positive_rate"]
        row["controls_at_this_rate"] = {name: control_at(own, rate) for name, own in controls.items()}
        rows.append(row)
    shown = ("auc", "accuracy", "gap", "training_gap", "positive_rate", "demographic_parity_ratio")
    lines = [
        (
            f"`{row['method']}`",
            "none" if row["max_gap"] in (None, 1.0) else f"{row['max_gap']:g}",
            *(mean_text(row, name, digits=4) for name in shown),
            *(f"{own['gap']:.3f} ({own['accuracy']:.4f})" for own in row["controls_at_this_rate"].values()),
        )
        for row in rows
    ]
    text = (
        f"ε = 1, δ = 1e-5, nothing held out; mean ± standard error over {n_seeds} seeds. Controls: models without a "
        "target whose threshold is moved to the row's positive rate: gap (accuracy).\n\n"
        + markdown_table(("method", "target", *shown, *(f"control `{name}`" for name in controls)), lines)
    )
    return Findings({"epsilon": 1.0, "n_seeds": n_seeds, "rows": rows}, text)


def certified_study(run: Run) -> Findings:
    """What is certified of models that aim at a gap."""
    population, n_seeds = (SYNTHETIC, 2) if run.quick else (ADULT, N_SEEDS)
    settings = {"certify_fraction": 0.2, "certify_metrics": ("demographic_parity",)}
    fits = [
        _fit(population, "fairdp_parity", run.seed + s, max_gap=gap, **settings)
        for gap in CERTIFIED_TARGETS
        for s in range(n_seeds)
    ]
    found = run.trained(fits)
    rows = [
        {"max_gap": gap, **mean_and_error(found[i * n_seeds : (i + 1) * n_seeds])}
        for i, gap in enumerate(CERTIFIED_TARGETS)
    ]
    shown = {"accuracy": "accuracy", "gap": "test gap", "certified_gap": "certified gap"}
    shown |= {"demographic_parity_ratio": "test ratio", "certified_ratio": "certified ratio"}
    shown |= {"positive_rate": "positive rate"}
    lines = [(f"{row['max_gap']:g}", *(mean_text(row, name, digits=4) for name in shown)) for row in rows]
    text = (
        f"{population}, ε = 1, δ = 1e-5, a fifth of the training records held out, confidence .95 for gap and ratio "
        f"together; mean ± standard error over {n_seeds} seeds.\n\n"
        + markdown_table(("target", *shown.values()), lines)
    )
    return Findings({"epsilon": 1.0, "confidence": 0.95, "n_seeds": n_seeds, "rows": rows}, text)


def _fit(population: Population, method: str, seed: int, *, max_gap: float | None, **settings: Any) -> Fit:
    chosen = {"epsilon": 1.0, "certify_fraction": 0.0} | settings | ({} if max_gap is None else {"max_gap": max_gap})
    return Fit(
        population=population,
        method=method,
        seed=seed,
        settings=tuple(chosen.items()),
        is_control=max_gap in (None, 1.0),
    )
