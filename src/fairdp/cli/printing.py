"""Results of commands as JSON, or in the terminal: an answer in a few lines, and tables below it."""

import math
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairdp._io import json_bytes, to_plain
from fairdp.cli.terminal import help_in_flags
from fairdp.config import SHARE
from fairdp.errors import bound_above, bound_below, rounded_up
from fairdp.parameters import CERTIFIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from fairdp.accounting.spent import PrivacySpent
    from fairdp.certify.certificate import Certificate, NotCertified
    from fairdp.classifier import FairDPClassifier
    from fairdp.fitting import FitReport
    from fairdp.frontier.curve import FrontierPoint
    from fairdp.frontier.verdict import GroupOutlook, Verdict
    from fairdp.ledger.costs import Total
    from fairdp.ledger.store import Entry, Limit
    from fairdp.saved.verify_checks import Check

Line = tuple[str, str]
_HEAD, _WIDTH, _WIDEST = 10, 80, 100

# Rules of a frontier that are shown beside the chosen one, and how close to its price another would be the same.
_N_SHOWN, _SAME_PRICE = 6, 0.005

# A blank at which no line ends.
_NO_BREAK = "\N{NO-BREAK SPACE}"

METRIC_NAMES = {
    "auc": "ROC-AUC",
    "accuracy": "accuracy",
    "majority_accuracy": "majority-class accuracy",
    "positive_rate": "positive rate",
    **{
        f"{metric}_{kind}": f"{about.label} {word}"
        for metric, about in CERTIFIABLE.items()
        for kind, word in (("difference", "gap"), ("ratio", "ratio"))
        if kind == "difference" or about.has_ratio
    },
    "false_positive_rate_difference": "false positive rate gap",
}

# Shown in one row, and only to those who want everything: answer and table should fit a screen together.
_TOGETHER, _IN_FULL = ("accuracy", "majority_accuracy"), ("false_positive_rate_difference",)
_N_GROUPS = 3

_TEST_PART = (
    "records for testing: fit takes them from a table first, by default 20 %, so a table needs 1.25 times as many as "
    "here; none with --test-fraction 0, or with a file of their own (--test)"
)


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


def _sizes(report: "FitReport") -> str:
    if report.n_train is None:
        return f"about {report.n_certify:,} certification records"
    parts = {"training": report.n_train, "certification": report.n_certify, "test": report.n_test}
    return ", ".join(f"{size:,} {part}" for part, size in parts.items() if size) + " records"


def _metrics(metrics: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [(name, label, _number(metrics[name])) for name, label in METRIC_NAMES.items()]


def _bounds(certificate: "Certificate | NotCertified") -> dict[str, str]:
    """The certified bound of each metric, rounded to the safe side."""
    claims = {name: gap for name, gap in certificate.gaps.items() if gap.claimed}
    found = {f"{name}_difference": f"at most {bound_above(gap.tau)}" for name, gap in claims.items()}
    ratios = {f"{name}_ratio": gap.ratio for name, gap in claims.items()}
    return found | {name: f"at least {bound_below(ratio)}" for name, ratio in ratios.items() if ratio is not None}


def _by_group_row(metrics: Mapping[str, Any], *, most: int | None = None) -> tuple[str, str]:
    """The rate of each group; of more than ``most`` only the lowest and the highest."""
    rates: Mapping[str, float] = metrics["positive_rate_by_group"]
    seen = {name: rate for name, rate in rates.items() if rate is not None and not math.isnan(rate)}
    if most is not None and len(rates) > most and len(seen) > 1:
        low, high = min(seen, key=lambda name: seen[name]), max(seen, key=lambda name: seen[name])
        return f"positive rate, {len(rates)} groups", f"{low} {_number(seen[low])} to {high} {_number(seen[high])}"
    return "positive rate by group", ", ".join(f"{name} {_number(rate)}" for name, rate in rates.items())


def privacy_rows(privacy: "PrivacySpent") -> list[tuple[str, str]]:
    """The privacy that was spent, or would be, and the mechanism."""
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
    """The ε of the accountant that is not the stated one."""
    if privacy.accountant == "pld":
        return "epsilon (moments accountant)", _epsilon(privacy.epsilon_rdp)
    return "epsilon (PLD)", _epsilon(privacy.epsilon_pld) if math.isfinite(privacy.epsilon_pld) else "no bound"


def print_verdict(verdict: "Verdict") -> None:
    """The verdict of the paid counts, one line for each statement, with what to try next."""
    for line in verdict.lines:
        print(help_in_flags(line))


def print_frontier(points: "Sequence[FrontierPoint]", chosen: "FrontierPoint") -> None:
    """A few rules of a frontier, from the one without a target to the smallest gap, and the chosen one."""
    from fairdp.frontier.curve import spread_over_gaps

    shown = sorted([*spread_over_gaps(points, _N_SHOWN), chosen], key=lambda point: point.price)
    rows = [
        (
            f"{point.price:.2f}",
            f"{point.gap:.3f} ± {point.gap_standard_error:.3f}",
            f"{point.accuracy:.3f}",
            f"{point.positive_rate:.3f}",
            "chosen" if point is chosen else "",
        )
        for point in shown
        if point is chosen or abs(point.price - chosen.price) > _SAME_PRICE
    ]
    print_table(
        "What else this training offers, counted on training records, with noise",
        rows,
        headers=("price", "gap ± one error", "accuracy", "positive rate", ""),
    )


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
        print(folded.replace(_NO_BREAK, " "))


def fit_answer(report: "FitReport") -> list[Line]:
    """Which decision, how private, how fair, of what use, and what to do next."""
    from fairdp.statements.privacy import privacy_answer
    from fairdp.statements.verdict import fairness_answer, next_answer, result_in_words, useful_answer

    verdict, certificate = report.verdict, report.certificate
    decision = report.positive if report.label is None else f"{report.label}{_NO_BREAK}={_NO_BREAK}{report.positive}"
    result = result_in_words(verdict, certificate, report.privacy)
    trained = f"{result}: {report.method} on {report.dataset}; a positive decision says: {decision}"
    chosen = (
        []
        if report.tuned is None
        else [("chosen", ", ".join(f"{name}={value}" for name, value in report.tuned["chosen"].items()))]
    )
    return [
        ("result", trained),
        *chosen,
        ("privacy", privacy_answer(report.privacy)),
        ("fairness", fairness_answer(verdict.target, certificate, in_flags=help_in_flags)),
        ("useful", useful_answer(verdict, report.metrics)),
        ("next", next_answer(verdict, report.privacy, report.out, in_flags=help_in_flags)),
    ]


def print_retargeted(
    moved: "FairDPClassifier", out: "Path", warnings: Sequence[str], *, as_json: bool, verbose: bool = False
) -> None:
    """Where the rule of a saved model was moved to, by the counts that were paid for, and where else it could be."""
    from fairdp.frontier.curve import frontier_points
    from fairdp.statements.verdict import RESULTS, moved_answer, quality_answer

    assert moved.frontier_ is not None
    verdict, points, positive = moved.verdict_, frontier_points(moved.frontier_), str(moved.classes_[1])
    if as_json:
        report = {
            "target": None if verdict.target is None else verdict.target.to_dict(),
            "verdict": verdict.verdict,
            "frontier": points,
            "certificate_statement": moved.certificate_statement(),
            "positive": positive,
            "warnings": warnings,
            "out": str(out),
        }
        print_json(report)
        return
    print_warnings(warnings)
    written = f"the rule was moved and written to {out}; a positive decision says: {positive}"
    certify = f"fairdp certify {out} FRESH-TABLE --epsilon E makes a certificate of the moved rule"
    print_answer(
        [
            ("result", f"{RESULTS[verdict.verdict]}: {written}"),
            ("privacy", "no privacy budget spent"),
            ("fairness", moved_answer(verdict)),
            ("useful", "not known" if verdict.quality is None else quality_answer(verdict, verdict.quality)),
            ("next", certify),
        ]
    )
    rows = [
        (*map(_number, (point.price, point.gap, point.gap_standard_error, point.accuracy, point.positive_rate)),)
        for point in points
    ]
    print_table(None, rows, headers=("price", "gap", "± one error", "accuracy", "positive rate"))
    if verbose:
        print_verdict(verdict)
        print(moved.certificate_statement())


def print_certificate(report: Mapping[str, Any], *, as_json: bool, verbose: bool = False) -> None:
    """A new certificate of a saved model."""
    from fairdp.saved.folder import certificate_record
    from fairdp.statements.certificate import certificate_statement

    if as_json:
        print_json({**report, "certificate": certificate_record(report["certificate"])})
        return
    print_warnings(report["warnings"])
    print_answer(certificate_answer(report))
    if verbose:
        print(f"\n{certificate_statement(report['certificate'])}")


def certificate_answer(report: Mapping[str, Any]) -> list[Line]:
    """The new certificate: its bounds, its cost, and what to do with it."""
    from fairdp.statements.certificate import bounds_answer, spent_answer

    certificate, out = report["certificate"], report["out"]
    required = certificate.registration.require_tau
    result = "certified" if required is None else f"required tau {required:g} {'met' if certificate.met else 'missed'}"
    on = f"{report['method']} on {report['n_certify']:,} fresh records; a positive decision says: {report['positive']}"
    return [
        ("result", f"{result}: {on}"),
        ("privacy", spent_answer(certificate)),
        ("fairness", bounds_answer(certificate)),
        ("next", f"the certificate is in {out}; fairdp report {out} writes a page for your reviewer"),
    ]


def print_evaluation(report: Mapping[str, Any], *, as_json: bool) -> None:
    """Metrics with their confidence intervals."""
    if as_json:
        print_json(report)
        return
    metrics, level = report["metrics"], f"{100 * report['confidence']:g} % interval"
    intervals = {name: _interval(*ends) for name, ends in report["intervals"].items()}
    rows = [(label, value, intervals.get(name, "")) for name, label, value in _metrics(metrics)]
    rows.insert(4, (*_by_group_row(metrics), ""))
    title = f"{report['method']} on {report['n_test']:,} records; positive: {report['positive']}"
    print_table(title, rows, headers=("", "", level))
    print(report["note"])
    print_warnings(report["warnings"])


def print_checks(checks: "Sequence[Check]", *, as_json: bool) -> None:
    """The checks of a saved model."""
    from fairdp.saved.verify_checks import SCOPE, SIGNED_SCOPE

    passed = all(check.passed for check in checks)
    scope = SIGNED_SCOPE if any(check.name == "signature" and check.passed for check in checks) else SCOPE
    if as_json:
        print_json({"verified": passed, "checks": checks, "scope": scope})
        return
    print_table(None, [("ok" if check.passed else "FAILED", check.name, check.found) for check in checks])
    if passed:
        print(scope)
    print("Verified." if passed else "NOT verified.")


def print_ledger(
    path: str,
    entries: "Sequence[Entry]",
    most: "Total",
    tables: "Mapping[str, Total]",
    limits: "Mapping[str, Limit]",
) -> None:
    """The entries of a ledger, and their totals; ``most`` is that of the record that has spent most."""
    rows = [
        (
            str(entry.number),
            entry.command,
            entry.state,
            entry.table,
            rounded_up(entry.cost.epsilon),
            f"{entry.when[:16].replace('T', ' ')} UTC",
        )
        for entry in entries
    ]
    print_table(path, rows, headers=("entry", "command", "state", "table", "epsilon", "when"))
    totals = {f"table {name}": total for name, total in tables.items()}
    totals["the record that has spent most (for your eyes only)"] = most
    added = [
        (name, rounded_up(total.epsilon), f"{total.delta:.4g}", rounded_up(total.epsilon_sum))
        for name, total in totals.items()
    ]
    print_table(None, added, headers=("total", "epsilon, if planned in advance", "delta", "sum, in any case"))
    for name, limit in limits.items():
        how = "the sum" if limit.order is None else f"a Renyi filter at order {limit.order}, delta {limit.delta:g}"
        print(f"limit on table {name}: epsilon {limit.epsilon:g}, by {how}")


def print_plan(report: Mapping[str, Any], *, as_json: bool) -> None:
    """The cost of a planned run."""
    if as_json:
        print_json(report)
        return
    print_answer([*_plan_answer(report), ("besides", _TEST_PART)])
    print()
    rows = [
        *privacy_rows(report["privacy"]),
        ("records per step, by group", ", ".join(f"{size:.1f}" for size in report["expected_batch_sizes"])),
        ("noise on the averaged gradient", f"{report['privacy'].mean_noise_std:.3g} per coordinate"),
        *_reading_rows(report),
        None,
        *_certificate_plan_rows(report["certificate"]),
        None,
        *_paper_rows(report),
    ]
    print_table(f"{report['method']} on groups of {', '.join(f'{n:,}' for n in report['group_sizes'])}", rows)
    if report["outlook"] is not None:
        print_outlook(report["outlook"])


def _plan_answer(report: Mapping[str, Any]) -> list[Line]:
    """The records or ε that a bound takes, if that was asked; else the bounds to expect."""
    records, epsilon = f"{sum(report['group_sizes']):,} records", f"epsilon {rounded_up(report['privacy'].epsilon)}"
    asked, plan = report["for_tau"], report["certificate"]
    if plan is None:
        return [("answer", f"{records} at {epsilon}: no certificate")]
    if asked is None:
        expected = ", ".join(f"{name.replace('_', ' ')} {width:.3f}" for name, width in plan["expected_widths"].items())
        ask = "--for-tau T says how many records, or which epsilon, certify a bound of T"
        return [("answer", f"{records} at {epsilon} certify about this much above each gap: {expected}"), ("next", ask)]
    certify = f"{records} at {epsilon} would certify about {asked['expected']:.3f}"
    wanted = f"{asked['tau']:g}"
    said = f"yes: {certify}, and {wanted} is wanted" if asked["reached"] else f"no: {certify}, not {wanted}"
    ways = [] if asked["records"] is None else [f"{asked['records']:,.0f} records in all"]
    ways += [] if asked["epsilon"] is None else [f"epsilon {asked['epsilon']:g} with these records"]
    ways += [] if asked["fraction"] is None else [f"--certify-fraction {asked['fraction']:g}"]
    alone = "; raising epsilon alone is not enough" if asked["epsilon"] is None else ""
    rates = f"{plan['positive_rate']:g} of decisions and {plan['label_rate']:g} of labels"
    return [
        ("answer", said),
        ("needs", (", or ".join(ways) or "nothing of this kind") + alone),
        (
            "if",
            f"the model's gap is {asked['gap']:g}, {rates} are positive, confidence {100 * plan['confidence']:g} %; "
            "an estimate, not a guarantee",
        ),
    ]


def _reading_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The ε that the model has left if the columns of its table are read with noise."""
    if not math.isfinite(report["privacy"].epsilon):
        return []
    left = math.sqrt(1 - SHARE) * report["privacy"].epsilon
    return [("without a schema", f"reading the columns costs; the model has about epsilon {left:.3g} of it left")]


def _certificate_plan_rows(plan: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if plan is None:
        return [("certificate", "none")]
    guesses = f"{plan['positive_rate']:g} positive decisions, {plan['label_rate']:g} positive labels"
    rows = [("certificate on", f"{plan['fraction']:g} of the records, confidence {plan['confidence']:g}; {guesses}")]
    if plan["n_looks"] > 1:
        share = (
            f"each with {rounded_up(plan['epsilon_of_a_look'])} of their epsilon, in a fixed order at the full level"
        )
        rows.append((f"{plan['n_looks']} looks", f"at the held-out records, {share}"))
    for name, width in plan["expected_widths"].items():
        rows.append((f"expected slack, {name.replace('_', ' ')}", f"{width:.4f} above the observed gap"))
    if plan["score_share"]:
        widest = max(plan["cost_in_tau"].values())
        rows.append(("of it for scores", f"up to {widest:.4f}, for {plan['score_share']:g} of their epsilon"))
    if plan["target_width"] is not None:
        fraction = plan["fraction_for_target_width"]
        found = "more than 0.9: not with these records" if fraction is None else f"{fraction:g} of the records"
        rows.append((f"for a slack of {plan['target_width']:g}", found))
    return rows


def _paper_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The paper's bounds, which say nothing about the deployed model, and what an input-agnostic one would cost."""
    paper, ceiling = report["paper"], report["utility_ceiling"]
    best = f"{ceiling['accuracy']:.4f} under a bound of {ceiling['input_agnostic_tau']:g} for all inputs"
    if paper is None:
        return [("best accuracy", best)]
    shown, zero = (
        f"{bound['printed']:.4f} as printed, {bound['corrected']:.4f} corrected, {bound['deployed']:.4f} as deployed"
        for bound in (paper["theorem_2"], paper["theorem_2_at_zero"])
    )
    adam = "; as if Adam's last step were Gaussian" if paper["optimizer"] == "adam" else ""
    return [
        ("best accuracy", best),
        ("paper's Theorem 2", f"{shown}; a diagnostic, not for this model{adam}"),
        ("the same with M = 0", f"{zero}; η and C cancel: no guide to σ, C or M"),
    ]


def print_outlook(groups: "Sequence[GroupOutlook]") -> None:
    """The error with which each group's rate could be measured, and what would suffice."""
    rows = [
        (
            group.group,
            f"{group.records:,.0f}",
            f"± {group.standard_error:.3f}",
            "enough"
            if group.measurable
            else f"too little: {group.records_needed:,.0f} training records, or an epsilon of {group.epsilon_needed:g}",
        )
        for group in groups
    ]
    print_table(
        "How well each group's rate can be measured for the target",
        rows,
        headers=("group", "training records", "one standard error", ""),
    )


def print_table(
    title: str | None,
    rows: Iterable[tuple[str, ...] | None],
    headers: tuple[str, ...] | None = None,
    *,
    wrap_numbers: bool = True,
    edge: bool = True,
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Names come from users' data: they are text, never markup.
    table = Table(
        title=Text(title) if title else None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_header=bool(headers),
        show_edge=edge,
    )
    rows = list(rows)
    width = max((len(row) for row in rows if row), default=2)
    for position, header in enumerate(headers or ("",) * width):
        table.add_column(header, overflow="fold", no_wrap=position > 0 and not wrap_numbers)
    for row in rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


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


def print_bench(report: Mapping[str, object], *, as_json: bool) -> None:
    """Ratios of one benchmark run."""
    print_pairs(report if as_json else dict(_flattened(report)), as_json=as_json)


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
