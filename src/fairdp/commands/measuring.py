"""What a model does on records, and what to warn a user about."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairdp.certify.certificate import Certificate
from fairdp.classifier import FairDPClassifier
from fairdp.data.grouped import GroupedData
from fairdp.metrics.rates import collapse_warning
from fairdp.metrics.scored_records import evaluate_decisions


def measure(estimator: FairDPClassifier, test: GroupedData) -> dict[str, Any]:
    """Exact utility and fairness on held-out records: for the data holder's eyes only."""
    # Computed once: a model smoothed over its parameters runs a hundred times for each record.
    scores = estimator.scores(test.X)
    decisions = estimator.predictor_.decisions(estimator.score_model_, test.X, groups=test.groups, scores=scores)
    return evaluate_decisions(test.y, scores, test.groups, test.group_names, decisions=decisions)


def warnings_of(estimator: FairDPClassifier, metrics: Mapping[str, Any]) -> list[str]:
    """What to know before relying on these metrics."""
    collapse = collapse_warning(metrics["positive_rate"])
    found = [collapse] if collapse else []
    certificate = estimator.certificate_
    if isinstance(certificate, Certificate):
        empty = {gap.pair for gap in certificate.gaps.values() if gap.claimed and gap.tau >= 1}
        if empty:
            names = ", ".join(sorted({name for pair in empty for name in pair}))
            found.append(
                f"the certificate has too few records to bound any gap for {names}: merge small groups (a schema's "
                "'other' does), name fewer protected columns, or certify fewer metrics."
            )
    if np.isinf(estimator.privacy_.epsilon):
        found.append("this model is not private: it was trained without noise.")
    return found
