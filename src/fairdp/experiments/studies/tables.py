"""What the default reaches on tables and images, without a target and with each kind, beside its rivals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from fairdp.experiments.studies.results import Findings, Run, plain, table
from fairdp.experiments.studies.rivals import (
    DEFAULT_RATE,
    DP_EBM,
    DP_EBM_TUNED,
    EPSILON,
    LEARNING_RATES,
    TITLES,
    best_rate,
    has_dp_ebm,
    reached,
)
from fairdp.experiments.studies.table_cases import ALL, CASES, FACES, NO_TARGET, OURS, PLAIN, QUICK, Case
from fairdp.experiments.sweeps.fits import Row

N_SEEDS, N_FACE_SEEDS, N_QUICK_SEEDS = 5, 3, 2
Numbers = Mapping[str, float]
_SHOWN = {
    "accuracy": "accuracy",
    "auc": "AUC",
    "gap": "test gap",
    "training_gap": "training gap",
    "demographic_parity_ratio": "ratio",
    "positive_rate": "positive rate",
    "certified_gap": "certified gap",
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The runs of one line of the table."""

    case: Case
    method: str
    records: str
    runs: Sequence[Numbers]

    @property
    def row(self) -> Row:
        """Means over the runs."""
        case = {"population": str(self.case.population), "target": self.case.words}
        return Row.of({**case, "method": self.method, "records": self.records, "n_runs": len(self.runs)}, self.runs)


def tables_study(run: Run) -> Findings:
    """Mean and standard error over seeds of ours and of its rivals, on the same test records."""
    from fairdp.experiments.drawing import target_figure

    cases = QUICK if run.quick else CASES
    found = [*_trained(cases, run), *_rivals(cases, run)]
    entries = [entry for case in cases for entry in found if entry.case == case]
    lacks = "" if has_dp_ebm() else "**DP-EBM is left out**: it is not installed (`pip install 'fairdp[studies]'`). "
    pairs = paired(entries)
    drawn = [entry.row for entry in entries if _is_drawn(entry, cases[0])]
    figures = {
        "epsilon": EPSILON,
        "without_dp_ebm": not has_dp_ebm(),
        "rows": plain(entry.row for entry in entries),
        "paired": plain(pairs),
    }
    data = str(cases[0].population)
    drawing = target_figure(plain(drawn), titles=TITLES, headline=f"Accuracy against the gap on {data}")
    return Findings(figures, lacks + _text(entries, pairs), drawings={"": drawing})


def _trained(cases: Sequence[Case], run: Run) -> list[Entry]:
    """Methods of the package."""
    asked = [(case, *entry, case.fits(*entry, _seeds(case, run))) for case in cases for entry in case.entries]
    found = iter(run.trained([fit for *_, fits in asked for fit in fits]))
    return [
        Entry(case=case, method=method, records=records, runs=[next(found).numbers for _ in fits])
        for case, method, records, fits in asked
    ]


def _seeds(case: Case, run: Run) -> range:
    n_seeds = N_QUICK_SEEDS if run.quick else N_FACE_SEEDS if case.population == FACES else N_SEEDS
    return range(run.seed, run.seed + n_seeds)


def _rivals(cases: Sequence[Case], run: Run) -> list[Entry]:
    """Models by others; of DP-EBM its default, and the learning rate that is best on the test records."""
    asked = [
        (case, name, case.rivals_named(name, _seeds(case, run)))
        for case in cases
        for name in case.rivals
        if name != DP_EBM or has_dp_ebm()
    ]
    tasks = [task for *_, its in asked for task in its]
    numbers = dict(zip(tasks, run.done(reached, tasks, what="rivals"), strict=True))
    entries = []
    for case, name, its in asked:
        rates = {rate: [numbers[task] for task in its if task.learning_rate == rate] for rate in LEARNING_RATES}
        entries.append(Entry(case=case, method=name, records=ALL, runs=rates[DEFAULT_RATE]))
        if name == DP_EBM:
            entries.append(Entry(case=case, method=DP_EBM_TUNED, records=ALL, runs=rates[best_rate(rates)]))
    return entries


def paired(entries: Sequence[Entry]) -> list[Row]:
    """Ours minus each private rival, seed by seed, where there is no target."""
    rows = []
    for entry in entries:
        if entry.case.target != NO_TARGET or entry.method not in (PLAIN, DP_EBM, DP_EBM_TUNED):
            continue
        ours = next(one for one in entries if (one.case, one.method, one.records) == (entry.case, OURS, ALL))
        differences = [
            {name: mine[name] - theirs[name] for name in ("accuracy", "auc")}
            for mine, theirs in zip(ours.runs, entry.runs, strict=True)
        ]
        rows.append(Row.of({"population": str(entry.case.population), "method": entry.method}, differences))
    return rows


def _is_drawn(entry: Entry, first: Case) -> bool:
    """Whether an entry is about the demographic parity gap of the first population, of all its records."""
    same = entry.case.population == first.population and entry.records == ALL
    return same and set(entry.case.target) == {"max_gap"}


def _text(entries: Sequence[Entry], pairs: Sequence[Row]) -> str:
    n_seeds = sorted({len(entry.runs) for entry in entries if entry.method == OURS}, reverse=True)
    intro = (
        f"ε = {EPSILON:g}, δ = 1e-5, the defaults of each method; mean ± standard error over "
        f"{' or, for faces, '.join(map(str, n_seeds))} seeds, a single number where there was one run. Records: all of "
        "the training records, or some of them held out for the certificate, as by default. Gaps are those of the "
        "target's notion, on the test records and on the training records; the certified gap is that of demographic "
        "parity, and one bound of several that hold together with confidence .95. `dp_postprocess` asks for the group "
        "when it decides, the others do not.\n\n"
        "Rivals: DP-EBM (interpret) gets whole columns, with their types and bounds declared; *tuned* is the best of "
        f"{len(LEARNING_RATES)} learning rates by its accuracy on the test records, which favours it and is paid for "
        "by no ε. **Not private**: boosting (scikit-learn's HistGradientBoosting), logistic regression, and "
        "fairlearn's ExponentiatedGradient over logistic regression, whose randomised decisions count as expected.\n\n"
    )
    parts = []
    for is_without, group in groupby(entries, key=lambda entry: entry.case.target == NO_TARGET):
        title = "Without a target" if is_without else "With a target"
        parts.append(f"## {title}\n\n{table([_line(entry) for entry in group])}")
    if pairs:
        parts.append(f"## Ours minus private rivals, seed by seed\n\n{table([_pair_line(row) for row in pairs])}")
    return intro + "\n".join(parts)


def _pair_line(row: Row) -> dict[str, object]:
    named = {"data": row.named["population"], "ours minus": name_of(str(row.named["method"]))}
    return {**named, **row.texts({"accuracy": "accuracy", "auc": "AUC"}, digits=4)}


def _line(entry: Entry) -> dict[str, object]:
    case = entry.case
    target = {} if case.target == NO_TARGET else {"target": case.words}
    named = {"data": str(case.population), **target, "method": name_of(entry.method), "records": entry.records}
    return {**named, **entry.row.texts(_SHOWN, digits=4)}


def name_of(method: str) -> str:
    """A method as a table names it."""
    return TITLES.get(method, f"`{method}`")
