"""A frontier as a list of points that a user can choose between."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairdp.frontier.choice import Target, choose
from fairdp.frontier.curve import Frontier


@dataclass(frozen=True, kw_only=True)
class FrontierPoint:
    """One rule: what it pays, and what follows; counted on training records, with noise."""

    price: float
    gap: float
    gap_standard_error: float
    accuracy: float
    positive_rate: float


def frontier_points(frontier: Frontier) -> list[FrontierPoint]:
    """The rules from the one without a target to the one with the smallest gap, by price."""
    return [_point_at(frontier, frontier.positions[index]) for index in _useful(frontier)]


def spread_over_gaps(points: Sequence[FrontierPoint], n_wanted: int) -> list[FrontierPoint]:
    """At most so many of the points, the first and the last among them, about evenly spread over their gaps."""
    gaps = np.array([point.gap for point in points])
    wanted = np.linspace(gaps[0], gaps[-1], n_wanted)
    return [points[index] for index in sorted({int(np.argmin(np.abs(gaps - gap))) for gap in wanted})]


def chosen_point(frontier: Frontier, target: Target) -> FrontierPoint:
    """The rule that a target leads to."""
    return _point_at(frontier, choose(frontier, target).position)


def cost_of_rest(frontier: Frontier, target: Target) -> tuple[float, float] | None:
    """Price at which the target would be met, and what it would cost in accuracy beyond the chosen rule.

    None where no price meets it. The cost is the sum of what each step pays: prices times the changes of the rates.
    """
    chosen = choose(frontier, target)
    free = choose(frontier, Target(max_gap=target.max_gap, min_ratio=target.min_ratio, price=np.inf))
    spread = frontier.gaps[0] if target.kind == "max_gap" else 1 - frontier.ratios[0]
    limit = target.max_gap if target.kind == "max_gap" else 1 - target.min_ratio
    if free.is_blind or frontier.at(spread, free.position) > limit + _CLOSE:
        return None
    ways = np.linspace(chosen.position, free.position, 200)
    sums = np.interp(ways, frontier.positions, np.array(frontier.prices) @ frontier.compared)
    cost = float(np.maximum((ways[1:] + ways[:-1]) / 2 * -np.diff(sums), 0.0).sum())
    return free.price, cost


# How much above its target the estimate of a rule may be that is said to reach it.
_CLOSE = 0.005


def _useful(frontier: Frontier) -> NDArray[np.int64]:
    """Indices from the rule without a target on, up to the smallest gap: what lies beyond costs more and gives less."""
    order = frontier.outwards
    return order[: int(np.argmin(frontier.gaps[0][order])) + 1]


def _point_at(frontier: Frontier, position: float) -> FrontierPoint:
    gaps, errors = frontier.gaps
    return FrontierPoint(
        price=frontier.at(frontier.total_prices, position),
        gap=frontier.at(gaps, position),
        gap_standard_error=frontier.at(errors, position),
        accuracy=min(max(frontier.at(frontier.accuracy[0], position), 0.0), 1.0),
        positive_rate=frontier.at(frontier.positive_rates, position),
    )
