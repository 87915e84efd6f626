"""Every sentence about the fairness certificate: the statement in full, and its short forms."""

import math
from collections.abc import Mapping
from typing import Any

from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import (
    EQUAL_ALLOWED,
    NOT_CHOSEN_BY_TEST,
    UNUSED,
    UNUSED_UNCHECKED,
    Certificate,
    CertifiedGap,
    FreshRecords,
    HeldOutRecords,
    NotCertified,
    share_of_alpha,
)
from fairdp.certify.rates import cost_of_scores, estimated_metrics
from fairdp.errors import bound_above, bound_below, html_table, rounded_up
from fairdp.parameters import CERTIFIABLE, WITH_RATIO
from fairdp.statements.privacy import privacy_html

NAMES = {metric: about.name for metric, about in CERTIFIABLE.items()}
DEFINITIONS = {
    **{metric: about.definition for metric, about in CERTIFIABLE.items()},
    "ratio": "smallest divided by largest of the groups' rates of positive decisions",
}
NOT_PROMISED = (
    "populations other than the one the records were drawn from",
    "groups that are not named",
    "fairness between individuals",
    "that a small gap is useful (see the positive rate)",
    "the model after any change",
    "the best of several certificates, picked after seeing them",
)
# For a page, which has room for it.
ALSO_NOT_PROMISED = "records that are not an independent sample, such as households or repeated visits"
_ASSUMED = {
    UNUSED: "none of these records was used for the model or an earlier certificate, as far as equal values can tell",
    UNUSED_UNCHECKED: "none of these records was used for the model or an earlier certificate; there was no list of "
    "used records to check",
    NOT_CHOSEN_BY_TEST: "nothing was chosen by its test records; fairdp's defaults were chosen with them in view",
    EQUAL_ALLOWED: "records that equal used ones are different people; the check was switched off",
}
# About a note of the method `fairsmooth`.
BOUND_OF_SMOOTHING = (
    "for any input, the largest possible difference between the expectations of the averaged model and of each group's "
    "model over all noise on the parameters; not a bound on a gap between groups, nor on the deployed decision, which "
    "is made from a fixed number of draws"
)
UNDER_SHIFT = (
    "After Pr(group, label) has moved by a total variation of at most gamma, while the people of each group and label "
    "stay as they were. For all gammas at once, instead of the plain certificate and not beside it."
)
PAPER_BOUNDS = "Diagnostics, not certified: the paper's bounds are on expectations over the noise of the last step."
# Of the rates of positive decisions, the smallest over the largest (29 CFR 1607.4(D)).
FOUR_FIFTHS = 0.8
# A rate this close to 0 or 1 means that nearly everybody gets the same decision.
_COLLAPSED = 0.01


def certificate_statement(certificate: Certificate | NotCertified) -> str:
    """The promise and its limits, in words."""
    if isinstance(certificate, NotCertified):
        return f"Fairness certificate: not certified, because {certificate.explanation}."
    lines = [
        f"With confidence {100 * certificate.confidence:g} %, over the draw of the certification records and the noise "
        "on their counts, the deployed model has, all at once:",
        *(f"  {_claim(name, gap)}" for name, gap in certificate.gaps.items()),
        *lines_beside_bounds(certificate),
        f"Not promised: {', '.join(NOT_PROMISED[:-1])}, or {NOT_PROMISED[-1]}.",
    ]
    return "\n".join(lines)


def promise_of_export(certificate: Certificate | NotCertified, *, by_schema: bool) -> str:
    """The promise for a model that another program runs."""
    if isinstance(certificate, NotCertified):
        return f"No bound on a gap between groups is claimed, because {certificate.explanation}."
    encoded = " by the schema in model.json" if by_schema else ""
    return (
        "The certificate whose hash is certificate_sha256 holds for these decisions on records that are encoded as "
        f"for training{encoded}, up to rounding where a score is within 1e-5 of zero. Not promised: anything for "
        "another encoding, another threshold, a changed file, or what the certificate itself does not promise."
    )


def empty_bounds_warning(certificate: Certificate | NotCertified) -> str | None:
    """Warning to a user some of whose bounds say nothing."""
    empty = {gap.pair for gap in certificate.gaps.values() if gap.claimed and gap.tau >= 1}
    if not empty:
        return None
    pairs = ", ".join(f"{high} and {low}" for high, low in sorted(empty))
    return (
        f"the certificate has too few records to bound some gaps, first of all between {pairs}: merge small groups (a "
        "schema's 'other' does), name fewer protected columns, or certify fewer metrics."
    )


def lines_beside_bounds(certificate: Certificate) -> list[str]:
    """The statement beside the bounds: how decisions are made, what was spent, what is assumed."""
    about, registration = certificate.about, certificate.registration
    fresh = about.records if about is not None and isinstance(about.records, FreshRecords) else None
    lines = []
    if about is not None and about.predictor.tosses_coins:
        lines.append(
            "Decisions are randomised: the gaps are between the probabilities of a positive decision, over coins that "
            "are independent for people with different ids (or, if no ids are given, with different records)."
        )
    # A gap means nothing without the rate of positive decisions beside it.
    estimated = estimated_metrics(certificate)
    rates = ", ".join(f"{name} {rate:.4f}" for name, rate in estimated["positive_rate_by_group"].items())
    collapse = collapse_warning(estimated["positive_rate"])
    warning = "" if collapse is None else f" Warning: {collapse}"
    lines.append(f"Estimated rate of positive decisions: {estimated['positive_rate']:.4f} ({rates}).{warning}")
    if registration.require_tau is not None:
        lines.append(_sequence_line(certificate))
    if registration.expected_trials != 1:
        lines.append(
            "These same counts picked the model as the best of a random number of trials, "
            f"{registration.expected_trials:g} on average. The failure probability of each trial's bounds was divided "
            "by that number, so the confidence holds for the model that was kept. The estimates are those of a winner, "
            "so they are a little too good."
        )
    if about is not None and about.earlier:
        lines.append(
            f"This is certificate {len(about.earlier) + 1} of the model. Rely on one that was named before it was "
            "made; for the best of them, picked afterwards, the failure probabilities add up."
        )
    if fresh is not None and fresh.series is not None:
        number, of = fresh.series
        alpha = (1 - certificate.confidence) / share_of_alpha(number, of)
        which = f"number {number} of {of} certificates" if of else f"number {number} of certificates without end"
        lines.append(
            f"It is {which} of the model that hold all together with confidence {100 * (1 - alpha):g} %: each spends "
            "its part of the failure probability."
        )
    lines += _score_lines(certificate)
    if fresh is not None:
        # What fresh records spend is not covered by the privacy statement.
        spent = certificate.epsilon + fresh.sizes_epsilon
        known = "counted with noise" if fresh.group_sizes == "noisy" else "treated as public"
        lines.append(
            f"Each of its records spent a pure epsilon of {rounded_up(spent)} (adding or removing one record); their "
            f"group sizes are {known}."
        )
    if about is not None and about.noise_seeded:
        lines.append(
            "The noise on the counts came from a fixed seed: it protects only while the seed is secret and "
            "used for this certificate alone."
        )
    return lines + ([] if fresh is None else [f"Assumed: {_ASSUMED[code]}." for code in fresh.assumed])


def certificate_html(certificate: Certificate | NotCertified) -> str:
    """A small table for notebooks."""
    if isinstance(certificate, NotCertified):
        return html_table("Not certified", [("because", certificate.explanation)])
    rows = [(f"{name.replace('_', ' ')} gap", f"≤ {bound_above(gap.tau)}") for name, gap in certificate.gaps.items()]
    return html_table(f"Certified with confidence {100 * certificate.confidence:g} %, together", rows)


def html_of_fit(method: str, privacy: PrivacySpent, certificate: Certificate | NotCertified) -> str:
    """Small tables for notebooks; a gap means nothing without the rate of positive decisions beside it."""
    rows, note = [("method", method)], ""
    if isinstance(certificate, Certificate):
        rate = estimated_metrics(certificate)["positive_rate"]
        rows.append(("estimated positive rate", f"{rate:.4f}"))
        note = collapse_warning(rate) or ""
    named = html_table("Fitted FairDPClassifier", rows, note)
    return named + privacy_html(privacy) + certificate_html(certificate)


def collapse_warning(positive_rate: float) -> str | None:
    """Warning to a user whose model gives nearly everybody the same decision."""
    if _COLLAPSED < positive_rate < 1 - _COLLAPSED:
        return None
    decision = "negative" if positive_rate < 0.5 else "positive"
    return (
        f"the model predicts the {decision} class for nearly everybody (positive rate {positive_rate:.4f}): "
        "a small gap is then worth nothing."
    )


def _claim(name: str, gap: CertifiedGap) -> str:
    if not gap.claimed:
        return f"no claim about the {NAMES[name]}: an earlier bound was missed, and the sequence ended there."
    ratio = "" if gap.ratio is None else f"; smallest over largest rate at least {bound_below(gap.ratio)}"
    nothing = " (which says nothing)" if gap.tau >= 1 else ""
    return f"{NAMES[name]} at most {bound_above(gap.tau)}{nothing}, set by {gap.pair[0]} against {gap.pair[1]}{ratio}."


def _sequence_line(certificate: Certificate) -> str:
    registration = certificate.registration
    verdict = "met" if certificate.met else "missed"
    required = f"Required beforehand: {registration.require_tau:g} for every gap, tested in this order"
    looks = looks_in_words(certificate)
    if looks is None:
        return f"{required}: {verdict}."
    return (
        f"{required} at up to {registration.n_looks} looks during training, all paid for, until one misses it: "
        f"{verdict}; {looks}. A bound that is met is claimed as it was required: what a look found below it is not."
    )


def looks_in_words(certificate: Certificate) -> str | None:
    """Which of several looks the model is of, and why; None if there was only one to take, or none."""
    records = None if certificate.about is None else certificate.about.records
    n_looks, required = certificate.registration.n_looks, certificate.registration.require_tau
    if not isinstance(records, HeldOutRecords) or n_looks == 1:
        return None
    if not certificate.met:
        return f"the model is that of look 1 of {n_looks}, which missed {required:g}, so that training ended there"
    kept = f"the model is that of look {records.look} of {n_looks}, the last that met {required:g}"
    return kept if records.missed is None else f"{kept}: the next look missed it, and ended training"


def _score_lines(certificate: Certificate) -> list[str]:
    """Share of epsilon that counts of scores took, and what this is expected to cost; or why there are none."""
    share, scores = certificate.registration.score_share, certificate.scores
    if scores is None:
        none = "The scores of the model were not counted, because no share of epsilon was kept for it (score_share 0)."
        return [] if certificate.about is None or share else [none]
    cost = max(cost_of_scores(certificate).values())
    dearer = "" if math.isnan(cost) else f", and each bound is expected to be up to {cost:.4f} higher for it"
    return [
        f"The scores of the model were counted too, by group, label and {len(scores.edges) + 1} bins, with noise: a "
        f"share of {share:g} of the certificate's epsilon, {rounded_up(max(scores.epsilons))}, is for these "
        f"counts{dearer}."
    ]


def bound_in_words(gap: CertifiedGap, *, ratio: bool = False) -> str:
    """A certified bound, rounded to the safe side."""
    if not gap.claimed:
        return "not bounded, because an earlier bound was missed"
    if ratio and gap.ratio is not None:
        return f"at least {bound_below(gap.ratio)}"
    return "nothing, with so few records" if gap.tau >= 1 else f"at most {bound_above(gap.tau)}"


def claims(certificate: Certificate) -> list[str]:
    """The bounds that are claimed, rounded to the safe side."""
    return [f"{NAMES[name]} ≤ {bound_above(gap.tau)}" for name, gap in certificate.gaps.items() if gap.claimed]


def four_fifths_verdict(certificate: Certificate | NotCertified, estimates: Mapping[str, Any]) -> str:
    """The certificate and the estimates against a ratio of four fifths, and no more than that."""
    estimate = estimates.get(f"{WITH_RATIO}_ratio", math.nan)
    gap = certificate.gaps.get(WITH_RATIO)
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


def certificate_cautions(certificate: Certificate | NotCertified, *, privacy_seeded: bool) -> list[str]:
    """Warnings about what is certified; that its noise was seeded only if it is not said of all noise."""
    if isinstance(certificate, NotCertified):
        return [f"Not certified: no gap is bounded, because {certificate.explanation}."]
    found, about = [], certificate.about
    if about is not None and about.noise_seeded and not privacy_seeded:
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


def certified_in_a_clause(certificate: Certificate | NotCertified) -> str:
    """The certified bounds."""
    if not isinstance(certificate, Certificate):
        return "no gap is certified"
    found = claims(certificate)
    parity = certificate.gaps.get(WITH_RATIO)
    if parity is not None and parity.ratio is not None:
        found.append(f"ratio of positive rates ≥ {bound_below(parity.ratio)}")
    return f"certified with confidence {100 * certificate.confidence:g} %: {', '.join(found)}"


def how_sure(certificate: Certificate | NotCertified) -> str:
    """The confidence of all bounds, and what it is about."""
    if not isinstance(certificate, Certificate):
        return "Nothing is certified, so nothing is said about the population with any confidence."
    return (
        f"All certified bounds hold together with confidence {100 * certificate.confidence:g} %, over the draw of the "
        "records and the noise; estimates have intervals beside them."
    )


def rates_in_short(certificate: Certificate | NotCertified) -> str:
    """The part of the rates of groups that is shown."""
    if isinstance(certificate, Certificate):
        return "Rates by group are shown with intervals, and gaps are bounded."
    return "No rates by group are released; `fairdp evaluate` shows them to the data holder."


def bounds_answer(certificate: Certificate) -> str:
    """All bounds, in one line."""
    bounds = [f"{NAMES[name]} {bound_in_words(gap)}" for name, gap in certificate.gaps.items()]
    return f"{'; '.join(bounds)} ({100 * certificate.confidence:g} %)"


def spent_answer(certificate: Certificate) -> str:
    """The cost of a certificate to its fresh records, in one line."""
    sizes = getattr(certificate.about and certificate.about.records, "sizes_epsilon", 0.0)
    return f"epsilon {rounded_up(certificate.epsilon + sizes)}, charged to the new records only"
