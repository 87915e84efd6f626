"""Utility and group fairness of decisions, from counts per group, label and decision."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]

# A rate this close to 0 or 1 means that nearly everybody gets the same decision.
_COLLAPSED = 0.01


def decision_counts(
    y_true: NDArray[np.int64], y_pred: NDArray[np.int64], groups: NDArray[np.int64], n_groups: int
) -> Counts:
    """Records per (group, label, decision), shape (n_groups, 2, 2)."""
    cells = (groups * 2 + y_true) * 2 + y_pred
    return np.bincount(cells, minlength=4 * n_groups).reshape(n_groups, 2, 2)


@dataclass(frozen=True, kw_only=True)
class GroupRates:
    """Share of positive decisions in each group: overall, and among records of either label; NaN for an empty cell."""

    positive: NDArray[np.float64]
    true_positive: NDArray[np.float64]
    false_positive: NDArray[np.float64]


def group_rates(counts: NDArray[np.float64] | Counts) -> GroupRates:
    """Rates from counts of shape (…, n_groups, 2, 2)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        by_group = counts.sum(-2)
        return GroupRates(
            positive=by_group[..., 1] / by_group.sum(-1),
            true_positive=counts[..., 1, 1] / counts[..., 1, :].sum(-1),
            false_positive=counts[..., 0, 1] / counts[..., 0, :].sum(-1),
        )


def fairness_metrics(counts: NDArray[np.float64] | Counts) -> dict[str, NDArray[np.float64]]:
    """The three gaps, the ratio of the four-fifths rule and the false-positive gap; counts may be stacked.

    Equalized odds is the larger of the two conditional gaps, as in fairlearn. A gap with an empty cell is NaN, never
    zero: no evidence is not fairness.
    """
    rates = group_rates(counts)
    true_positive, false_positive = _gap(rates.true_positive), _gap(rates.false_positive)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = rates.positive.min(-1) / rates.positive.max(-1)
    return {
        "demographic_parity_difference": _gap(rates.positive),
        "demographic_parity_ratio": ratio,
        "equal_opportunity_difference": true_positive,
        "equalized_odds_difference": np.maximum(true_positive, false_positive),
        "false_positive_rate_difference": false_positive,
    }


def _gap(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    return rates.max(-1) - rates.min(-1)


def metrics_of_counts(counts: NDArray[np.float64] | Counts, group_names: tuple[str, ...]) -> dict[str, object]:
    """All metrics that follow from counts per group, label and decision."""
    positive = group_rates(counts).positive
    return {
        "accuracy": float(_accuracy(counts)),
        "majority_accuracy": float(counts.sum((0, 2)).max() / counts.sum()),
        "positive_rate": float(counts[..., 1].sum() / counts.sum()),
        "positive_rate_by_group": {name: float(rate) for name, rate in zip(group_names, positive, strict=True)},
        **{name: float(value) for name, value in fairness_metrics(counts).items()},
    }


def collapse_warning(positive_rate: float) -> str | None:
    """What to tell a user whose model gives nearly everybody the same decision."""
    if _COLLAPSED < positive_rate < 1 - _COLLAPSED:
        return None
    decision = "negative" if positive_rate < 0.5 else "positive"
    return (
        f"the model predicts the {decision} class for nearly everybody (positive rate {positive_rate:.4f}): "
        "a small gap is then worth nothing."
    )


def _accuracy(counts: NDArray[np.float64] | Counts) -> NDArray[np.float64]:
    by_label = counts.sum(-3)
    return (by_label[..., 0, 0] + by_label[..., 1, 1]) / by_label.sum((-2, -1))
