"""A plan in the terminal: what a run would cost, and what its certificate would be worth."""

import math
from typing import TYPE_CHECKING

from fairdp._format import rounded_up
from fairdp.cli.answer import Line, print_answer
from fairdp.cli.frontiers import print_outlook
from fairdp.cli.printing import print_json, privacy_rows
from fairdp.cli.tables import print_table
from fairdp.config.reading import SHARE

if TYPE_CHECKING:
    from fairdp.commands.plan import ExpectedWidths, PlanReport

_TEST_PART = (
    "records for testing: fit takes them from a table first, by default 20 %, so a table needs 1.25 times as many as "
    "here; none with --test-fraction 0, or with a file of their own (--test)"
)


def print_plan(report: "PlanReport", *, as_json: bool) -> None:
    """The cost of a planned run."""
    if as_json:
        print_json(report)
        return
    print_answer([*_answer(report), ("besides", _TEST_PART)])
    print()
    rows = [
        *privacy_rows(report.privacy),
        ("records per step, by group", ", ".join(f"{size:.1f}" for size in report.expected_batch_sizes)),
        ("noise on the averaged gradient", f"{report.privacy.mean_noise_std:.3g} per coordinate"),
        *_reading_rows(report),
        None,
        *_certificate_plan_rows(report.certificate),
        None,
        *_paper_rows(report),
    ]
    print_table(f"{report.method} on groups of {', '.join(f'{n:,}' for n in report.group_sizes)}", rows)
    if report.outlook is not None:
        print_outlook(report.outlook)


def _answer(report: "PlanReport") -> list[Line]:
    """What a bound takes, if that was asked; else what to expect."""
    records, epsilon = f"{sum(report.group_sizes):,} records", f"epsilon {rounded_up(report.privacy.epsilon)}"
    asked, plan = report.for_tau, report.certificate
    if plan is None:
        return [("answer", f"{records} at {epsilon}: no certificate")]
    if asked is None:
        expected = ", ".join(f"{name.replace('_', ' ')} {width:.3f}" for name, width in plan.expected_widths.items())
        ask = "--for-tau T says how many records, or which epsilon, certify a bound of T"
        return [("answer", f"{records} at {epsilon} certify about this much above each gap: {expected}"), ("next", ask)]
    certify = f"{records} at {epsilon} would certify about {asked.expected:.3f}"
    said = f"yes: {certify}, and {asked.tau:g} is wanted" if asked.reached else f"no: {certify}, not {asked.tau:g}"
    ways = [] if asked.records is None else [f"{asked.records:,.0f} records in all"]
    ways += [] if asked.epsilon is None else [f"epsilon {asked.epsilon:g} with these records"]
    ways += [] if asked.fraction is None else [f"--certify-fraction {asked.fraction:g}"]
    alone = "; a larger epsilon alone is not" if asked.epsilon is None else ""
    guesses = f"the model's gap is {asked.gap:g}, {plan.positive_rate:g} of decisions and {plan.label_rate:g} of labels"
    return [
        ("answer", said),
        ("enough is", (", or ".join(ways) or "nothing of this kind") + alone),
        ("if", f"{guesses} are positive, confidence {100 * plan.confidence:g} %; an estimate, not a guarantee"),
    ]


def _reading_rows(report: "PlanReport") -> list[tuple[str, str]]:
    """What the model has left if the columns of its table are read with noise."""
    if not math.isfinite(report.privacy.epsilon):
        return []
    left = math.sqrt(1 - SHARE) * report.privacy.epsilon
    return [("without a schema", f"reading the columns costs; the model has about epsilon {left:.3g} of it left")]


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
