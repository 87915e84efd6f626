"""Each group's rate of positive decisions, from the released counts alone, with a proven interval."""

from dataclasses import dataclass

import numpy as np

from fairdp.certify.certificate import Certificate
from fairdp.certify.estimates import estimated_metrics
from fairdp.certify.pairs import score_box_bound
from fairdp.certify.release import arms_of

FOUR_FIFTHS = 0.8


@dataclass(frozen=True, kw_only=True)
class GroupRate:
    """One group: its noisy counts, and its rate of positive decisions, estimated and between bounds.

    The estimate is NaN where the noise left no count above zero.
    """

    name: str
    positive: int
    negative: int
    estimate: float
    low: float
    high: float


def group_rates_of(certificate: Certificate) -> tuple[GroupRate, ...]:
    """The groups of a certificate; all intervals hold together with its confidence, as a separate statement.

    Both ends of every interval get an equal share of the failure probability and are bounded one by one, by the same
    exact p-values as the certificate (`score_box_bound`). The certificate itself bounds differences more tightly.
    """
    counts, epsilons = np.array(certificate.counts), certificate.epsilons_of_a_look
    share = certificate.registration.failure_probability / (2 * len(counts))
    estimates = estimated_metrics(certificate)["positive_rate_by_group"]
    found = []
    for name, arm in zip(certificate.group_names, arms_of(counts, "positive", epsilons), strict=True):
        high = score_box_bound(arm, failure_probability=share)
        low = 1 - score_box_bound(arm.mirrored(), failure_probability=share)
        found.append(
            GroupRate(
                name=name,
                positive=arm.positive,
                negative=arm.negative,
                estimate=estimates[name],
                low=_deployed(certificate, max(0.0, min(low, high))),
                high=_deployed(certificate, high),
            )
        )
    return tuple(found)


def _deployed(certificate: Certificate, rate: float) -> float:
    """The rate after a share of the decisions was made constant to reach a target."""
    dilution = certificate.dilution
    return rate if dilution is None else (1 - dilution.share) * rate + dilution.share * dilution.constant
