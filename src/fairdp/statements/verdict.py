"""Every sentence about what a model is good for: the verdict, its target, and the standings of a page."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairdp.accounting.spent import PUBLISHED, PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.errors import in_words
from fairdp.frontier.verdict import NOT_AT_ALL, TRAINING, GroupOutlook, Quality, TargetMet, Verdict
from fairdp.parameters import CERTIFIABLE, DECLARED, Parameters
from fairdp.statements.certificate import bound_in_words, certified_in_a_clause, collapse_warning, looks_in_words

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
_DEFAULT = DECLARED["method"].default
_BY_GROUP = "`method` dp_postprocess, which uses the group at prediction"
# Groups that a line of the answer names.
_N_NAMED = 3
RESULTS = {
    "good": "good",
    "missed": "target missed",
    "weak": "not usable, next to nothing was learnt",
    "collapsed": "not usable, nearly everybody gets the same decision",
    "undecided": "not known to be good",
}
YES, NO, UNDECIDED, NOT_ASKED = "yes", "no", "undecided", "not asked for"
# Of a model that orders people well and whose decisions a constant would beat.
RANKS = "yes, as a ranking; its decisions are less accurate than the majority class"


@dataclass(frozen=True, kw_only=True)
class StatusLine:
    """One question with its own answer, ``state``, one of the answers above, and what it rests on."""

    name: str
    state: str
    text: str


def verdict_lines(verdict: Verdict) -> list[str]:
    """The verdict, then the target, the quality, and the groups that could not be measured; parameters in backquotes.

    Where several looks were registered, what came of them; if the first missed what is required, at once.
    """
    reason, required, certificate = _reason(verdict), "`require_tau`", verdict.certificate
    lines = [f"{verdict.verdict}: {reason}"]
    if isinstance(certificate, Certificate) and (looks := looks_in_words(certificate)) is not None:
        if certificate.met:
            lines.append(f"{required} met: {looks}.")
        else:
            lines = [f"{verdict.verdict}, and {required} missed: {looks}. {reason[0].upper()}{reason[1:]}"]
    if verdict.target is not None:
        lines.append(f"target: {_target_line(verdict.target)}")
    if verdict.quality is not None:
        lines.append(f"quality: {_quality_line(verdict.quality, verdict.counted_on)}")
    if verdict.unmeasured:
        them = "this group" if len(verdict.unmeasured) == 1 else "these groups"
        lines.append(
            f"not measured: {', '.join(verdict.unmeasured)}. The noise hides the rate of {them}, so nothing is claimed "
            "about it. Try merging small groups, more records, or a larger `epsilon`."
        )
    return lines


def remedy(verdict: Verdict) -> str:
    """Advice on what to try next; nothing for a good model."""
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
    method = "" if verdict.has_prices else f"`method` {_DEFAULT} with "
    return found, (
        f"Try {method}`cost_ratio` {ratio}, by which whoever is likelier than the average to have the positive label "
        f"is accepted, or a value between 1 and that{doubt}."
    )


def _undecided(verdict: Verdict) -> tuple[str, str]:
    quality, target = verdict.quality, verdict.target
    if quality is None:
        return (
            "no counts were paid for that could tell whether the model is any good",
            f"Try a `certify_fraction` above 0, or `method` {_DEFAULT}.",
        )
    doubts = []
    if quality.learnt != "yes":
        doubts.append("whether the model has learnt anything")
    if target is not None and target.met != "yes":
        doubts.append("whether the fairness target is met")
    merge = ", or merging small groups" if verdict.unmeasured else ", or a looser target"
    return f"the noisy counts do not tell {' or '.join(doubts)}", f"Try {_MORE_EVIDENCE}{merge}."


def _name_and_limit(target: TargetMet) -> tuple[str, str]:
    name = CERTIFIABLE[target.metric].name
    if target.kind == "min_ratio":
        return name.replace("gap", "ratio"), f"at least {target.value:g}"
    return name, f"at most {target.value:g}"


def _target_line(target: TargetMet) -> str:
    name, limit = _name_and_limit(target)
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


def _quality_line(quality: Quality, counted_on: str | None) -> str:
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
    """True if the interval that is shown leaves the target out."""
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


def outlook_warning(groups: list[GroupOutlook]) -> str | None:
    """Warning to a user some of whose groups cannot be measured."""
    hidden = [group for group in groups if not group.measurable]
    if not hidden:
        return None
    each = ", ".join(
        f"{group.group} ({_seen(group.standard_error)}; {group.records_needed:,.0f} training records or an epsilon of "
        f"{group.epsilon_needed:g} would do)"
        for group in hidden
    )
    return (
        f"the noise hides how these groups are treated: {each}. The target does not reach them: merge small groups, "
        "or use more records or a larger epsilon."
    )


def forewarning(groups: list[GroupOutlook]) -> str | None:
    """The same before training, when the share of positive labels is a guess: names alone, figures follow."""
    hidden = [group.group for group in groups if not group.measurable]
    if not hidden:
        return None
    return f"too few records at this epsilon to measure {', '.join(hidden)}."


def _seen(error: float) -> str:
    return "not seen at all" if error >= NOT_AT_ALL else f"seen to about ±{error:.2f}"


def result_in_words(verdict: Verdict, certificate: Certificate | NotCertified, spent: PrivacySpent) -> str:
    """The result in a few words; what was promised beforehand and is missed goes first."""
    found = [RESULTS[verdict.verdict]]
    if certificate.certified and not certificate.met:
        found = ["required tau missed", *(found if verdict.verdict != "good" else [])]
    if not spent.is_private:
        found.insert(0, "not private")
    return ", ".join(found)


def fairness_answer(
    target: TargetMet | None, certificate: Certificate | NotCertified, *, in_flags: Callable[[str], str]
) -> str:
    """The target and what is certified of it, in one line; ``in_flags`` names parameters as the reader types them."""
    parts = [*_required(certificate), target_answer(target)]
    metric = target.metric if target is not None else next(iter(certificate.gaps), None)
    gap = None if metric is None else certificate.gaps.get(metric)
    if isinstance(certificate, NotCertified):
        parts.append(f"not certified: {in_flags(certificate.reason.explanation)}")
    elif gap is not None and metric is not None:
        named = "" if target is not None else f"{CERTIFIABLE[metric].name} "
        ratio = target is not None and target.kind == "min_ratio"
        bound = bound_in_words(gap, ratio=ratio)
        parts.append(f"certified: {named}{bound} ({100 * certificate.confidence:g} %)")
    else:
        parts.append("certified: only gaps other than the target's, see the table")
    return "; ".join(parts)


def _required(certificate: Certificate | NotCertified) -> list[str]:
    """The bound that was required beforehand: met or missed, and at which look if there were several."""
    if isinstance(certificate, NotCertified) or certificate.registration.require_tau is None:
        return []
    looks = looks_in_words(certificate)
    said = f"required tau {certificate.registration.require_tau:g} {'met' if certificate.met else 'missed'}"
    return [said if looks is None else f"{said}: {looks}"]


def target_answer(target: TargetMet | None) -> str:
    """The target and whether it is met, in one line."""
    if target is None:
        return "no target was asked for"
    name, limit = _name_and_limit(target)
    limit += " asked for" if target.explicit else " by default"
    if target.estimate is None:
        return f"target not measured: {name}, {limit}"
    said = {"yes": "target met", "no": "target missed", "undecided": "target undecided"}[target.met]
    hidden = f"; not in it, hidden by noise: {_few(target.unmeasured)}" if target.unmeasured else ""
    return f"{said}: {name} about {target.estimate:.3f}, {limit}{hidden}"


def useful_answer(verdict: Verdict, metrics: Mapping[str, Any] | None) -> str:
    """Of what use the model is, in one line: by paid counts, or else by exact ``metrics``, if there are any."""
    if verdict.quality is not None:
        return quality_answer(verdict, verdict.quality)
    if metrics is None:
        return "not known: there are no test records and no certificate"
    measured = f"{metrics['accuracy']:.3f}, majority class {metrics['majority_accuracy']:.3f}"
    return f"not known from paid counts; accuracy on the test records {measured}"


def quality_answer(verdict: Verdict, quality: Quality) -> str:
    """Of what use the model is by paid counts, in one line."""
    against = f"accuracy about {quality.accuracy:.3f}, majority class {quality.majority_accuracy:.3f}"
    if verdict.verdict == "collapsed" and verdict.positive_rate is not None and verdict.base_rate is not None:
        rates = f"positive rate {verdict.positive_rate:.3f}, of the labels {verdict.base_rate:.3f}"
        return f"no: {'almost nobody' if verdict.positive_rate < 0.5 else 'almost everybody'} is accepted ({rates})"
    if quality.learnt == "yes" and quality.accuracy < quality.majority_accuracy:
        return f"{RANKS}: {against}"
    return f"{ {'yes': 'yes', 'no': 'no', 'undecided': 'not known'}[quality.learnt] }: {against}"


def next_answer(verdict: Verdict, spent: PrivacySpent, out: str | None, *, in_flags: Callable[[str], str]) -> str:
    """The command to run, or what to change; a model that was not kept is gone, its epsilon is not."""
    advice = in_flags(remedy(verdict))
    private = PUBLISHED not in spent.public_assumptions and spent.is_private
    if out is None:
        kept = "the model was not kept" + (", though its epsilon is spent" if private else "")
        try_this = f"; {advice[0].lower()}{advice[1:]}" if advice else ""
        return f"{kept}: add --out model/ to keep one{try_this}".rstrip(".")
    page = f"fairdp report {out} writes a page for your reviewer"
    if not advice:
        return page
    again = " (another run adds its epsilon)" if private else ""
    return f"{advice[0].lower()}{advice[1:].rstrip('.')}{again}; {page}"


def moved_answer(verdict: Verdict) -> str:
    """The target of a rule that was moved, and why nothing is certified of it."""
    return f"{target_answer(verdict.target)}; not certified: the rule was moved after it was certified"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _N_NAMED} more" if len(names) > _N_NAMED else ""
    return f"{', '.join(names[:_N_NAMED])}{more}"


def unconfirmed(line: StatusLine) -> StatusLine:
    """A line of a folder of which some check failed."""
    if line.state == NOT_ASKED:
        return line
    claimed = f"not confirmed, because a check failed. What the folder says: {line.text}"
    return StatusLine(name=line.name, state=UNDECIDED, text=claimed)


def arithmetic_line(failed: Sequence[str], n_checks: int) -> StatusLine:
    """The checks of the folder, of which these failed."""
    if failed:
        text = f"{len(failed)} of {n_checks} checks failed: {', '.join(failed)}. Do not rely on the figures below."
    else:
        text = (
            f"all {n_checks} checks agree: the privacy and every bound follow from what the folder records. This says "
            "nothing about quality."
        )
    return StatusLine(name="Arithmetic checked", state=NO if failed else YES, text=text)


def guarantee_line(verdict: Verdict, certificate: Certificate | NotCertified, parameters: Parameters) -> StatusLine:
    """The certified bound against what was asked for: before the certificate, or as a target."""
    required, target = parameters.require_tau, verdict.target
    if isinstance(certificate, Certificate):
        required = certificate.registration.require_tau
    if required is not None:
        state, text = _against_required(certificate, required)
    elif target is not None and target.explicit:
        state, text = _against_target(certificate, target)
    else:
        state, text = NOT_ASKED, f"no bound was asked for beforehand; {certified_in_a_clause(certificate)}."
    return StatusLine(name="Guarantee asked for reached", state=state, text=text)


def _against_required(certificate: Certificate | NotCertified, limit: float) -> tuple[str, str]:
    asked = f"at most {limit:g} was asked of every gap"
    if not isinstance(certificate, Certificate):
        return NO, f"{asked}, but {certified_in_a_clause(certificate)}."
    reached = all(gap.tau <= limit for gap in certificate.gaps.values())
    return (YES if reached else NO), f"{asked}; {certified_in_a_clause(certificate)}."


def _against_target(certificate: Certificate | NotCertified, target: TargetMet) -> tuple[str, str]:
    """A bound decides with certainty; below that only estimates are known, which guarantee nothing."""
    ratio = target.kind == "min_ratio"
    what, limit = _name_and_limit(target)
    asked = f"{'an' if what[0] in 'ae' else 'a'} {what} of {limit} was asked for"
    gap = certificate.gaps.get(target.metric)
    bound = None if gap is None or not gap.claimed else gap.ratio if ratio else gap.tau
    if bound is not None and (bound >= target.value if ratio else bound <= target.value):
        return YES, f"{asked}; {certified_in_a_clause(certificate)}."
    guess = "nothing was counted that could tell"
    if target.estimate is not None:
        words = {"yes": "seems to be met", "no": "is missed", "undecided": "may or may not be met"}
        hidden = f", without {', '.join(target.unmeasured)}, which noise hides" if target.unmeasured else ""
        guess = f"the target {words[target.met]}, by an estimate of {target.estimate:.3f} from noisy counts{hidden}"
    return (NO if target.met == NO else UNDECIDED), f"{asked}; {certified_in_a_clause(certificate)}, and {guess}."


def useful_line(verdict: Verdict) -> StatusLine:
    """Against the majority class: a constant decision that needs no model."""
    quality = verdict.quality
    if quality is None:
        state, text = UNDECIDED, "nothing that is paid for was counted that could tell."
    else:
        state, text = quality.learnt, _quality_line(quality, verdict.counted_on)
        if state == YES and quality.accuracy < quality.majority_accuracy:
            state = RANKS
    if verdict.verdict == "collapsed":
        state, text = NO, f"nearly everybody gets the same decision. {text[0].upper()}{text[1:]}"
    return StatusLine(name="Model useful", state=state, text=text)


def verdict_in_words(verdict: Verdict) -> list[tuple[str, str]]:
    """The verdict of the paid counts: a heading for each line, and the rest of it."""
    lines = [in_words(line, str).split(": ", 1) for line in verdict.lines]
    return [(heading, rest[:1].upper() + rest[1:]) for heading, rest in lines]


def decision_cautions(positive_rate: float, *, uses_group: bool, tosses_coins: bool) -> list[str]:
    """Warnings about the decisions of a rule, with its estimated rate, NaN for none."""
    found = []
    collapse = None if math.isnan(positive_rate) else collapse_warning(positive_rate)
    if collapse:
        found.append(f"Collapsed: {collapse}")
    if uses_group:
        found.append(
            "Group used in decisions: the decision about a person depends on their group, which must be given with "
            "every record."
        )
    if tosses_coins:
        found.append(
            "Randomised decisions: people with equal records may get different decisions, by a keyed coin for each."
        )
    return found
