"""A certificate as a file holds it: enough to use it, and to compute it again."""

from dataclasses import asdict, dataclass, field
from typing import Literal

from fairdp._files import from_plain
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.claims import CertifiedGap, Dilution, Event
from fairdp.certify.estimates import estimated_metrics, undiluted_accuracy
from fairdp.certify.origin import Origin
from fairdp.certify.scores import ScoreCounts
from fairdp.certify.statement import DEFINITIONS, certificate_statement
from fairdp.config.certificate import METRICS, NoCertificate
from fairdp.config.preregistration import Preregistration


@dataclass(frozen=True, kw_only=True)
class RecordedDilution:
    """A dilution, with the accuracy that it was bought with."""

    share: float
    constant: int
    target_tau: float
    accuracy_undiluted: float | None = None

    def applied(self) -> Dilution:
        """The dilution itself."""
        return Dilution(share=self.share, constant=self.constant, target_tau=self.target_tau)


@dataclass(frozen=True, kw_only=True)
class CertificateRecord:
    """Every value of a certificate's record as it stands, whether or not it agrees with the others.

    ``epsilon``, ``events``, ``estimates``, ``definitions`` and ``statement`` follow from the rest; ``files`` are the
    hashes of the files that the certificate speaks of.
    """

    certified: Literal[True]
    confidence: float
    metrics: tuple[str, ...]
    require_tau: float | None
    n_looks: int
    expected_trials: float
    score_share: float
    epsilon: float
    epsilon_by_group: dict[str, float]
    demographic_parity: CertifiedGap | None = None
    equal_opportunity: CertifiedGap | None = None
    equalized_odds: CertifiedGap | None = None
    events: dict[str, Event]
    dilution: RecordedDilution | None
    input_agnostic_tau: float | None
    group_names: tuple[str, ...]
    expected_sizes: tuple[float, ...]
    counts: tuple[tuple[tuple[int, ...], ...], ...]
    scores: ScoreCounts | None
    about: Origin
    statement: str
    estimates: dict[str, object] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def gaps(self) -> dict[str, CertifiedGap]:
        """What is claimed of each metric."""
        found: dict[str, CertifiedGap | None] = {metric: getattr(self, metric) for metric in METRICS}
        return {metric: gap for metric, gap in found.items() if gap is not None}

    def certificate(self) -> Certificate:
        """The certificate; its bounds are taken as they stand."""
        registration = Preregistration(
            confidence=self.confidence,
            metrics=self.metrics,
            require_tau=self.require_tau,
            n_looks=self.n_looks,
            expected_trials=self.expected_trials,
            score_share=self.score_share,
        )
        return Certificate(
            registration=registration,
            epsilons=tuple(self.epsilon_by_group[name] for name in self.group_names),
            group_names=self.group_names,
            expected_sizes=self.expected_sizes,
            counts=self.counts,
            gaps={name: self.gaps[name] for name in self.metrics},
            dilution=None if self.dilution is None else self.dilution.applied(),
            input_agnostic_tau=self.input_agnostic_tau,
            scores=self.scores,
            about=self.about,
        )


@dataclass(frozen=True, kw_only=True)
class NoCertificateRecord:
    """The record of a model without a certificate."""

    certified: Literal[False]
    reason: NoCertificate
    statement: str
    files: dict[str, str] = field(default_factory=dict)

    def certificate(self) -> NotCertified:
        """That there is no certificate, and why."""
        return NotCertified(self.reason)


def certificate_record(certificate: Certificate | NotCertified) -> dict[str, object]:
    """Everything that a reader needs to use the certificate and to compute it again, in plain values."""
    record = {**certificate.to_dict(), "statement": certificate_statement(certificate)}
    if isinstance(certificate, NotCertified):
        return record
    if certificate.dilution is not None:
        bought = {"accuracy_undiluted": undiluted_accuracy(certificate)}
        record["dilution"] = {**asdict(certificate.dilution), **bought}
    return {**record, "estimates": estimated_metrics(certificate), "definitions": DEFINITIONS}


def read_record(plain: object) -> CertificateRecord | NoCertificateRecord:
    """A record from the plain values of a file; a `RecordError` says what is wrong with them."""
    certified = isinstance(plain, dict) and plain.get("certified") is True
    return from_plain(CertificateRecord, plain) if certified else from_plain(NoCertificateRecord, plain)
