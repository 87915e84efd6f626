"""The paper's certificate beside ours: how tight, under which shifts, and the error of its ensemble."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from fairdp._format import with_error
from fairdp.certify.paper import monte_carlo_error, monte_carlo_error_printed
from fairdp.data.grouped import GroupedData
from fairdp.experiments.studies import printed
from fairdp.experiments.studies.paper_tables import beside_printed
from fairdp.experiments.studies.paper_tradeoffs import reading, shown_settings
from fairdp.experiments.studies.protocol import (
    PLAIN,
    SHIFTS,
    Runs,
    Setting,
    budgets_of,
    datasets_of,
    settings_of,
    tidy,
    train,
)
from fairdp.experiments.studies.results import Findings, Run, table
from fairdp.experiments.sweeps.fits import METRICS, Row
from fairdp.experiments.sweeps.populations import Population, load

HELD_OUT = 0.2
N_MEMBERS = 10


def tightness_study(run: Run) -> Findings:
    """Observed gaps with and without a shift, the paper's τ_emp and our certified τ, over budgets."""
    from fairdp.experiments.drawing import shift_figure

    runs = train([*settings_of(run, ("clean", "dp_is_sgd", "fairdp")), *certified_settings(run)], run)
    shown = [*shown_settings(runs, run)]
    rows = [Tightness.of(setting, metric, runs) for setting in shown for metric in METRICS]
    drawn = [
        asdict(Tightness.of(setting, metric, runs))
        for setting in runs
        for metric in METRICS
        if (setting.method, setting.changes) == ("fairdp", PLAIN.changes)
    ]
    text = (
        f"FairDP on all training records, in the reading that fits the paper and at {PLAIN.words}; mean ± standard "
        "error over seeds. γ: the largest gap when so much mass moves from one cell of group and label, which must "
        "have it, to another (not the worst shift of that size, which may use several cells); for equal opportunity "
        "and equalized odds nothing moves. Reversed: the shift of An et al. (2022), whom the paper cites, by their "
        "public code: the tie between group and label is loosened, then reversed, while groups and labels stay as "
        "frequent as they were. The paper's τ_emp speaks of an average over the noise of the last step and "
        "of the training records. The certified τ (confidence .95) is of other models, trained at M = 1 with one Adam "
        "and a fifth of the records held out; it speaks of each of these and of its population. Last columns: runs "
        "whose gap on the test records, which has an error of its own, is above the bound at γ = 0.\n\n"
        + table([row.line() for row in rows])
    )
    figures = {"rows": [asdict(row) for row in rows], "shifts": SHIFTS}
    return Findings(figures, text, runs=tidy(runs, run), drawings={"": shift_figure(drawn, words=PLAIN.words)})


def certified_settings(run: Run) -> list[Setting]:
    """FairDP with records held out for our certificate."""
    changes = (*PLAIN.changes, ("certify_fraction", HELD_OUT))
    return [
        Setting(dataset=dataset, method="fairdp", epsilon=epsilon, changes=changes)
        for dataset in datasets_of(run)
        for epsilon in budgets_of(run, "fairdp")
    ]


Pair = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Tightness:
    """A gap that was observed, by the size of a shift, and what is claimed of it, each with its standard error."""

    dataset: str
    metric: str
    epsilon: float | None
    variant: str
    n_runs: int
    clean: Pair
    observed: Mapping[str, Pair]
    reversal: Mapping[str, Pair]
    paper_tau: Pair
    certified_tau: Pair
    certified_tau_shifted: Mapping[str, Pair]
    paper_tau_too_small: int
    certified_tau_too_small: int

    @classmethod
    def of(cls, setting: Setting, metric: str, runs: Runs) -> "Tightness":
        """What the runs of a setting show of one metric, with those of clean training and with records held out."""
        gap, moves = f"{metric}_difference", metric == "demographic_parity"
        found, others = runs[setting], runs[setting.beside("clean")]
        held_out = runs[replace(setting, changes=(*PLAIN.changes, ("certify_fraction", HELD_OUT)))]
        row, beside, ours = (Row.of({}, [fitted.numbers for fitted in its]) for its in (found, others, held_out))
        return cls(
            dataset=setting.dataset,
            metric=metric,
            epsilon=setting.epsilon,
            variant=reading(setting),
            n_runs=len(found),
            clean=beside.pair(gap),
            # What is conditioned on the label does not change with the shares of labels.
            observed={f"{s:g}": row.pair(f"gap_at_shift_{s:g}") for s in SHIFTS} if moves else {"0": row.pair(gap)},
            reversal={f"{s:g}": row.pair(f"gap_at_reversal_{s:g}") for s in SHIFTS[1:] if moves},
            paper_tau=row.pair(f"paper_{metric}"),
            certified_tau=ours.pair(f"certified_{metric}"),
            certified_tau_shifted={f"{s:g}": ours.pair(f"certified_at_shift_{s:g}") for s in SHIFTS[1:] if moves},
            paper_tau_too_small=sum(fitted[f"paper_{metric}"] < fitted[gap] for fitted in found),
            certified_tau_too_small=sum(fitted[f"certified_{metric}"] < fitted[gap] for fitted in held_out),
        )

    def line(self) -> dict[str, object]:
        """What the table says of it."""
        shown = {f"test gap, γ = {s:g}": self.observed.get(f"{s:g}", self.observed["0"]) for s in SHIFTS}
        shown |= {f"reversed, γ = {s:g}": self.reversal.get(f"{s:g}", self.observed["0"]) for s in SHIFTS[1:]}
        shown |= {"paper's τ_emp": self.paper_tau, "certified τ (M = 1)": self.certified_tau, "clean": self.clean}
        return {
            "data": self.dataset,
            "M, Adam": self.variant,
            "metric": self.metric.replace("_", " "),
            "ε": f"{self.epsilon:g}",
            **{title: with_error(*pair) for title, pair in shown.items()},
            "τ_emp below the gap": f"{self.paper_tau_too_small} of {self.n_runs}",
            "certified τ below the gap": f"{self.certified_tau_too_small} of {self.n_runs}",
        }


def mc_error_study(run: Run) -> Findings:
    """The paper's table of Monte Carlo errors, from the sizes of the test cells, beside how much ten heads differ."""
    settings = {
        name: Setting(dataset=name, method="fairdp", epsilon=1.0, changes=PLAIN.changes) for name in datasets_of(run)
    }
    runs, rows, lines = train(settings.values(), run), [], []
    for dataset in datasets_of(run):
        errors, digits = printed_errors(load(Population(dataset=dataset)).test), printed.ERRORS.get(dataset)
        measured = {name: [found[f"heads_error_{name}"] for found in runs[settings[dataset]]] for name in METRICS}
        rows.append({"dataset": dataset, "errors": [*errors.values()], "printed": digits, "measured": measured})
        shown = {name: f"{error:.3e}" for name, error in errors.items()}
        between = {f"measured, {name.replace('_', ' ')}": _range(found) for name, found in measured.items()}
        lines.append({"data": dataset, **beside_printed(shown, digits), **between})
    text = (
        f"N = {N_MEMBERS} heads, the cells of the test records, errors summed over the cells of a metric; in brackets "
        "the paper's digits, which are cut off, not rounded, in some places. All people share the same heads, so "
        "averaging over people does not make the error smaller: that of one rate can be up to "
        f"{monte_carlo_error(n_members=N_MEMBERS):.3f}. Measured: the standard error of each rate over the heads of a "
        f"training of fairdp (ε = 1, {PLAIN.words}), summed in the same way, over seeds. It is small because the heads "
        "hardly differ, not because many people are averaged.\n\n" + table(lines)
    )
    return Findings({"n_members": N_MEMBERS, "rows": rows}, text)


def printed_errors(test: GroupedData) -> dict[str, float]:
    """The error of every metric by the paper's formula."""
    return {name: monte_carlo_error_printed(counts, n_members=N_MEMBERS) for name, counts in _cells(test).items()}


def _range(errors: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{end:.1e}" if end else "0" for end in (min(errors), max(errors))) if errors else {}
    return " to ".join(ends) or "–"


def _cells(test: GroupedData) -> dict[str, list[int]]:
    """Sizes of the cells that each metric is made of."""
    negative, positive = np.bincount(2 * test.groups + test.y, minlength=2 * test.n_groups).reshape(-1, 2).T.tolist()
    return {
        "demographic parity": test.group_sizes.tolist(),
        "equal opportunity": positive,
        "equalized odds": [*positive, *negative],
    }
