"""What single parts of FairDP and of its rivals do, beyond the paper's own ablations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf

from fairdp.certify.paper import monte_carlo_error
from fairdp.experiments.studies import printed
from fairdp.experiments.studies.protocol import (
    COLUMNS,
    EPSILONS,
    PLAIN,
    Runs,
    Setting,
    Variant,
    accounted,
    control,
    summary,
    tables_of,
    tidy,
    train,
)
from fairdp.experiments.studies.results import Findings, Run, plain, table
from fairdp.experiments.sweeps.fits import GAPS, Row
from fairdp.methods import METHODS

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


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A setting with what the table says of it beside its figures."""

    setting: Setting
    words: Mapping[str, str]

    def line(self, row: Row, columns: Mapping[str, str] = COLUMNS) -> dict[str, object]:
        """A line of the table."""
        epsilon = self.setting.epsilon
        budget = "∞" if epsilon is None else f"{epsilon:g}"
        return {"data": self.setting.dataset, **self.words, "ε": budget, **row.texts(columns)}


def member_study(run: Run) -> Findings:
    """The number of heads N of the ensemble, at ε = 1."""
    numbers = MEMBERS[::3] if run.quick else MEMBERS
    return _ablation(
        [
            Entry(setting=_fairdp(dataset, 1.0, (("n_members", number),)), words={"heads": str(number)})
            for dataset, number in product(tables_of(run), numbers)
        ],
        run,
    )


def allocation_study(run: Run) -> Findings:
    """Noise for every group, as in the paper, or once on their average."""
    budgets = EPSILONS[1:2] if run.quick else EPSILONS
    return _ablation(
        [
            Entry(setting=_fairdp(dataset, epsilon, (("noise_allocation", noise),)), words={"noise": noise})
            for dataset, epsilon, noise in product(tables_of(run), budgets, ("per_group", "average"))
        ],
        run,
    )


def schedule_study(run: Run) -> Findings:
    """The step sizes of Theorem 4, beside a constant step, and Adam that hands over to SGD."""
    budgets = EPSILONS[1:2] if run.quick else (0.5, 1.0, 2.0)
    return _ablation(
        [
            Entry(setting=_fairdp(dataset, epsilon, changes), words={"steps": name})
            for dataset, epsilon in product(tables_of(run), budgets)
            for name, changes in {**SCHEDULES, **(HAND_OVERS if epsilon == 1.0 else {})}.items()
        ],
        run,
    )


def _fairdp(dataset: str, epsilon: float, changes: Changes, variant: Variant = PLAIN) -> Setting:
    return Setting(dataset=dataset, method="fairdp", epsilon=epsilon, changes=(*variant.changes, *changes))


def _ablation(entries: Sequence[Entry], run: Run) -> Findings:
    """A row for each setting of FairDP."""
    runs = train([entry.setting for entry in entries], run)
    rows = summary(runs)
    lines = [entry.line(row) for entry, row in zip(entries, rows, strict=True)]
    text = f"FairDP, {PLAIN.words}; mean ± standard error over seeds. {accounted(rows)}\n\n{table(lines)}"
    said = [{**row.to_json(), **entry.words} for entry, row in zip(entries, rows, strict=True)]
    return Findings({"rows": said}, text, runs=tidy(runs, run))


def component_study(run: Run) -> Findings:
    """From DP-SGD to FairDP, part by part, at ε = 1, with one Adam and with one for every group."""
    steps = {"balanced groups": (inf, 1), "+ M": (1.0, 1), "+ DP-MC": (1.0, 10), "balanced groups + DP-MC": (inf, 10)}
    entries = []
    for dataset in tables_of(run):
        entries.append(
            Entry(setting=_plain(dataset, 1.0), words={"Adam": "one", "parts": "DP-SGD", "M": "∞", "N": "1"})
        )
        for per_group, (name, (bound, heads)) in product((False, True), steps.items()):
            variant = Variant(bound=bound, per_group=per_group)
            words = {"Adam": "per group" if per_group else "one", "parts": name}
            words |= {"M": "∞" if bound == inf else f"{bound:g}", "N": str(heads)}
            entries.append(Entry(setting=_fairdp(dataset, 1.0, (("n_members", heads),), variant), words=words))
    runs = train([entry.setting for entry in entries], run)
    rows = summary(runs)
    lines = [
        entry.line(row) | _control_cell(entry.setting, runs) | _errors(entry.setting, row)
        for entry, row in zip(entries, rows, strict=True)
    ]
    text = (
        f"ε = 1; mean ± standard error over seeds. {accounted(rows)}Balanced groups: equal weights and noise for every "
        "group; M bounds the head; DP-MC makes N heads in the last step. Its error for demographic parity is measured "
        "(the standard error of each group's positive rate over the heads, added up over the groups, mean over seeds), "
        f"beside what the paper prints and what it can be at worst.\n\n{table(lines)}"
    )
    said = [{**row.to_json(), **entry.words} for entry, row in zip(entries, rows, strict=True)]
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
    runs = train([entry.setting for entry in entries], run)
    rows = summary(runs)
    lines = [entry.line(row) for entry, row in zip(entries, rows, strict=True)]
    text = (
        f"Mean ± standard error over seeds. {accounted(rows)}DP-IS-SGD samples groups equally often (attribute, as in "
        "the trade-offs) or groups and labels, as its authors' code does. Smoothing averages the decisions over noise "
        f"on the parameters; the trade-offs have a deviation of 0.1. `fairsmooth` is not private.\n\n{table(lines)}"
    )
    said = [{**row.to_json(), **entry.words} for entry, row in zip(entries, rows, strict=True)]
    return Findings({"rows": said}, text, runs=tidy(runs, run))


def _rival(dataset: str, method: str, epsilon: float, reading: str, changes: Changes) -> Entry:
    budget = epsilon if METHODS[method].private else None
    setting = Setting(dataset=dataset, method=method, epsilon=budget, changes=changes)
    return Entry(setting=setting, words={"method": f"`{method}`", "reading": reading})


def _unless(name: str, value: object) -> Changes:
    """A change, unless it is what the trade-offs have, so that their trainings are used."""
    return () if value in ("attribute", 0.1) else ((name, value),)


def intersection_study(run: Run) -> Findings:
    """FairDP on the groups of two attributes of Adult, beside DP-SGD."""
    crossed: tuple[str, ...] = () if run.quick else ("sex", "race")
    entries = []
    for dataset, epsilon in product([name for name in tables_of(run) if name in ("adult", "synthetic")], EPSILONS[::3]):
        plain_one = Setting(dataset=dataset, method="dpsgd", epsilon=epsilon, sensitive=crossed)
        entries.append(Entry(setting=plain_one, words={"method": "`dpsgd`", "M, Adam": "–"}))
        for per_group, bound in product((False, True), CROSSED_BOUNDS):
            variant = Variant(bound=bound, per_group=per_group)
            setting = replace(plain_one, method="fairdp", changes=variant.changes)
            entries.append(Entry(setting=setting, words={"method": "`fairdp`", "M, Adam": variant.words}))
    if not entries:
        return Findings({"rows": []}, "Only Adult has a second attribute here.\n")
    runs = train([entry.setting for entry in entries], run)
    rows = summary(runs)
    lines = [entry.line(row) | _control_cell(entry.setting, runs) for entry, row in zip(entries, rows, strict=True)]
    text = (
        f"Adult by sex and race, ten groups; neither is an input. Mean ± standard error over seeds. {accounted(rows)}"
        "Gaps are between the best and the worst of all groups on the test records, some of which are small: gaps of "
        f"that kind are large by chance alone.\n\n{table(lines)}"
    )
    return Findings({"rows": plain(rows)}, text, runs=tidy(runs, run))
