"""What the report says about a model in words: the headline, the warnings, and the lists of limits."""

import math

from fairdp._checks import in_words
from fairdp._format import bound_above, bound_below, rounded_up
from fairdp.accounting import spent as privacy
from fairdp.accounting.words import DECLARED, EXACT, NOISY, PUBLIC
from fairdp.certify import statement
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.statement import NAMES
from fairdp.metrics.rates import collapse_warning
from fairdp.report.groups import FOUR_FIFTHS
from fairdp.report.model import ModelReport

_KNOWN_SIZES = {NOISY: "noisy counts", PUBLIC: "public sizes", DECLARED: "declared sizes", EXACT: "exact counts"}
# What a page has room for, in addition to what the statement says.
_ALSO_NOT_COVERED = (
    "group names and labels that are themselves private",
    "running time, and messages about bad input",
)
NOT_PROMISED = (
    *statement.NOT_PROMISED,
    "records that are not an independent sample, such as households or repeated visits",
)


def not_covered(report: ModelReport) -> list[str]:
    """What the stated ε does not cover."""
    return [*privacy.not_covered(report.privacy), *_ALSO_NOT_COVERED]


def known_sizes(report: ModelReport) -> str:
    """How the sizes that training was planned with are known."""
    return _KNOWN_SIZES[report.privacy.group_sizes]


def headline(report: ModelReport) -> str:
    """What was trained and what is promised about it: one line."""
    of = f" of {report.label}" if report.label else ""
    what = f"classifier{of} trained with {report.method_name}"
    promised = f"{level(report)}; {_gaps(report)}"
    if not report.verified:
        return f"NOT VERIFIED. What the folder claims: a {what}: {promised}."
    return f"A {what}: {promised}."


def verdict_in_words(report: ModelReport) -> list[tuple[str, str]]:
    """What paid counts say of the model: a word or a heading for each line, and the rest of it."""
    lines = [in_words(line, str).split(": ", 1) for line in report.verdict.lines]
    return [(heading, rest[:1].upper() + rest[1:]) for heading, rest in lines]


def level(report: ModelReport) -> str:
    """The privacy level, rounded up."""
    if not report.private:
        return "not private"
    epsilon = rounded_up(report.privacy.epsilon)
    if report.pure:
        return f"ε = {epsilon} for adding or removing one record"
    return f"ε = {epsilon} at δ = {report.privacy.delta:g} for adding or removing one record"


def _gaps(report: ModelReport) -> str:
    certificate = report.certificate
    if isinstance(certificate, NotCertified):
        return "no gap is certified"
    claims = [f"{NAMES[name]} ≤ {bound_above(gap.tau)}" for name, gap in certificate.gaps.items() if gap.claimed]
    return f"{', '.join(claims)} with confidence {100 * certificate.confidence:g}\u00a0%"


def cautions(report: ModelReport) -> list[str]:
    """What a reader must know before relying on any figure, most serious first."""
    return [
        *(f"Check failed: {check.name}: {check.found}" for check in report.checks if not check.passed),
        *_privacy_cautions(report),
        *_certificate_cautions(report),
        *_decision_cautions(report),
    ]


def _privacy_cautions(report: ModelReport) -> list[str]:
    found = []
    if not report.private:
        found.append("Not private: the model was trained without noise, and epsilon is infinite.")
    if report.private and report.privacy.noise_seeded:
        found.append(
            "Seeded noise: the noise came from a fixed seed. The guarantee holds only while that seed is secret and "
            "used for this run alone, and a small number can be guessed."
        )
    if report.inferred:
        found.append(
            "Schema read from the table: column types, categories, ranges and group names were read from the private "
            "rows and are treated as public. What they reveal is not accounted for."
        )
    return found


def _certificate_cautions(report: ModelReport) -> list[str]:
    certificate = report.certificate
    if isinstance(certificate, NotCertified):
        return [f"Not certified: no gap is bounded, because {certificate.explanation}."]
    found, about = [], certificate.about
    if about is not None and about.noise_seeded and not report.privacy.noise_seeded:
        found.append("Seeded noise: the noise on the certificate's counts came from a fixed seed.")
    if not certificate.met:
        found.append(
            f"Requirement missed: {certificate.registration.require_tau:g} was required of every gap beforehand, and "
            "the certificate does not reach it."
        )
    empty = [NAMES[name] for name, gap in certificate.gaps.items() if gap.claimed and gap.tau >= 1]
    if empty:
        found.append(f"A bound of 1 says nothing: {', '.join(empty)}.")
    if about is not None and about.earlier:
        found.append(
            f"Certificate {len(about.earlier) + 1} of this model: rely on one that was named before it "
            "was made, not on the best of them."
        )
    return found


def _decision_cautions(report: ModelReport) -> list[str]:
    found = []
    rate = report.estimates.get("positive_rate", math.nan)
    collapse = None if math.isnan(rate) else collapse_warning(rate)
    if collapse:
        found.append(f"Collapsed: {collapse}")
    rule = report.about.predictor
    if rule.flips is not None:
        found.append(
            "Group used in decisions: the decision about a person depends on their group, which must be given with "
            "every record."
        )
    if rule.tosses_coins:
        found.append(
            "Randomised decisions: people with equal records may get different decisions, by a keyed coin for each."
        )
    return found


def four_fifths_verdict(report: ModelReport) -> str:
    """What the certificate and the estimates say about a ratio of four fifths, and no more than that."""
    estimate = report.estimates.get("demographic_parity_ratio", math.nan)
    gap = report.certificate.gaps.get("demographic_parity") if isinstance(report.certificate, Certificate) else None
    bound = None if gap is None or not gap.claimed else gap.ratio
    if bound is not None and bound >= FOUR_FIFTHS:
        return f"The certified lower bound of the ratio, {bound_below(bound)}, is not below 0.8."
    known = "no lower bound of the ratio is certified"
    if bound is not None:
        known = f"the certified lower bound, {bound_below(bound)}, is below that"
    guess = "there is no estimate of the ratio"
    if not math.isnan(estimate):
        guess = f"the estimate, {estimate:.4f}, is {'' if estimate < FOUR_FIFTHS else 'not '}below that"
    return f"A ratio of four fifths, 0.8, is not established: {known}, and {guess}."
