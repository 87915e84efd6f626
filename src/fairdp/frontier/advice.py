"""A verdict in words: one line for each statement, with what to try next; parameters are in backquotes."""

import math

from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.statement import looks_in_words
from fairdp.config.certificate import CERTIFIABLE
from fairdp.frontier.evidence import TRAINING
from fairdp.frontier.judging import Quality, TargetMet, Verdict

_MORE_EVIDENCE = "more records, a larger `epsilon`, a larger `certify_fraction`"
_MORE_TO_LEARN = (
    "Try more records, a larger `epsilon`, or inputs that tell more about the label; check that labels and rows belong "
    "together."
)
# A ranking that is less certain than this is not worth stating.
_HIDDEN, _NOT_SEEN = 0.15, "hidden by noise"
# Errors to either side that an interval of 95 % has.
_REACH = 1.96
# Labels that are rarer than this are seldom predicted by the best of models.
_RARE = 0.15
_BY_GROUP = "`method` dp_postprocess, which uses the group at prediction"


def verdict_lines(verdict: Verdict, certificate: Certificate | NotCertified) -> list[str]:
    """The verdict, then the target, the quality, and the groups that could not be measured.

    Where several looks were registered, what came of them; if the first missed what is required, at once.
    """
    lines, required = [f"{verdict.verdict}: {_reason(verdict)}"], "`require_tau`"
    looks = looks_in_words(certificate) if isinstance(certificate, Certificate) else None
    if looks is not None and certificate.met:
        lines.append(f"{required} met: {looks}.")
    elif looks is not None:
        reason = _reason(verdict)
        lines = [f"{verdict.verdict}, and {required} missed: {looks}. {reason[0].upper()}{reason[1:]}"]
    if verdict.target is not None:
        lines.append(f"target: {_target(verdict.target)}")
    if verdict.quality is not None:
        lines.append(f"quality: {_quality(verdict.quality, verdict.counted_on)}")
    if verdict.unmeasured:
        lines.append(f"not measured: {unmeasured(verdict.unmeasured)}")
    return lines


def unmeasured(names: tuple[str, ...]) -> str:
    """Which groups could not be measured, and what would help."""
    them = "this group" if len(names) == 1 else "these groups"
    return (
        f"{', '.join(names)}. The noise hides the rate of {them}, so nothing is claimed about it. Try merging small "
        "groups, more records, or a larger `epsilon`."
    )


def remedy(verdict: Verdict) -> str:
    """What to try next; nothing for a good model."""
    return _found_and_remedy(verdict)[1]


def _reason(verdict: Verdict) -> str:
    found, advice = _found_and_remedy(verdict)
    return f"{found}. {advice}" if advice else f"{found}."


def _found_and_remedy(verdict: Verdict) -> tuple[str, str]:
    return {
        "good": _good,
        "missed": _missed,
        "weak": _weak,
        "collapsed": _collapsed,
        "undecided": _undecided,
    }[verdict.verdict](verdict)


def _good(verdict: Verdict) -> tuple[str, str]:
    learnt = "the model has learnt to tell the labels apart"
    if verdict.target is None:
        return f"{learnt}; it was trained without a fairness target", ""
    return f"{learnt}, and its fairness target is met", ""


def _missed(verdict: Verdict) -> tuple[str, str]:
    target = verdict.target
    assert target is not None
    assert target.estimate is not None
    what = "ratio" if target.kind == "min_ratio" else "gap"
    found = f"{what} about {target.estimate:.2f} instead of {target.value:.2f}"
    if target.rest is None:
        kept = "; no price on the frontier closes the rest and keeps two thirds of the positive decisions"
        looser = "`min_ratio`" if target.kind == "min_ratio" else "`max_gap`"
        unreachable = kept if verdict.has_prices else ""
        return f"{found}{unreachable}", f"Try {_BY_GROUP}, a looser {looser}, more records, or a larger `epsilon`."
    price, cost = target.rest
    if target.price is not None and price <= target.price + 1e-6:
        misled = "held-out records differ from them or the noise misled the choice"
        return (
            f"{found}, although the training records suggested that it would be met: {misled}",
            "Try a stricter target, more records, or a larger `epsilon`.",
        )
    return (
        f"{found}; closing the rest would cost about {_points(cost)} of accuracy",
        f"Try `price` {_rounded(price)} to pay for it, or {_BY_GROUP}.",
    )


def _weak(verdict: Verdict) -> tuple[str, str]:
    return "the model has learnt next to nothing, so its gap says nothing either", _MORE_TO_LEARN


def _collapsed(verdict: Verdict) -> tuple[str, str]:
    assert verdict.positive_rate is not None
    assert verdict.base_rate is not None
    decision = "negative" if verdict.positive_rate < 0.5 else "positive"
    found = f"nearly everybody gets the {decision} decision (positive rate {verdict.positive_rate:.3f}"
    found += f", while {verdict.base_rate:.3f} of the labels are positive)"
    quality = verdict.quality
    if quality is not None and quality.learnt == "no":
        return f"{found}, and the model has learnt next to nothing", _MORE_TO_LEARN
    found += ": a small gap is then worth nothing"
    if not (quality is not None and quality.learnt == "yes") and _RARE < verdict.base_rate < 1 - _RARE:
        return found, "Try more records, a larger `epsilon`, or more `n_steps`."
    ratio = _rounded((1 - verdict.base_rate) / max(verdict.base_rate, 1e-3))
    doubt = "" if quality is not None and quality.learnt == "yes" else "; or more records, or a larger `epsilon`"
    method = "" if verdict.has_prices else "`method` fairdp_frontier with "
    return found, (
        f"Try {method}`cost_ratio` {ratio}, by which whoever is likelier than the average to have the positive label "
        f"is accepted, or a value between 1 and that{doubt}."
    )


def _undecided(verdict: Verdict) -> tuple[str, str]:
    quality, target = verdict.quality, verdict.target
    if quality is None:
        return (
            "no counts were paid for that could tell whether the model is any good",
            "Try a `certify_fraction` above 0, or `method` fairdp_frontier.",
        )
    doubts = []
    if quality.learnt != "yes":
        doubts.append("whether the model has learnt anything")
    if target is not None and target.met != "yes":
        doubts.append("whether the fairness target is met")
    merge = ", or merging small groups" if verdict.unmeasured else ", or a looser target"
    return f"the noisy counts do not tell {' or '.join(doubts)}", f"Try {_MORE_EVIDENCE}{merge}."


def _target(target: TargetMet) -> str:
    name = CERTIFIABLE[target.metric].name
    limit = f"at most {target.value:g}"
    if target.kind == "min_ratio":
        name, limit = name.replace("gap", "ratio"), f"at least {target.value:g}"
    default = "" if target.explicit else ", by default"
    if target.estimate is None or target.error is None:
        return f"{name} {limit}{default}; nothing was counted that could tell whether it is met."
    outcome = {"yes": "met", "no": "missed", "undecided": "undecided"}[target.met]
    among = ""
    if target.unmeasured:
        among = " among the groups that can be measured" if target.n_measured > 1 else " of the two groups known best"
    most = 1.0 if target.kind == "max_gap" else math.inf
    found = f"{name} {_with_interval(target.estimate, target.error, most)}{among}"
    if target.met == "undecided" and _lies_beyond(target.estimate, target.error, target):
        # The interval is of one gap alone; a miss is stated only where it is no chance find among all pairs.
        outcome = "undecided, because the largest of several gaps may look so by chance"
    said = f"{found}; {limit} was aimed at{default}: {outcome}"
    if target.price:
        said += f", at a price of {target.price:.2f} points of accuracy for each point of gap"
    return f"{said}."


def _quality(quality: Quality, counted_on: str | None) -> str:
    accuracy = _with_interval(quality.accuracy, quality.accuracy_error, 1.0)
    said, where = f"accuracy {accuracy}, majority class {quality.majority_accuracy:.3f}", ""
    if quality.auc is not None and quality.auc_error is not None:
        where = "" if counted_on == TRAINING else ", the ranking on training records"
        seen = quality.auc_error < _HIDDEN
        said += f"; ranking (ROC-AUC) {_with_interval(quality.auc, quality.auc_error, 1.0) if seen else _NOT_SEEN}"
    if quality.learnt == "yes" and quality.accuracy < quality.majority_accuracy - 0.01:
        said += "; less accurate than the majority class, as accepting more people is, but it ranks them"
    learnt = {"yes": "learnt", "no": "not learnt", "undecided": "undecided"}[quality.learnt]
    return f"{said}: {learnt}. Counted with noise on {counted_on}{where}."


def _lies_beyond(value: float, error: float, target: TargetMet) -> bool:
    """Whether the interval that is shown leaves the target out."""
    reach = _REACH * error
    return value - reach > target.value if target.kind == "max_gap" else value + reach < target.value


def _with_interval(value: float, error: float, most: float) -> str:
    reach = _REACH * error
    return f"about {value:.3f} ({max(value - reach, 0):.3f} to {min(value + reach, most):.3f})"


def _points(cost: float) -> str:
    points = 100 * cost
    return "less than 0.1 points" if points < 0.1 else f"{points:.1f} points"


def _rounded(value: float) -> str:
    """Two digits, rounded up."""
    digits = 1 - math.floor(math.log10(max(value, 1e-3)))
    return f"{math.ceil(value * 10**digits - 1e-9) / 10**digits:g}"
