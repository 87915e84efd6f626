"""A score for scikit-learn's searches: accuracy, subject to a gap."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.metrics import make_scorer

from fairdp._checks import DataError
from fairdp.config.parameters import check_parameters
from fairdp.data.sensitive import groups_of
from fairdp.metrics.rates import decision_counts, fairness_metrics


def gap_scorer(max_gap: float, *, parity: str = "demographic_parity") -> Any:
    """Scorer for ``GridSearchCV`` and ``cross_validate``: see `accuracy_within_gap`.

    Needs scikit-learn's metadata routing, by which it asks for ``sensitive_features``. The choice that a search makes
    with it reads private records and is in no ε; `fairdp.tune` pays for it.

    Parameters
    ----------
    max_gap
        Largest gap that counts as met.
    parity
        Rates that should agree, as in `FairDPClassifier`.
    """
    if not get_config()["enable_metadata_routing"]:
        raise DataError(
            "gap_scorer needs the groups of the records: call sklearn.set_config(enable_metadata_routing=True) first."
        )
    _check(max_gap, parity)
    scorer = make_scorer(accuracy_within_gap, max_gap=max_gap, parity=parity)
    return scorer.set_score_request(sensitive_features=True)


def accuracy_within_gap(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: Any,
    max_gap: float,
    parity: str = "demographic_parity",
) -> float:
    """Accuracy where the gap is at most ``max_gap``; else minus what the gap has too much, below any accuracy.

    A gap without evidence, because a group has no record of a label, counts as one.

    >>> accuracy_within_gap([0, 1, 0, 1], [0, 1, 0, 1], sensitive_features=["a", "a", "b", "b"], max_gap=0.1)
    1.0
    >>> accuracy_within_gap([0, 1, 0, 1], [1, 1, 0, 0], sensitive_features=["a", "a", "b", "b"], max_gap=0.1)
    -0.9
    """
    _check(max_gap, parity)
    truth, decided = np.asarray(y_true), np.asarray(y_pred)
    values = np.unique(np.concatenate([truth, decided]))
    if len(values) > 2:
        raise DataError(f"labels must be of two kinds, got {len(values)}: {', '.join(map(str, values[:3]))}, …")
    # As in training, the larger one is positive.
    positive = values[-1]
    labels, decisions = (truth == positive).astype(np.int64), (decided == positive).astype(np.int64)
    groups, names = groups_of(sensitive_features, len(labels))
    gap = float(fairness_metrics(decision_counts(labels, decisions, groups, len(names)))[f"{parity}_difference"])
    return within_gap(float(np.mean(labels == decisions)), gap, max_gap=max_gap)


def within_gap(accuracy: float, gap: float, *, max_gap: float) -> float:
    """The order in which models are preferred: the accuracy of those within the gap, then the smallest gap."""
    excess = (1.0 if np.isnan(gap) else gap) - max_gap
    score = accuracy if excess <= 0 else -excess
    # Everything must have its place in the order: no evidence is the last.
    return -np.inf if np.isnan(score) else score


def _check(max_gap: float, parity: str) -> None:
    check_parameters(max_gap=max_gap, parity=parity)
