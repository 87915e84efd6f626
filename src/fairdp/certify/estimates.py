"""Estimates of a deployed model's metrics from the released counts alone, so that they may be published."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp.certify.certificate import Certificate
from fairdp.metrics.rates import metrics_of_counts


def estimated_metrics(certificate: Certificate) -> dict[str, Any]:
    """Metrics under the names users see; no AUC follows from counts."""
    return {"auc": math.nan, **metrics_of_counts(_deployed_counts(certificate), certificate.group_names)}


def undiluted_accuracy(certificate: Certificate) -> float:
    """Accuracy of the decisions before any was made constant to reach a target."""
    counts = _counts(certificate)
    return float((counts[:, 0, 0].sum() + counts[:, 1, 1].sum()) / counts.sum()) if counts.sum() else math.nan


def _deployed_counts(certificate: Certificate) -> NDArray[np.float64]:
    counts = _counts(certificate)
    if certificate.dilution is None:
        return counts
    constant = np.zeros_like(counts)
    constant[..., certificate.dilution.constant] = counts.sum(-1)
    return (1 - certificate.dilution.share) * counts + certificate.dilution.share * constant


def _counts(certificate: Certificate) -> NDArray[np.float64]:
    return np.array(certificate.counts, dtype=np.float64).clip(min=0)
