"""The paper's trade-off figures, gains and tests, all from the same trainings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from scipy import stats

from fairdp.experiments.studies.protocol import (
    COLUMNS,
    UTILITIES,
    Setting,
    controls,
    matched,
    settings_of,
    summary,
    tidy,
    train,
)
from fairdp.experiments.studies.results import Findings, Run, plain, table
from fairdp.experiments.sweeps.fits import GAPS, Row, Trained
from fairdp.methods import METHODS

Numbers = Sequence[Trained] | Sequence[Mapping[str, float]]

OTHERS = {"dp_is_sgd": "DP-IS-SGD", "clean": "clean training"}
MATCHED = "dpsgd at its positive rate"
TESTED = tuple(name for name in COLUMNS if name != "auc")


def tradeoff_study(run: Run) -> Findings:
    """Utility against the three gaps, for every method and budget, with the control at the same positive rate."""
    from fairdp.experiments.drawing import tradeoff_figure

    runs = train(settings_of(run), run)
    rows, beside, further = summary(runs), controls(runs, at="fairdp"), controls(runs, at="fairdp_parity")
    lines = [
        {"data": row.named["dataset"], "method": _method(row), "ε": _budget(row.named["epsilon"])}
        | row.texts(COLUMNS)
        | {"seeds": row.named["n_runs"]}
        for row in (*rows, *beside, *further)
    ]
    text = (
        "δ = 1e-5, all training records, the defaults of each method; mean ± standard error over seeds. `dpsgd` at "
        "`fairdp`: the same DP-SGD models with the threshold moved to the positive rate of FairDP's, seed by seed.\n\n"
        + table(lines)
    )
    drawings = {
        f"-{utility}": tradeoff_figure(plain(rows), utility=utility, controls=plain(beside)) for utility in UTILITIES
    }
    figures = {"rows": plain(rows), "controls": plain([*beside, *further])}
    return Findings(figures, text, runs=tidy(runs, run), drawings=drawings)


def _method(row: Row) -> str:
    method = str(row.named["method"])
    at = f" at `{row.named['at']}`" if "at" in row.named else ""
    return f"`{method}`{at}{'' if METHODS[method].private else ' (not private)'}"


def _budget(epsilon: object) -> str:
    return "∞" if epsilon is None else f"{epsilon:g}"


@dataclass(frozen=True, kw_only=True)
class Gain:
    """How much smaller gaps and utilities are than another method's, with standard errors, at a setting of ours."""

    dataset: str
    epsilon: float | None
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
        first, second = (float(np.mean([fitted["positive_rate"] for fitted in runs])) for runs in (ours, others))
        return cls(
            dataset=setting.dataset,
            epsilon=setting.epsilon,
            n_runs=len(ours),
            positive_rates=(first, second),
            gains={name: less[name] for name in GAPS},
            drops={name: less[name] for name in UTILITIES},
        )

    def line(self) -> dict[str, str]:
        """What a table says of it."""
        less = {**self.gains, **self.drops}
        rates = " / ".join(f"{rate:.3f}" for rate in self.positive_rates)
        titles = {f"less {COLUMNS[name]}, %": pair for name, pair in less.items()}
        return {"data": self.dataset, "ε": _budget(self.epsilon), "positive rates": rates} | {
            title: f"{100 * mean:.1f} ± {100 * error:.1f}" for title, (mean, error) in titles.items()
        }


def gain_study(run: Run) -> Findings:
    """How much smaller FairDP's gaps are than those of another method, and what utility that costs, in relation."""
    from fairdp.experiments.drawing import gain_figure

    runs = train(settings_of(run, ("clean", "dpsgd", "dp_is_sgd", "fairdp")), run)
    settings = [setting for setting in runs if setting.method == "fairdp"]
    gains = {
        (other, title): [Gain.of(setting, runs[setting], runs[_same(setting, other)]) for setting in settings]
        for other, title in OTHERS.items()
    }
    gains["dpsgd_at_same_rate", "DP-SGD at FairDP's positive rate"] = [
        Gain.of(setting, runs[setting], matched(setting, runs), paired=True) for setting in settings
    ]
    tables = "\n\n".join(
        f"**Against {title}**\n\n{table([gain.line() for gain in found])}" for (_, title), found in gains.items()
    )
    figures = {other: [asdict(gain) for gain in found] for (other, _), found in gains.items()}
    drawings = {f"-{other.replace('_', '-')}": gain_figure(figures[other], against=title) for other, title in gains}
    note = (
        "Reduction of the gap and of the utility, in percent of the other method's: 1 − FairDP / other, of means over "
        "seeds, ± standard error over seeds (delta method), on one set of test records. Beyond the paper, the last "
        "table compares with DP-SGD at FairDP's own positive rate, run by run, and its errors are those of pairs.\n\n"
    )
    return Findings({"gains": figures}, note + tables, drawings=drawings)


def _same(setting: Setting, other: str) -> Setting:
    """The other method's setting beside one of ours."""
    budget = setting.epsilon if METHODS[other].private else None
    return replace(setting, method=other, epsilon=budget)


def relative_reduction(ours: Sequence[float], others: Sequence[float], *, paired: bool = False) -> tuple[float, float]:
    """1 − mean(ours) / mean(others), with its standard error by the delta method, for samples or for pairs.

    >>> relative_reduction([1.0, 1.0], [4.0, 4.0])
    (0.75, 0.0)
    >>> relative_reduction([1.0, 2.0], [4.0, 8.0], paired=True)
    (0.75, 0.0)
    """
    a, b, n = np.mean(ours), np.mean(others), len(ours)
    if not b:
        return math.nan, math.nan
    covariance = (
        np.cov(ours, others) / n
        if paired
        else np.diag([np.var(ours, ddof=1) / n, np.var(others, ddof=1) / len(others)])
    )
    slope = np.array([-1 / b, a / b**2])
    return float(1 - a / b), math.sqrt(max(0.0, float(slope @ covariance @ slope)))


def t_test_study(run: Run) -> Findings:
    """Two-tailed t-tests between methods, over seeds."""
    runs = train(settings_of(run, ("clean", "dpsgd", "dpsgd_f", "dp_is_sgd", "fairdp")), run)
    asked = (("fairdp", "clean"), ("fairdp", "dp_is_sgd"), ("dpsgd_f", "clean"), ("fairdp", MATCHED))
    rows, lines = [], []
    for method, other in asked:
        for compared in [setting for setting in runs if setting.method == method]:
            beside: Numbers = matched(compared, runs) if other == MATCHED else runs[_same(compared, other)]
            tests = {
                name: t_test([r[name] for r in runs[compared]], [r[name] for r in beside], paired=other == MATCHED)
                for name in TESTED
            }
            rows.append(
                {"dataset": compared.dataset, "epsilon": compared.epsilon, "method": method, "against": other, **tests}
            )
            lines.append(
                {"data": compared.dataset, "ε": _budget(compared.epsilon), "difference": f"`{method}` − {other}"}
                | {COLUMNS[n]: f"{test['difference']:+.3f} (p = {test['p_value']:.2g})" for n, test in tests.items()}
            )
    note = (
        "Difference of means over seeds and p-value of a two-tailed t-test: Welch's, and for DP-SGD at FairDP's "
        f"positive rate, which goes run by run, the paired one. These are {len(TESTED) * len(rows)} tests: of as many "
        "without any difference one in twenty would show p < .05. All runs are measured on the same test records: what "
        "is tested is whether trainings differ, not whether the population's gaps do.\n\n"
    )
    return Findings({"tests": rows}, note + table(lines))


def t_test(ours: Sequence[float], others: Sequence[float], *, paired: bool = False) -> dict[str, float]:
    """Two-tailed test of equal means, Welch's or that of pairs; without spread they differ for certain or not at all.

    >>> t_test([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])["p_value"]
    1.0
    """
    difference = float(np.mean(ours) - np.mean(others))
    spread = np.ptp(np.subtract(ours, others)) if paired else np.ptp(ours) + np.ptp(others)
    if not spread > 1e-15:
        return {"difference": difference, "p_value": float(abs(difference) < 1e-12)}
    test = stats.ttest_rel(ours, others) if paired else stats.ttest_ind(ours, others, equal_var=False)
    return {"difference": difference, "p_value": float(test.pvalue)}
