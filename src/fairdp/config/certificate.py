"""What is fixed before any certification record is looked at, and how the failure probability is shared."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from fairdp import _checks

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


class NoCertificate(StrEnum):
    """Why there is no certificate: a code for files, and an explanation for people."""

    NO_RECORDS_HELD_OUT = "no_records_held_out"
    ONE_GROUP = "one_group"
    EPSILON_INFINITE = "epsilon_infinite"
    EPSILON_TOO_SMALL = "epsilon_too_small"

    @property
    def explanation(self) -> str:
        """What follows "because", with parameters in backquotes, as messages have them."""
        return {
            NoCertificate.NO_RECORDS_HELD_OUT: "no records were held out for it (`certify_fraction`=0)",
            NoCertificate.ONE_GROUP: "there is only one group, hence no gap to bound",
            NoCertificate.EPSILON_INFINITE: "it is made from noisy counts, and `epsilon`=inf asks for no noise",
            NoCertificate.EPSILON_TOO_SMALL: f"at an epsilon below {SMALLEST_EPSILON} only noise would be counted",
        }[self]


@dataclass(frozen=True, kw_only=True)
class Registration:
    """What a certificate will claim, said beforehand: choosing after a look would void its confidence.

    Parameters
    ----------
    confidence
        Probability with which all claims hold together.
    metrics
        The metrics to bound; fewer get tighter bounds.
    require_tau
        A bound that every metric should meet. The metrics are then tested in the order of ``METRICS``, each at the
        full level, until one fails.
    n_looks
        How often the same records may be looked at while training goes on; every look gets an equal share of the
        failure probability and of epsilon.
    expected_trials
        How many models are certified on average until one is kept for what its certificate says: a certificate is
        wrong that much more often if it was picked, so each gets that much less of the failure probability.
    """

    confidence: float = 0.95
    metrics: Sequence[str] = METRICS
    require_tau: float | None = None
    n_looks: int = 1
    expected_trials: float = 1.0

    def __post_init__(self) -> None:
        _checks.in_unit_interval(confidence=self.confidence)
        # Below one half the pair construction has no proof, and nobody wants such a promise.
        if self.confidence < 0.5:
            raise ValueError(f"confidence must be at least 0.5, got {self.confidence!r}.")
        if isinstance(self.metrics, str) or not self.metrics:
            raise ValueError(f"certify_metrics must name at least one of {', '.join(METRICS)}; got {self.metrics!r}.")
        for metric in self.metrics:
            _checks.one_of(METRICS, certify_metrics=metric)
        object.__setattr__(self, "metrics", tuple(metric for metric in METRICS if metric in self.metrics))
        if self.require_tau is not None:
            _checks.in_unit_interval(require_tau=self.require_tau)
        _checks.positive_integer(n_looks=self.n_looks)
        if not self.expected_trials >= 1:
            raise ValueError(f"expected_trials must be at least 1, got {self.expected_trials!r}.")

    @property
    def failure_probability(self) -> float:
        """Failure probability of one look in one trial."""
        return (1 - self.confidence) / self.n_looks / self.expected_trials

    def levels(self) -> dict[str, float]:
        """Failure probability of each kind of rate at one look."""
        if self.require_tau is None:
            return levels_of(self.metrics, self.failure_probability)
        return dict.fromkeys(_kinds(self.metrics), self.failure_probability)


def levels_of(metrics: Sequence[str], failure_probability: float) -> dict[str, float]:
    """Failure probability of each kind of rate, when all the metrics are claimed together.

    Equalized odds alone is one event: its true value is the gap of one fixed label, and only that gap can be missed.
    """
    kinds = _kinds(metrics)
    if tuple(metrics) == ("equalized_odds",):
        return dict.fromkeys(kinds, failure_probability)
    total = sum(_SHARES[kind] for kind in kinds)
    return {kind: failure_probability * _SHARES[kind] / total for kind in kinds}


def _kinds(metrics: Sequence[str]) -> list[str]:
    return [kind for kind in _SHARES if any(kind in RATES[metric] for metric in metrics)]


@dataclass(frozen=True, kw_only=True)
class CertificationSettings:
    """What is fixed about the certificate before training.

    Parameters
    ----------
    fraction
        Share of the records that is held out for the certificate; zero for none.
    target_tau
        A gap that the deployed predictor is diluted to, where the certificate alone does not reach it.
    """

    fraction: float = 0.2
    registration: Registration = field(default_factory=Registration)
    target_tau: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.fraction < 1:
            raise ValueError(f"certify_fraction must be in [0, 1), got {self.fraction!r}.")
        if self.target_tau is not None:
            _checks.in_unit_interval(target_tau=self.target_tau)
        if self.target_tau is not None and self.registration.require_tau is not None:
            raise ValueError(
                f"target_tau={self.target_tau:g} dilutes the model until any bound is met; leave out require_tau."
            )
        if self.registration.n_looks > 1 and self.registration.require_tau is None:
            raise ValueError(f"n_looks={self.registration.n_looks} needs require_tau: the bound that ends training.")

    def reason_for_none(self, *, n_groups: int, epsilon: float) -> NoCertificate | None:
        """Why no certificate can be made, or None."""
        if not self.fraction:
            return NoCertificate.NO_RECORDS_HELD_OUT
        if n_groups < 2:
            return NoCertificate.ONE_GROUP
        if np.isinf(epsilon):
            return NoCertificate.EPSILON_INFINITE
        return NoCertificate.EPSILON_TOO_SMALL if epsilon < SMALLEST_EPSILON else None
