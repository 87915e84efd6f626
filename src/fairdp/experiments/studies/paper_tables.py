"""The paper's data sets, its table of M, the imbalance of groups, and ablations that it does not have."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from fairdp.experiments.studies.protocol import (
    COLUMNS,
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
from fairdp.experiments.studies.results import Findings, Run, plain, table
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
SCHEDULES: Mapping[str, tuple[tuple[str, object], ...]] = {
    "Adam, .007 then .005 (the paper)": (),
    "SGD, constant .5": (("optimizer", "sgd"), ("learning_rate", 0.5)),
    "SGD, Theorem 4 by Shamir and Zhang": (("schedule", "shamir_zhang"),),
    "SGD, Theorem 4 as printed": (("schedule", "theorem_4_printed"),),
}
# At ε = 1. In the paper's row only the step that makes the ensemble is SGD's, at .005; a single head needs none.
HAND_OVERS: Mapping[str, tuple[tuple[str, object], ...]] = {
    "Adam, from .5 on SGD at .5": (("optimizer", "adam_then_sgd"), ("adam_share", 0.5), ("sgd_learning_rate", 0.5)),
    "Adam, from .9 on SGD at .5": (("optimizer", "adam_then_sgd"), ("adam_share", 0.9), ("sgd_learning_rate", 0.5)),
    "Adam, from .9 on SGD at .005": (("optimizer", "adam_then_sgd"), ("adam_share", 0.9)),
    "Adam to the end, one head": (("n_members", 1),),
}


def dataset_study(run: Run) -> Findings:
    """The paper's table of data sets."""
    rows, lines = [], []
    for dataset in datasets_of(run):
        parts, printed = load(Population(dataset=dataset)), PRINTED_SIZES.get(dataset)
        sizes = parts.train.group_sizes + parts.test.group_sizes
        found = {
            "records": int(sizes.sum()),
            "features": " × ".join(str(n) for n in reversed(parts.train.X.shape[1:])),
            "positive": int(parts.train.y.sum() + parts.test.y.sum()),
        }
        groups = {name: int(n) for name, n in zip(parts.train.group_names, sizes, strict=True)}
        n_test = parts.test.n_samples
        rows.append({"dataset": dataset, **found, "groups": groups, "test": n_test, "printed": printed})
        named = ", ".join(f"{name} {n}" for name, n in groups.items())
        told = {"groups": named, "of these for testing": n_test}
        lines.append({"data": dataset, **beside_printed(found, printed), **told})
    return Findings({"rows": rows}, "In brackets what the paper prints.\n\n" + table(lines))


def beside_printed(found: Mapping[str, object], printed: Sequence[object] | None) -> dict[str, str]:
    """What was found, with what the paper prints in brackets."""
    if printed is None:
        return {name: f"{value}" for name, value in found.items()}
    return {name: f"{value} ({digits})" for (name, value), digits in zip(found.items(), printed, strict=True)}


def bound_study(run: Run) -> Findings:
    """The paper's table of M at ε = 1, beside its printed rows and DP-SGD at the same positive rate."""
    settings = _fairdp(datasets_of(run), "weight_bound", BOUNDS)
    plain_sgd = [Setting(dataset=dataset, method="dpsgd", epsilon=1.0) for dataset in datasets_of(run)]
    runs = train([*settings, *plain_sgd], run)
    rows, beside, lines = [], controls(runs, at="fairdp"), []
    for setting, row, control in zip(settings, summary({each: runs[each] for each in settings}), beside, strict=True):
        bound = float(str(dict(setting.changes)["weight_bound"]))
        printed = PRINTED_M.get((setting.dataset, bound))
        rows.append({**row.to_json(), "printed": printed})
        shown = beside_printed(row.texts(M_COLUMNS), printed and [f"{digits:g}" for digits in printed])
        gap, accuracy = (control.mean[name] for name in ("demographic_parity_difference", "accuracy"))
        rates = {
            "positive rate": f"{row.mean['positive_rate']:.3f}",
            "DP-SGD at this rate: gap (accuracy)": f"{gap:.3f} ({accuracy:.3f})",
        }
        lines.append({"data": setting.dataset, "M": f"{bound:g}", **shown, **rates})
    text = (
        "FairDP at ε = 1; mean ± standard error over seeds, in brackets what the paper prints. Its column “EOdd” is "
        "below its EOpp, which the larger of two gaps cannot be; we compare the gap of false positive rates.\n\n"
        + table(lines)
    )
    return Findings({"rows": rows, "controls": plain(beside)}, text, runs=tidy(runs, run))


def imbalance_study(run: Run) -> Findings:
    """The largest group cut to ρ times the smallest, at three budgets."""
    from fairdp.experiments.drawing import imbalance_figure

    settings = [
        Setting(dataset=dataset, method="fairdp", epsilon=epsilon, ratio=ratio)
        for dataset in datasets_of(run)
        for ratio in RATIOS[dataset]
        for epsilon in (RATIO_BUDGETS[1:] if run.quick else RATIO_BUDGETS)
    ]
    found, rows = _ablation(settings, run, {"ratio": "ρ"})
    return replace(found, drawings={f"-{utility}": imbalance_figure(rows, utility=utility) for utility in UTILITIES})


def member_study(run: Run) -> Findings:
    """The number of heads N of the ensemble, at ε = 1."""
    settings = _fairdp(tables_of(run), "n_members", MEMBERS[::3] if run.quick else MEMBERS)
    return _ablation(settings, run, {"n_members": "heads"})[0]


def allocation_study(run: Run) -> Findings:
    """Noise for every group, as in the paper, or once on their average."""
    budgets = EPSILONS[1:2] if run.quick else EPSILONS
    settings = _fairdp(tables_of(run), "noise_allocation", ("per_group", "average"), budgets)
    return _ablation(settings, run, {"noise_allocation": "noise"})[0]


def schedule_study(run: Run) -> Findings:
    """Held-out utility with the step sizes of Theorem 4, beside a constant step, and Adam that hands over to SGD."""
    settings = {
        Setting(dataset=dataset, method="fairdp", epsilon=epsilon, changes=changes): name
        for dataset in tables_of(run)
        for epsilon in (EPSILONS[1:2] if run.quick else (0.5, 1.0, 2.0))
        for name, changes in {**SCHEDULES, **(HAND_OVERS if epsilon == 1 else {})}.items()
    }
    return _ablation(list(settings), run, {"schedule": "steps"}, list(settings.values()))[0]


def _fairdp(
    datasets: Iterable[str], parameter: str, values: Iterable[object], budgets: Iterable[float] = (1.0,)
) -> list[Setting]:
    """FairDP with each value of a parameter."""
    return [
        Setting(dataset=dataset, method="fairdp", epsilon=epsilon, changes=((parameter, value),))
        for dataset, epsilon, value in product(datasets, budgets, values)
    ]


def _ablation(
    settings: Sequence[Setting], run: Run, changed: Mapping[str, str], names: Sequence[str] = ()
) -> tuple[Findings, list[dict[str, object]]]:
    """A row for each setting; ``changed`` is what differs and its title, ``names`` what it is if no parameter says."""
    ((key, title),) = changed.items()
    runs = train(settings, run)
    rows = summary(runs)
    if names:
        rows = [replace(row, named={**row.named, key: name}) for row, name in zip(rows, names, strict=True)]
    lines = [
        {"data": row.named["dataset"], title: str(row.named[key]), "ε": f"{row.named['epsilon']:g}"}
        | row.texts(COLUMNS)
        | {"seeds": row.named["n_runs"]}
        for row in rows
    ]
    text = "FairDP; mean ± standard error over seeds.\n\n" + table(lines)
    return Findings({"rows": plain(rows)}, text, runs=tidy(runs, run)), plain(rows)
