"""What `fairdp certify` reports."""

from collections.abc import Mapping
from dataclasses import dataclass

from fairdp._files import to_plain
from fairdp.certify.certificate import Certificate
from fairdp.certify.record import certificate_record
from fairdp.certify.statement import certificate_statement


@dataclass(frozen=True, kw_only=True)
class CertificateReport:
    """What a new certificate claims, and the warnings; ``treated`` is about cells of the table, for its holder."""

    method: str
    positive: str
    n_certify: int
    certificate: Certificate
    warnings: tuple[str, ...]
    seconds: dict[str, float]
    out: str
    ledger: dict[str, object] | None
    treated: Mapping[str, Mapping[str, int]]

    @property
    def certificate_statement(self) -> str:
        """The certificate in words."""
        return certificate_statement(self.certificate)

    def to_json(self) -> dict[str, object]:
        """Plain values under the names users see."""
        return {**to_plain(self), "certificate": certificate_record(self.certificate)}
