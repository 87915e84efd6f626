"""What a command has to say about a model, in five lines before any table: any bad news stands in the first."""

import math
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairdp._format import bound_above, bound_below, rounded_up
from fairdp.accounting.words import PUBLISHED
from fairdp.cli.flags import help_in_flags
from fairdp.config.certificate import CERTIFIABLE

if TYPE_CHECKING:
    from fairdp.accounting.spent import PrivacySpent
    from fairdp.certify.certificate import Certificate, NotCertified
    from fairdp.commands.certificate_report import CertificateReport
    from fairdp.commands.fit_report import FitReport
    from fairdp.commands.retarget import RetargetReport
    from fairdp.frontier.judging import Quality, TargetMet
    from fairdp.frontier.verdict import Verdict

Line = tuple[str, str]

_HEAD, _WIDTH, _WIDEST = 10, 80, 100
_N_NAMED = 3
# A blank at which no line ends.
_TOGETHER = "\N{NO-BREAK SPACE}"
_RESULTS = {
    "good": "good",
    "missed": "target missed",
    "weak": "not usable, next to nothing was learnt",
    "collapsed": "not usable, nearly everybody gets the same decision",
    "undecided": "not known to be good",
}


def print_answer(lines: Sequence[Line]) -> None:
    """One paragraph for each line, under its heading, as wide as the terminal allows."""
    width = min(shutil.get_terminal_size().columns, _WIDEST) if sys.stdout.isatty() else _WIDTH
    for head, text in lines:
        folded = textwrap.fill(
            text,
            width=max(width - 1, 2 * _HEAD),
            initial_indent=head.ljust(_HEAD),
            subsequent_indent=" " * _HEAD,
            break_long_words=False,
            break_on_hyphens=False,
        )
        print(folded.replace(_TOGETHER, " "))


def fit_answer(report: "FitReport") -> list[Line]:
    """Which decision, how private, how fair, of what use, and what to do next."""
    verdict, certificate = report.verdict, report.certificate
    decision = report.positive if report.label is None else f"{report.label}{_TOGETHER}={_TOGETHER}{report.positive}"
    trained = f"{_headline(report)}: {report.method} on {report.dataset}; a positive decision says: {decision}"
    chosen = [] if report.tuned is None else [("chosen", _pairs(report.tuned.chosen))]
    return [
        ("result", trained),
        *chosen,
        ("privacy", _privacy(report.privacy)),
        ("fairness", _fairness(verdict.target, certificate)),
        ("useful", _useful(report)),
        ("next", _next(report)),
    ]


def retarget_answer(report: "RetargetReport") -> list[Line]:
    """How the moved rule is doing, by the counts that were paid for when it was trained."""
    verdict = report.verdict
    moved = f"the rule was moved and written to {report.out}; a positive decision says: {report.positive}"
    certify = f"fairdp certify {report.out} FRESH-TABLE --epsilon E makes a certificate of the moved rule"
    return [
        ("result", f"{_RESULTS[verdict.verdict]}: {moved}"),
        ("privacy", "nothing was spent: no record was looked at"),
        ("fairness", f"{_target(verdict.target)}; not certified: the rule was moved after it was certified"),
        ("useful", "not known" if verdict.quality is None else _quality(verdict, verdict.quality)),
        ("next", certify),
    ]


def certificate_answer(report: "CertificateReport") -> list[Line]:
    """What the new certificate says, what it cost, and what to do with it."""
    certificate = report.certificate
    required = certificate.registration.require_tau
    result = "certified" if required is None else f"required tau {required:g} {'met' if certificate.met else 'missed'}"
    on = f"{report.method} on {report.n_certify:,} fresh records; a positive decision says: {report.positive}"
    sizes = getattr(certificate.about and certificate.about.records, "sizes_epsilon", 0.0)
    spent = f"epsilon {rounded_up(certificate.epsilon + sizes)} of the fresh records, of nobody else"
    bounds = [f"{CERTIFIABLE[name].name} {_bound(certificate, name)}" for name in certificate.gaps]
    return [
        ("result", f"{result}: {on}"),
        ("privacy", spent),
        ("fairness", f"{'; '.join(bounds)} ({100 * certificate.confidence:g} %)"),
        ("next", f"the certificate is in {report.out}; fairdp report {report.out} writes a page for your reviewer"),
    ]


def _headline(report: "FitReport") -> str:
    """The result in a few words; what was promised beforehand and is missed goes first."""
    found = [_RESULTS[report.verdict.verdict]]
    if report.certificate.certified and not report.certificate.met:
        found = ["required tau missed", *(found if report.verdict.verdict != "good" else [])]
    if math.isinf(report.privacy.epsilon):
        found.insert(0, "not private")
    return ", ".join(found)


def _privacy(spent: "PrivacySpent") -> str:
    if math.isinf(spent.epsilon):
        return "none: the model was trained without noise"
    pure = spent.noise_allocation == "laplace" and spent.selection is None and spent.reading is None
    covered = ["model"]
    covered += ["search"] if spent.selection else []
    covered += ["reading of the columns"] if spent.reading else []
    covered += ["certificate"] if spent.certify_epsilons else []
    together = f"{', '.join(covered[:-1])} and {covered[-1]}" if len(covered) > 1 else covered[0]
    level = f"epsilon {rounded_up(spent.epsilon)}{'' if pure else f' at delta {spent.delta:g}'}"
    seeded = "; keep the seed secret" if spent.noise_seeded else ""
    return f"{level}, for {together}{_in_all(spent)}{seeded}"


def _in_all(spent: "PrivacySpent") -> str:
    """What else the ledger has of the table."""
    note = spent.ledger
    if note is None:
        return "" if PUBLISHED in spent.public_assumptions else "; no ledger was kept of what else is released"
    if note.epsilon_sum <= spent.epsilon * (1 + 1e-6):
        return f"; the first release about {note.table} in the ledger"
    return f"; with all releases about {note.table} in the ledger {rounded_up(note.epsilon_sum)}"


def _fairness(target: "TargetMet | None", certificate: "Certificate | NotCertified") -> str:
    parts = [*_required(certificate), _target(target)]
    metric = target.metric if target is not None else next(iter(certificate.gaps), None)
    gap = None if metric is None else certificate.gaps.get(metric)
    if not certificate.certified:
        from fairdp.certify.certificate import NotCertified

        assert isinstance(certificate, NotCertified)
        parts.append(f"not certified: {help_in_flags(certificate.reason.explanation)}")
    elif gap is not None and metric is not None:
        named = "" if target is not None else f"{CERTIFIABLE[metric].name} "
        ratio = target is not None and target.kind == "min_ratio"
        parts.append(
            f"certified: {named}{_bound(certificate, metric, ratio=ratio)} ({100 * certificate.confidence:g} %)"
        )
    else:
        parts.append("certified: only gaps other than the target's, see the table")
    return "; ".join(parts)


def _required(certificate: "Certificate | NotCertified") -> list[str]:
    """Whether what was required beforehand is met, and at which look if there were several."""
    from fairdp.certify.certificate import Certificate
    from fairdp.certify.statement import looks_in_words

    if not isinstance(certificate, Certificate) or certificate.registration.require_tau is None:
        return []
    looks = looks_in_words(certificate)
    said = f"required tau {certificate.registration.require_tau:g} {'met' if certificate.met else 'missed'}"
    return [said if looks is None else f"{said}: {looks}"]


def _target(target: "TargetMet | None") -> str:
    if target is None:
        return "no target was asked for"
    ratio = target.kind == "min_ratio"
    name = CERTIFIABLE[target.metric].name
    limit = f"at {'least' if ratio else 'most'} {target.value:g}{' asked for' if target.explicit else ' by default'}"
    name = name.replace("gap", "ratio") if ratio else name
    if target.estimate is None:
        return f"target not measured: {name}, {limit}"
    said = {"yes": "target met", "no": "target missed", "undecided": "target undecided"}[target.met]
    hidden = f"; not in it, hidden by noise: {_few(target.unmeasured)}" if target.unmeasured else ""
    return f"{said}: {name} about {target.estimate:.3f}, {limit}{hidden}"


def _bound(certificate: "Certificate | NotCertified", metric: str, *, ratio: bool = False) -> str:
    """What is certified, rounded to the safe side."""
    gap = certificate.gaps[metric]
    if not gap.claimed:
        return "not bounded, because an earlier bound was missed"
    if ratio and gap.ratio is not None:
        return f"at least {bound_below(gap.ratio)}"
    return "nothing, with so few records" if gap.tau >= 1 else f"at most {bound_above(gap.tau)}"


def _useful(report: "FitReport") -> str:
    quality = report.verdict.quality
    if quality is not None:
        return _quality(report.verdict, quality)
    metrics = report.metrics
    if metrics is None:
        return "not known: there are no test records and no certificate"
    measured = f"{metrics['accuracy']:.3f}, majority class {metrics['majority_accuracy']:.3f}"
    return f"not known from paid counts; accuracy on the test records {measured}"


def _quality(verdict: "Verdict", quality: "Quality") -> str:
    against = f"accuracy about {quality.accuracy:.3f}, majority class {quality.majority_accuracy:.3f}"
    if verdict.verdict == "collapsed" and verdict.positive_rate is not None and verdict.base_rate is not None:
        rates = f"positive rate {verdict.positive_rate:.3f}, of the labels {verdict.base_rate:.3f}"
        return f"no: {'almost nobody' if verdict.positive_rate < 0.5 else 'almost everybody'} is accepted ({rates})"
    if quality.learnt == "yes" and quality.accuracy < quality.majority_accuracy:
        return f"yes, as a ranking; its decisions are less accurate than the majority class: {against}"
    return f"{ {'yes': 'yes', 'no': 'no', 'undecided': 'not known'}[quality.learnt] }: {against}"


def _next(report: "FitReport") -> str:
    """The command to run, or what to change; a model that was not kept is gone, its epsilon is not."""
    from fairdp.frontier.advice import remedy

    advice = help_in_flags(remedy(report.verdict))
    private = PUBLISHED not in report.privacy.public_assumptions and math.isfinite(report.privacy.epsilon)
    if report.out is None:
        kept = "the model was not kept" + (", though its epsilon is spent" if private else "")
        return f"{kept}: add --out model/ to keep one{f'; {advice[0].lower()}{advice[1:]}' if advice else ''}".rstrip(
            "."
        )
    page = f"fairdp report {report.out} writes a page for your reviewer"
    if not advice:
        return page
    again = " (another run adds its epsilon)" if private else ""
    return f"{advice[0].lower()}{advice[1:].rstrip('.')}{again}; {page}"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _N_NAMED} more" if len(names) > _N_NAMED else ""
    return f"{', '.join(names[:_N_NAMED])}{more}"


def _pairs(values: "dict[str, object]") -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
