"""A certificate in words: what is promised, and what is not."""

import math

from fairdp._format import bound_above, bound_below, rounded_up
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.claims import CertifiedGap
from fairdp.certify.estimates import estimated_metrics, undiluted_accuracy
from fairdp.certify.origin import (
    EQUAL_ALLOWED,
    NOT_CHOSEN_BY_TEST,
    UNUSED,
    UNUSED_UNCHECKED,
    FreshRecords,
    HeldOutRecords,
    share_of_alpha,
)
from fairdp.certify.tables import cost_of_scores
from fairdp.config.certificate import CERTIFIABLE
from fairdp.metrics.rates import collapse_warning

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

_ASSUMED = {
    UNUSED: "none of these records was used for the model or an earlier certificate, as far as equal values can tell",
    UNUSED_UNCHECKED: "none of these records was used for the model or an earlier certificate; there was no list of "
    "used records to check",
    NOT_CHOSEN_BY_TEST: "nothing was chosen by its test records; fairdp's defaults were chosen with them in view",
    EQUAL_ALLOWED: "records that equal used ones are different people; the check was switched off",
}


def certificate_statement(certificate: Certificate | NotCertified) -> str:
    """What is promised and what is not, in words."""
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


def lines_beside_bounds(certificate: Certificate) -> list[str]:
    """What the statement says beside the bounds: how decisions are made, what was spent, what is assumed."""
    return [
        *_dilution_lines(certificate),
        *_coin_lines(certificate),
        _positive_rate_line(certificate),
        *_sequence_lines(certificate),
        *_selection_lines(certificate),
        *_earlier_lines(certificate),
        *_series_lines(certificate),
        *_score_lines(certificate),
        *_record_lines(certificate),
    ]


def _claim(name: str, gap: CertifiedGap) -> str:
    if not gap.claimed:
        return f"no claim about the {NAMES[name]}: an earlier bound was missed, and the sequence ended there."
    ratio = "" if gap.ratio is None else f"; smallest over largest rate at least {bound_below(gap.ratio)}"
    nothing = " (which says nothing)" if gap.tau >= 1 else ""
    return f"{NAMES[name]} at most {bound_above(gap.tau)}{nothing}, set by {gap.pair[0]} against {gap.pair[1]}{ratio}."


def _dilution_lines(certificate: Certificate) -> list[str]:
    dilution = certificate.dilution
    if dilution is None or not dilution.share:
        return []
    decision = "positive" if dilution.constant else "negative"
    estimated = estimated_metrics(certificate)["accuracy"]
    return [
        f"To reach {dilution.target_tau:g}, a share of {bound_above(dilution.share)} of all decisions is {decision} "
        f"whatever the record: estimated accuracy {estimated:.4f} instead of {undiluted_accuracy(certificate):.4f}."
    ]


def _positive_rate_line(certificate: Certificate) -> str:
    """A gap means nothing without the rate of positive decisions beside it."""
    estimated = estimated_metrics(certificate)
    rates = ", ".join(f"{name} {rate:.4f}" for name, rate in estimated["positive_rate_by_group"].items())
    collapse = collapse_warning(estimated["positive_rate"])
    warning = "" if collapse is None else f" Warning: {collapse}"
    return f"Estimated rate of positive decisions: {estimated['positive_rate']:.4f} ({rates}).{warning}"


def _coin_lines(certificate: Certificate) -> list[str]:
    rule = None if certificate.about is None else certificate.about.predictor
    if rule is None or not rule.tosses_coins:
        return []
    constant = "positive" if rule.constant else "negative"
    apart = f"A share of {bound_above(rule.dilution)} of all decisions is {constant} whatever the record. "
    return [
        f"{apart if rule.dilution and certificate.dilution is None else ''}"
        "Decisions are randomised: the gaps are between the probabilities of a positive decision, over coins that are "
        "independent for people with different ids (or, if no ids are given, with different records)."
    ]


def _sequence_lines(certificate: Certificate) -> list[str]:
    registration = certificate.registration
    if registration.require_tau is None:
        return []
    verdict = "met" if certificate.met else "missed"
    required = f"Required beforehand: {registration.require_tau:g} for every gap, tested in this order"
    looks = looks_in_words(certificate)
    if looks is None:
        return [f"{required}: {verdict}."]
    return [
        f"{required} at up to {registration.n_looks} looks during training, all paid for, until one misses it: "
        f"{verdict}; {looks}. A bound that is met is claimed as it was required: what a look found below it is not."
    ]


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


def _selection_lines(certificate: Certificate) -> list[str]:
    trials = certificate.registration.expected_trials
    if trials == 1:
        return []
    return [
        f"These same counts picked the model as the best of a random number of trials, {trials:g} on average. The "
        "failure probability of each trial's bounds was divided by that number, so the confidence holds for the model "
        "that was kept. The estimates are those of a winner, so they are a little too good."
    ]


def _earlier_lines(certificate: Certificate) -> list[str]:
    n_earlier = 0 if certificate.about is None else len(certificate.about.earlier)
    if not n_earlier:
        return []
    return [
        f"This is certificate {n_earlier + 1} of the model. Rely on one that was named before it was made; for "
        "the best of them, picked afterwards, the failure probabilities add up."
    ]


def _series_lines(certificate: Certificate) -> list[str]:
    records = None if certificate.about is None else certificate.about.records
    if not isinstance(records, FreshRecords) or records.series is None:
        return []
    number, of = records.series
    alpha = (1 - certificate.confidence) / share_of_alpha(number, of)
    which = f"number {number} of {of} certificates" if of else f"number {number} of certificates without end"
    return [
        f"It is {which} of the model that hold all together with confidence {100 * (1 - alpha):g} %: each spends its "
        "part of the failure probability."
    ]


def _score_lines(certificate: Certificate) -> list[str]:
    """What counts of scores took from epsilon, and what this is expected to cost; or why there are none."""
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


def _record_lines(certificate: Certificate) -> list[str]:
    """What fresh records spent, which the privacy statement does not cover; a fixed seed; what is assumed."""
    about, lines = certificate.about, []
    fresh = about.records if about is not None and isinstance(about.records, FreshRecords) else None
    if fresh is not None:
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
