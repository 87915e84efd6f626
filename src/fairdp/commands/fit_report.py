"""What `fairdp fit` and `fairdp tune` report."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairdp._files import to_plain
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.record import certificate_record
from fairdp.certify.statement import certificate_statement
from fairdp.frontier.points import FrontierPoint
from fairdp.frontier.verdict import Verdict

# A note of `fairsmooth`, and what it is.
_BOUND = "overall_against_group_classifier"
_BOUND_IN_WORDS = (
    "for any input, the largest possible difference between the expectations of the averaged model and of each group's "
    "model over all noise on the parameters; not a bound on a gap between groups, nor on the deployed decision, which "
    "is made from a fixed number of draws"
)


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What may be shown about a search: which settings won, not how many were tried or how the others did."""

    chosen: dict[str, object]
    expected_trials: float | None
    epsilon_of_one_trial: float


@dataclass(frozen=True, kw_only=True)
class FitReport:
    """What a run produced, spent, measured and promised.

    ``metrics`` are exact, for the data holder; with private metrics they and ``n_certify`` come from the released
    counts, and the other sizes are None. Without test records they come from these counts too, and are None if there
    is no certificate. ``verdict`` follows from counts that are paid for, and ``frontier`` is what the model offers at
    other prices, of which ``chosen`` is deployed. ``positive`` is what a positive decision means: the value of column
    ``label``, or without one a text. ``treated`` is which cells of the table were not as declared, by column, exactly.
    """

    method: str
    dataset: str
    n_train: int | None
    n_certify: int
    n_test: int | None
    metrics: Mapping[str, Any] | None
    privacy: PrivacySpent
    certificate: Certificate | NotCertified
    notes: Mapping[str, object]
    warnings: tuple[str, ...]
    seconds: Mapping[str, float]
    out: str | None
    statement: str
    verdict: Verdict
    frontier: tuple[FrontierPoint, ...] | None
    chosen: FrontierPoint | None
    positive: str
    treated: Mapping[str, Mapping[str, int]] | None = None
    label: str | None = None
    tuned: Tuned | None = None

    @property
    def measured(self) -> str:
        """What the metrics are of."""
        return f"on {self.n_test:,} test records" if self.n_test else "from the noisy counts"

    @property
    def certificate_statement(self) -> str:
        """The certificate in words."""
        return certificate_statement(self.certificate)

    def to_json(self) -> dict[str, object]:
        """Plain values under the names users see."""
        plain = {**to_plain(self), "certificate": certificate_record(self.certificate)}
        del plain["chosen"], plain["label"]
        quality, target = self.verdict.quality, self.verdict.target
        plain |= {
            "quality": None if quality is None else quality.to_dict(),
            "target": None if target is None else target.to_dict(),
            "verdict": self.verdict.verdict,
        }
        note = self.privacy.ledger
        del plain["privacy"]["ledger"]
        plain["ledger"] = None if note is None else note.to_json()
        if _BOUND in self.notes:
            plain["notes"] |= {"what_it_is": _BOUND_IN_WORDS}
        return plain if self.tuned is not None else {name: plain[name] for name in plain if name != "tuned"}
