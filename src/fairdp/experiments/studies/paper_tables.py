"""The paper's table of data sets, its table of M, and the imbalance of groups."""

from collections.abc import Mapping, Sequence

from fairdp.experiments.studies import printed
from fairdp.experiments.studies.protocol import (
    COLUMNS,
    PLAIN,
    UTILITIES,
    Setting,
    Variant,
    accounted,
    control,
    datasets_of,
    summary,
    tidy,
    train,
)
from fairdp.experiments.studies.results import Findings, Run, plain, table
from fairdp.experiments.sweeps.fits import METRICS, Row
from fairdp.experiments.sweeps.populations import Population, load

M_COLUMNS = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "demographic_parity_difference": "parity gap",
    "equal_opportunity_difference": "EOpp gap",
    "false_positive_rate_difference": "FPR gap (“EOdd”)",
}
BOUNDS = (0.25, 0.5, 0.75, 1.0)
# The step sizes that the paper states, on faces: ours there are smaller.
STATED_STEPS = (("learning_rate", (0.007, 0.005)), ("sgd_learning_rate", 0.005))
# Up to the imbalance of the training records as they are.
RATIOS = {
    "adult": (1.0, 1.25, 1.5, 1.75, 2.0),
    "credit": (1.0, 1.25, 1.5),
    "utkface": (1.0, 1.25),
    "synthetic": (1.0, 1.5),
}
RATIO_BUDGETS = (0.5, 1.0, 2.0)


def dataset_study(run: Run) -> Findings:
    """The paper's table of data sets."""
    rows, lines = [], []
    for dataset in datasets_of(run):
        parts, digits = load(Population(dataset=dataset)), printed.SIZES.get(dataset)
        sizes = parts.train.group_sizes + parts.test.group_sizes
        found = {
            "records": int(sizes.sum()),
            "features": " × ".join(str(n) for n in reversed(parts.train.X.shape[1:])),
            "positive": int(parts.train.y.sum() + parts.test.y.sum()),
        }
        groups = {name: int(n) for name, n in zip(parts.train.group_names, sizes, strict=True)}
        n_test = parts.test.n_samples
        rows.append({"dataset": dataset, **found, "groups": groups, "test": n_test, "printed": digits})
        named = ", ".join(f"{name} {n}" for name, n in groups.items())
        told = {"groups": named, "of these for testing": n_test}
        lines.append({"data": dataset, **beside_printed(found, digits), **told})
    return Findings({"rows": rows}, "In brackets what the paper prints.\n\n" + table(lines))


def beside_printed(found: Mapping[str, object], digits: Sequence[object] | None) -> dict[str, str]:
    """What was found, with what the paper prints in brackets."""
    if digits is None:
        return {name: f"{value}" for name, value in found.items()}
    return {name: f"{value} ({its})" for (name, value), its in zip(found.items(), digits, strict=True)}


def bound_settings(run: Run) -> list[Setting]:
    """FairDP at ε = 1 with every M of the paper's table, in both readings of Adam; on faces the second for M = 1 only.

    On faces it is also trained with the step sizes that the paper states.
    """
    settings = []
    for dataset in datasets_of(run):
        variants = [Variant(bound=bound) for bound in BOUNDS]
        variants += [
            Variant(bound=bound, per_group=True) for bound in (BOUNDS if dataset != "utkface" else BOUNDS[-1:])
        ]
        settings += [
            Setting(dataset=dataset, method="fairdp", epsilon=1.0, changes=variant.changes) for variant in variants
        ]
        if dataset == "utkface":
            stated = (*PLAIN.changes, *STATED_STEPS)
            settings.append(Setting(dataset=dataset, method="fairdp", epsilon=1.0, changes=stated))
    return settings


def bound_study(run: Run) -> Findings:
    """The paper's table of M at ε = 1, beside its printed rows and DP-SGD at the same positive rate."""
    settings = bound_settings(run)
    runs = train([*settings, *dict.fromkeys(setting.beside("dpsgd") for setting in settings)], run)
    found = summary({setting: runs[setting] for setting in settings})
    beside = [control(setting, runs) for setting in settings]
    lines = [_bound_line(*each) for each in zip(settings, found, beside, strict=True)]
    rows = [{**row.to_json(), "printed": _printed(setting)} for setting, row in zip(settings, found, strict=True)]
    text = (
        f"FairDP at ε = 1; mean ± standard error over seeds, in brackets what the paper prints. {accounted(found)}The "
        "paper's column “EOdd” is below its EOpp, which the larger of two gaps cannot be; we compare the gap of false "
        f"positive rates.\n\n{table(lines)}"
    )
    return Findings({"rows": rows, "controls": plain(beside)}, text, runs=tidy(runs, run))


def _printed(setting: Setting) -> tuple[float, ...] | None:
    return printed.IMPACT_OF_M.get((setting.dataset, float(str(dict(setting.changes)["weight_bound"]))))


def _bound_line(setting: Setting, row: Row, beside: Row) -> dict[str, object]:
    changes, digits = dict(setting.changes), _printed(setting)
    adam = "per group" if changes["group_optimizers"] else "one"
    stated = ", η = .007, .005" if "learning_rate" in changes else ""
    gap, accuracy = (beside.mean[name] for name in ("demographic_parity_difference", "accuracy"))
    return {
        "data": setting.dataset,
        "M": f"{changes['weight_bound']:g}",
        "Adam": adam + stated,
        **beside_printed(row.texts(M_COLUMNS), digits and [f"{value:g}" for value in digits]),
        "positive rate": f"{row.mean['positive_rate']:.3f}",
        "DP-SGD at this rate: gap (accuracy)": f"{gap:.3f} ({accuracy:.3f})",
    }


def imbalance_settings(run: Run) -> list[Setting]:
    """FairDP where the largest group is cut to ρ times the smallest, at three budgets."""
    return [
        Setting(dataset=dataset, method="fairdp", epsilon=epsilon, changes=PLAIN.changes, ratio=ratio)
        for dataset in datasets_of(run)
        for ratio in RATIOS[dataset]
        for epsilon in (RATIO_BUDGETS[::2] if run.quick else RATIO_BUDGETS)
    ]


def imbalance_study(run: Run) -> Findings:
    """The largest group cut to ρ times the smallest: utility, gaps, and the paper's certificate."""
    from fairdp.experiments.drawing import imbalance_figure

    runs = train(imbalance_settings(run), run)
    rows = summary(runs)
    taus = {f"paper_{metric}": f"τ_emp {metric.replace('_', ' ')}" for metric in METRICS}
    shown = {name: title for name, title in COLUMNS.items() if name != "demographic_parity_ratio"} | taus
    lines = [
        {"data": row.named["dataset"], "ρ": f"{row.named['ratio']:g}", "ε": f"{row.named['epsilon']:g}"}
        | row.texts(shown)
        for row in rows
    ]
    text = (
        f"FairDP, {PLAIN.words}; mean ± standard error over seeds. {accounted(rows)}Last the paper's τ_emp on the "
        f"training records that were kept, which is no bound for the model.\n\n{table(lines)}"
    )
    drawings = {
        f"-{utility}": imbalance_figure(plain(rows), utility=utility, words=PLAIN.words) for utility in UTILITIES
    }
    return Findings({"rows": plain(rows)}, text, runs=tidy(runs, run), drawings=drawings)
