"""Three lines at the head of a report: is the arithmetic checked, the guarantee reached, the model useful."""

from dataclasses import dataclass

from fairdp._checks import in_words
from fairdp._format import bound_above, bound_below
from fairdp.certify.certificate import Certificate
from fairdp.certify.statement import NAMES
from fairdp.frontier.judging import TargetMet
from fairdp.report.model import ModelReport

YES, NO, UNDECIDED, NOT_ASKED = "yes", "no", "undecided", "not asked for"
# Of a model that orders people well and whose decisions a constant would beat.
RANKS = "yes, as a ranking; its decisions are less accurate than the majority class"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One question with its own answer, ``state``, one of the answers above, and what it rests on."""

    name: str
    state: str
    text: str


def standings(report: ModelReport) -> list[Standing]:
    """The three lines. They are independent: none stands for another, and none of them for an approval."""
    asked, useful = _guarantee(report), _useful(report)
    if not report.verified:
        asked, useful = _unconfirmed(asked), _unconfirmed(useful)
    return [_arithmetic(report), asked, useful]


def _unconfirmed(standing: Standing) -> Standing:
    if standing.state == NOT_ASKED:
        return standing
    claimed = f"not confirmed, because a check failed. What the folder says: {standing.text}"
    return Standing(name=standing.name, state=UNDECIDED, text=claimed)


def _arithmetic(report: ModelReport) -> Standing:
    failed = [check.name for check in report.checks if not check.passed]
    n_checks = len(report.checks)
    if failed:
        text = f"{len(failed)} of {n_checks} checks failed: {', '.join(failed)}. Do not rely on the figures below."
    else:
        text = (
            f"all {n_checks} checks agree: the privacy and every bound follow from what the folder records. This is no "
            "judgement of the model."
        )
    return Standing(name="Arithmetic checked", state=NO if failed else YES, text=text)


def _guarantee(report: ModelReport) -> Standing:
    """The certified bound against what was asked for: before the certificate, by dilution, or as a target."""
    parameters, certificate = report.about.parameters, report.certificate
    required = parameters.get("require_tau")
    if isinstance(certificate, Certificate):
        required = certificate.registration.require_tau
        if required is None and certificate.dilution is not None:
            required = certificate.dilution.target_tau
    target = report.verdict.target
    if required is not None:
        state, text = _required(report, required)
    elif target is not None and target.explicit:
        state, text = _target(report, target)
    else:
        state, text = NOT_ASKED, f"no bound was asked for beforehand; {_known(report)}."
    return Standing(name="Guarantee asked for reached", state=state, text=text)


def _required(report: ModelReport, limit: float) -> tuple[str, str]:
    asked = f"at most {limit:g} was asked of every gap"
    if not isinstance(report.certificate, Certificate):
        return NO, f"{asked}, but {_known(report)}."
    reached = all(gap.tau <= limit for gap in report.certificate.gaps.values())
    return (YES if reached else NO), f"{asked}; {_known(report)}."


def _target(report: ModelReport, target: TargetMet) -> tuple[str, str]:
    """A bound decides with certainty; below that only estimates are known, which guarantee nothing."""
    ratio = target.kind == "min_ratio"
    what = NAMES[target.metric].replace("gap", "ratio") if ratio else NAMES[target.metric]
    limit = f"{'at least' if ratio else 'at most'} {target.value:g}"
    asked = f"{'an' if what[0] in 'ae' else 'a'} {what} of {limit} was asked for"
    gap = report.certificate.gaps.get(target.metric)
    bound = None if gap is None or not gap.claimed else gap.ratio if ratio else gap.tau
    if bound is not None and (bound >= target.value if ratio else bound <= target.value):
        return YES, f"{asked}; {_known(report)}."
    guess = "nothing was counted that could tell"
    if target.estimate is not None:
        words = {"yes": "seems to be met", "no": "is missed", "undecided": "may or may not be met"}
        hidden = f", without {', '.join(target.unmeasured)}, which noise hides" if target.unmeasured else ""
        guess = f"the target {words[target.met]}, by an estimate of {target.estimate:.3f} from noisy counts{hidden}"
    return (NO if target.met == NO else UNDECIDED), f"{asked}; {_known(report)}, and {guess}."


def _known(report: ModelReport) -> str:
    """What is certified, in a clause."""
    certificate = report.certificate
    if not isinstance(certificate, Certificate):
        return "no gap is certified"
    claims = [f"{NAMES[name]} ≤ {bound_above(gap.tau)}" for name, gap in certificate.gaps.items() if gap.claimed]
    parity = certificate.gaps.get("demographic_parity")
    if parity is not None and parity.ratio is not None:
        claims.append(f"ratio of positive rates ≥ {bound_below(parity.ratio)}")
    return f"certified with confidence {100 * certificate.confidence:g} %: {', '.join(claims)}"


def _useful(report: ModelReport) -> Standing:
    """Against the majority class: a constant decision that needs no model."""
    verdict = report.verdict
    if verdict.quality is None:
        state, text = UNDECIDED, "nothing that is paid for was counted that could tell."
    else:
        said = next(line for line in verdict.lines if line.startswith("quality: "))
        state, text = verdict.quality.learnt, in_words(said.removeprefix("quality: "), str)
        if state == YES and verdict.quality.accuracy < verdict.quality.majority_accuracy:
            state = RANKS
    if verdict.verdict == "collapsed":
        state, text = NO, f"nearly everybody gets the same decision. {text[0].upper()}{text[1:]}"
    return Standing(name="Model useful", state=state, text=text)
