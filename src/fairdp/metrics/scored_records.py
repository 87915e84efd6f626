"""All metrics of scored records: of the decisions at a threshold, and of the scores themselves."""

from numbers import Real

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import rankdata

from fairdp._checks import DataError, ParameterError
from fairdp.metrics.rates import decision_counts, metrics_of_counts

_CALIBRATION_BINS = 10


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
