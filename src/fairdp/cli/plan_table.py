"""A plan in the terminal: what a run would cost, and what its certificate would be worth."""

from typing import TYPE_CHECKING

from fairdp._format import rounded_up
from fairdp.cli.frontiers import print_outlook
from fairdp.cli.printing import print_json, privacy_rows
from fairdp.cli.tables import print_table

if TYPE_CHECKING:
    from fairdp.commands.plan import ExpectedWidths, PlanReport


def print_plan(report: "PlanReport", *, as_json: bool) -> None:
    """The cost of a planned run."""
    if as_json:
        print_json(report)
        return
    rows = [
        *privacy_rows(report.privacy),
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
