"""Which rule of a frontier to deploy: the cheapest one that meets the target, or the best within the price."""

from dataclasses import dataclass

import numpy as np

from fairdp.frontier.curve import Frontier
from fairdp.frontier.events import Floats

# Refusing everybody closes any gap: that is no way to meet a target.
_KEPT = 2 / 3
# A gap whose error is larger than this before anything is done cannot be aimed at; for ratios another scale.
_BLIND_GAP, _BLIND_RATIO = 0.10, 0.5
# Evidence within noise that is larger than this is none.
_BELIEVED = 0.03
# How many standard errors inside the target a rule is chosen: more of them before prices that were found for it are
# left. Those for equalized odds were found for half the gap.
_MARGIN, _SURER = 0.5, 2.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a user aims at: a gap, or a ratio if one is given, at no more than a price."""

    max_gap: float
    min_ratio: float
    price: float

    @property
    def kind(self) -> str:
        """Which of the two."""
        return "min_ratio" if self.min_ratio else "max_gap"

    @property
    def value(self) -> float:
        """The limit."""
        return self.min_ratio or self.max_gap


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A rule of a frontier: where it lies, what it costs, and whether the target could be seen at all."""

    position: float
    price: float
    is_blind: bool


def choose(frontier: Frontier, target: Target) -> Choice:
    """The first rule, from the one without a target on, whose estimate meets the target; else the nearest to it."""
    order = _affordable(frontier, target)
    beyond, doubt = _beyond(frontier, target)
    # A little inside the target, so that it holds for most; but what noise alone may have spread is not chased.
    margin = _SURER if frontier.looked and frontier.parity != "equalized_odds" else _MARGIN
    aim = np.minimum(margin * doubt[order], _MARGIN * _BELIEVED)
    path = beyond[order] + aim - 2 * np.maximum(doubt[order] - _BELIEVED, 0.0)
    unseen = frontier.gaps[1] > _BLIND_GAP if target.kind == "max_gap" else frontier.ratios[1] > _BLIND_RATIO
    is_blind = bool(unseen[frontier.origin])
    position = 0.0 if is_blind else _first_within(path, np.array(frontier.positions)[order])
    return Choice(position=position, price=frontier.at(frontier.total_prices, position), is_blind=is_blind)


def _beyond(frontier: Frontier, target: Target) -> tuple[Floats, Floats]:
    """How far each rule is beyond the target, on the scale of gaps, and the standard error of that.

    A ratio is missed by what the lowest rate lacks; if a gap is asked for too, whichever is further away counts.
    """
    gaps, errors = frontier.gaps
    if target.kind == "max_gap":
        return gaps - target.max_gap, errors
    ratios, doubts = frontier.ratios
    highest = frontier.compared[frontier.measurable].max(0).clip(0.0, 1.0)
    lacks = (target.min_ratio - ratios) * highest
    return (lacks if target.max_gap == 1 else np.maximum(lacks, gaps - target.max_gap)), doubts * highest


def _affordable(frontier: Frontier, target: Target) -> np.ndarray:
    """Indices of the rules that may be chosen, from the one without a target outwards."""
    origin, order = frontier.origin, frontier.outwards
    order = order[frontier.total_prices[order] <= target.price + 1e-9]
    rates = frontier.positive_rates
    noise = frontier.accuracy[1]
    few = np.flatnonzero(rates[order] + noise[order] < _KEPT * rates[origin])
    return order[: max(int(few[0]), 1)] if len(few) and not frontier.shift else order


def _first_within(path: Floats, positions: Floats) -> float:
    """Where the path falls to zero, between two points, and stays there up to its lowest point; or that point.

    Noise may bring it to zero before: of prices that were found, the last ones are the best known.
    """
    lowest = int(np.argmin(path))
    if path[0] <= 0 or path[lowest] > 0:
        return float(positions[0 if path[0] <= 0 else lowest])
    first = 1 + int(np.flatnonzero(path[:lowest] > 0)[-1])
    above, below = path[first - 1], path[first]
    share = above / max(above - below, 1e-12)
    return float(positions[first - 1] + share * (positions[first] - positions[first - 1]))
