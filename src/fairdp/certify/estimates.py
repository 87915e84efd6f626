"""Estimates of a deployed model's metrics from the released counts alone, so that they may be published."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp._format import html_table
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.metrics.rates import collapse_warning, metrics_of_counts


def estimated_metrics(certificate: Certificate) -> dict[str, Any]:
    """Metrics under the names users see; no AUC follows from counts."""
    return {"auc": math.nan, **metrics_of_counts(_deployed_counts(certificate), certificate.group_names)}


def html_of_fit(method: str, privacy: PrivacySpent, certificate: Certificate | NotCertified) -> str:
    """Small tables for notebooks; a gap means nothing without the rate of positive decisions beside it."""
    rows, note = [("method", method)], ""
    if isinstance(certificate, Certificate):
        rate = estimated_metrics(certificate)["positive_rate"]
        rows.append(("estimated positive rate", f"{rate:.4f}"))
        note = collapse_warning(rate) or ""
    named = html_table("Fitted FairDPClassifier", rows, note)
    return named + privacy._repr_html_() + certificate._repr_html_()


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
