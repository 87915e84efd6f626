"""The paper's trade-off figures, gains and tests, all from the same trainings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from fairdp.experiments.studies import printed
from fairdp.experiments.studies.differences import relative_reduction, t_test
from fairdp.experiments.studies.protocol import (
    COLUMNS,
    EPSILONS,
    OURS,
    PLAIN,
    UTILITIES,
    Runs,
    Setting,
    Variant,
    accounted,
    control,
    datasets_of,
    matched,
    settings_of,
    summary,
    tidy,
    train,
    variants_of,
)
from fairdp.experiments.studies.results import Findings, Run, plain, table
from fairdp.experiments.sweeps.fits import GAPS, Row, Trained
from fairdp.methods import METHODS

Numbers = Sequence[Trained] | Sequence[Mapping[str, float]]

OTHERS = {"dp_is_sgd": "DP-IS-SGD", "clean": "clean training"}
MATCHED = {"dpsgd": "DP-SGD at FairDP's positive rate", "dp_is_sgd": "DP-IS-SGD at FairDP's positive rate"}
TESTED = tuple(name for name in COLUMNS if name != "auc")
FITTED, UNFITTED = "M fitted", "M = 1"


def fitted_variant(dataset: str, runs: Runs, run: Run) -> Variant:
    """The reading of FairDP that is closest to the numbers that the paper's text has of a data set.

    These are parity gaps at two budgets, or a gain over DP-IS-SGD averaged over the gaps; without any, the plain one.
    """

    def distance(variant: Variant) -> float:
        at = [Setting(dataset=dataset, method="fairdp", epsilon=e, changes=variant.changes) for e in EPSILONS]
        gaps = printed.GAPS_IN_TEXT.get(dataset, {})
        found = [abs(mean_of(runs[it], GAPS[0]) - gaps[it.epsilon]) for it in at if it.epsilon in gaps]
        if dataset in printed.GAINS_IN_TEXT:
            gain = Gain.of(at[0], runs[at[0]], runs[at[0].beside("dp_is_sgd")])
            found.append(abs(gain.mean_gain - printed.GAINS_IN_TEXT[dataset]))
        return sum(found)

    return min(variants_of(run, dataset), key=distance)


def mean_of(found: Numbers, name: str) -> float:
    """Mean of a number over runs."""
    return float(np.mean([it[name] for it in found]))


def shown_settings(runs: Runs, run: Run) -> dict[Setting, str]:
    """FairDP as figures and tables show it: at M = 1 with one Adam, and in the reading that fits the paper."""
    return {
        setting: words
        for dataset in datasets_of(run)
        for words, variant in ((UNFITTED, PLAIN), (FITTED, fitted_variant(dataset, runs, run)))
        for setting in runs
        if (setting.dataset, setting.method, setting.changes) == (dataset, "fairdp", variant.changes)
    }


def titles_of(runs: Runs, run: Run) -> dict[str, str]:
    """Which reading fits each data set, for figures."""
    return {dataset: f"M fitted: {fitted_variant(dataset, runs, run).words}" for dataset in datasets_of(run)}


def tradeoff_study(run: Run) -> Findings:
    """Utility against the three gaps, for every method and budget, with the control at the same positive rate."""
    from fairdp.experiments.drawing import tradeoff_figure

    runs = train(settings_of(run), run)
    shown = shown_settings(runs, run)
    rows = dict(zip(runs, summary(runs), strict=True))
    drawn = [{**row.to_json(), "variant": shown.get(it)} for it, row in rows.items() if it in _visible(runs, shown)]
    beside = {setting: control(setting, runs) for setting in shown}
    hollow = [{**row.to_json(), "variant": FITTED} for it, row in beside.items() if shown[it] == FITTED]
    lines = [_line(it, row) for it, row in rows.items() if it in _visible(runs, shown)]
    lines += [_line(it, row) for it, row in beside.items()]
    text = (
        f"{accounted(rows.values())}All training records, the defaults of each method; mean ± standard error over "
        "seeds. FairDP at M = 1 with one Adam, and in the reading that is closest to the paper's numbers; all others "
        "are below. `dpsgd` at `fairdp`: the same DP-SGD models with the threshold moved to FairDP's positive rate, "
        f"seed by seed.\n\n{table(lines)}\n**FairDP by M and by optimiser**: parity gap (positive rate).\n\n"
        + table(_by_variant(runs, run))
    )
    titles = titles_of(runs, run)
    drawings = {
        f"-{utility}": tradeoff_figure(drawn, utility=utility, controls=hollow, titles=titles) for utility in UTILITIES
    }
    controls = [control(it, runs) for it in runs if it.method in ("fairdp", OURS)]
    figures = {"fitted": titles, "rows": plain(rows.values()), "controls": plain(controls)}
    return Findings(figures, text, runs=tidy(runs, run), drawings=drawings)


def _visible(runs: Runs, shown: Mapping[Setting, str]) -> set[Setting]:
    return {setting for setting in runs if setting.method != "fairdp" or setting in shown}


def _line(setting: Setting, row: Row) -> dict[str, object]:
    method = str(row.named["method"])
    at = f" at `{row.named['at']}`" if "at" in row.named else ""
    named = {"data": setting.dataset, "method": f"`{method}`{at}{'' if METHODS[method].private else ' (not private)'}"}
    return {**named, "M, Adam": reading(setting), "ε": _budget(setting.epsilon), **row.texts(COLUMNS)}


def reading(setting: Setting) -> str:
    """M and optimiser of FairDP, as tables name them; of other methods a dash."""
    if setting.method != "fairdp":
        return "–"
    changes = dict(setting.changes)
    return Variant(bound=float(str(changes["weight_bound"])), per_group=bool(changes["group_optimizers"])).words


def _by_variant(runs: Runs, run: Run) -> list[dict[str, str]]:
    lines = []
    for dataset in datasets_of(run):
        for variant in variants_of(run, dataset):
            its = [it for it in runs if (it.dataset, it.method, it.changes) == (dataset, "fairdp", variant.changes)]
            cells = {
                f"ε = {it.epsilon:g}": f"{mean_of(runs[it], GAPS[0]):.3f} ({mean_of(runs[it], 'positive_rate'):.3f})"
                for it in its
            }
            lines.append({"data": dataset, "M, Adam": variant.words, **cells})
    return lines


def _tested(difference: float, p_value: float) -> str:
    """A dash where a run has no such number, as the ratio of rates that are zero."""
    return "–" if math.isnan(difference) else f"{difference:+.3f} (p = {p_value:.2g})"


def _budget(epsilon: object) -> str:
    return "∞" if epsilon is None else f"{epsilon:g}"


@dataclass(frozen=True, kw_only=True)
class Gain:
    """How much smaller gaps and utilities are than another method's, with standard errors, at a setting of ours."""

    dataset: str
    epsilon: float | None
    variant: str
    n_runs: int
    positive_rates: tuple[float, float]
    gains: Mapping[str, tuple[float, float]]
    drops: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, setting: Setting, ours: Numbers, others: Numbers, *, paired: bool = False) -> "Gain":
        """Compare runs of two methods."""
        less = {
            name: relative_reduction([r[name] for r in ours], [r[name] for r in others], paired=paired)
            for name in (*GAPS, *UTILITIES)
        }
        return cls(
            dataset=setting.dataset,
            epsilon=setting.epsilon,
            variant=reading(setting),
            n_runs=len(ours),
            positive_rates=(mean_of(ours, "positive_rate"), mean_of(others, "positive_rate")),
            gains={name: less[name] for name in GAPS},
            drops={name: less[name] for name in UTILITIES},
        )

    @property
    def mean_gain(self) -> float:
        """Over the three gaps."""
        return float(np.mean([mean for mean, _ in self.gains.values()]))

    @property
    def mean_drop(self) -> float:
        """Over both utilities."""
        return float(np.mean([mean for mean, _ in self.drops.values()]))

    def line(self) -> dict[str, str]:
        """What a table says of it."""
        less = {**self.gains, **self.drops}
        rates = " / ".join(f"{rate:.3f}" for rate in self.positive_rates)
        titles = {f"less {COLUMNS[name]}, %": pair for name, pair in less.items()}
        named = {"data": self.dataset, "M, Adam": self.variant, "ε": _budget(self.epsilon), "positive rates": rates}
        return named | {title: f"{100 * mean:.1f} ± {100 * error:.1f}" for title, (mean, error) in titles.items()}


def gains_over(runs: Runs, *, method: str, at_same_rate: bool = False) -> dict[Setting, Gain]:
    """FairDP's gains over another method, as it is or moved to FairDP's positive rate run by run."""
    return {
        setting: Gain.of(setting, runs[setting], matched(setting, runs, method=method), paired=True)
        if at_same_rate
        else Gain.of(setting, runs[setting], runs[setting.beside(method)])
        for setting in runs
        if setting.method == "fairdp"
    }


def gain_study(run: Run) -> Findings:
    """How much smaller FairDP's gaps are than those of another method, and what utility that costs, in relation."""
    from fairdp.experiments.drawing import gain_figure

    runs = train(settings_of(run, ("clean", "dpsgd", "dp_is_sgd", "fairdp")), run)
    shown, titles = shown_settings(runs, run), titles_of(runs, run)
    gains = {(method, title): gains_over(runs, method=method) for method, title in OTHERS.items()}
    gains |= {
        (f"{method}_at_same_rate", title): gains_over(runs, method=method, at_same_rate=True)
        for method, title in MATCHED.items()
    }
    tables = "\n".join(
        f"**Against {title}**\n\n{table([gain.line() for setting, gain in found.items() if setting in shown])}"
        for (_, title), found in gains.items()
    )
    figures = {key: [asdict(gain) for gain in found.values()] for (key, _), found in gains.items()}
    drawings = {
        f"-{key.replace('_', '-')}": gain_figure(
            [asdict(gain) for setting, gain in found.items() if shown.get(setting) == FITTED],
            against=title,
            titles=titles,
        )
        for (key, title), found in gains.items()
        if key != "dp_is_sgd_at_same_rate"
    }
    note = (
        "Reduction of the gap and of the utility, in percent of the other method's: 1 − FairDP / other, of means over "
        "seeds, ± standard error over seeds (delta method), on one set of test records; FairDP at M = 1 with one Adam, "
        "and in the reading that is closest to the paper's numbers, which the figures show. Beyond the paper, the last "
        "tables compare with methods moved to FairDP's own positive rate, run by run; their errors are of pairs.\n\n"
    )
    return Findings({"fitted": titles, "gains": figures}, note + tables, drawings=drawings)


def t_test_study(run: Run) -> Findings:
    """Two-tailed t-tests between methods, over seeds."""
    runs = train(settings_of(run, ("clean", "dpsgd", "dpsgd_f", "dp_is_sgd", "fairdp")), run)
    shown = shown_settings(runs, run)
    asked = [("fairdp", "clean", False), ("fairdp", "dp_is_sgd", False), ("dpsgd_f", "clean", False)]
    rows, lines = [], []
    for method, other, moved in [*asked, ("fairdp", "dpsgd", True)]:
        for compared in [it for it in runs if it.method == method and (it in shown or method != "fairdp")]:
            beside: Numbers = matched(compared, runs, method=other) if moved else runs[compared.beside(other)]
            tests = {
                name: t_test([r[name] for r in runs[compared]], [r[name] for r in beside], paired=moved)
                for name in TESTED
            }
            against = f"{other} at its positive rate" if moved else other
            rows.append({**compared.named(), "against": against, **tests})
            lines.append(
                {"data": compared.dataset, "M, Adam": reading(compared), "ε": _budget(compared.epsilon)}
                | {"difference": f"`{method}` − {against}"}
                | {COLUMNS[name]: _tested(**test) for name, test in tests.items()}
            )
    note = (
        "Difference of means over seeds and p-value of a two-tailed t-test: Welch's, and for DP-SGD at FairDP's "
        f"positive rate, which goes run by run, the paired one. These are {len(TESTED) * len(rows)} tests: of as many "
        "without any difference one in twenty would show p < .05. All runs are measured on the same test records: what "
        "is tested is whether trainings differ, not whether the population's gaps do.\n\n"
    )
    return Findings({"tests": rows}, note + table(lines))
