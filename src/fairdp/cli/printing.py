"""Results as JSON or as tables in the terminal."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairdp._files import json_bytes, to_plain
from fairdp._format import bound_above, bound_below, rounded_up
from fairdp.cli.answer import certificate_answer, fit_answer, print_answer, retarget_answer
from fairdp.cli.frontiers import print_frontier, print_verdict
from fairdp.cli.tables import print_table

if TYPE_CHECKING:  # Commands that print a list should not wait for torch.
    from fairdp.accounting.spent import PrivacySpent
    from fairdp.certify.certificate import Certificate, NotCertified
    from fairdp.commands.certificate_report import CertificateReport
    from fairdp.commands.fit_report import FitReport
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
# Shown in one row, and only to those who want everything: answer and table should fit a screen together.
_TOGETHER, _IN_FULL = ("accuracy", "majority_accuracy"), ("false_positive_rate_difference",)
_N_GROUPS = 3


def print_fit(report: "FitReport", *, as_json: bool, verbose: bool = False) -> None:
    """The result of a training run: an answer, then tables, and statements in full for whoever wants them."""
    if as_json:
        print_json(report.to_json())
        return
    # Before the answer, which is then what stays on the screen.
    print_warnings(report.warnings)
    print_answer(fit_answer(report))
    print()
    _print_metrics(report, verbose=verbose)
    if verbose:
        _print_in_full(report)
    if report.out:
        statements = "" if verbose else ", with statements that --verbose would have printed"
        print(f"Model written to {report.out}{statements}.")


def _print_metrics(report: "FitReport", *, verbose: bool) -> None:
    bounds, metrics = _bounds(report.certificate), report.metrics
    if metrics is None:
        print("nothing was measured: there are no test records, and no certificate\n")
        return
    apart = _TOGETHER if verbose else (*_TOGETHER, *_IN_FULL)
    rows = [(label, value, bounds.get(name, "")) for name, label, value in _metrics(metrics) if name not in apart]
    both = (f"{_number(metrics[name])}" for name in _TOGETHER)
    rows.insert(1, ("accuracy (majority class)", "{} ({})".format(*both), ""))
    rows.insert(3, (*_by_group_row(metrics, most=None if verbose else _N_GROUPS), ""))
    level = f"certified, {100 * report.certificate.confidence:g} %" if bounds else ""
    print_table(None, rows, headers=("", report.measured, level), edge=False)


def _print_in_full(report: "FitReport") -> None:
    print(f"\n{_sizes(report)}")
    print_table(None, privacy_rows(report.privacy))
    if report.frontier and report.chosen and len(report.frontier) > 1:
        print_frontier(report.frontier, report.chosen)
    print_verdict(report.verdict)
    print(f"\n{report.statement}\n\n{report.certificate_statement}\n")


def print_evaluation(report: "EvaluationReport", *, as_json: bool) -> None:
    """Metrics with their confidence intervals."""
    if as_json:
        print_json(report)
        return
    intervals = {name: _interval(*ends) for name, ends in report.intervals.items()}
    rows = [(label, value, intervals.get(name, "")) for name, label, value in _metrics(report.metrics)]
    rows.insert(4, (*_by_group_row(report.metrics), ""))
    level = f"{100 * report.confidence:g} % interval"
    print_table(
        f"{report.method} on {report.n_test:,} records; positive: {report.positive}", rows, headers=("", "", level)
    )
    print(report.note)
    print_warnings(report.warnings)


def print_certificate(report: "CertificateReport", *, as_json: bool, verbose: bool = False) -> None:
    """A new certificate of a saved model."""
    if as_json:
        print_json(report.to_json())
        return
    print_warnings(report.warnings)
    print_answer(certificate_answer(report))
    if verbose:
        print(f"\n{report.certificate_statement}")


def print_retargeted(report: "RetargetReport", *, as_json: bool, verbose: bool = False) -> None:
    """Where the rule of a saved model was moved to, and where else it could be."""
    if as_json:
        print_json(report.to_json())
        return
    print_warnings(report.warnings)
    print_answer(retarget_answer(report))
    rows = [
        (*map(_number, (point.price, point.gap, point.gap_standard_error, point.accuracy, point.positive_rate)),)
        for point in report.frontier
    ]
    print_table(None, rows, headers=("price", "gap", "± one error", "accuracy", "positive rate"))
    if verbose:
        print_verdict(report.verdict)
        print(report.certificate_statement)


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


def privacy_rows(privacy: "PrivacySpent") -> list[tuple[str, str]]:
    """What was spent, or would be, and by which mechanism."""
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


def _by_group_row(metrics: Mapping[str, Any], *, most: int | None = None) -> tuple[str, str]:
    """The rate of each group; of more than ``most`` only the lowest and the highest."""
    rates: Mapping[str, float] = metrics["positive_rate_by_group"]
    seen = {name: rate for name, rate in rates.items() if rate is not None and not math.isnan(rate)}
    if most is not None and len(rates) > most and len(seen) > 1:
        low, high = min(seen, key=lambda name: seen[name]), max(seen, key=lambda name: seen[name])
        return f"positive rate, {len(rates)} groups", f"{low} {_number(seen[low])} to {high} {_number(seen[high])}"
    return "positive rate by group", ", ".join(f"{name} {_number(rate)}" for name, rate in rates.items())


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
