"""The gaps that a certificate bounds, and how their bounds share the failure probability."""

from collections.abc import Sequence

METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds")

# The rates whose gaps a metric needs; equalized odds is the larger of two gaps.
RATES = {
    "demographic_parity": ("positive",),
    "equal_opportunity": ("true_positive",),
    "equalized_odds": ("true_positive", "false_positive"),
}

# Shares of the failure probability for positive, true-positive and false-positive rates: cells of positives are the
# smallest and need most (fixed in advance; equal shares would be valid too).
_SHARES = {"positive": 0.2, "true_positive": 0.6, "false_positive": 0.2}

# Below this a certificate says nothing and takes hours: its noise spreads over the square of one over epsilon.
SMALLEST_EPSILON = 0.02


def levels_of(metrics: Sequence[str], failure_probability: float) -> dict[str, float]:
    """Failure probability of each kind of rate, when all the metrics are claimed together.

    Equalized odds alone is one event: its true value is the gap of one fixed label, and only that gap can be missed.
    """
    kinds = kinds_of(metrics)
    if tuple(metrics) == ("equalized_odds",):
        return dict.fromkeys(kinds, failure_probability)
    total = sum(_SHARES[kind] for kind in kinds)
    return {kind: failure_probability * _SHARES[kind] / total for kind in kinds}


def kinds_of(metrics: Sequence[str]) -> list[str]:
    """Kinds of rate that the metrics need."""
    return [kind for kind in _SHARES if any(kind in RATES[metric] for metric in metrics)]
