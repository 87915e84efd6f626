"""What is fixed about a certificate before any of its records is looked at."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from fairdp._checks import ParameterError
from fairdp.config.certificate import METRICS, SMALLEST_EPSILON, NoCertificate, kinds_of, levels_of
from fairdp.config.parameters import Parameters, check_parameters


@dataclass(frozen=True, kw_only=True)
class Preregistration:
    """What a certificate will claim, said beforehand: choosing after a look would void its confidence.

    Parameters
    ----------
    confidence, metrics, require_tau, n_looks
        As the parameters of the estimator; the metrics are put in the order of ``METRICS``. With ``require_tau`` they
        are tested in that order, each at the full level, until one fails, and so are looks: a look that meets it is
        followed by the next. Every look gets an equal share of epsilon.
    expected_trials
        How many models are certified on average until one is kept for what its certificate says: a certificate is
        wrong that much more often if it was picked, so each gets that much less of the failure probability.
    score_share
        Share of epsilon that is kept for counts of scores, released once beside those of decisions; zero: none are.
    """

    confidence: float = Parameters.confidence
    metrics: Sequence[str] = METRICS
    require_tau: float | None = None
    n_looks: int = Parameters.n_looks
    expected_trials: float = 1.0
    score_share: float = 0.0

    def __post_init__(self) -> None:
        check_parameters(confidence=self.confidence, require_tau=self.require_tau, n_looks=self.n_looks)
        check_parameters(certify_metrics=self.metrics, score_share=self.score_share)
        object.__setattr__(self, "metrics", tuple(metric for metric in METRICS if metric in self.metrics))
        if not self.expected_trials >= 1:
            raise ParameterError("expected_trials", self.expected_trials, "must be at least 1")

    @property
    def failure_probability(self) -> float:
        """Failure probability of what is said of one look in one trial, but for whether it meets the requirement."""
        return (1 - self.confidence) / self.n_looks / self.expected_trials

    def per_look(self, epsilons: Sequence[float]) -> tuple[float, ...]:
        """Pure ε of the counts of decisions at one look, of what a record of each group may spend in all."""
        return tuple((epsilon - self.score_share * epsilon) / self.n_looks for epsilon in epsilons)

    def for_scores(self, epsilons: Sequence[float]) -> tuple[float, ...]:
        """Pure ε of the counts of scores, of what a record of each group may spend in all."""
        return tuple(self.score_share * epsilon for epsilon in epsilons)

    def levels(self) -> dict[str, float]:
        """Failure probability of each kind of rate at one look.

        Tests in a fixed order, metric by metric and look by look, which end at the first that fails, have the whole
        level each: only one of them can make a claim wrong.
        """
        if self.require_tau is None:
            return levels_of(self.metrics, self.failure_probability)
        return dict.fromkeys(kinds_of(self.metrics), (1 - self.confidence) / self.expected_trials)


@dataclass(frozen=True, kw_only=True)
class CertificationSettings:
    """What a user has chosen about the certificate: its claims, the records it is made from and what may follow."""

    fraction: float = Parameters.certify_fraction
    registration: Preregistration = field(default_factory=Preregistration)
    target_tau: float | None = None

    def __post_init__(self) -> None:
        check_parameters(certify_fraction=self.fraction, target_tau=self.target_tau)
        n_looks, required = self.registration.n_looks, self.registration.require_tau
        if self.target_tau is not None and required is not None:
            raise ParameterError(
                "target_tau",
                self.target_tau,
                "dilutes the model until any bound is met",
                "leave out `require_tau`",
            )
        if n_looks > 1 and required is None:
            raise ParameterError("n_looks", n_looks, "needs `require_tau`: the bound at whose breach training ends")

    def n_looks_at(self, n_groups: int) -> int:
        """How many looks there will be: where there is nothing to certify, none is taken but at the end."""
        return self.registration.n_looks if self.fraction and n_groups > 1 else 1

    def reason_for_none(self, *, n_groups: int, epsilon: float) -> NoCertificate | None:
        """Why no certificate can be made, or None."""
        if not self.fraction:
            return NoCertificate.NO_RECORDS_HELD_OUT
        if n_groups < 2:
            return NoCertificate.ONE_GROUP
        if math.isinf(epsilon):
            return NoCertificate.EPSILON_INFINITE
        return NoCertificate.EPSILON_TOO_SMALL if epsilon < SMALLEST_EPSILON else None
