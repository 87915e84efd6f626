"""Confidence intervals of metrics that are measured on finitely many records."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm

from fairdp.metrics.rates import Counts, decision_counts, fairness_metrics
from fairdp.metrics.scored_records import area_under_roc


def confidence_intervals(
    y_true: NDArray[np.int64],
    scores: NDArray[np.float64],
    groups: NDArray[np.int64],
    n_groups: int,
    *,
    confidence: float,
    rng: np.random.Generator,
    n_draws: int = 4000,
    decisions: NDArray[np.int64] | None = None,
) -> dict[str, tuple[float, float]]:
    """Intervals of all metrics, never of width zero, as the records are finitely many; NaN without evidence.

    Clopper-Pearson for overall rates, DeLong for the AUC. Gaps and the ratio follow from Jeffreys draws of each group's
    rate (Brown, Cai and DasGupta, 2001). The largest gap of a draw is biased upwards, so gaps are bounded through the
    signed differences of pairs of groups.
    """
    decisions = (scores >= 0).astype(np.int64) if decisions is None else decisions
    counts = decision_counts(y_true, decisions, groups, n_groups)
    tail, found = (1 - confidence) / 2, fairness_metrics(counts)
    decided = counts.sum(1)
    positive = drawn_rates(decided, n_draws, rng)
    by_label = [(counts[:, label], drawn_rates(counts[:, label], n_draws, rng)) for label in (1, 0)]
    true_positive, false_positive = (gap_interval(*cells, tail) for cells in by_label)
    # Of two gaps that are both zero, either may seem not to be: each lower end gets half.
    lower = max(gap_interval(*cells, tail / 2)[0] for cells in by_label)
    intervals = {
        "demographic_parity_difference": gap_interval(decided, positive, tail),
        "demographic_parity_ratio": ratio_interval(decided, positive, tail),
        "equal_opportunity_difference": true_positive,
        # The larger of two gaps: at least each lower end, at most the larger upper end.
        "equalized_odds_difference": (lower, max(true_positive[1], false_positive[1])),
        "false_positive_rate_difference": false_positive,
    }
    return {
        "auc": _area_interval(y_true, scores, tail),
        "accuracy": rate_interval(int((decisions == y_true).sum()), len(y_true), tail),
        "positive_rate": rate_interval(int(decisions.sum()), len(y_true), tail),
        **{name: including(float(found[name]), *ends) for name, ends in intervals.items()},
    }


def drawn_rates(cells: Counts, n_draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Rates that the negative and positive decisions of each group, shape (n_groups, 2), leave likely."""
    return rng.beta(cells[:, 1] + 0.5, cells[:, 0] + 0.5, size=(n_draws, len(cells)))


def including(estimate: float, low: float, high: float) -> tuple[float, float]:
    """The interval with the estimate, which a rate of 0 or 1 may put outside; NaN if there is no estimate."""
    return (estimate, estimate) if np.isnan(estimate) else (min(low, estimate), max(high, estimate))


def rate_interval(events: float, trials: int, tail: float) -> tuple[float, float]:
    """Interval of a rate (Clopper and Pearson, 1934)."""
    low = float(beta.ppf(tail, events, trials - events + 1)) if events else 0.0
    return low, float(beta.ppf(1 - tail, events + 1, trials - events)) if events < trials else 1.0


def gap_interval(cells: Counts, rates: NDArray[np.float64], tail: float) -> tuple[float, float]:
    """Interval of the largest gap, from counts of shape (n_groups, 2) and draws of rates, shape (n_draws, n_groups).

    The gap is the difference of one pair, so the largest upper end of the pairs covers it; it is at least every pair's
    lower end, and for all of them to hold at once each gets its share of the tail.
    """
    low, high = _extreme_pair(rates, tail)
    return _sure_difference(*_all_bounds(cells, tail)) if _too_many(rates, tail) else low, high


def ratio_interval(cells: Counts, rates: NDArray[np.float64], tail: float) -> tuple[float, float]:
    """Interval of the smallest ratio of two groups' rates, by the same argument on logarithms."""
    low, high = _extreme_pair(np.log(rates), tail)
    if _too_many(rates, tail):
        with np.errstate(divide="ignore"):
            low = _sure_difference(*np.log(_all_bounds(cells, tail)))
    return float(np.exp(-high)), float(np.exp(-low))


def _extreme_pair(values: NDArray[np.float64], tail: float) -> tuple[float, float]:
    """Lower and upper end of the largest difference between two groups."""
    differences, n_groups = values[:, :, None] - values[:, None, :], values.shape[1]
    if n_groups == 1:
        return 0.0, 0.0
    off_diagonal = differences[:, ~np.eye(n_groups, dtype=bool)]
    low = np.quantile(off_diagonal, tail / _n_pairs(n_groups), axis=0, method="lower").max()
    return max(0.0, float(low)), float(np.quantile(off_diagonal, 1 - tail, axis=0, method="higher").max())


def _n_pairs(n_groups: int) -> int:
    return n_groups * (n_groups - 1) // 2


def _too_many(rates: NDArray[np.float64], tail: float) -> bool:
    """Whether the share of one pair is too small a quantile for so many draws."""
    n_draws, n_groups = rates.shape
    return n_groups > 2 and n_draws * tail < 20 * _n_pairs(n_groups)


def _all_bounds(cells: Counts, tail: float) -> NDArray[np.float64]:
    """Lower and upper bounds on every group's rate that hold together, shape (2, n_groups); these need no draws."""
    intervals = [rate_interval(int(yes), int(no + yes), tail / len(cells)) for no, yes in cells]
    return np.array(intervals).T


def _sure_difference(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> float:
    """The difference that some two groups have at least."""
    return max(0.0, float((lower[:, None] - upper[None, :]).max()))


def _area_interval(y_true: NDArray[np.int64], scores: NDArray[np.float64], tail: float) -> tuple[float, float]:
    area, error = area_under_roc(y_true, scores)
    if error == 0:
        # As many pairs of a positive and a negative record have none in common: independent trials of this rate.
        n_pairs = int(min(y_true.sum(), (1 - y_true).sum()))
        return rate_interval(area * n_pairs, n_pairs, tail)
    reach = float(norm.ppf(1 - tail)) * error
    return float(np.clip(area - reach, 0, 1)), float(np.clip(area + reach, 0, 1))
