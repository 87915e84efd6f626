"""Verdicts, frontiers and outlooks in the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairdp.cli.flags import help_in_flags
from fairdp.cli.tables import print_table

if TYPE_CHECKING:  # `fairdp plan` should not wait for more than it needs.
    from fairdp.frontier.outlook import GroupOutlook
    from fairdp.frontier.points import FrontierPoint
    from fairdp.frontier.verdict import Verdict

# Rules of a frontier to show beside the chosen one, and how close to its price another would be the same.
_N_SHOWN, _SAME_PRICE = 6, 0.005


def print_verdict(verdict: "Verdict") -> None:
    """What paid counts say of a model, one line for each statement, with what to try next."""
    for line in verdict.lines:
        print(help_in_flags(line))


def print_frontier(points: "Sequence[FrontierPoint]", chosen: "FrontierPoint") -> None:
    """A few rules of a frontier, from the one without a target to the smallest gap, and the chosen one."""
    from fairdp.frontier.points import spread_over_gaps

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


def print_outlook(groups: "Sequence[GroupOutlook]") -> None:
    """How well the rate of each group could be measured, and what would suffice."""
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
