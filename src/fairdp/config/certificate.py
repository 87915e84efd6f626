"""The gaps that a certificate bounds, and how their bounds share the failure probability."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A gap that can be certified: the rates it is about, its name, and its definition."""

    rates: tuple[str, ...]
    name: str
    definition: str


# In the order in which a sequence of tests goes through them; equalized odds is the larger of two gaps. One metric more
# needs a field of `CertificateRecord`, a line in what `verify` writes down a second time, and a higher SCHEMA_VERSION.
CERTIFIABLE = {
    "demographic_parity": Metric(
        rates=("positive",),
        name="demographic parity gap",
        definition="largest difference between two groups' rates of positive decisions",
    ),
    "equal_opportunity": Metric(
        rates=("true_positive",),
        name="equal opportunity gap",
        definition="the same among records with a positive label",
    ),
    "equalized_odds": Metric(
        rates=("true_positive", "false_positive"),
        name="equalized odds gap",
        definition="the larger of the two, among records with a positive and with a negative label",
    ),
}
METRICS = tuple(CERTIFIABLE)

# Shares of the failure probability for positive, true-positive and false-positive rates: cells of positives are the
# smallest and need most (fixed in advance; equal shares would be valid too).
_SHARES = {"positive": 0.2, "true_positive": 0.6, "false_positive": 0.2}

# Inner edges of the bins that scores are counted in, fixed and public: tenths, the outer ones halved, because scores of
# a rare label crowd at one end, where a median has to be found.
SCORE_EDGES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)

# Below this a certificate says nothing and takes hours: its noise spreads over the square of one over epsilon.
SMALLEST_EPSILON = 0.02


class NoCertificate(StrEnum):
    """Why there is no certificate: a code for files, and an explanation for people."""

    NO_RECORDS_HELD_OUT = "no_records_held_out"
    ONE_GROUP = "one_group"
    EPSILON_INFINITE = "epsilon_infinite"
    EPSILON_TOO_SMALL = "epsilon_too_small"
    RULE_MOVED = "rule_moved"

    @property
    def explanation(self) -> str:
        """What follows "because", with parameters in backquotes, as messages have them."""
        return {
            NoCertificate.NO_RECORDS_HELD_OUT: "no records were held out for it (`certify_fraction`=0)",
            NoCertificate.ONE_GROUP: "there is only one group, hence no gap to bound",
            NoCertificate.EPSILON_INFINITE: "it is made from noisy counts, and `epsilon`=inf asks for no noise",
            NoCertificate.EPSILON_TOO_SMALL: f"at an epsilon below {SMALLEST_EPSILON} only noise would be counted",
            NoCertificate.RULE_MOVED: "the rule was moved after it was certified; fairdp certify makes a new one on "
            "fresh records",
        }[self]


def levels_of(metrics: Sequence[str], failure_probability: float) -> dict[str, float]:
    """Failure probability of each kind of rate, when all the metrics are claimed together.

    Equalized odds alone is one event: its true value is the gap of one fixed label, and only that gap can be missed.
    """
    kinds = kinds_of(metrics)
    if tuple(metrics) == ("equalized_odds",):
        return dict.fromkeys(kinds, failure_probability)
    total = sum(_SHARES[kind] for kind in kinds)
    return {kind: failure_probability * _SHARES[kind] / total for kind in kinds}


def kinds_of(metrics: Sequence[str]) -> list[str]:
    """Kinds of rate that the metrics need."""
    return [kind for kind in _SHARES if any(kind in CERTIFIABLE[metric].rates for metric in metrics)]
