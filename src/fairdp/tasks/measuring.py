"""What a model does on records, and what a user should be warned of."""

from typing import Any

import numpy as np

from fairdp.data.grouped import GroupedData
from fairdp.estimators import FairDPClassifier
from fairdp.metrics import collapse_warning, evaluate_decisions


def measure(estimator: FairDPClassifier, test: GroupedData) -> dict[str, Any]:
    """Utility and fairness on held-out records, exactly: for the data holder's eyes."""
    decisions = estimator.predictor_.decisions(estimator.score_model_, test.X, groups=test.groups)
    return evaluate_decisions(test.y, estimator.scores(test.X), test.groups, test.group_names, decisions=decisions)


def warnings_of(estimator: FairDPClassifier, metrics: dict[str, Any]) -> list[str]:
    collapse = collapse_warning(metrics["positive_rate"])
    found = [collapse] if collapse else []
    if np.isinf(estimator.privacy_.epsilon):
        found.append("this model is not private: it was trained without noise.")
    return found
