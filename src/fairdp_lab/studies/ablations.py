"""Ablations of FairDP and of its rivals, beyond the paper's own, and the look at which training would halt."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import inf
from typing import Any

import numpy as np

from fairdp.classifier import FairDPClassifier
from fairdp.ledger.ledger import Spending
from fairdp.methods import METHODS
from fairdp.metrics import decision_counts, metrics_of_counts
from fairdp.paper import LastStep, monte_carlo_error, tau_emp
from fairdp.run import certifying
from fairdp.run.certifying import all_heads, is_due, look
from fairdp.run.fit import Progress, begin, train_model
from fairdp.run.plan import checked
from fairdp.training.loop import InterimResults, Trainer
from fairdp_lab.studies import protocol as printed
from fairdp_lab.studies.protocol import (
    COLUMNS,
    EPSILONS,
    N_SEEDS,
    PLAIN,
    QUICK_SETTINGS,
    Findings,
    Run,
    Runs,
    Setting,
    Variant,
    accounted,
    control,
    plain,
    summary,
    table,
    tables_of,
    tidy,
    train,
)
from fairdp_lab.sweeps.fits import GAPS, Population, Row, load

Changes = tuple[tuple[str, object], ...]

MEMBERS = (1, 2, 5, 10, 20)
SCHEDULES: Mapping[str, Changes] = {
    "Adam, .007 then .005 (the paper)": (),
    "SGD, constant .5": (("optimizer", "sgd"), ("learning_rate", 0.5)),
    "SGD, Theorem 4 by Shamir and Zhang": (("schedule", "shamir_zhang"),),
    "SGD, Theorem 4 as printed": (("schedule", "theorem_4_printed"),),
}
# At ε = 1. In the paper's row only the step that makes the ensemble is SGD's, at .005; a single head needs none.
HAND_OVERS: Mapping[str, Changes] = {
    "Adam, from .5 on SGD at .5": (("optimizer", "adam_then_sgd"), ("adam_share", 0.5), ("sgd_learning_rate", 0.5)),
    "Adam, from .9 on SGD at .5": (("optimizer", "adam_then_sgd"), ("adam_share", 0.9), ("sgd_learning_rate", 0.5)),
    "Adam, from .9 on SGD at .005": (("optimizer", "adam_then_sgd"), ("adam_share", 0.9)),
    "Adam to the end, one head": (("n_members", 1),),
}
# Deviations of the noise on the parameters, around the default.
DEVIATIONS = (0.02, 0.05, 0.1, 0.2, 0.5)
SMOOTHED = ("fairsmooth", "dpsgd_smooth")
GROUPINGS = ("attribute", "attribute_and_label")
# Bounds of the study on groups of two attributes.
CROSSED_BOUNDS = (0.75, 1.0)
TARGETS, N_LOOKS, METRIC = (0.02, 0.03, 0.05), 4, "demographic_parity"
RULES = {"certified": "certificate", "tau_emp": "τ_emp"}
# A bound that no look meets: each then shows the one that it is judged by.
_UNMET = 1e-6
_Task = tuple[str, int, Mapping[str, Any]]
# A setting with what the table says of it beside its figures.
Entry = tuple[Setting, Mapping[str, str]]


def member_study(run: Run) -> Findings:
    """The number of heads N of the ensemble, at ε = 1."""
    numbers = MEMBERS[::3] if run.quick else MEMBERS
    return _ablation(
        [
            (_fairdp(dataset, 1.0, (("n_members", number),)), {"heads": str(number)})
            for dataset, number in product(tables_of(run), numbers)
        ],
        run,
    )


def allocation_study(run: Run) -> Findings:
    """Noise for every group, as in the paper, or once on their average."""
    budgets = EPSILONS[1:2] if run.quick else EPSILONS
    return _ablation(
        [
            (_fairdp(dataset, epsilon, (("noise_allocation", noise),)), {"noise": noise})
            for dataset, epsilon, noise in product(tables_of(run), budgets, ("per_group", "average"))
        ],
        run,
    )


def schedule_study(run: Run) -> Findings:
    """The step sizes of Theorem 4, beside a constant step, and Adam that hands over to SGD."""
    budgets = EPSILONS[1:2] if run.quick else (0.5, 1.0, 2.0)
    return _ablation(
        [
            (_fairdp(dataset, epsilon, changes), {"steps": name})
            for dataset, epsilon in product(tables_of(run), budgets)
            for name, changes in {**SCHEDULES, **(HAND_OVERS if epsilon == 1.0 else {})}.items()
        ],
        run,
    )


def _fairdp(dataset: str, epsilon: float, changes: Changes, variant: Variant = PLAIN) -> Setting:
    return Setting(dataset=dataset, method="fairdp", epsilon=epsilon, changes=(*variant.changes, *changes))


def _ablation(entries: Sequence[Entry], run: Run) -> Findings:
    """A row for each setting of FairDP."""
    runs, rows, lines, said = _summed_up(entries, run)
    text = f"FairDP, {PLAIN.words}; mean ± standard error over seeds. {accounted(rows)}\n\n{table(lines)}"
    return Findings({"rows": said}, text, runs=tidy(runs, run))


def _summed_up(
    entries: Sequence[Entry], run: Run
) -> tuple[Runs, list[Row], list[dict[str, object]], list[dict[str, object]]]:
    """Trainings of all entries, a row of figures for each, its line in the table, and its row in the JSON file."""
    runs = train([setting for setting, _ in entries], run)
    rows = summary(runs)
    lines: list[dict[str, object]] = [
        {
            "data": setting.dataset,
            **words,
            "ε": "∞" if setting.epsilon is None else f"{setting.epsilon:g}",
            **row.texts(COLUMNS),
        }
        for (setting, words), row in zip(entries, rows, strict=True)
    ]
    return runs, rows, lines, [{**row.to_json(), **words} for (_, words), row in zip(entries, rows, strict=True)]


def component_study(run: Run) -> Findings:
    """From DP-SGD to FairDP, part by part, at ε = 1, with one Adam and with one for every group."""
    steps = {"balanced groups": (inf, 1), "+ M": (1.0, 1), "+ DP-MC": (1.0, 10), "balanced groups + DP-MC": (inf, 10)}
    entries = []
    for dataset in tables_of(run):
        entries.append((_plain(dataset, 1.0), {"Adam": "one", "parts": "DP-SGD", "M": "∞", "N": "1"}))
        for per_group, (name, (bound, heads)) in product((False, True), steps.items()):
            variant = Variant(bound=bound, per_group=per_group)
            words = {"Adam": "per group" if per_group else "one", "parts": name}
            words |= {"M": "∞" if bound == inf else f"{bound:g}", "N": str(heads)}
            entries.append((_fairdp(dataset, 1.0, (("n_members", heads),), variant), words))
    runs, rows, lines, said = _summed_up(entries, run)
    lines = [
        line | _control_cell(setting, runs) | _errors(setting, row)
        for line, (setting, _), row in zip(lines, entries, rows, strict=True)
    ]
    text = (
        f"ε = 1; mean ± standard error over seeds. {accounted(rows)}Balanced groups: equal weights and noise for every "
        "group; M bounds the head; DP-MC makes N heads in the last step. Its error for demographic parity is measured "
        "(the standard error of each group's positive rate over the heads, added up over the groups, mean over seeds), "
        f"beside what the paper prints and what it can be at worst.\n\n{table(lines)}"
    )
    return Findings({"rows": _finite(said)}, text, runs=_finite(tidy(runs, run)))


def _plain(dataset: str, epsilon: float) -> Setting:
    return Setting(dataset=dataset, method="dpsgd", epsilon=epsilon)


def _control_cell(setting: Setting, runs: Runs) -> dict[str, str]:
    beside = control(setting, runs)
    return {"DP-SGD at this rate: gap (accuracy)": f"{beside.mean[GAPS[0]]:.3f} ({beside.mean['accuracy']:.3f})"}


def _errors(setting: Setting, row: Row) -> dict[str, str]:
    """The error of DP-MC three times; a single head has none."""
    found = row.mean.get("heads_error_demographic_parity")
    worst = 2 * monte_carlo_error(n_members=10)
    digits = printed.ERRORS.get(setting.dataset, ("–",))[0]
    told = "–" if found is None else f"{found:.1g} / {digits} / {worst:.2g}"
    return {"error of DP-MC: measured / printed / at worst": told}


def _finite(rows: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
    """Rows whose bounds are words where there is none."""
    return [{name: "inf" if value == inf else value for name, value in row.items()} for row in rows]


def baseline_study(run: Run) -> Findings:
    """Rivals in other readings: the authors' grouping of DP-IS-SGD, and the deviation of smoothing."""
    budgets, deviations = (EPSILONS[1:2], DEVIATIONS[::2]) if run.quick else (EPSILONS, DEVIATIONS)
    entries = [
        _rival(dataset, "dp_is_sgd", epsilon, grouping.replace("_", " "), _unless("grouping", grouping))
        for dataset, epsilon, grouping in product(tables_of(run), budgets, GROUPINGS)
    ]
    entries += [
        _rival(dataset, method, 1.0, f"deviation {deviation:g}", _unless("parameter_noise", deviation))
        for dataset, method, deviation in product(tables_of(run), SMOOTHED, deviations)
    ]
    runs, rows, lines, said = _summed_up(entries, run)
    text = (
        f"Mean ± standard error over seeds. {accounted(rows)}DP-IS-SGD samples groups equally often (attribute, as in "
        "the trade-offs) or groups and labels, as its authors' code does. Smoothing averages the decisions over noise "
        f"on the parameters; the trade-offs have a deviation of 0.1. `fairsmooth` is not private.\n\n{table(lines)}"
    )
    return Findings({"rows": said}, text, runs=tidy(runs, run))


def _rival(dataset: str, method: str, epsilon: float, reading: str, changes: Changes) -> Entry:
    budget = epsilon if METHODS[method].private else None
    setting = Setting(dataset=dataset, method=method, epsilon=budget, changes=changes)
    return (setting, {"method": f"`{method}`", "reading": reading})


def _unless(name: str, value: object) -> Changes:
    """A change, unless it is what the trade-offs have, so that their trainings are used."""
    return () if value in ("attribute", 0.1) else ((name, value),)


def intersection_study(run: Run) -> Findings:
    """FairDP on the groups of two attributes of Adult, beside DP-SGD."""
    crossed: tuple[str, ...] = () if run.quick else ("sex", "race")
    entries = []
    for dataset, epsilon in product([name for name in tables_of(run) if name in ("adult", "synthetic")], EPSILONS[::3]):
        plain_one = Setting(dataset=dataset, method="dpsgd", epsilon=epsilon, sensitive=crossed)
        entries.append((plain_one, {"method": "`dpsgd`", "M, Adam": "–"}))
        for per_group, bound in product((False, True), CROSSED_BOUNDS):
            variant = Variant(bound=bound, per_group=per_group)
            setting = replace(plain_one, method="fairdp", changes=variant.changes)
            entries.append((setting, {"method": "`fairdp`", "M, Adam": variant.words}))
    if not entries:
        return Findings({"rows": []}, "Only Adult has a second attribute here.\n")
    runs, rows, lines, _ = _summed_up(entries, run)
    lines = [line | _control_cell(setting, runs) for line, (setting, _) in zip(lines, entries, strict=True)]
    text = (
        f"Adult by sex and race, ten groups; neither is an input. Mean ± standard error over seeds. {accounted(rows)}"
        "Gaps are between the best and the worst of all groups on the test records, some of which are small: gaps of "
        f"that kind are large by chance alone.\n\n{table(lines)}"
    )
    return Findings({"rows": plain(rows)}, text, runs=tidy(runs, run))


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One look of a run that never halts: the bound that either rule judges it by, and the model on the test records.

    ``certified`` is compared with a target in a fixed order of looks, and no claim by itself. ``tau_emp`` is
    Proposition 3 on the very records that were trained on: a diagnostic, neither private nor a bound for the model.
    """

    dataset: str
    seed: int
    look: int
    certified: float
    tau_emp: float
    accuracy: float
    positive_rate: float
    test_gap: float


def halting_study(run: Run) -> Findings:
    """The look at which each rule halts on the same runs, and what the models that it keeps are worth."""
    settings = dict(QUICK_SETTINGS) if run.quick else {}
    asked: list[_Task] = [
        (dataset, seed, settings)
        for dataset in tables_of(run)
        for seed in range(run.seed, run.seed + (1 if run.quick else N_SEEDS[dataset]))
    ]
    found = run.done(_looks, asked, what="runs")
    datasets = {dataset: [looks for looks in found if looks[0].dataset == dataset] for dataset in tables_of(run)}
    lines = [line for runs in datasets.values() for target in TARGETS for line in _lines(runs, target)]
    text = (
        f"FairDP at ε = 1, a fifth of the records held out, {N_LOOKS} looks at demographic parity; mean over seeds of "
        "the models that a rule keeps. It halts at the first look whose bound is above the target and keeps the one "
        "before, or the first if that is above. The certificate's claim, at most the target, holds for the kept model "
        "with confidence .95, and is paid for. τ_emp is computed without noise from the records that were trained on: "
        f"a diagnostic for experiments, neither private nor a guarantee.\n\n{table(lines)}"
    )
    rows = [asdict(seen) for looks in found for seen in looks]
    return Findings({"targets": TARGETS, "n_looks": N_LOOKS, "rows": rows}, text, runs=rows)


def kept_by(rule: str, looks: Sequence[Seen], target: float) -> Seen:
    """The model that a rule keeps: the last look before the first whose bound is above the target, or the first."""
    misses = [number for number, seen in enumerate(looks) if getattr(seen, rule) > target]
    return looks[max(0, min(misses, default=len(looks)) - 1)]


def _looks(task: _Task, rng: np.random.Generator) -> list[Seen]:
    """One run to its end, looked at by both rules; its randomness is that of the fit with the same seed."""
    dataset, seed, settings = task
    parts = load(Population(dataset=dataset))
    looks: dict[str, Any] = {"n_looks": N_LOOKS, "require_tau": _UNMET, "certify_metrics": (METRIC,)}
    chosen = FairDPClassifier(
        method="fairdp", random_state=seed, group_sizes=parts.group_sizes, **looks, **settings
    ).get_params(deep=False)
    run = begin(checked(**chosen), parts.train, Spending(None, command="study"), Progress())
    interim, found, test = InterimResults(), list[Seen](), parts.test

    def note() -> None:
        decisions = run.predictor.decisions(run.model, test.inputs)
        measured = metrics_of_counts(decision_counts(test.y, decisions, test.groups, test.n_groups), test.group_names)
        found.append(
            Seen(
                dataset=dataset,
                seed=seed,
                look=len(found) + 1,
                certified=look(run, interim, run.predictor).gaps[METRIC].tau,
                tau_emp=_tau_emp(run),
                accuracy=float(str(measured["accuracy"])),
                positive_rate=float(str(measured["positive_rate"])),
                test_gap=float(str(measured[f"{METRIC}_difference"])),
            )
        )

    def at_step(trainer: Trainer) -> bool:
        if is_due(run, trainer.state.step):
            with all_heads(trainer):
                note()
        return False

    given = (run.plan, run.config, run.generators, Progress(), None)
    train_model(run.model, run.parts.train, *given, interim=interim, look=at_step)
    note()
    return found


def _tau_emp(run: certifying.Run) -> float:
    """The paper's τ_emp of the heads that are looked at, with the noise of one of them, on their training records."""
    last = LastStep.planned(run.plan, run.config)
    assert last is not None
    return tau_emp(run.model, run.parts.train, deviation=last.deviations["one_head"])[METRIC]


def _lines(runs: Sequence[list[Seen]], target: float) -> list[dict[str, object]]:
    """A line of the table for each rule, and one for the last look."""
    kept = {title: [kept_by(rule, looks, target) for looks in runs] for rule, title in RULES.items()}
    missed = [sum(getattr(looks[0], rule) > target for looks in runs) for rule in RULES]
    kept["nothing, the last look"] = [looks[-1] for looks in runs]
    return [
        {
            "data": models[0].dataset,
            "target": f"{target:g}",
            "halts by": title,
            "looks kept": ", ".join(str(seen.look) for seen in models),
            "missed at once": f"{n_missed} of {len(runs)}",
            "accuracy": float(np.mean([seen.accuracy for seen in models])),
            "positive rate": float(np.mean([seen.positive_rate for seen in models])),
            "test gap": float(np.mean([seen.test_gap for seen in models])),
            "bound of the look": float(np.mean([seen.certified for seen in models])),
            "τ_emp": float(np.mean([seen.tau_emp for seen in models])),
        }
        for (title, models), n_missed in zip(kept.items(), [*missed, 0], strict=True)
    ]
