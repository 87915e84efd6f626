"""How far the certified gap lies above the observed one, at typical counts, beside simpler bounds."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from fairdp.certify.arms import NoisyArm
from fairdp.certify.gaps import gap_bound
from fairdp.experiments.studies.reference_bounds import box_gap, conv_gap, count_noise, estimated_difference, wald_slack
from fairdp.experiments.studies.results import Findings, Run, table
from fairdp.experiments.studies.simulation import drawn_counts, typical_arm

ALPHA = 0.05
N_METRICS = 3
N_GROUPS = 2
N_DRAWS = 200_000
QUICK_DRAWS = 20_000


@dataclass(frozen=True)
class Row:
    """Two arms of known sizes and rates; groups for ``DP``, cells of one label for ``EOpp`` and ``FPR``."""

    metric: str
    epsilon: float
    sizes: tuple[int, int]
    rates: tuple[float, float]

    @property
    def folds(self) -> int:
        """A group adds up two noisy cells."""
        return 2 if self.metric == "DP" else 1

    @property
    def ordered(self) -> tuple[tuple[int, float], tuple[int, float]]:
        """Size and rate of the arm with the higher rate, then of the other."""
        low, high = sorted(zip(self.sizes, self.rates, strict=True), key=lambda arm: arm[1])
        return high, low

    def line(self) -> dict[str, str]:
        """What tells it apart in a table."""
        sizes, rates = ("/".join(f"{value:g}" for value in values) for values in (self.sizes, self.rates))
        return {"ε": f"{self.epsilon:g}", "arms (rates)": f"{self.metric} {sizes} ({rates})"}


# Sizes and rates like those of the Adult data when 10 to 30 % of it are held out.
ROWS = (
    Row("DP", 1.0, (1077, 2179), (0.08, 0.13)),
    Row("DP", 1.0, (2154, 4358), (0.08, 0.13)),
    Row("DP", 1.0, (3231, 6537), (0.08, 0.13)),
    Row("DP", 1.0, (2154, 4358), (0.028, 0.076)),
    Row("EOpp", 1.0, (118, 666), (0.16, 0.20)),
    Row("EOpp", 1.0, (236, 1332), (0.16, 0.20)),
    Row("EOpp", 1.0, (354, 1998), (0.16, 0.20)),
    Row("EOpp", 1.0, (236, 1332), (0.5, 0.6)),
    Row("FPR", 1.0, (1918, 3026), (0.012, 0.021)),
    Row("DP", 0.5, (2154, 4358), (0.08, 0.13)),
    Row("EOpp", 0.5, (118, 666), (0.16, 0.20)),
    Row("EOpp", 0.5, (236, 1332), (0.16, 0.20)),
    Row("DP", 0.1, (2154, 4358), (0.08, 0.13)),
    Row("EOpp", 0.1, (236, 1332), (0.16, 0.20)),
    Row("EOpp", 0.1, (118, 666), (0.16, 0.20)),
    Row("EOpp", 4.0, (236, 1332), (0.16, 0.20)),
)
# Rows for the misses only: the smaller cell has the higher rate, and rates are small.
SMALL_ON_TOP = (
    Row("EOpp", 1.0, (236, 1332), (0.20, 0.16)),
    Row("EOpp", 1.0, (236, 1332), (0.05, 0.02)),
    Row("EOpp", 1.0, (118, 666), (0.03, 0.01)),
    Row("EOpp", 1.0, (40, 4000), (0.03, 0.01)),
    Row("EOpp", 0.1, (236, 1332), (0.05, 0.02)),
    Row("EOpp", 0.1, (118, 666), (0.03, 0.01)),
)
QUICK_ROWS = (ROWS[1], ROWS[5], ROWS[13])


@dataclass(frozen=True)
class _Task:
    row: Row
    n_draws: int
    with_slack: bool


def slack_study(run: Run) -> Findings:
    """The table of slacks and the miss rates of the bound that has no guarantee."""
    n_draws, rows = (QUICK_DRAWS, QUICK_ROWS) if run.quick else (N_DRAWS, ROWS)
    extra = SMALL_ON_TOP[2:3] if run.quick else SMALL_ON_TOP
    tasks = [*(_Task(row, n_draws, True) for row in rows), *(_Task(row, n_draws, False) for row in extra)]
    found = list(zip(tasks, run.done(_figures, tasks, what="slack"), strict=True))
    figures = [{**asdict(task.row), **slack, **misses} for task, (slack, misses) in found]
    lines = [{**task.row.line(), **slack, **_told(misses)} for task, (slack, misses) in found]
    n_rows = len(rows)
    settings = {"alpha": ALPHA, "n_groups": N_GROUPS, "n_metrics": N_METRICS, "n_draws": n_draws}
    text = (
        f"Bound minus observed gap, for {N_GROUPS} groups, {N_METRICS} metrics and a failure probability of {ALPHA} "
        "in all, at typical counts (expected, rounded, no noise drawn).\n\n"
        "box12, conv12: separate bounds on every rate, 12 events. conv6, score6: two events for each metric, for the "
        "gap is the difference of one fixed pair. **pair3: what the certificate does, here with equal shares for the "
        "metrics.** pair1: a single metric named beforehand. wald: the normal approximation at a third of the failure "
        f"probability; it guarantees nothing, and its miss rate over the nominal one ({n_draws:,} draws) shows it.\n\n"
        f"{table(lines[:n_rows])}\nWhere the smaller cell has the higher rate:\n\n{table(lines[n_rows:])}"
    )
    return Findings({**settings, "slack": figures[:n_rows], "small_cell_on_top": figures[n_rows:]}, text)


def _figures(task: _Task, rng: np.random.Generator) -> tuple[dict[str, float], dict[str, float]]:
    return slacks(task.row) if task.with_slack else {}, wald_misses(task.row, task.n_draws, rng)


def _told(misses: Mapping[str, float]) -> dict[str, str]:
    titles = ("Wald miss / nominal", "same, noise ignored")
    return {title: f"{ratio:.2f}" for title, ratio in zip(titles, misses.values(), strict=True)}


def slacks(row: Row) -> dict[str, float]:
    """Bound minus observed gap at typical counts, for every construction."""
    (high_size, high_rate), (low_size, low_rate) = row.ordered
    high = typical_arm(high_size, high_rate, epsilon=row.epsilon, folds=row.folds)
    low = typical_arm(low_size, low_rate, epsilon=row.epsilon, folds=row.folds)
    one_of_all, one_of_two = ALPHA / (2 * N_METRICS * N_GROUPS), ALPHA / (2 * N_METRICS)
    bounds = {
        "box12": box_gap(high, low, event_failure=one_of_all),
        "conv12": conv_gap(high, low, event_failure=one_of_all),
        "conv6": conv_gap(high, low, event_failure=one_of_two),
        "score6": gap_bound([high, low], failure_probability=ALPHA / N_METRICS, score_box=True).tau,
        "pair3": gap_bound([high, low], failure_probability=ALPHA / N_METRICS).tau,
        "pair1": gap_bound([high, low], failure_probability=ALPHA).tau,
    }
    observed = high.positive / high.total - low.positive / low.total
    slack = wald_slack(
        _floats(high), _floats(low), noise=count_noise(row.epsilon, row.folds), failure_probability=ALPHA / N_METRICS
    )
    return {name: min(bound, 1.0) - observed for name, bound in bounds.items()} | {"wald": float(slack[0])}


def _floats(arm: NoisyArm) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.array([float(arm.positive)]), np.array([float(arm.negative)])


def wald_misses(row: Row, n_draws: int, rng: np.random.Generator) -> dict[str, float]:
    """How often Wald's bound lies below the true gap, over how often it should, with and without the noise's share."""
    arms = []
    for size, rate in row.ordered:
        positive, negative = drawn_counts(rng, size, rate, epsilon=row.epsilon, folds=row.folds, n_draws=n_draws)
        arms.append((positive.astype(np.float64), negative.astype(np.float64)))
    true_gap = row.ordered[0][1] - row.ordered[1][1]
    level, estimate = ALPHA / N_METRICS, estimated_difference(*arms)

    def miss_over_nominal(noise: float) -> float:
        bound = estimate + wald_slack(*arms, noise=noise, failure_probability=level)
        return float(np.mean(bound < true_gap)) / level

    return {
        "wald_miss_over_nominal": miss_over_nominal(count_noise(row.epsilon, row.folds)),
        "wald_without_noise_miss_over_nominal": miss_over_nominal(0.0),
    }
