"""Utility and group fairness of decisions, from counts per group, label and decision."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import beta, norm, rankdata

from fairdp.errors import DataError, ParameterError
from fairdp.parameters import CERTIFIABLE, METRICS, RATES, kinds_of

Counts = NDArray[np.int64]
# Of equal mass.
_CALIBRATION_BINS = 10


def decision_counts(
    y_true: NDArray[np.int64], y_pred: NDArray[np.int64], groups: NDArray[np.int64], n_groups: int
) -> Counts:
    """Records per (group, label, decision), shape (n_groups, 2, 2)."""
    cells = (groups * 2 + y_true) * 2 + y_pred
    return np.bincount(cells, minlength=4 * n_groups).reshape(n_groups, 2, 2)


def cells_of(counts: NDArray[Any], kind: str) -> NDArray[Any]:
    """Records that count against a kind of rate, and for it: counts of shape (…, 2, 2) become (…, 2)."""
    about = RATES[kind]
    return np.stack([sum(counts[..., *cell] for cell in cells) for cells in (about.against, about.counted)], axis=-1)


def rate_of_counts(counts: NDArray[Any], kind: str) -> NDArray[np.float64]:
    """A kind of rate, by counts of shape (…, 2, 2); NaN without any record."""
    cells = cells_of(counts, kind)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(cells[..., 1] / cells.sum(-1))


def group_rates(counts: NDArray[np.float64] | Counts) -> dict[str, NDArray[np.float64]]:
    """Every rate that a metric compares, of each group, by counts of shape (…, n_groups, 2, 2)."""
    return {kind: rate_of_counts(counts, kind) for kind in kinds_of(METRICS)}


def fairness_metrics(counts: NDArray[np.float64] | Counts) -> dict[str, NDArray[np.float64]]:
    """The gap of each metric, the ratio of the four-fifths rule and the false-positive gap; counts may be stacked.

    Equalized odds is the larger of the two conditional gaps, as in fairlearn. A gap with an empty cell is NaN, never
    zero: no evidence is not fairness.
    """
    rates, found = group_rates(counts), {}
    gaps = {kind: rate.max(-1) - rate.min(-1) for kind, rate in rates.items()}
    for metric, about in CERTIFIABLE.items():
        found[f"{metric}_difference"] = np.max([gaps[kind] for kind in about.rates], axis=0)
        if about.has_ratio:
            (kind,) = about.rates
            with np.errstate(invalid="ignore", divide="ignore"):
                found[f"{metric}_ratio"] = rates[kind].min(-1) / rates[kind].max(-1)
    return {**found, "false_positive_rate_difference": gaps["false_positive"]}


def metrics_of_counts(counts: NDArray[np.float64] | Counts, group_names: tuple[str, ...]) -> dict[str, object]:
    """All metrics that follow from counts per group, label and decision."""
    positive = rate_of_counts(counts, "positive")
    return {
        "accuracy": float(_accuracy(counts)),
        "majority_accuracy": float(counts.sum((0, 2)).max() / counts.sum()),
        "positive_rate": float(counts[..., 1].sum() / counts.sum()),
        "positive_rate_by_group": {name: float(rate) for name, rate in zip(group_names, positive, strict=True)},
        **{name: float(value) for name, value in fairness_metrics(counts).items()},
    }


def _accuracy(counts: NDArray[np.float64] | Counts) -> NDArray[np.float64]:
    of_all = counts.sum(-3)
    # Not over right and wrong decisions: fractional counts would be added in another order.
    return np.asarray(cells_of(of_all, "accuracy")[..., 1] / of_all.sum((-2, -1)))


def evaluate_decisions(
    y_true: NDArray[np.int64],
    scores: NDArray[np.float64],
    groups: NDArray[np.int64],
    group_names: tuple[str, ...],
    *,
    decisions: NDArray[np.int64] | None = None,
) -> dict[str, object]:
    """All metrics of decisions, by default 1[score ≥ 0], under the names users see; NaN where there is no evidence."""
    decisions = (scores >= 0).astype(np.int64) if decisions is None else decisions
    counts = decision_counts(y_true, decisions, groups, len(group_names))
    return {
        "auc": area_under_roc(y_true, scores)[0],
        **metrics_of_counts(counts, group_names),
        **calibration_by_group(y_true, scores, groups, group_names),
    }


def at_positive_rate(
    y_true: NDArray[np.int64],
    scores: NDArray[np.float64],
    groups: NDArray[np.int64],
    group_names: tuple[str, ...],
    *,
    positive_rate: float,
) -> dict[str, object]:
    """The metrics of `evaluate_decisions` with the threshold moved until this share of all records is positive.

    Equal scores are treated alike, whatever their order: where the threshold falls on them, each counts as positive by
    the fraction that makes the rate exact. An evaluation, not private: the threshold is read off these very records.
    With the scores of a control model and the positive rate of another, it shows what the rate alone does to gaps.
    """
    _check_scored(y_true, scores, groups, len(group_names))
    if not (isinstance(positive_rate, Real) and 0 <= positive_rate <= 1):
        raise ParameterError("positive_rate", positive_rate, "must be in [0, 1]", "Did you pass a percentage?")
    ordered, n_samples = np.sort(scores), len(scores)
    above, through = (n_samples - np.searchsorted(ordered, scores, side) for side in ("right", "left"))
    positive = np.clip((positive_rate * n_samples - above) / (through - above), 0, 1)
    cells, n_cells = groups * 2 + y_true, 2 * len(group_names)
    shares = [np.bincount(cells, weights=share, minlength=n_cells) for share in (1 - positive, positive)]
    counts = np.stack(shares, axis=-1).reshape(-1, 2, 2)
    # The AUC and the calibration do not depend on the threshold.
    return {**evaluate_decisions(y_true, scores, groups, group_names), **metrics_of_counts(counts, group_names)}


def _check_scored(
    y_true: NDArray[np.int64], scores: NDArray[np.float64], groups: NDArray[np.int64], n_groups: int
) -> None:
    shapes = [np.shape(values) for values in (y_true, scores, groups)]
    if len(set(shapes)) > 1 or len(shapes[0]) != 1 or not shapes[0][0]:
        found = "shapes {}, {} and {}".format(*shapes)
        raise DataError(f"y_true, scores and groups must hold one value for each of the same records, got {found}.")
    if np.isnan(scores).any():
        missing = int(np.isnan(scores).argmax())
        raise DataError(f"scores must be numbers, got nan at position {missing}; leave such records out.")
    for name, values, n_codes in (("y_true", y_true, 2), ("groups", groups, n_groups)):
        wrong = values[~np.isin(values, np.arange(n_codes))] if values.dtype.kind in "biu" else values
        if len(wrong):
            found = repr(wrong[0].item())
            raise DataError(f"{name} must hold integers from 0 to {n_codes - 1}, got {found}; encode them first.")


def calibration_by_group(
    y_true: NDArray[np.int64], scores: NDArray[np.float64], groups: NDArray[np.int64], group_names: tuple[str, ...]
) -> dict[str, dict[str, float]]:
    """Expected calibration error of each group's logistic probabilities, and their mean minus that of the labels.

    Ten bins of equal mass, equal scores in one: a bounded model's scores may all lie in one bin of fixed width. Chance
    alone gives n records of a calibrated model an error of up to about √(6.4 p(1 − p)/n), where p is the share of
    positive labels. NaN for an empty group.
    """
    members = [groups == code for code in range(len(group_names))]
    errors, excesses = zip(*(_calibration(y_true[member], scores[member]) for member in members), strict=True)
    return {
        "expected_calibration_error_by_group": dict(zip(group_names, errors, strict=True)),
        "probability_excess_by_group": dict(zip(group_names, excesses, strict=True)),
    }


def _calibration(y_true: NDArray[np.int64], scores: NDArray[np.float64]) -> tuple[float, float]:
    if not len(scores):
        return float("nan"), float("nan")
    surplus = expit(scores) - y_true
    bins = np.searchsorted(np.sort(scores), scores) * _CALIBRATION_BINS // len(scores)
    return float(np.abs(np.bincount(bins, weights=surplus)).sum() / len(scores)), float(surplus.mean())


def area_under_roc(y_true: NDArray[np.int64], scores: NDArray[np.float64]) -> tuple[float, float]:
    """Area under the ROC curve and its standard error (DeLong, DeLong, Clarke-Pearson, 1988); NaN for one class."""
    positive = y_true == 1
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if not n_positive or not n_negative:
        return float("nan"), float("nan")
    ranks = rankdata(scores)
    wins = (ranks[positive] - rankdata(scores[positive])) / n_negative
    losses = (ranks[~positive] - rankdata(scores[~positive])) / n_positive
    variance = wins.var(ddof=1) / n_positive if n_positive > 1 else 0.0
    variance += losses.var(ddof=1) / n_negative if n_negative > 1 else 0.0
    return float(wins.mean()), float(np.sqrt(variance))


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
    cells = {kind: cells_of(counts, kind) for kind in kinds_of(METRICS)}
    drawn = {kind: (own, drawn_rates(own, n_draws, rng)) for kind, own in cells.items()}
    intervals = {}
    for metric, about in CERTIFIABLE.items():
        # The largest of several gaps: at least each lower end, at most the largest upper end. Of gaps that are all
        # zero any may seem not to be: each lower end gets its part of the tail.
        lower = max(gap_interval(*drawn[kind], tail / len(about.rates))[0] for kind in about.rates)
        upper = max(gap_interval(*drawn[kind], tail)[1] for kind in about.rates)
        intervals[f"{metric}_difference"] = (lower, upper)
        if about.has_ratio:
            intervals[f"{metric}_ratio"] = ratio_interval(*drawn[about.rates[0]], tail)
    intervals["false_positive_rate_difference"] = gap_interval(*drawn["false_positive"], tail)
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
    """True if the share of one pair is too small a quantile for so many draws."""
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
