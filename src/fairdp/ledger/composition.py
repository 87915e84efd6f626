"""What several entries spend together on a record that all of them used."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np

from fairdp.accounting.mechanisms import SMALLEST_DELTA_FOR_PLD
from fairdp.ledger.costs import Cost, loss_of, width_for

# Points of the grid from one to the next at which the curves of different ways are compared: their differences, and
# with them the rounding errors, are then large enough, and the straight lines in between lose nothing to speak of.
_STRIDE = 10
# Up to so many combinations of ways are each composed; beyond, each entry counts with a curve above those of all its
# ways, which costs some percent.
_MOST_COMBINATIONS = 16
# Part of δ that may be moved from the tail of a curve to infinity.
_TAIL = 1e-5


@dataclass(frozen=True, kw_only=True)
class Total:
    """What entries spend together: ε at δ, and beside it the simple sum, both at the sum of their deltas.

    ε composes the mechanisms and holds for a plan that was fixed in advance. The sum holds in any case, also where each
    ε was chosen after seeing the results of those before.
    """

    epsilon: float
    delta: float
    epsilon_sum: float


NOTHING = Total(epsilon=0.0, delta=0.0, epsilon_sum=0.0)


def composed(costs: Iterable[Cost]) -> Total:
    """The total over costs that all fall on one record, by their privacy loss distributions.

    References
    ----------
    Koskela, Jälkö, Honkela (2020) for the composition; Zhu, Dong, Wang (2022) for curves that dominate others;
    Doroshenko et al. (2022) for the distribution that a curve belongs to.
    """
    costs = tuple(costs)
    total, delta = summed(costs), math.fsum(cost.delta for cost in costs)
    if len(costs) < 2 or math.isinf(total) or delta < SMALLEST_DELTA_FOR_PLD:
        return Total(epsilon=total, delta=delta, epsilon_sum=total)
    width = width_for(way for cost in costs for way in cost.ways)
    numbers = Counter((cost.epsilon, cost.delta, frozenset(cost.ways)) for cost in costs)
    alike = {(cost.epsilon, cost.delta, frozenset(cost.ways)): cost for cost in costs}
    choices = [_choices(alike[same], number, width) for same, number in numbers.items()]
    if math.prod(map(len, choices)) > _MOST_COMBINATIONS:
        choices = [[worst_loss(alike[same], width).self_compose(number)] for same, number in numbers.items()]
    spent = (reduce(_compose, chosen).get_epsilon_for_delta(delta) for chosen in product(*choices))
    return Total(epsilon=min(total, float(max(spent))), delta=delta, epsilon_sum=total)


def _choices(cost: Cost, number: int, width: float) -> list[Any]:
    """The different ways in which so many entries of one cost may use a record, each composed."""
    losses = [loss_of(way, cost.epsilon, cost.delta, width) for way in cost.ways]
    if math.comb(len(losses) + number - 1, number) > _MOST_COMBINATIONS:
        return [worst_loss(cost, width).self_compose(number)]
    return [reduce(_compose, chosen) for chosen in combinations_with_replacement(losses, number)]


def _compose(one: Any, other: Any) -> Any:
    return one.compose(other)


def summed(costs: Iterable[Cost]) -> float:
    """The simple sum of ε, by basic composition, which also holds if each is chosen after seeing the last result."""
    return math.fsum(cost.epsilon for cost in costs)


def worst_loss(cost: Cost, width: float) -> Any:
    """A privacy loss distribution that dominates those of all the ways in which an entry may use a record.

    δ as a function of ε is the largest over the ways, and over adding and removing a record, and then one of its own.
    """
    losses = [loss_of(way, cost.epsilon, cost.delta, width) for way in cost.ways]
    return losses[0] if len(losses) == 1 else _dominating(losses, _TAIL * cost.delta, width)


def _dominating(losses: Sequence[Any], tail: float, width: float) -> Any:
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    # Where nothing but the tail is left of any curve.
    furthest = max(float(loss.get_epsilon_for_delta(loss.get_delta_for_epsilon(math.inf) + tail)) for loss in losses)
    n_points = math.ceil(furthest / (_STRIDE * width)) + 1
    grid = _STRIDE * np.arange(-n_points, n_points + 1)
    curves = [np.asarray(loss.get_delta_for_epsilon(grid * width)) for loss in losses]
    highest = np.minimum.accumulate(np.max(curves, axis=0))
    return pld.PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(width, grid, highest))
