"""A certificate as people read it: in words, with estimates that may be published, and as one JSON record."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp._format import bound_above, bound_below, rounded_up
from fairdp.certify.certificate import FRESH, Certificate, NotCertified
from fairdp.certify.claims import CertifiedGap
from fairdp.metrics.rates import collapse_warning, metrics_of_counts

NAMES = {
    "demographic_parity": "demographic parity gap",
    "equal_opportunity": "equal opportunity gap",
    "equalized_odds": "equalized odds gap",
}

DEFINITIONS = {
    "demographic_parity": "largest difference of two groups' rates of positive decisions",
    "equal_opportunity": "the same among records with a positive label",
    "equalized_odds": "the larger of the two, among records with a positive and with a negative label",
    "ratio": "smallest over largest of the groups' rates of positive decisions",
}

NOT_PROMISED = (
    "other populations than the one the records were drawn from",
    "groups that are not named",
    "fairness between individuals",
    "that a small gap is useful (see the positive rate)",
    "the model after any change",
    "the best of several certificates picked after seeing them",
)


def certificate_statement(certificate: Certificate | NotCertified) -> str:
    """What is promised, in words, and what is not."""
    if isinstance(certificate, NotCertified):
        return f"Fairness certificate: not certified, because {certificate.reason}."
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
        *_spending_lines(certificate),
        *(f"Assumed: {assumption}." for assumption in certificate.about.get("assumed", [])),
    ]


def estimated_metrics(certificate: Certificate) -> dict[str, Any]:
    """Metrics of the deployed model from the released counts alone, so that they may be published; no AUC follows."""
    return {"auc": math.nan, **metrics_of_counts(_deployed_counts(certificate), certificate.group_names)}


def certificate_record(certificate: Certificate | NotCertified) -> dict[str, Any]:
    """Everything that a reader needs to use the certificate and to compute it again."""
    record = certificate.to_dict()
    if isinstance(certificate, Certificate):
        record = {**record, "estimates": estimated_metrics(certificate), "definitions": DEFINITIONS}
        if certificate.dilution is not None:
            record["dilution"] = {**record["dilution"], "accuracy_undiluted": _undiluted_accuracy(certificate)}
    return {**record, "statement": certificate_statement(certificate)}


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
        f"whatever the record: estimated accuracy {estimated:.4f} instead of {_undiluted_accuracy(certificate):.4f}."
    ]


def _positive_rate_line(certificate: Certificate) -> str:
    """A gap is worth nothing without the rate of positive decisions beside it."""
    estimated = estimated_metrics(certificate)
    rates = ", ".join(f"{name} {rate:.4f}" for name, rate in estimated["positive_rate_by_group"].items())
    collapse = collapse_warning(estimated["positive_rate"])
    warning = "" if collapse is None else f" Warning: {collapse}"
    return f"Estimated rate of positive decisions: {estimated['positive_rate']:.4f} ({rates}).{warning}"


def _coin_lines(certificate: Certificate) -> list[str]:
    rule = certificate.about.get("predictor", {})
    if rule.get("kind", "deterministic") == "deterministic" and not rule.get("dilution") and not rule.get("flips"):
        return []
    constant = "positive" if rule.get("constant") else "negative"
    apart = f"A share of {bound_above(rule['dilution'])} of all decisions is {constant} whatever the record. "
    return [
        f"{apart if rule.get('dilution') and certificate.dilution is None else ''}"
        "The model decides by chance: the gaps are those of the chances of a positive decision, over coins that are "
        "independent for people with different ids (or, where none are given, different records)."
    ]


def _sequence_lines(certificate: Certificate) -> list[str]:
    registration = certificate.registration
    if registration.require_tau is None:
        return []
    looks = "" if registration.n_looks == 1 else f", at most {registration.n_looks} looks, all paid for"
    verdict = "met" if certificate.met else "missed"
    return [f"Required beforehand: {registration.require_tau:g} for every gap, tested in this order{looks}: {verdict}."]


def _selection_lines(certificate: Certificate) -> list[str]:
    trials = certificate.registration.expected_trials
    if trials == 1:
        return []
    return [
        f"The model was kept as the best of a random number of trials, {trials:g} on average, by these very counts: "
        "the bounds of each trial got so much less of the failure probability, and the confidence holds for the one "
        "that was kept. The estimates beside them are those of a winner and so a little too good."
    ]


def _earlier_lines(certificate: Certificate) -> list[str]:
    n_earlier = len(certificate.about.get("earlier", []))
    if not n_earlier:
        return []
    return [
        f"This is certificate {n_earlier + 1} of the model. Rely on one that was named before it was made; the best of "
        "them, picked afterwards, fails with their failure probabilities added up."
    ]


def _spending_lines(certificate: Certificate) -> list[str]:
    """What fresh records have spent, which the model's privacy statement does not know of; and a known seed."""
    about, lines = certificate.about, []
    if about.get("records") == FRESH:
        spent = certificate.epsilon + about["sizes_epsilon"]
        lines.append(
            f"Each of its records spent a pure epsilon of {rounded_up(spent)} (adding or removing one record); their "
            f"group sizes are {about['sizes']}."
        )
    if about.get("noise_seeded"):
        lines.append(
            "The noise on the counts came from a fixed seed: it protects only while the seed is secret and "
            "used for this certificate alone."
        )
    return lines


def _deployed_counts(certificate: Certificate) -> NDArray[np.float64]:
    counts = np.array(certificate.counts, dtype=np.float64).clip(min=0)
    if certificate.dilution is None:
        return counts
    constant = np.zeros_like(counts)
    constant[..., certificate.dilution.constant] = counts.sum(-1)
    return (1 - certificate.dilution.share) * counts + certificate.dilution.share * constant


def _undiluted_accuracy(certificate: Certificate) -> float:
    counts = np.array(certificate.counts, dtype=np.float64).clip(min=0)
    return float((counts[:, 0, 0].sum() + counts[:, 1, 1].sum()) / counts.sum()) if counts.sum() else math.nan
