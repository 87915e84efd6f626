"""Prices of more than two groups, or of both labels: found by noisy counts of the decisions that they lead to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp.frontier.events import Events, Flags, Floats, accepted, plain_values, tilted, total_price

# Parts of the looks, and steps of prices per unit of gap in each: far first, then ever closer.
_PARTS, _GAINS, _GAINS_OF_BOTH = (0.25, 0.25, 0.5), (12.0, 3.0, 0.5), (1.0, 0.3, 0.1)
# The first looks of a stage still show where it came from.
_SETTLING = 1 / 3
# How many deviations of its noise a rate must differ by before it is pulled, and when it is too noisy to be pulled.
_DEAD_BAND, _BLIND = 0.5, 0.05
# Part of the gap that is aimed at: the worst of many rates is the worst by chance as well, more so of both labels.
_INSIDE, _INSIDE_OF_BOTH = 0.9, 0.5
# Where a group has two prices, they answer to this much beyond what they share, and so many rounds balance them.
_APART, _ROUNDS = 0.1, 30


@dataclass(frozen=True, kw_only=True, eq=False)
class Direction:
    """Prices of the events, what is added to everybody's value, and what the last looks say of the rates there."""

    prices: Floats
    shift: float
    rates: Floats
    errors: Floats


def find_direction(
    chances: Floats,
    cells: NDArray[Any],
    events: Events,
    cell_sizes: Floats,
    *,
    gap: float,
    min_ratio: float,
    cost_ratio: float,
    most: float,
    positive_rate: float | None,
    look: Callable[[Floats], Floats],
    std: float,
    n_looks: int,
) -> Direction:
    r"""Proximal dual ascent on noisy rates, in stages of falling gain, each started at the mean of the one before.

    .. math::
        \nu \leftarrow \arg\min_{\sum_e \nu_e = 0} \tfrac 1 {2c} (\nu - \nu^0)^T H (\nu - \nu^0) - r^T \nu
        + \sum_e h_e |\nu_e|, \qquad h_e = \max(g / 2, s_e / 2),

    with the noisy rate :math:`r_e` of an event, the standard error :math:`s_e` of its rate over the last looks, and the
    gain :math:`c`. :math:`H` says how much rates answer to prices (`response`): thin evidence asks for less, and what
    cannot be seen is not pulled. For both labels :math:`g` is half the gap to aim at. A ratio :math:`\rho` allows a gap
    of :math:`1 - \rho` times the mean rate, and its prices are `tilted`.

    Parameters
    ----------
    chances, cells
        P of every cell for each record, shape (n_records, n_cells), and the cell that it is in.
    gap, min_ratio, most
        Gap to aim at, smallest ratio (0 for any), and the total price to pay at most.
    look
        Releases numbers of positive decisions, which one record moves by at most one in all.
    std
        Deviation of the noise of a look.
    """
    state = _Ascent(events, cell_sizes, gap=gap, min_ratio=min_ratio, most=most, std=std, n_looks=n_looks)
    values, shift, rates = plain_values(len(cell_sizes), cost_ratio), 0.0, np.zeros(len(state.sizes))
    prices = np.zeros(len(state.sizes))
    # Whoever is in no event is counted too, as one more: the rate of everybody is then known.
    counted = np.vstack([events.members, 1 - events.members.max(0, keepdims=True)])
    for gain, n_steps in zip(state.gains, stages_of(n_looks), strict=True):
        kept: list[tuple[Floats, float, Floats]] = []
        for step in range(n_steps):
            pulls = events.pulls(tilted(prices, min_ratio), cell_sizes)
            seen = look(counted @ accepted(chances, cells, values + shift - pulls))
            rates = seen[:-1] / state.sizes
            if step >= int(_SETTLING * n_steps):
                kept.append((prices, shift, rates))
            prices = state.next_prices(prices, rates, gain)
            if positive_rate is not None:
                shift += 0.5 * gain / (gain + 1) * (positive_rate - float(seen.sum()) / max(cell_sizes.sum(), 1.0))
        prices, rates = np.mean([p for p, _, _ in kept], axis=0), np.mean([r for _, _, r in kept], axis=0)
        shift = float(np.mean([s for _, s, _ in kept]))
    return Direction(prices=tilted(prices, min_ratio), shift=shift, rates=rates, errors=state.errors)


def stages_of(n_looks: int) -> list[int]:
    """Looks of each stage: together so many as are paid for, never one more."""
    lengths = [int(part * n_looks) for part in _PARTS[:-1]]
    if not all(lengths):
        raise ValueError(f"n_looks must be at least 4, got {n_looks}.")
    return [*lengths, n_looks - sum(lengths)]


def last_looks(n_looks: int) -> float:
    """Number of looks whose mean the last stage ends with."""
    return max(1.0, n_looks * _PARTS[-1] * (1 - _SETTLING))


class _Ascent:
    """What stays the same from look to look."""

    def __init__(
        self,
        events: Events,
        cell_sizes: Floats,
        *,
        gap: float,
        min_ratio: float,
        most: float,
        std: float,
        n_looks: int,
    ) -> None:
        self.bands, self.sizes, self.most = events.bands, events.sizes(cell_sizes), most
        self.errors = std / np.sqrt(last_looks(n_looks)) / self.sizes
        both = len(np.unique(self.bands)) > 1
        self.gains = _GAINS_OF_BOTH if both else _GAINS
        self.inside, self.gap, self.min_ratio = _INSIDE_OF_BOTH if both else _INSIDE, gap, min_ratio
        belief = np.minimum(1.0, self.sizes / max(3 * std, 1e-12))
        self.response = response(events, cell_sizes) / np.sqrt(np.outer(belief, belief))
        self.pulled = pulled(self.errors, self.bands)

    def next_prices(self, prices: Floats, rates: Floats, gain: float) -> Floats:
        """Solved by accelerated proximal gradients (Beck and Teboulle, 2009); at once if prices answer for themselves.

        Sums of rows bound the response from above by a diagonal one, for which a step is exact.
        """
        response, steps = self.response / gain, gain / self.response.sum(1)
        found, ahead, dead = prices, prices, self.dead(rates)
        for index in range(_ROUNDS if np.count_nonzero(response) > len(prices) else 1):
            aims = ahead + steps * (rates - response @ (ahead - prices))
            before, found = found, self._affordable(aims, steps, dead)
            ahead = found + index / (index + 3) * (found - before)
        return found

    def dead(self, rates: Floats) -> Floats:
        """How far each rate may be from the middle of its band before it is pulled."""
        means = np.bincount(self.bands, weights=rates * self.sizes) / np.bincount(self.bands, weights=self.sizes)
        gaps = np.minimum(self.gap, (1 - self.min_ratio) * means[self.bands])
        return np.maximum(self.inside * gaps / 2, _DEAD_BAND * self.errors)

    def _affordable(self, aims: Floats, steps: Floats, dead: Floats) -> Floats:
        """Balanced prices near the aims that cost no more than they may."""
        balanced = self._balanced(aims, steps, dead)
        if total_price(balanced) <= self.most:
            return balanced
        # The price falls as everybody's dead band widens: by halving.
        low, high = 0.0, float(np.abs(aims / steps).max()) + 1.0
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (
                (middle, high) if total_price(self._balanced(aims, steps, dead + middle)) > self.most else (low, middle)
            )
        return self._balanced(aims, steps, dead + high)

    def _balanced(self, aims: Floats, steps: Floats, dead: Floats) -> Floats:
        """Prices near the aims, zero within the dead band, that add up to zero in each band."""
        prices = np.zeros_like(aims)
        for band in np.unique(self.bands):
            members = (self.bands == band) & self.pulled
            if members.any():
                prices[members] = _levelled(aims[members], steps[members], dead[members])
        return prices


def response(events: Events, cell_sizes: Floats) -> Floats:
    r"""How much rates fall as prices rise, up to a factor, shape (n_events, n_events): 1 / share of the event.

    Whoever is near a decision is about as likely to have either label. So where both labels of a group have prices,
    these move the same people, a quarter of the group's share :math:`p` for either label, and the answer is
    :math:`p / (4 \pi_e \pi_f)`.
    """
    shares = events.sizes(cell_sizes) / max(float(cell_sizes.sum()), 1.0)
    if len(shares) == events.n_groups:
        return np.diag(1 / shares)
    same = events.groups[:, None] == events.groups
    joint = same * (same @ shares) / 4 / np.outer(shares, shares)
    return np.asarray(joint + _APART * np.diag(np.diag(joint)))


def pulled(errors: Floats, bands: NDArray[np.int64]) -> Flags:
    """Events whose rates are seen well enough to be pulled: one of a band alone has nothing to be compared with."""
    seen = errors <= _BLIND
    for band in np.unique(bands):
        if (seen & (bands == band)).sum() < 2:
            seen &= bands != band
    return seen


def _levelled(aims: Floats, steps: Floats, dead: Floats) -> Floats:
    """Soft-thresholded aims around the level at which they add up to zero: exactly, as the sum is piecewise linear."""

    def at(level: Floats | float) -> Floats:
        away = aims - steps * np.asarray(level)[..., None]
        return np.sign(away) * np.maximum(np.abs(away) - steps * dead, 0.0)

    knots = np.sort(np.concatenate([aims / steps - dead, aims / steps + dead]))
    return at(float(np.interp(0.0, at(knots).sum(1)[::-1], knots[::-1])))
