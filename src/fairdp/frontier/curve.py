"""The frontier of one training: what the noisy sketch tells about every price, and how surely.

Decisions of a joint model are priced by group (`Events`), sketched at all prices at once (`prefix_root`), and where
prices have several directions, one is found by noisy counts (`find_direction`). `Frontier` is what was released;
`choose` picks a rule of it for a target.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairdp.config import TrainConfig
from fairdp.parameters import CERTIFIABLE, RATES

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Records whose decisions are counted at once: counts do not depend on it.
_RECORDS = 2**17
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
# Closer together at both ends: where labels are rare, all that matters happens there.
_EDGES = np.array(
    [0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98]
)
N_BINS = len(_EDGES) + 1
# Prior of a rate along the positions: a line, and a smooth part of this height that bends over this part of them.
_HEIGHT, _LENGTH = 0.2, 0.05
# Looks at the end of the direction were taken around its last point, not at it.
_AROUND = 1.5
# Prices on both sides of none, closer together near it; or up to those that were found: beyond them, they are wrong.
LINE = tuple(0.6 * np.sign(u) * abs(u) ** 1.7 for u in np.linspace(-1, 1, 65))
RAY = tuple(np.linspace(0, 1, 33))
# A rate that is less certain than this is not compared with others.
MEASURABLE = 0.03
# Unless it is so many errors beyond those of all others.
_PLAINLY = 4.0
# Refusing everybody closes any gap: that is no way to meet a target.
_KEPT = 2 / 3
# A gap whose error is larger than this before anything is done cannot be aimed at; for ratios another scale.
_BLIND_GAP, _BLIND_RATIO = 0.10, 0.5
# Evidence within noise that is larger than this is none.
_BELIEVED = 0.03
# How many standard errors inside the target a rule is chosen: more of them before prices that were found for it are
# left. Those for equalized odds were found for half the gap.
_MARGIN, _SURER = 0.5, 2.0
# How much above its target the estimate of a rule may be that is said to reach it.
_CLOSE = 0.005


@dataclass(frozen=True)
class Events:
    """The rates that a notion compares: those of groups, or of groups with one label, or of both labels in turn.

    Cell 2 a + y holds the records of group a with label y; an event is made of one or two cells. Events of one band
    should have the same rate of positive decisions.
    """

    parity: str
    n_groups: int

    @cached_property
    def members(self) -> Floats:
        """One where an event contains a cell, shape (n_events, n_cells)."""
        of_rate = sorted(RATES[rate].labels for rate in CERTIFIABLE[self.parity].rates)
        return np.vstack([members_of(labels, self.n_groups) for labels in of_rate])

    @property
    def bands(self) -> NDArray[np.int64]:
        """Band of each event, shape (n_events,)."""
        return np.repeat(np.arange(len(self.members) // self.n_groups), self.n_groups)

    @property
    def groups(self) -> NDArray[np.int64]:
        """Group of each event, shape (n_events,)."""
        return np.tile(np.arange(self.n_groups), len(self.members) // self.n_groups)

    def sizes(self, cell_sizes: Floats) -> Floats:
        """Records of each event, at least one: sizes are noisy."""
        return np.maximum(self.members @ cell_sizes, 1.0)

    def pulls(self, prices: Floats, cell_sizes: Floats) -> Floats:
        r"""Cost of prices to a positive decision in a cell, :math:`\sum_{e \ni c} \nu_e / \pi_e`."""
        shares = self.sizes(cell_sizes) / max(float(cell_sizes.sum()), 1.0)
        return (prices / shares) @ self.members


def members_of(labels: Sequence[int], n_groups: int) -> Floats:
    """One where a cell holds the records of a group with one of these labels, shape (n_groups, n_cells)."""
    return np.asarray(np.kron(np.eye(n_groups), [[float(label in labels) for label in (0, 1)]]), dtype=np.float64)


def summed(chances: Floats, values: Floats) -> Floats:
    """Σ_c v_c P_c of each record: not a matrix product, whose last digit depends on where a record stands."""
    return np.asarray(np.einsum("nc,c->n", chances, values))


def parts_of(chances: Floats, cells: NDArray[Any]) -> Iterator[tuple[Floats, NDArray[np.int64]]]:
    """Chances and cells of the same records, some at a time; once without any, if there are none."""
    for start in range(0, max(1, len(cells)), _RECORDS):
        here = slice(start, start + _RECORDS)
        yield chances[here], cells[here].astype(np.int64, copy=False)


def accepted(chances: Floats, cells: NDArray[Any], values: Floats) -> NDArray[np.int64]:
    """Number of records of each cell that are decided positively under these values, shape (n_cells,)."""
    counts = np.zeros(len(values), dtype=np.int64)
    for believed, own in parts_of(chances, cells):
        counts += np.bincount(own[summed(believed, values) >= 0], minlength=len(values))
    return counts


def plain_values(n_cells: int, cost_ratio: float) -> Floats:
    """Value of a positive decision without prices: R for label 1, minus one for label 0."""
    return np.where(np.arange(n_cells) % 2 == 1, cost_ratio, -1.0)


def tilted(prices: Floats, min_ratio: float) -> Floats:
    r"""Prices that add up to zero, as a ratio needs them: :math:`\sum \nu^+ = \rho \sum \nu^-`.

    That is where the Lagrangian of :math:`\rho\, m \le r_e \le m` is stationary in :math:`m`. Low rates are raised more
    than high ones are lowered, so that a ratio is not approached by refusing everybody, which never meets it.
    """
    return np.where(prices < 0, prices / min_ratio, prices) if min_ratio else prices


def line_prices(cell_sizes: Floats, min_ratio: float) -> Floats:
    """Prices of two groups; for a ratio, the one with fewer positive labels is taken for the one to be raised."""
    prices = np.array([-1.0, 1.0])
    first, second = cell_sizes[1::2] / cell_sizes.reshape(-1, 2).sum(1)
    return tilted(-prices if min_ratio and second < first else prices, min_ratio)


def total_price(prices: Floats) -> float:
    """Points of accuracy (or of cost) that are paid for a point of gap."""
    return float(np.maximum(prices, 0.0).sum())


@lru_cache
def prefix_root(n_points: int) -> tuple[Floats, float]:
    r"""The square root :math:`L` of the matrix of prefix sums, and how far one record can move :math:`L h` (L2).

    A record adds one to the first entry of :math:`h` if its decision is positive at the first price, and plus or minus
    one where its decision turns. So it adds one column of :math:`L`, or the first less another.

    References
    ----------
    Fichtenberger, Henzinger, Upadhyay (2023), Constant matters: fine-grained error bound on differentially private
    continual observation (the factorisation); its noise is near the least possible.
    """
    ratios = (2 * np.arange(1, n_points) - 1) / (2 * np.arange(1, n_points))
    first = np.cumprod(np.concatenate([[1.0], ratios]))
    rows, columns = np.indices((n_points, n_points))
    root = np.where(rows >= columns, first[np.abs(rows - columns)], 0.0)
    one, two = np.linalg.norm(root, axis=0), np.linalg.norm(root[:, :1] - root, axis=0)
    return root, float(max(one.max(), two.max()))


def turning_points(values: Floats, pulls: Floats, positions: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    r"""At which position each record's decision :math:`a - \lambda s \ge 0` turns, and what it is at the first one.

    It is a line in :math:`\lambda`, so it turns at most once; a record that does not turn between the first and the
    last position gets their number.

    Parameters
    ----------
    values, pulls
        :math:`a` and :math:`s` of each record, shape (n_records,).
    positions
        Rising :math:`\lambda`, shape (n_positions,).
    """
    start = values - positions[0] * pulls >= 0
    moving = pulls != 0
    zeros = np.divide(values, pulls, out=np.full_like(values, np.inf), where=moving)
    # A positive decision is lost beyond the zero; a negative one turns at it, where the sum is no longer below zero.
    places = np.where(start, np.searchsorted(positions, zeros, "right"), np.searchsorted(positions, zeros, "left"))
    turns = moving & (start == (pulls > 0))
    # Rounding may put the zero before the first position, where it is known to be not yet behind.
    return np.where(turns, np.maximum(places, 1), len(positions)), start


def changes_of(values: Floats, pulls: Floats, cells: NDArray[np.int64], n_cells: int, positions: Floats) -> Floats:
    """Whole numbers that can be added up: where decisions of each cell begin or turn, (n_cells, n_positions)."""
    places, start = turning_points(values, pulls, positions)
    changes = np.zeros((n_cells, len(positions) + 1))
    np.add.at(changes, (cells, places), np.where(start, -1.0, 1.0))
    changes[:, 0] += np.bincount(cells[start], minlength=n_cells)
    return changes[:, :-1]


def sketch_of(changes: Floats) -> Floats:
    """The sums to be released, before noise: L times the changes of each cell, shape (n_cells, n_positions).

    Divided by the sensitivity, so that one record moves them by at most one.
    """
    root, sensitivity = prefix_root(changes.shape[1])
    return changes @ root.T / sensitivity


def counts_of(noisy: Floats) -> Floats:
    """Noisy numbers of positive decisions of every cell at every position, from the released sums."""
    root, sensitivity = prefix_root(noisy.shape[1])
    return sensitivity * noisy @ root.T


def covariance_of(n_positions: int, std: float) -> Floats:
    """Covariance of the counts of one cell, shape (n_positions, n_positions), for noise of a deviation."""
    root, sensitivity = prefix_root(n_positions)
    return (std * sensitivity) ** 2 * root @ root.T


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
    """The parts of the ascent that stay the same from look to look."""

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
        """Distance of each rate from the middle of its band up to which it is not pulled."""
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
    r"""Fall of rates as prices rise, up to a factor, shape (n_events, n_events): 1 / share of the event.

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


class Estimate(NamedTuple):
    """A number that follows from noisy counts, and its standard error."""

    value: float
    error: float


def exact_ranking(chances: Floats, labels: NDArray[np.int64]) -> Floats:
    """Records by label and probability of label 1, shape (2, N_BINS): each record is in one bin."""
    bins = np.searchsorted(_EDGES, chances, side="right")
    return np.bincount(N_BINS * labels + bins, minlength=2 * N_BINS).reshape(2, -1).astype(np.float64)


def area_under_curve(noisy: Floats, std: float) -> Estimate:
    r"""ROC-AUC from the noisy counts, equal probabilities counting half, with the error of noise and of sampling.

    To first order a count of label 1 moves it by :math:`(F_0 - \mathrm{AUC}) / n_1`, with the share :math:`F_0` of
    label 0 below its bin; one of label 0 likewise. Sampling adds at most
    :math:`\mathrm{AUC} (1 - \mathrm{AUC}) / \min(n_0, n_1)` to the variance.
    """
    sizes = np.maximum(noisy.sum(1), 1.0)
    shares = noisy / sizes[:, None]
    below = np.cumsum(shares, axis=1) - shares / 2
    area = float(shares[1] @ below[0])
    moves = np.concatenate([(below[0] - area) / sizes[1], (1 - below[1] - area) / sizes[0]])
    bounded = min(max(area, 0.0), 1.0)
    sampling = bounded * (1 - bounded) / float(sizes.min())
    return Estimate(bounded, math.sqrt(std**2 * float(moves @ moves) + sampling))


class Chance(NamedTuple):
    """ROC-AUC and gain that a model which learnt nothing seems to have on its own training records."""

    auc: float
    gain: float


def by_chance(n_inputs: int, n_records: float, base_rate: float) -> Chance:
    r"""ROC-AUC and gain of a linear model on its own training records if labels are drawn at random, without noise.

    Least squares on :math:`d` inputs separates the means of the two labels by :math:`\delta` deviations,
    :math:`\delta^2 \approx d / (n b (1 - b))`. So the ROC-AUC is :math:`\Phi(\delta / \sqrt 2)`, and the accuracy
    exceeds that of a constant by at most :math:`\Phi(\delta / 2) - 1/2`. Noise makes both less.

    >>> round(by_chance(105, 32_000, 0.24).auc, 3)
    0.538
    """
    apart = math.sqrt(n_inputs / max(n_records * base_rate * (1 - base_rate), 1.0))
    law = NormalDist()
    return Chance(law.cdf(apart / math.sqrt(2)), law.cdf(apart / 2) - 0.5)


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """Everything that was released after training, and what follows from it; public.

    Parameters
    ----------
    parity, cost_ratio
        Which rates are compared, and what a wrong refusal costs in wrong acceptances.
    cell_sizes, cells_std
        Noisy number of records of each group and label, and the deviation of its noise.
    prices, shift
        Price of each event at position 1, and what is added to everybody's value of a positive decision, for a rate of
        them that was aimed at.
    positions
        Multiples of these prices, rising; 0 is the rule without a target.
    sketch, sketch_std
        Noisy sums of `fairdp.frontier.curve`, a row for each cell, and the deviation of their noise.
    looked
        Rates of the events at position 1 and their standard errors, where prices were found by looks; else empty.
    ranking, ranking_std
        Noisy records by label and probability, and the deviation of the noise.
    """

    parity: str
    cost_ratio: float
    cell_sizes: tuple[float, ...]
    cells_std: float
    prices: tuple[float, ...]
    shift: float
    positions: tuple[float, ...]
    sketch: tuple[tuple[float, ...], ...]
    sketch_std: float
    looked: tuple[tuple[float, float], ...]
    ranking: tuple[tuple[float, ...], ...]
    ranking_std: float

    @cached_property
    def events(self) -> Events:
        """The rates that are compared."""
        return Events(self.parity, len(self.cell_sizes) // 2)

    @property
    def sizes(self) -> Floats:
        """Noisy sizes of the cells, at least one each."""
        return np.maximum(np.array(self.cell_sizes), 1.0)

    @property
    def origin(self) -> int:
        """Index of the rule without a target."""
        return int(np.argmin(np.abs(self.positions)))

    @property
    def total_prices(self) -> Floats:
        """Price of each position, in points of accuracy for a point of gap."""
        return np.abs(self.positions) * total_price(np.array(self.prices))

    def values_at(self, position: float) -> Floats:
        """Value of a positive decision in each cell under the prices of a position."""
        pulls = self.events.pulls(np.array(self.prices), self.sizes)
        return plain_values(len(self.cell_sizes), self.cost_ratio) + self.shift - position * pulls

    @cached_property
    def counts(self) -> Floats:
        """Noisy positive decisions of each cell at each position."""
        return counts_of(np.array(self.sketch))

    @cached_property
    def _covariance(self) -> Floats:
        return covariance_of(len(self.positions), self.sketch_std)

    @property
    def count_variances(self) -> Floats:
        """Variance of the noise on the count of one cell at each position."""
        return np.diag(self._covariance)

    @cached_property
    def rates(self) -> tuple[Floats, Floats]:
        """Rate of each event at each position and its standard error, smoothed along the positions.

        The posterior under a prior that is a line with free coefficients and a smooth part, given the sketch with its
        exact covariance, and the last looks at position 1. Sizes are noisy as well: their error is added.
        """
        n_points = len(self.positions)
        place = np.linspace(-0.5, 0.5, n_points)
        bend = np.exp(-0.5 * ((place[:, None] - place) / _LENGTH) ** 2)
        prior = 1.0 + 4.0 * np.outer(place, place) + _HEIGHT**2 * bend
        pick = np.eye(n_points)
        if self.looked:
            pick = np.vstack([pick, pick[np.argmin(np.abs(np.array(self.positions) - 1))]])
        found = [self._posterior(event, prior, pick) for event in range(len(self.events.members))]
        return np.array([rate for rate, _ in found]), np.array([error for _, error in found])

    def _posterior(self, event: int, prior: Floats, pick: Floats) -> tuple[Floats, Floats]:
        members = self.events.members[event]
        size = float(self.events.sizes(self.sizes)[event])
        seen, noise = members @ self.counts / size, self._covariance * members.sum() / size**2
        if self.looked:
            rate, error = self.looked[event]
            seen, noise = np.append(seen, rate), np.pad(noise, (0, 1))
            noise[-1, -1] = _AROUND * error**2
        known = pick @ prior
        gain = np.linalg.solve(known @ pick.T + noise + 1e-12 * np.eye(len(seen)), known).T
        rate = 0.5 + gain @ (seen - 0.5)
        variance = np.maximum(np.diag(prior - gain @ known), 0.0)
        return rate, np.sqrt(variance + members.sum() * (rate * self.cells_std / size) ** 2)

    @cached_property
    def measurable(self) -> Flags:
        """Events whose rate is certain enough to be compared, or plainly another one than that of the certain ones.

        In each band at least the two most certain ones.
        """
        errors, bands = np.median(self.rates[1], axis=1), self.events.bands
        rates, use = self.rates[0][:, self.origin], errors <= MEASURABLE
        for band in np.unique(bands):
            members = np.flatnonzero(bands == band)
            use[members[np.argsort(errors[members])[:2]]] = True
            certain = rates[members[use[members]]]
            away = np.maximum(certain.min() - rates[members], rates[members] - certain.max())
            use[members] |= away > _PLAINLY * errors[members]
        return use

    @cached_property
    def gaps(self) -> tuple[Floats, Floats]:
        """Largest gap between the rates of measurable events at each position, and its standard error."""
        return self._spread(ratio=False)

    @cached_property
    def ratios(self) -> tuple[Floats, Floats]:
        """Smallest ratio of two such rates at each position, and its standard error."""
        lack, error = self._spread(ratio=True)
        return 1 - lack, error

    @property
    def is_line(self) -> bool:
        """True if there are two events, on both sides of the rule without a target."""
        return len(self.events.members) == 2 and self.positions[0] < 0

    def difference(self) -> Floats:
        """Rates of two events, weighted by their prices, along a line: a sum that can only fall."""
        return falling(np.array(self.prices) @ self.rates[0])

    @property
    def outwards(self) -> NDArray[np.int64]:
        """Indices of the rules on the side on which the gap is closed, from the one without a target on."""
        if self.is_line and np.sign(self.prices) @ self.compared[:, self.origin] < 0:
            return np.arange(self.origin, -1, -1)
        return np.arange(self.origin, len(self.positions))

    @cached_property
    def compared(self) -> Floats:
        """Rates of the events as they are compared: along a line moved as little as makes their difference fall."""
        rates, prices = self.rates[0], np.array(self.prices)
        if not self.is_line:
            return rates
        return rates + np.outer(prices, self.difference() - prices @ rates) / (prices @ prices)

    def _spread(self, *, ratio: bool) -> tuple[Floats, Floats]:
        rates, errors = self.compared, self.rates[1]
        bands = [np.flatnonzero((self.events.bands == band) & self.measurable) for band in np.unique(self.events.bands)]
        found = [spread_of(rates[members], errors[members], ratio=ratio) for members in bands]
        worst = np.max([value for value, _ in found], axis=0)
        # A band that seems better may be worse if less is known of it.
        return worst, np.max([value + error for value, error in found], axis=0) - worst

    @cached_property
    def accuracy(self) -> tuple[Floats, Floats]:
        """Accuracy at each position, counted on the training records, and its standard error."""
        n_cells, total = len(self.cell_sizes), float(self.sizes.sum())
        sign = np.where(np.arange(n_cells) % 2 == 1, 1.0, -1.0)
        value = (sign @ self.counts + self.sizes[::2].sum()) / total
        variance = self.count_variances * n_cells + n_cells / 2 * self.cells_std**2
        return value, np.sqrt(variance + value.clip(0, 1) * (1 - value.clip(0, 1)) * total) / total

    @property
    def positive_rates(self) -> Floats:
        """Share of positive decisions at each position."""
        return (self.counts.sum(0) / float(self.sizes.sum())).clip(0.0, 1.0)

    @property
    def auc(self) -> Estimate:
        """Ranking of the model, by the noisy counts of probabilities."""
        return area_under_curve(np.array(self.ranking), self.ranking_std)

    def at(self, row: Floats, position: float) -> float:
        """A figure that is known at all positions, between two of them."""
        return float(np.interp(position, self.positions, row))


def falling(values: Floats) -> Floats:
    """The closest sequence that never rises (pool adjacent violators)."""
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(values, increasing=False).x)


def spread_of(rates: Floats, errors: Floats, *, ratio: bool) -> tuple[Floats, Floats]:
    """Largest less smallest rate at each position, or one less their ratio, and its standard error.

    Noise alone spreads many rates: they are first drawn to their mean by what it explains. How far is uncertain, too:
    half of what this takes from the spread is added to its error.
    """
    columns = np.arange(rates.shape[1])
    if len(rates) < 2:
        return np.zeros(len(columns)), np.zeros(len(columns))
    if ratio:
        rates = np.maximum(rates, 0.0)
    seen = rates
    if len(rates) > 2:
        weights = errors**-2.0
        mean = (weights * rates).sum(0) / weights.sum(0)
        real = np.maximum(((rates - mean) ** 2 - errors**2).sum(0) / (len(rates) - 1), 0.0)
        rates = mean + (rates - mean) * np.sqrt(real / np.maximum(real + errors**2, 1e-12))
    top, bottom = rates.argmax(0), rates.argmin(0)
    high, low = np.maximum(rates[top, columns], 1e-9), rates[bottom, columns]
    above, below = errors[top, columns], errors[bottom, columns]
    if ratio:
        return 1 - low / high, np.hypot(below, low / high * above) / high
    return high - low, np.hypot(np.hypot(above, below), (np.ptp(seen, axis=0) - (high - low)) / 2)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A user's aim: a gap, or a ratio if one is given, at no more than a price."""

    max_gap: float
    min_ratio: float
    price: float

    @classmethod
    def of(cls, config: TrainConfig) -> "Target":
        """The target that a run aims at."""
        return cls(max_gap=config.max_gap, min_ratio=config.min_ratio, price=config.price)

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
    margin = _SURER if frontier.looked and len(CERTIFIABLE[frontier.parity].rates) == 1 else _MARGIN
    aim = np.minimum(margin * doubt[order], _MARGIN * _BELIEVED)
    path = beyond[order] + aim - 2 * np.maximum(doubt[order] - _BELIEVED, 0.0)
    unseen = frontier.gaps[1] > _BLIND_GAP if target.kind == "max_gap" else frontier.ratios[1] > _BLIND_RATIO
    is_blind = bool(unseen[frontier.origin])
    position = 0.0 if is_blind else _first_within(path, np.array(frontier.positions)[order])
    return Choice(position=position, price=frontier.at(frontier.total_prices, position), is_blind=is_blind)


def _beyond(frontier: Frontier, target: Target) -> tuple[Floats, Floats]:
    """Distance of each rule beyond the target, on the scale of gaps, and its standard error.

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
