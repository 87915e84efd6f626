"""Results as JSON or as tables in the terminal."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairdp._files import json_bytes, to_plain
from fairdp._format import bound_above, bound_below, rounded_up
from fairdp.cli.frontiers import print_frontier, print_outlook, print_verdict
from fairdp.cli.tables import print_table

if TYPE_CHECKING:  # Commands that print a list should not wait for torch.
    from fairdp.accounting.spent import PrivacySpent
    from fairdp.certify.certificate import Certificate, NotCertified
    from fairdp.commands.certify import CertificateReport
    from fairdp.commands.fit_report import FitReport
    from fairdp.commands.plan import ExpectedWidths, PlanReport
    from fairdp.commands.retarget import RetargetReport
    from fairdp.commands.saved_models import EvaluationReport
    from fairdp.saved.verify.check import Check

METRIC_NAMES = {
    "auc": "ROC-AUC",
    "accuracy": "accuracy",
    "majority_accuracy": "majority-class accuracy",
    "positive_rate": "positive rate",
    "demographic_parity_difference": "demographic parity gap",
    "demographic_parity_ratio": "demographic parity ratio",
    "equal_opportunity_difference": "equal opportunity gap",
    "equalized_odds_difference": "equalized odds gap",
    "false_positive_rate_difference": "false positive rate gap",
}


def print_fit(report: "FitReport", *, as_json: bool) -> None:
    """The result of a training run."""
    if as_json:
        print_json(report.to_json())
        return
    print_verdict(report.verdict)
    print(f"\n{report.method} on {report.dataset}: {_sizes(report)}; positive: {report.positive}")
    if report.tuned is not None:
        print(f"chosen: {', '.join(f'{name}={value}' for name, value in report.tuned.chosen.items())}")
    print_table(None, _privacy_rows(report.privacy))
    bounds = _bounds(report.certificate)
    rows = [(label, value, bounds.get(name, "")) for name, label, value in _metrics(report.metrics)]
    rows.insert(4, (*_by_group_row(report.metrics), ""))
    measured = "on the test records" if report.n_train is not None else "from the noisy counts"
    level = f"certified, {100 * report.certificate.confidence:g} %" if bounds else ""
    print_table(None, rows, headers=("", measured, level))
    if report.frontier and report.chosen and len(report.frontier) > 1:
        print_frontier(report.frontier, report.chosen)
    print(f"{report.statement}\n\n{report.certificate_statement}\n")
    if report.out:
        print(f"Model written to {report.out}.")
    print_warnings(report.warnings)


def print_evaluation(report: "EvaluationReport", *, as_json: bool) -> None:
    """Metrics with their confidence intervals."""
    if as_json:
        print_json(report)
        return
    intervals = {name: _interval(*ends) for name, ends in report.intervals.items()}
    rows = [(label, value, intervals.get(name, "")) for name, label, value in _metrics(report.metrics)]
    rows.insert(4, (*_by_group_row(report.metrics), ""))
    level = f"{100 * report.confidence:g} % interval"
    print_table(f"{report.method} on {report.n_test:,} records", rows, headers=("", "", level))
    print(report.note)
    print_warnings(report.warnings)


def print_certificate(report: "CertificateReport", *, as_json: bool) -> None:
    """A new certificate of a saved model."""
    if as_json:
        print_json(report.to_json())
        return
    print(f"{report.method}, certified on {report.n_certify:,} fresh records\n")
    print(report.certificate_statement)
    print(f"Certificate written to {report.out}.")
    print_warnings(report.warnings)


def print_retargeted(report: "RetargetReport", *, as_json: bool) -> None:
    """Where the rule of a saved model was moved to, and where else it could be."""
    if as_json:
        print_json(report.to_json())
        return
    target = report.verdict.target
    if target is not None:
        wanted = f"{target.metric.replace('_', ' ')}, {target.kind.replace('_', ' ')} {target.value:g}"
        print(f"target: {wanted}; estimated {_number(target.estimate)}, met: {target.met}\n")
    rows = [
        (*map(_number, (point.price, point.gap, point.gap_standard_error, point.accuracy, point.positive_rate)),)
        for point in report.frontier
    ]
    print_table(None, rows, headers=("price", "gap", "± one error", "accuracy", "positive rate"))
    print(f"{report.certificate_statement}\nModel written to {report.out}.")
    print_warnings(report.warnings)


def print_checks(checks: "Sequence[Check]", *, as_json: bool) -> None:
    """What was checked in a saved model."""
    from fairdp.saved.verify.check import SCOPE, SIGNED_SCOPE

    passed = all(check.passed for check in checks)
    scope = SIGNED_SCOPE if any(check.name == "signature" and check.passed for check in checks) else SCOPE
    if as_json:
        print_json({"verified": passed, "checks": checks, "scope": scope})
        return
    print_table(None, [("ok" if check.passed else "FAILED", check.name, check.found) for check in checks])
    print(scope)
    print("Verified." if passed else "NOT verified.")


def print_plan(report: "PlanReport", *, as_json: bool) -> None:
    """The cost of a planned run."""
    if as_json:
        print_json(report)
        return
    rows = [
        *_privacy_rows(report.privacy),
        ("records per step, by group", ", ".join(f"{size:.1f}" for size in report.expected_batch_sizes)),
        ("noise on the averaged gradient", f"{report.privacy.mean_noise_std:.3g} per coordinate"),
        None,
        *_certificate_plan_rows(report.certificate),
        None,
        *_paper_rows(report),
    ]
    print_table(f"{report.method} on groups of {', '.join(f'{n:,}' for n in report.group_sizes)}", rows)
    if report.outlook is not None:
        print_outlook(report.outlook)


def print_bench(report: Mapping[str, object], *, as_json: bool) -> None:
    """Ratios of one benchmark run."""
    print_pairs(report if as_json else dict(_flattened(report)), as_json=as_json)


def print_pairs(pairs: object, *, as_json: bool) -> None:
    """A few named values: a mapping, or a dataclass."""
    if as_json:
        print_json(pairs)
        return
    print_table(None, [(name, _text(value)) for name, value in to_plain(pairs).items()])


def print_cards(name: str, cards: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    """Things with the same fields, one paragraph each; the first field is the heading."""
    if as_json:
        print_json({name: list(cards)})
        return
    for card in cards:
        heading, *fields = card.items()
        print(heading[1])
        for label, value in fields:
            print(f"  {label}: {_text(value)}")
        print()


def _privacy_rows(privacy: "PrivacySpent") -> list[tuple[str, str]]:
    by_group = ", ".join(f"{name} {_epsilon(value)}" for name, value in privacy.epsilon_by_group.items())
    if privacy.noise_allocation == "laplace" and privacy.selection is None:
        noise = f"{privacy.noise_multiplier:.4g} times the sensitivity, Laplace, one release for each group"
        return [("epsilon (pure)", _epsilon(privacy.epsilon)), ("epsilon by group", by_group), ("noise", noise)]
    accountant = {"pld": "PLD", "rdp": "RDP"}[privacy.accountant]
    searched = f"epsilon ({accountant if privacy.selection is None else 'whole search'})"
    joint = ", statistics and gradient together" if privacy.statistics_multiplier else ""
    joint += ", every group's sum released" if privacy.group_optimizers else ""
    looks = f" ({privacy.look_steps} of them for looks)" if privacy.look_steps else ""
    return [
        (searched, f"{_epsilon(privacy.epsilon)} at delta {privacy.delta!r}"),
        ("epsilon by group", by_group),
        *([] if privacy.selection else [_other_accountant(privacy)]),
        ("noise multiplier", f"{privacy.noise_multiplier:.4g}, {privacy.noise_allocation}{joint}"),
        (
            "sampling",
            f"rate {privacy.sample_rate:.4g}, {privacy.n_steps} steps{looks}, clip norm {privacy.clip_norm:g}",
        ),
    ]


def _other_accountant(privacy: "PrivacySpent") -> tuple[str, str]:
    """What the accountant says that is not the stated one."""
    if privacy.accountant == "pld":
        return "epsilon (moments accountant)", _epsilon(privacy.epsilon_rdp)
    return "epsilon (PLD)", _epsilon(privacy.epsilon_pld) if math.isfinite(privacy.epsilon_pld) else "no bound"


def _certificate_plan_rows(plan: "ExpectedWidths | None") -> list[tuple[str, str]]:
    if plan is None:
        return [("certificate", "none")]
    guesses = f"{plan.positive_rate:g} positive decisions, {plan.label_rate:g} positive labels"
    rows = [("certificate on", f"{plan.fraction:g} of the records, confidence {plan.confidence:g}; {guesses}")]
    if plan.n_looks > 1:
        share = f"each with {rounded_up(plan.epsilon_of_a_look)} of their epsilon, in a fixed order at the full level"
        rows.append((f"{plan.n_looks} looks", f"at the held-out records, {share}"))
    for name, width in plan.expected_widths.items():
        rows.append((f"expected slack, {name.replace('_', ' ')}", f"{width:.4f} above the observed gap"))
    if plan.score_share:
        widest = max(plan.cost_in_tau.values())
        rows.append(("of it for scores", f"up to {widest:.4f}, for {plan.score_share:g} of their epsilon"))
    if plan.target_width is not None:
        fraction = plan.fraction_for_target_width
        found = "more than 0.9: not with these records" if fraction is None else f"{fraction:g} of the records"
        rows.append((f"for a slack of {plan.target_width:g}", found))
    return rows


def _paper_rows(report: "PlanReport") -> list[tuple[str, str]]:
    """The paper's bounds, which say nothing about the deployed model, and what an input-agnostic one would cost."""
    paper, ceiling = report.paper, report.utility_ceiling
    best = f"{ceiling.accuracy:.4f} under a bound of {ceiling.input_agnostic_tau:g} for all inputs"
    if paper is None:
        return [("best accuracy", best)]
    shown, zero = (
        f"{bound.printed:.4f} as printed, {bound.corrected:.4f} corrected, {bound.deployed:.4f} as deployed"
        for bound in (paper.theorem_2, paper.theorem_2_at_zero)
    )
    adam = "; as if Adam's last step were Gaussian" if paper.optimizer == "adam" else ""
    return [
        ("best accuracy", best),
        ("paper's Theorem 2", f"{shown}; a diagnostic, not for this model{adam}"),
        ("the same with M = 0", f"{zero}; η and C cancel: no guide to σ, C or M"),
    ]


def _sizes(report: "FitReport") -> str:
    if report.n_train is None:
        return f"about {report.n_certify:,} certification records"
    parts = {"training": report.n_train, "certification": report.n_certify, "test": report.n_test}
    return ", ".join(f"{size:,} {part}" for part, size in parts.items() if size) + " records"


def _metrics(metrics: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [(name, label, _number(metrics[name])) for name, label in METRIC_NAMES.items()]


def _bounds(certificate: "Certificate | NotCertified") -> dict[str, str]:
    """What is certified for each metric, rounded to the safe side."""
    claims = {name: gap for name, gap in certificate.gaps.items() if gap.claimed}
    found = {f"{name}_difference": f"at most {bound_above(gap.tau)}" for name, gap in claims.items()}
    parity = claims.get("demographic_parity")
    if parity is not None and parity.ratio is not None:
        found["demographic_parity_ratio"] = f"at least {bound_below(parity.ratio)}"
    return found


def _by_group_row(metrics: Mapping[str, Any]) -> tuple[str, str]:
    rates = metrics["positive_rate_by_group"].items()
    return "positive rate by group", ", ".join(f"{name} {_number(rate)}" for name, rate in rates)


def print_warnings(warnings: Sequence[str]) -> None:
    for text in warnings:
        print(f"warning: {text}", file=sys.stderr)


def print_json(value: object) -> None:
    sys.stdout.write(json_bytes(value).decode())


def _flattened(value: Mapping[str, object], prefix: str = "") -> Iterable[tuple[str, object]]:
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _flattened(item, f"{prefix}{name}.")
        else:
            yield prefix + name, item


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {item}" for name, item in value.items()) or "none"
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "no evidence"
    return "infinite" if math.isinf(value) else f"{value:.4f}"


def _epsilon(value: float) -> str:
    """As in the statement: rounded up, never below what was accounted for."""
    return "infinite" if math.isinf(value) else rounded_up(value)


def _interval(low: float, high: float) -> str:
    return "" if math.isnan(low) else f"{low:.4f} to {high:.4f}"
