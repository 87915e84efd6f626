"""The paper's data sets, its table of M, the imbalance of groups, and ablations that it does not have."""

from collections.abc import Sequence
from typing import Any

from fairdp.experiments.studies.paper_tradeoffs import COLUMNS
from fairdp.experiments.studies.protocol import (
    EPSILONS,
    UTILITIES,
    Setting,
    controls,
    datasets_of,
    summary,
    tables_of,
    tidy,
    train,
)
from fairdp.experiments.studies.results import Findings, Run, markdown_table, mean_text
from fairdp.experiments.sweeps.populations import Population, load

# Records, features and positives as printed.
PRINTED_SIZES = {
    "adult": (48_842, "41", 11_687),
    "credit": (30_000, "89", 6_636),
    "utkface": (23_795, "48 × 48 × 1", 8_608),
}
# AUC, accuracy, and the gaps of demographic parity, EOpp and "EOdd" at ε = 1, as printed.
PRINTED_M = {
    ("adult", 0.25): (0.59, 0.75, 0.0, 0.0, 0.0),
    ("adult", 0.50): (0.77, 0.76, 0.001, 0.002, 0.001),
    ("adult", 0.75): (0.79, 0.79, 0.019, 0.021, 0.005),
    ("adult", 1.00): (0.80, 0.80, 0.027, 0.038, 0.011),
    ("credit", 0.25): (0.73, 0.78, 0.0, 0.0, 0.0),
    ("credit", 0.50): (0.75, 0.80, 0.011, 0.026, 0.009),
    ("credit", 0.75): (0.76, 0.81, 0.013, 0.018, 0.009),
    ("credit", 1.00): (0.76, 0.81, 0.016, 0.016, 0.009),
    ("utkface", 0.25): (0.73, 0.64, 0.0, 0.0, 0.0),
    ("utkface", 0.50): (0.79, 0.71, 0.087, 0.090, 0.044),
    ("utkface", 0.75): (0.80, 0.73, 0.115, 0.104, 0.061),
    ("utkface", 1.00): (0.80, 0.75, 0.130, 0.115, 0.068),
}
M_COLUMNS = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "demographic_parity_difference": "parity gap",
    "equal_opportunity_difference": "EOpp gap",
    "false_positive_rate_difference": "FPR gap (“EOdd”)",
}
BOUNDS = (0.25, 0.5, 0.75, 1.0)
# Up to the imbalance of the training records as they are.
RATIOS = {
    "adult": (1.0, 1.25, 1.5, 1.75, 2.0),
    "credit": (1.0, 1.25, 1.5),
    "utkface": (1.0, 1.25),
    "synthetic": (1.0, 1.5),
}
RATIO_BUDGETS = (0.5, 1.0, 2.0)
MEMBERS = (1, 2, 5, 10, 20)
SCHEDULES: dict[str, tuple[tuple[str, Any], ...]] = {
    "Adam, .007 then .005 (the paper)": (),
    "SGD, constant": (("optimizer", "sgd"), ("learning_rate", 0.5)),
    "SGD, Theorem 4": (("optimizer", "sgd"), ("schedule", "inverse_sqrt"), ("learning_rate", 10.0)),
}


def dataset_study(run: Run) -> Findings:
    """The paper's table of data sets."""
    rows: list[dict[str, Any]] = []
    for dataset in datasets_of(run):
        parts = load(Population(dataset=dataset))
        sizes = parts.train.group_sizes + parts.test.group_sizes
        n_positive = int(parts.train.y.sum() + parts.test.y.sum())
        shape = " × ".join(str(n) for n in reversed(parts.train.X.shape[1:]))
        rows.append(
            {
                "dataset": dataset,
                "records": int(sizes.sum()),
                "features": shape,
                "positive": n_positive,
                "groups": {name: int(n) for name, n in zip(parts.train.group_names, sizes, strict=True)},
                "test": parts.test.n_samples,
                "printed": PRINTED_SIZES.get(dataset),
            }
        )
    lines = [
        (
            row["dataset"],
            *(
                f"{row[name]}" + (f" ({row['printed'][i]})" if row["printed"] else "")
                for i, name in enumerate(("records", "features", "positive"))
            ),
            ", ".join(f"{name} {n}" for name, n in row["groups"].items()),
            str(row["test"]),
        )
        for row in rows
    ]
    headers = ("data", "records", "features", "positive", "groups", "of these for testing")
    return Findings({"rows": rows}, "In brackets what the paper prints.\n\n" + markdown_table(headers, lines))


def bound_study(run: Run) -> Findings:
    """The paper's table of M at ε = 1, beside its printed rows and DP-SGD at the same positive rate."""
    own = [
        Setting(dataset=dataset, method="fairdp", epsilon=1.0, changes=(("weight_bound", bound),))
        for dataset in datasets_of(run)
        for bound in BOUNDS
    ]
    plain = [Setting(dataset=dataset, method="dpsgd", epsilon=1.0) for dataset in datasets_of(run)]
    runs = train([*own, *plain], run)
    rows = summary({setting: runs[setting] for setting in own})
    beside = controls(runs, at="fairdp")
    lines = []
    for row, control in zip(rows, beside, strict=True):
        printed = PRINTED_M.get((row["dataset"], row["weight_bound"]))
        row["printed"] = printed
        mean = row["mean"]
        shown = [mean_text(row, name) + (f" ({printed[i]:g})" if printed else "") for i, name in enumerate(M_COLUMNS)]
        moved = f"{control['mean']['demographic_parity_difference']:.3f} ({control['mean']['accuracy']:.3f})"
        lines.append((row["dataset"], f"{row['weight_bound']:g}", *shown, f"{mean['positive_rate']:.3f}", moved))
    headers = ("data", "M", *M_COLUMNS.values(), "positive rate", "DP-SGD at this rate: gap (accuracy)")
    text = (
        "FairDP at ε = 1; mean ± standard error over seeds, in brackets what the paper prints. Its column “EOdd” is "
        "below its EOpp, which the larger of two gaps cannot be; we compare the gap of false positive rates.\n\n"
        + markdown_table(headers, lines)
    )
    return Findings({"rows": rows, "controls": beside}, text, runs=tidy(runs, run))


def imbalance_study(run: Run) -> Findings:
    """The largest group cut to ρ times the smallest, at three budgets."""
    from fairdp.experiments.drawing import imbalance_figure

    budgets = RATIO_BUDGETS[1:] if run.quick else RATIO_BUDGETS
    own = [
        Setting(dataset=dataset, method="fairdp", epsilon=epsilon, ratio=ratio)
        for dataset in datasets_of(run)
        for ratio in RATIOS[dataset]
        for epsilon in budgets
    ]
    runs = train(own, run)
    rows = summary(runs)
    drawings = {f"-{utility}": imbalance_figure(rows, utility=utility) for utility in UTILITIES}
    return Findings({"rows": rows}, _table(rows, {"ratio": "ρ"}), runs=tidy(runs, run), drawings=drawings)


def member_study(run: Run) -> Findings:
    """The number of heads N of the ensemble, at ε = 1."""
    numbers = MEMBERS[::3] if run.quick else MEMBERS
    own = [
        Setting(dataset=dataset, method="fairdp", epsilon=1.0, changes=(("n_members", n),))
        for dataset in tables_of(run)
        for n in numbers
    ]
    return _ablation(own, run, {"n_members": "heads"})


def allocation_study(run: Run) -> Findings:
    """Noise for every group, as in the paper, or once on their average."""
    own = [
        Setting(dataset=dataset, method="fairdp", epsilon=epsilon, changes=(("noise_allocation", kind),))
        for dataset in tables_of(run)
        for epsilon in (EPSILONS[1:2] if run.quick else EPSILONS)
        for kind in ("per_group", "average")
    ]
    return _ablation(own, run, {"noise_allocation": "noise"})


def schedule_study(run: Run) -> Findings:
    """Held-out utility with the step sizes of Theorem 4, beside the paper's Adam and a constant step."""
    own = {
        Setting(dataset=dataset, method="fairdp", epsilon=epsilon, changes=changes): name
        for dataset in tables_of(run)
        for epsilon in (EPSILONS[1:2] if run.quick else (0.5, 1.0, 2.0))
        for name, changes in SCHEDULES.items()
    }
    runs = train(own, run)
    rows = [{**row, "schedule": name} for row, name in zip(summary(runs), own.values(), strict=True)]
    return Findings({"rows": rows}, _table(rows, {"schedule": "steps"}), runs=tidy(runs, run))


def _ablation(settings: Sequence[Setting], run: Run, changed: dict[str, str]) -> Findings:
    runs = train(settings, run)
    rows = summary(runs)
    return Findings({"rows": rows}, _table(rows, changed), runs=tidy(runs, run))


def _table(rows: Sequence[dict[str, Any]], changed: dict[str, str]) -> str:
    lines = [
        (
            row["dataset"],
            *(str(row[name]) for name in changed),
            f"{row['epsilon']:g}",
            *(mean_text(row, name) for name in COLUMNS),
            str(row["n_runs"]),
        )
        for row in rows
    ]
    headers = ("data", *changed.values(), "ε", *COLUMNS.values(), "seeds")
    return "FairDP; mean ± standard error over seeds.\n\n" + markdown_table(headers, lines)
