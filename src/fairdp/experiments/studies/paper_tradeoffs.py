"""The paper's trade-off figures, gains and tests, all from the same trainings."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from fairdp.experiments.studies.protocol import UTILITIES, Setting, controls, matched, settings_of, summary, tidy, train
from fairdp.experiments.studies.results import Findings, Run, markdown_table, mean_text
from fairdp.experiments.sweeps.fits import GAPS
from fairdp.methods import METHODS

OTHERS = {"dp_is_sgd": "DP-IS-SGD", "clean": "clean training"}
MATCHED = "dpsgd at its positive rate"
COLUMNS = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "positive_rate": "positive rate",
    "demographic_parity_ratio": "ratio",
    "demographic_parity_difference": "parity gap",
    "equal_opportunity_difference": "EOpp gap",
    "equalized_odds_difference": "EOdds gap",
}

TESTED = tuple(name for name in COLUMNS if name != "auc")


def tradeoff_study(run: Run) -> Findings:
    """Utility against the three gaps, for every method and budget, with the control at the same positive rate."""
    from fairdp.experiments.drawing import tradeoff_figure

    runs = train(settings_of(run), run)
    rows, beside = summary(runs), controls(runs, at="fairdp")
    further = controls(runs, at="fairdp_parity")
    lines = [_line(row) for row in [*rows, *beside, *further]]
    text = (
        "δ = 1e-5, all training records, the defaults of each method; mean ± standard error over seeds. `dpsgd` at "
        "`fairdp`: the same DP-SGD models with the threshold moved to the positive rate of FairDP's, seed by seed.\n\n"
        + markdown_table(("data", "method", "ε", *COLUMNS.values(), "seeds"), lines)
    )
    drawings = {f"-{utility}": tradeoff_figure(rows, utility=utility, controls=beside) for utility in UTILITIES}
    return Findings({"rows": rows, "controls": [*beside, *further]}, text, runs=tidy(runs, run), drawings=drawings)


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    private = "" if METHODS[row["method"]].private else " (not private)"
    at = f" at `{row['at']}`" if "at" in row else ""
    return (
        row["dataset"],
        f"`{row['method']}`{at}{private}",
        "∞" if row["epsilon"] is None else f"{row['epsilon']:g}",
        *(mean_text(row, name) for name in COLUMNS),
        str(row["n_runs"]),
    )


def gain_study(run: Run) -> Findings:
    """How much smaller FairDP's gaps are than those of another method, and what utility that costs, in relation."""
    from fairdp.experiments.drawing import gain_figure

    runs = train(settings_of(run, ("clean", "dpsgd", "dp_is_sgd", "fairdp")), run)
    own = [setting for setting in runs if setting.method == "fairdp"]
    gains = {other: [_gain(setting, runs[setting], runs[_same(setting, other)]) for setting in own] for other in OTHERS}
    gains["dpsgd_at_same_rate"] = [
        _gain(setting, runs[setting], matched(setting, runs), paired=True) for setting in own
    ]
    titles = {**OTHERS, "dpsgd_at_same_rate": "DP-SGD at FairDP's positive rate"}
    text = "\n\n".join(f"**Against {titles[other]}**\n\n{_gain_table(rows)}" for other, rows in gains.items())
    drawings = {
        f"-{other.replace('_', '-')}": gain_figure(rows, against=titles[other]) for other, rows in gains.items()
    }
    note = (
        "Reduction of the gap and of the utility, in percent of the other method's: 1 − FairDP / other, of means over "
        "seeds, ± standard error over seeds (delta method), on one set of test records. Beyond the paper, the last "
        "table compares with DP-SGD at FairDP's own positive rate, run by run, and its errors are those of pairs.\n\n"
    )
    return Findings({"gains": gains}, note + text, drawings=drawings)


def _same(setting: Setting, other: str) -> Setting:
    """The other method's setting beside one of ours."""
    budget = setting.epsilon if METHODS[other].private else None
    return replace(setting, method=other, epsilon=budget)


def _gain(
    setting: Setting, ours: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]], *, paired: bool = False
) -> dict[str, Any]:
    less = {
        name: relative_reduction([r[name] for r in ours], [r[name] for r in others], paired=paired)
        for name in (*GAPS, *UTILITIES)
    }
    gains, drops = ({name: less[name] for name in names} for names in (GAPS, UTILITIES))
    rates = [float(np.mean([r["positive_rate"] for r in runs])) for runs in (ours, others)]
    named = {"dataset": setting.dataset, "epsilon": setting.epsilon, "n_runs": len(ours), "positive_rates": rates}
    return {**named, "gains": gains, "drops": drops}


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


def _gain_table(rows: Sequence[dict[str, Any]]) -> str:
    names = [*(("gains", name) for name in GAPS), *(("drops", name) for name in UTILITIES)]
    titles = ("parity gap", "EOpp gap", "EOdds gap", "AUC", "accuracy")
    lines = [
        (
            row["dataset"],
            f"{row['epsilon']:g}",
            " / ".join(f"{rate:.3f}" for rate in row["positive_rates"]),
            *(f"{100 * row[kind][name][0]:.1f} ± {100 * row[kind][name][1]:.1f}" for kind, name in names),
        )
        for row in rows
    ]
    return markdown_table(("data", "ε", "positive rates", *(f"less {title}, %" for title in titles)), lines)


def t_test_study(run: Run) -> Findings:
    """Two-tailed t-tests between methods, over seeds."""
    runs = train(settings_of(run, ("clean", "dpsgd", "dpsgd_f", "dp_is_sgd", "fairdp")), run)
    asked: list[tuple[str, str, Callable[[Setting], list[dict[str, Any]]]]] = [
        ("fairdp", "clean", lambda own: runs[_same(own, "clean")]),
        ("fairdp", "dp_is_sgd", lambda own: runs[_same(own, "dp_is_sgd")]),
        ("dpsgd_f", "clean", lambda own: runs[_same(own, "clean")]),
        ("fairdp", MATCHED, lambda own: matched(own, runs)),
    ]
    rows: list[dict[str, Any]] = [
        {"dataset": own.dataset, "epsilon": own.epsilon, "method": method, "against": other}
        | {
            name: t_test([r[name] for r in found], [r[name] for r in beside(own)], paired=other == MATCHED)
            for name in TESTED
        }
        for method, other, beside in asked
        for own, found in runs.items()
        if own.method == method
    ]
    lines = [
        (
            row["dataset"],
            f"{row['epsilon']:g}",
            f"`{row['method']}` − {row['against']}",
            *(f"{row[name]['difference']:+.3f} (p = {row[name]['p_value']:.2g})" for name in TESTED),
        )
        for row in rows
    ]
    note = (
        "Difference of means over seeds and p-value of a two-tailed t-test: Welch's, and for DP-SGD at FairDP's "
        f"positive rate, which goes run by run, the paired one. These are {len(TESTED) * len(rows)} tests: of as many "
        "without any difference one in twenty would show p < .05. All runs are measured on the same test records: what "
        "is tested is whether trainings differ, not whether the population's gaps do.\n\n"
    )
    headers = ("data", "ε", "difference", *(COLUMNS[name] for name in TESTED))
    return Findings({"tests": rows}, note + markdown_table(headers, lines))


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
