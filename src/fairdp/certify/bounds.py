"""Bounds on rates and on gaps between rates, from counts with discrete Laplace noise.

From the noise law of a sum, through exact p-values of one group's rate and their combination for two groups, to the
bound on the largest gap of all groups (`gap_bound`). `pair_bound`, `truth_rejected` and the bounds from
`hoeffding_radius` to `conv_upper` are for the studies; no certificate uses them.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaincinv, gammaln, ndtr, ndtri
from scipy.stats import binom

from fairdp import errors
from fairdp.errors import ParameterError
from fairdp.metrics import cells_of
from fairdp.parameters import RATES
from fairdp.randomness import RandBelow, discrete_laplace
from fairdp.releases import release

Floats = NDArray[np.float64]
# A sparse table: maxima over runs of 1, 2, 4, … angles, so that a range maximum is two look-ups.
CriticalValues = tuple[NDArray[np.float64], ...]
# Blocks of sizes, first and last, grouped into ranges of similar weight.
Blocks = tuple[tuple[tuple[int, int], ...], ...]
Objective = Callable[[Floats, Floats], Floats]
Counts = NDArray[np.int64]

# Mass that may be cut off the tails of one draw; every p-value is raised by what was cut.
_CUT = 1e-14
# Shares of the smallest epsilon that are tried as the exponent of a moment.
_POWERS = np.arange(1, 200) / 200
# Curvature of h: a little concave, so that a very large score of one arm cannot pay for the other.
_CURVATURE = 0.2
# Angles in the table of critical values: a sixteenth of a degree apart.
_N_ANGLES = 1441
# Scores beyond these are so rare that they are paid for outright, which bounds the slope of the combination.
_RARE = 2e-6
_RARE_SCORE = 4.9
# Resolution of the statistic: hypotheses are grouped by round(M p).
_M = 32
# Mass of the binomial that may be left out of a sum, and the rounding of its logarithms; added to every p-value.
_LEFT_OUT = 1e-12
_ROUNDING = 1e-7
# In place of the logarithm of zero: finite, so that no event times it is zero.
_LOG_ZERO = -1e300
# Blocks into which the possible sizes are cut, at most.
_N_BLOCKS = 24
# Cells of hypothesised rates below the knee, and above it, where the answer lies.
_N_COARSE, _N_FINE = 10, 90
# Where the statistic changes.
_BREAKS = np.unique(np.append((np.arange(_M) + 0.5) / _M, 0.5))
# Parts into which a cell is cut in each direction when it is looked at more closely.
_PARTS = 4
# Below this many expected people times epsilon the pair loses to two separate bounds.
SMALL = 20.0
# How closely pairs are looked at: rounds of refinement, and the rank up to which a pair gets them.
_CLOSE = ((2, 6), (1, 30))
# Share of a group that its smaller label is planned to have, when cells are judged small before looking.
PLANNED_CELL = 0.1


@dataclass(frozen=True, eq=False)
class IntegerLaw:
    """Probabilities of consecutive whole numbers from ``first`` on; ``missing`` is the mass cut off outside."""

    first: int
    probabilities: NDArray[np.float64]
    missing: float

    @property
    def last(self) -> int:
        """The largest value with a probability."""
        return self.first + len(self.probabilities) - 1

    def times(self, factor: int) -> "IntegerLaw":
        """Law of a whole multiple."""
        if factor == 0:
            return IntegerLaw(0, np.ones(1), self.missing)
        spread = np.zeros((len(self.probabilities) - 1) * abs(factor) + 1)
        spread[:: abs(factor)] = self.probabilities if factor > 0 else self.probabilities[::-1]
        return IntegerLaw(min(self.first * factor, self.last * factor), spread, self.missing)

    def plus(self, other: "IntegerLaw") -> "IntegerLaw":
        """Law of the sum of independent values."""
        long, short = (self, other) if len(self.probabilities) >= len(other.probabilities) else (other, self)
        total = np.zeros(len(long.probabilities) + len(short.probabilities) - 1)
        # Shift and add over the values that occur: multiples leave most of an array empty.
        for offset in np.flatnonzero(short.probabilities):
            total[offset : offset + len(long.probabilities)] += short.probabilities[offset] * long.probabilities
        return IntegerLaw(self.first + other.first, total, self.missing + other.missing)

    def at_most(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Upper bound on the chance of being at most each value."""
        return self._from_below[np.clip(values - self.first + 1, 0, len(self.probabilities))]

    def at_least(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Upper bound on the chance of being at least each value."""
        return self._from_above[np.clip(values - self.first, 0, len(self.probabilities))]

    @cached_property
    def _from_below(self) -> NDArray[np.float64]:
        return np.minimum(np.concatenate([[0.0], np.cumsum(self.probabilities)]) + self.missing, 1.0)

    @cached_property
    def _from_above(self) -> NDArray[np.float64]:
        return np.minimum(np.concatenate([np.cumsum(self.probabilities[::-1])[::-1], [0.0]]) + self.missing, 1.0)


@lru_cache(maxsize=256)
def laplace_sum(epsilon: float, n_noise_terms: int) -> IntegerLaw:
    r"""Law of a sum of independent draws of discrete Laplace noise.

    .. math:: \Pr(X = x) = \frac{1 - a}{1 + a}\, a^{|x|}, \qquad a = e^{-\varepsilon}.

    Parameters
    ----------
    epsilon
        Privacy parameter of one draw.
    n_noise_terms
        Number of draws, :math:`m`.
    """
    errors.finite_positive(epsilon=epsilon)
    errors.positive_integer(n_noise_terms=n_noise_terms)
    a = math.exp(-epsilon)
    reach = max(1, math.ceil(math.log(_CUT * (1 + a) / 2) / -epsilon))
    values = np.abs(np.arange(-reach, reach + 1))
    one = IntegerLaw(-reach, (1 - a) / (1 + a) * a**values, 2 * a ** (reach + 1) / (1 + a))
    return one if n_noise_terms == 1 else one.plus(laplace_sum(epsilon, n_noise_terms - 1))


def noise_quantile(epsilon: float, n_noise_terms: int, failure_probability: float) -> int:
    """Smallest t ≥ 0 such that a sum of draws exceeds t with at most this probability."""
    errors.in_unit_interval(failure_probability=failure_probability)
    law = laplace_sum(epsilon, n_noise_terms)
    above = np.concatenate([np.cumsum(law.probabilities[::-1])[::-1][1:], [0.0]]) + law.missing
    allowed = np.flatnonzero(above <= failure_probability)
    if not len(allowed):
        raise ParameterError("failure_probability", failure_probability, "is below the precision of the noise table")
    return max(0, law.first + int(allowed[0]))


def noise_variance(epsilon: float) -> float:
    r"""Variance of one draw, :math:`\nu = 2a / (1 - a)^2`."""
    a = math.exp(-epsilon)
    return 2 * a / (1 - a) ** 2


def noise_reach(epsilons: Sequence[float], failure_probability: float) -> int:
    r"""A t such that a sum of independent draws exceeds t with at most this probability, whatever their epsilons.

    One draw has :math:`\Pr(X > t) = a^{t+1} / (1 + a)`. For more, by Markov's inequality with
    :math:`E e^{\lambda X} = (\cosh\varepsilon - 1) / (\cosh\varepsilon - \cosh\lambda)`, the smallest over a grid of
    :math:`\lambda < \min\varepsilon` of :math:`(\sum_i \ln E e^{\lambda X_i} + \ln 1/\delta) / \lambda`: quick where
    the law of the sum would be long, and a little wider.
    """
    errors.in_unit_interval(failure_probability=failure_probability)
    errors.finite_positive(epsilon=min(epsilons))
    if len(epsilons) == 1:
        a = math.exp(-epsilons[0])
        return max(0, math.ceil(math.log(failure_probability * (1 + a)) / -epsilons[0]) - 1)
    kinds, draws = np.unique(np.asarray(epsilons, dtype=np.float64), return_counts=True)
    powers = min(epsilons) * _POWERS
    # 2 sinh² keeps small numbers apart where a difference of hyperbolic cosines would round.
    whole = np.sinh(kinds[:, None] / 2) ** 2
    moments = -np.log1p(-(np.sinh(powers / 2) ** 2) / whole)
    return math.floor(float(((draws @ moments - math.log(failure_probability)) / powers).min()))


def transform(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Concave increasing transform of a normal score, :math:`h(z) = (1 - e^{-kz}) / k`, :math:`k = 0.2`."""
    return -np.expm1(-_CURVATURE * scores) / _CURVATURE


def _inverse_transform(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverse of `transform`; infinite above its supremum."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values < 1 / _CURVATURE, -np.log1p(-_CURVATURE * values) / _CURVATURE, np.inf)


@lru_cache(maxsize=64)
def critical_values(failure_probability: float) -> CriticalValues:
    r"""Table of critical values for all angles between the arms.

    .. math::
        \Pr(\cos\varphi\, h(Z_1) + \sin\varphi\, h(Z_2) \le -c(\varphi)) \le \alpha, \qquad \varphi \in [0, \pi/2],

    rounded up between its angles by a bound on how fast the combination turns.
    """
    angles = np.linspace(0, math.pi / 2, _N_ANGLES)
    half = angles[: _N_ANGLES // 2 + 1]  # symmetric about the diagonal
    solved = _solve(half, failure_probability - _RARE)
    values = np.concatenate([solved, solved[:-1][::-1]])
    radius = math.hypot(float(transform(np.array(-_RARE_SCORE))), float(transform(np.array(-_RARE_SCORE))))
    values = values + radius * (angles[1] / 2) + 1e-6
    maxima = [values]
    while 2 ** len(maxima) <= _N_ANGLES:
        width = 2 ** (len(maxima) - 1)
        maxima.append(np.maximum(maxima[-1][:-width], maxima[-1][width:]))
    return tuple(maxima)


def largest_critical(table: CriticalValues, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest critical value over each range of angles; the ranges are widened to table entries."""
    step = (math.pi / 2) / (_N_ANGLES - 1)
    first = np.clip(np.floor(low / step).astype(np.int64), 0, _N_ANGLES - 1)
    last = np.clip(np.ceil(high / step).astype(np.int64), 0, _N_ANGLES - 1)
    level = np.log2(last - first + 1).astype(np.int64)
    result = np.empty(np.broadcast(first, last).shape)
    for depth in np.unique(level):
        here, maxima = level == depth, table[depth]
        result[here] = np.maximum(maxima[first[here]], maxima[last[here] - (1 << int(depth)) + 1])
    return result


def _solve(angles: NDArray[np.float64], failure_probability: float) -> NDArray[np.float64]:
    """Critical value of each angle up to the diagonal, by secant steps on the logarithm of the chance.

    Given the second score, which weighs less, the first has a normal tail: a smooth integrand, for which equally
    spaced nodes are exact to many digits.
    """
    nodes = np.linspace(-9, 9, 401)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    second = np.sin(angles)[:, None] * transform(nodes)[None, :]

    def log_excess(values: NDArray[np.float64]) -> NDArray[np.float64]:
        reach = _inverse_transform((-values[:, None] - second) / np.cos(angles)[:, None])
        return np.log((ndtr(reach) * weights).sum(1) / failure_probability)

    start = -float(transform(np.array(ndtri(failure_probability))))
    before, now = np.full(len(angles), start), np.full(len(angles), start + 0.1)
    old, new = log_excess(before), log_excess(now)
    for _ in range(20):
        unsolved = np.abs(new) > 1e-10
        if not unsolved.any():
            break
        # The chance falls with the value; where a step was nothing, a unit slope is as good as any.
        taken = now - before
        slope = np.divide(new - old, taken, out=np.full_like(taken, -1.0), where=taken != 0)
        before, old = now, new
        now = now - np.where(unsolved, new / np.minimum(slope, -0.1), 0.0)
        new = log_excess(now)
    if np.abs(new).max() > 1e-8:
        raise ArithmeticError(f"no critical value found for failure_probability={failure_probability!r}.")
    # A hair more than the root, and never on its wrong side.
    return now + np.maximum(new, 0.0) + 1e-8


@dataclass(frozen=True, kw_only=True)
class NoisyBinomial:
    """Released counts of one group or cell.

    Parameters
    ----------
    positive, negative
        Noisy counts of positive and negative decisions, A~ and B~.
    epsilon
        Parameter of each draw of noise.
    n_noise_terms
        Draws in each count: 1 for a cell, 2 for a group that adds up two cells.
    """

    positive: int
    negative: int
    epsilon: float
    n_noise_terms: int

    @property
    def total(self) -> int:
        """Noisy size, n~."""
        return self.positive + self.negative

    def mirrored(self) -> "NoisyBinomial":
        """The same people with decisions exchanged."""
        return NoisyBinomial(
            positive=self.negative, negative=self.positive, epsilon=self.epsilon, n_noise_terms=self.n_noise_terms
        )

    def sizes(self, failure_probability: float) -> tuple[int, int] | None:
        """Range that holds the true size except with twice this probability; None if no size is possible."""
        reach = noise_quantile(self.epsilon, 2 * self.n_noise_terms, failure_probability)
        return None if self.total + reach < 0 else (max(0, self.total - reach), self.total + reach)


def upper_p_values(
    arm: NoisyBinomial, rates: Floats, smallest: int, largest: int, *, statistic_of: Floats | None = None
) -> Floats:
    r"""Bound on the p-value of each hypothesised rate, over all sizes from ``smallest`` to ``largest``.

    Small where the rate is too large for the counts. For rates up to one half
    :math:`\pi(p, n) = \Pr_{n,p}(S' \le S)` with :math:`S = M\tilde A - j \tilde n`, :math:`j = \mathrm{round}(Mp)`, and
    over a block of sizes
    :math:`\pi \le \sum_a \mathrm{Bin}(a; n_1, p)\, G_j(M(\tilde A - a) - j(\tilde n - n_2))`; for larger rates the same
    statistic of the negative decisions, whose other tail counts.

    Parameters
    ----------
    statistic_of
        Rates that choose the statistic instead: the middle of a cell, when its lower end is asked for.
    """
    chooser = rates if statistic_of is None else statistic_of
    result = np.empty(len(rates))
    for mirrored in (False, True):
        here = (chooser > 0.5) == mirrored
        turned_rates, owners = (1 - rates, 1 - chooser) if mirrored else (rates, chooser)
        steps = np.rint(_M * owners).astype(np.int64)
        counts = arm.mirrored() if mirrored else arm
        for step in np.unique(steps[here]):
            chosen = here & (steps == step)
            result[chosen] = _tail(counts, turned_rates[chosen], int(step), smallest, largest, upper=mirrored)
    return np.minimum(result, 1.0)


def _tail(arm: NoisyBinomial, rates: Floats, step: int, smallest: int, largest: int, *, upper: bool) -> Floats:
    """Chance that the statistic of this step is at most, or at least, what was observed."""
    drawn, counted = (largest, smallest) if upper else (smallest, largest)
    positives = _likely(drawn, rates)
    limits = _M * (arm.positive - positives) - step * (arm.total - counted)
    law = _statistic_noise(arm.epsilon, arm.n_noise_terms, step)
    chances = law.at_least(limits) if upper else law.at_most(limits)
    ways = gammaln(drawn + 1) - gammaln(positives + 1) - gammaln(drawn - positives + 1)
    with np.errstate(divide="ignore"):
        # Rates of zero and one: a huge finite logarithm times no event is zero, times any event minus infinity.
        log_yes, log_no = np.log(rates).clip(min=_LOG_ZERO), np.log1p(-rates).clip(min=_LOG_ZERO)
    logs = np.multiply.outer(log_yes, positives)
    logs += np.multiply.outer(log_no, drawn - positives)
    logs += ways
    return (np.exp(logs, out=logs) @ chances) * (1 + _ROUNDING) + _LEFT_OUT


def _likely(size: int, rates: Floats) -> NDArray[np.int64]:
    """Numbers of positives outside of which each binomial has less than the mass that may be left out (Bernstein)."""
    log = math.log(2 / _LEFT_OUT)

    def reach(rate: float) -> float:
        return math.sqrt(2 * size * rate * (1 - rate) * log) + log

    low, high = float(rates.min()), float(rates.max())
    first = max(0, math.floor(size * low - reach(low)))
    last = min(size, math.ceil(size * high + reach(high)))
    return np.arange(first, last + 1)


@lru_cache(maxsize=4096)
def _statistic_noise(epsilon: float, n_noise_terms: int, step: int) -> IntegerLaw:
    """Law of (M − j) X − j Y."""
    law = laplace_sum(epsilon, n_noise_terms)
    return law.times(_M - step).plus(law.times(-step))


@dataclass(frozen=True, eq=False)
class ArmTable:
    """Cells of hypothesised rates, from low to high, with bounds that hold for every rate and size in them.

    ``p_values`` and the ends of the scale, ``scale_low`` and ``scale_high``, have shape (n_cells, n_size_ranges): sizes
    are cut into a few ranges, because the weight of an arm depends on its size.
    """

    arm: NoisyBinomial
    low: Floats
    high: Floats
    blocks: Blocks
    p_values: Floats
    scale_low: Floats
    scale_high: Floats

    def split(self, cells: NDArray[np.int64], parts: int) -> "ArmTable":
        """The same bounds on finer cells."""
        shares = np.linspace(0, 1, parts + 1)
        edges = self.low[cells, None] + (self.high - self.low)[cells, None] * shares
        return _table_of(self.arm, edges[:, :-1].ravel(), edges[:, 1:].ravel(), self.blocks)


def arm_table(arm: NoisyBinomial, sizes: tuple[int, int], guard: float) -> ArmTable | None:
    """Cells of all rates that the guard does not rule out, fine where the answer will lie; None if it rules out all.

    Parameters
    ----------
    sizes
        Range of the true size.
    guard
        P-value below which a rate is ruled out by this arm alone.
    """
    blocks = _blocks(*sizes)
    # One block for all sizes is coarse, and enough to find where rates are ruled out.
    top = _largest_rate(arm, ((sizes,),), guard)
    if top is None:
        return None
    centre = min(max(arm.positive / max(arm.total, 1), 0.0), 1.0)
    spread = float(_scale(np.array([min(max(centre, 0.01), 0.99)]), max(sizes[0], 1), arm)[0])
    # The largest difference lies where both arms are a little unlikely: fine cells there, coarse ones below.
    bottom, knee = (max(0.0, min(centre, top) - reach * spread) for reach in (8, 0.75))
    grids = np.linspace(bottom, knee, _N_COARSE + 1), np.linspace(knee, top, _N_FINE + 1)
    inside = _BREAKS[(bottom < _BREAKS) & (top > _BREAKS)]
    edges = np.unique(np.concatenate([[0.0], *grids, inside]))
    return _table_of(arm, edges[:-1], edges[1:], blocks)


def largest_rate(arm: NoisyBinomial, sizes: tuple[int, int], guard: float) -> float | None:
    """Rate above which every rate, at every size, is ruled out by this arm alone; None if all are."""
    return _largest_rate(arm, _blocks(*sizes), guard)


def _largest_rate(arm: NoisyBinomial, blocks: Blocks, guard: float) -> float | None:
    return _last_kept(arm, np.concatenate([[0.0], _BREAKS, [1.0]]), blocks, guard, rounds=2)


def _last_kept(arm: NoisyBinomial, edges: Floats, blocks: Blocks, guard: float, rounds: int) -> float | None:
    """Upper end of the last cell that is not ruled out, looked at ever more closely."""
    low, high = edges[:-1], edges[1:]
    # One block for all sizes rules out most cells, and none that finer ones keep: these take longer.
    whole = (((blocks[0][0][0], blocks[-1][-1][1]),),)
    for cell in np.flatnonzero(_cell_p_values(arm, low, high, whole).max(1) >= guard)[::-1]:
        if _cell_p_values(arm, low[cell : cell + 1], high[cell : cell + 1], blocks).max() < guard:
            continue
        if not rounds:
            return float(edges[cell + 1])
        finer = _last_kept(arm, np.linspace(low[cell], high[cell], 17), blocks, guard, rounds - 1)
        if finer is not None:
            return finer
    return None


def _cell_p_values(arm: NoisyBinomial, low: Floats, high: Floats, blocks: Blocks) -> Floats:
    """Largest p-value in each cell and range of sizes: at the lower end, with the statistic of the cell.

    A cell in which the statistic changes is never ruled out.
    """
    middle = (low + high) / 2
    mixed = np.searchsorted(_BREAKS, low, "right") < np.searchsorted(_BREAKS, high, "left")
    columns = [
        np.max([upper_p_values(arm, low, *block, statistic_of=middle) for block in group], axis=0) for group in blocks
    ]
    return np.where(mixed[:, None], 1.0, np.column_stack(columns))


def _table_of(arm: NoisyBinomial, low: Floats, high: Floats, blocks: Blocks) -> ArmTable:
    scales = [_scale_range(low, high, group[0][0], group[-1][1], arm) for group in blocks]
    return ArmTable(
        arm,
        low,
        high,
        blocks,
        _cell_p_values(arm, low, high, blocks),
        np.column_stack([least for least, _ in scales]),
        np.column_stack([greatest for _, greatest in scales]),
    )


def _blocks(smallest: int, largest: int) -> Blocks:
    """Sizes cut into blocks, and the blocks into one or two ranges of similar weight."""
    n_blocks = min(_N_BLOCKS, largest - smallest + 1)
    edges = np.linspace(smallest, largest + 1, n_blocks + 1).round().astype(int)
    blocks = [(int(a), int(b) - 1) for a, b in itertools.pairwise(edges)]
    n_ranges = 1 if largest <= 1.1 * smallest else min(2, n_blocks)
    return tuple(tuple(blocks[i] for i in part) for part in np.array_split(np.arange(n_blocks), n_ranges))


def _scale(rates: Floats, size: int, arm: NoisyBinomial) -> Floats:
    r"""Deviation of the estimated rate, :math:`s^2 = p(1-p)/n + m\nu(p^2 + (1-p)^2)/n^2`; one half for n = 0."""
    if size == 0:
        return np.full(len(rates), 0.5)
    noise = arm.n_noise_terms * noise_variance(arm.epsilon)
    return np.sqrt(rates * (1 - rates) / size + noise * (rates**2 + (1 - rates) ** 2) / size**2)


def _scale_range(low: Floats, high: Floats, smallest: int, largest: int, arm: NoisyBinomial) -> tuple[Floats, Floats]:
    """Least and greatest scale over cells of rates and a range of sizes."""
    middle = np.clip(0.5, low, high)
    sizes = {smallest, max(smallest, min(1, largest)), largest}
    at_middle = [_scale(middle, size, arm) for size in sizes]
    at_ends = [_scale(end, size, arm) for size in sizes for end in (low, high)]
    # p(1 − p) and p² + (1 − p)² are extreme at the ends of a cell or at one half.
    every = np.array(at_middle + at_ends)
    return every.min(0), every.max(0)


@dataclass(frozen=True)
class PairLevels:
    """Parts of the failure probability of one pair: four size bounds, two guards, the combination."""

    size: float
    guard: float
    combination: float

    @classmethod
    def of(cls, failure_probability: float) -> "PairLevels":
        """One half of a percent for each size bound and about as much for each guard, the rest for the combination."""
        errors.in_unit_interval(failure_probability=failure_probability)
        guard = 0.005 * 0.98 * failure_probability
        return cls(0.005 * failure_probability, guard, 0.98 * failure_probability - 2 * guard)


def side_of(arm: NoisyBinomial, levels: PairLevels) -> ArmTable | None:
    """An arm as one side of pairs: the rates it does not rule out alone; None if it rules out every size or rate."""
    sizes = arm.sizes(levels.size)
    return None if sizes is None else arm_table(arm, sizes, levels.guard)


def pair_bound(high: NoisyBinomial, low: NoisyBinomial, *, failure_probability: float) -> tuple[float, float]:
    """Bounds on the rate of ``high`` minus, and over, the rate of ``low``; wrong with at most this probability.

    Both are read off the same region of hypotheses, so they hold together. An infinite ratio says nothing.
    """
    levels = PairLevels.of(failure_probability)
    up, down = side_of(high, levels), side_of(low.mirrored(), levels)
    return bound_of(up, down, levels, difference), bound_of(up, down, levels, ratio)


def difference(rates: Floats, mirrored: Floats) -> Floats:
    """Every upper rate minus every lower one, the latter given as one minus itself; shape (n_up, n_down)."""
    return rates[:, None] - (1 - mirrored)[None, :]


def ratio(rates: Floats, mirrored: Floats) -> Floats:
    """Every upper rate over every lower one; nothing over nothing is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        values = rates[:, None] / (1 - mirrored)[None, :]
    return np.where(np.isnan(values), np.inf, values)


def bound_of(
    up: ArmTable | None, down: ArmTable | None, levels: PairLevels, objective: Objective, *, rounds: int = 2
) -> float:
    """Largest objective among the hypotheses that are not rejected; more rounds only tighten it.

    Parameters
    ----------
    up, down
        The upper arm, and the lower one mirrored.
    rounds
        How often the cells that set the bound are looked at more closely.
    """
    if up is None or down is None:
        return float(objective(np.ones(1), np.ones(1))[0, 0])
    critical = critical_values(levels.combination)
    upper, lower = up, down
    values, settled = _accepted_values(upper, lower, levels, critical, objective), -np.inf
    for _ in range(rounds):
        # The cells above what others reach at their near corner; the rest keep what they have.
        near = objective(upper.low, lower.low)
        limit = near[np.isfinite(values) & np.isfinite(near)].max(initial=-np.inf)
        rows, columns = np.flatnonzero((values > limit).any(1)), np.flatnonzero((values > limit).any(0))
        if not len(rows):
            break
        others = values.copy()
        others[np.ix_(rows, columns)] = -np.inf
        settled = max(settled, float(others.max()))
        upper, lower = upper.split(rows, _PARTS), lower.split(columns, _PARTS)
        values = _accepted_values(upper, lower, levels, critical, objective)
    best = max(settled, float(values.max()))
    # Nothing left means that the counts are as unlikely as was allowed for: then nothing is claimed.
    return best if best > -np.inf else float(objective(np.ones(1), np.ones(1))[0, 0])


def _accepted_values(
    up: ArmTable, down: ArmTable, levels: PairLevels, critical: CriticalValues, objective: Objective
) -> Floats:
    """Largest objective in each pair of cells that is not rejected, −∞ where it is; shape (n_up, n_down)."""
    accepted = np.zeros((len(up.low), len(down.low)), dtype=bool)
    for i in range(up.p_values.shape[1]):
        for j in range(down.p_values.shape[1]):
            accepted |= _accepted(up, i, down, j, levels, critical)
    return np.where(accepted, objective(up.high, down.high), -np.inf)


def _accepted(
    up: ArmTable, i: int, down: ArmTable, j: int, levels: PairLevels, critical: CriticalValues
) -> NDArray[np.bool_]:
    """True where a pair of cells holds hypotheses, with sizes in these two ranges, that are not rejected."""
    guarded = (up.p_values[:, i] >= levels.guard)[:, None] & (down.p_values[:, j] >= levels.guard)[None, :]
    first, second = transform(ndtri(up.p_values[:, i]))[:, None], transform(ndtri(down.p_values[:, j]))[None, :]
    least = np.arctan2(down.scale_low[None, :, j], up.scale_high[:, None, i])
    most = np.arctan2(down.scale_high[None, :, j], up.scale_low[:, None, i])
    limit = -largest_critical(critical, least, most)
    # A sum with weights cos φ, sin φ is convex in φ where it is negative: its largest value is at an end of the range.
    ends = [np.cos(angle) * first + np.sin(angle) * second >= limit for angle in (least, most)]
    return guarded & (ends[0] | ends[1])


def score_box_bound(arm: NoisyBinomial, *, failure_probability: float) -> float:
    """Upper bound on one rate, for arms too small for the pair: exact p-values at every size that is possible."""
    sizes = arm.sizes(0.005 * failure_probability)
    top = None if sizes is None else largest_rate(arm, sizes, 0.99 * failure_probability)
    return 1.0 if top is None else top


def truth_rejected(
    high: NoisyBinomial,
    low: NoisyBinomial,
    rates: tuple[float, float],
    sizes: tuple[int, int],
    *,
    failure_probability: float,
) -> bool:
    """Test of one hypothesis, at the point itself, on which the coverage of every bound rests."""
    levels = PairLevels.of(failure_probability)
    arms = (high, low.mirrored())
    arm_rates = (rates[0], 1 - rates[1])
    for arm, size in zip(arms, sizes, strict=True):
        within = arm.sizes(levels.size)
        if within is None or not within[0] <= size <= within[1]:
            return True
    values = [upper_p_values(a, np.array([p]), n, n)[0] for a, p, n in zip(arms, arm_rates, sizes, strict=True)]
    if min(values) < levels.guard:
        return True
    scales = [float(_scale(np.array([p]), n, a)[0]) for a, p, n in zip(arms, arm_rates, sizes, strict=True)]
    angle = np.arctan2(np.array([scales[1]]), np.array([scales[0]]))
    scores = transform(ndtri(np.array(values)))
    total = np.cos(angle) * scores[0] + np.sin(angle) * scores[1]
    return bool(total[0] < -largest_critical(critical_values(levels.combination), angle, angle)[0])


def hoeffding_radius(n_samples: int, *, failure_probability: float) -> float:
    r"""Reach of a mean of values in [0, 1] below its expectation, :math:`\sqrt{\ln(1/\beta) / (2n)}`.

    References
    ----------
    Hoeffding (1963), Theorem 2.
    """
    errors.in_unit_interval(failure_probability=failure_probability)
    return math.inf if n_samples <= 0 else math.sqrt(math.log(1 / failure_probability) / (2 * n_samples))


def clopper_pearson_upper(successes: int, failures: int, *, failure_probability: float) -> float:
    r"""Upper bound on a rate from exact counts, :math:`\mathrm{BetaInv}(1 - \beta;\, A + 1, B)`; one without failures.

    References
    ----------
    Clopper and Pearson (1934).
    """
    errors.in_unit_interval(failure_probability=failure_probability)
    if failures <= 0:
        return 1.0
    return float(betaincinv(max(successes, 0) + 1, failures, 1 - failure_probability))


def box_upper(arm: NoisyBinomial, *, noise_failure: float, rate_failure: float) -> float:
    """Clopper–Pearson with both counts moved to the unfavourable end of their noise.

    Wrong with at most twice ``noise_failure`` plus ``rate_failure``.
    """
    reach = noise_quantile(arm.epsilon, arm.n_noise_terms, noise_failure)
    return clopper_pearson_upper(arm.positive + reach, arm.negative - reach, failure_probability=rate_failure)


def conv_upper(arm: NoisyBinomial, *, size_failure: float, rate_failure: float) -> float:
    r"""Largest rate under which so few noisy positives are not too unlikely, at the least size that is possible.

    .. math:: \sup\{ r : \Pr(\mathrm{Bin}(n^-, r) + X \le \tilde A) \ge \beta \}.

    Without any possible size above zero nothing is known: the bound is one. Raising such a size to one instead, as a
    shortcut, is wrong for an empty cell.
    """
    least = arm.total - noise_quantile(arm.epsilon, 2 * arm.n_noise_terms, size_failure)
    if least <= 0:
        return 1.0
    return _largest_plausible(least, arm, rate_failure)


def _largest_plausible(size: int, arm: NoisyBinomial, failure_probability: float) -> float:
    law = laplace_sum(arm.epsilon, arm.n_noise_terms)
    positives = np.arange(size + 1)
    chances = law.at_most(arm.positive - positives)

    def excess(rate: float) -> float:
        return float(chances @ binom.pmf(positives, size, rate)) - failure_probability

    if excess(1.0) >= 0:
        return 1.0
    return 0.0 if excess(0.0) < 0 else float(brentq(excess, 0.0, 1.0, xtol=1e-10))


@dataclass(frozen=True, kw_only=True)
class GapBound:
    """Bounds on the groups' rates that hold together, except with the probability they were asked for.

    Parameters
    ----------
    tau
        Upper bound on the largest difference of two groups' rates.
    ratio
        Lower bound on the smallest rate over the largest; zero says nothing.
    pair
        The groups, upper and lower, whose difference sets ``tau``.
    """

    tau: float
    ratio: float
    pair: tuple[int, int]


def uses_score_box(epsilon: float, expected_smallest: float) -> bool:
    """True if arms of this expected size are certified one by one; decided from public numbers, before looking."""
    return epsilon * expected_smallest < SMALL


def gap_bound(arms: Sequence[NoisyBinomial], *, failure_probability: float, score_box: bool = False) -> GapBound:
    r"""Bound the gap of all groups at the level of a single pair.

    The true gap is the difference of one fixed pair, and the bound is at least the bound of that pair: it fails only
    if that one does, so no union over pairs is paid. With ``score_box`` it fails only if one of two rates is missed.
    """
    if len(arms) < 2:
        return GapBound(tau=0.0, ratio=1.0, pair=(0, 0))
    if score_box:
        return _box_gap(arms, failure_probability / 2)
    levels = PairLevels.of(failure_probability)
    ups = [side_of(arm, levels) for arm in arms]
    downs = [side_of(arm.mirrored(), levels) for arm in arms]
    gap, pair = _largest(ups, downs, levels, difference)
    quotient, _ = _largest(ups, downs, levels, ratio)
    return GapBound(tau=float(np.clip(gap, 0, 1)), ratio=_inverse(quotient), pair=pair)


def _largest(
    ups: list[ArmTable | None], downs: list[ArmTable | None], levels: PairLevels, objective: Objective
) -> tuple[float, tuple[int, int]]:
    """Largest bound over ordered pairs: a rough one for all, closer ones only for those that may be the largest.

    Every one of them is a valid bound, so with many pairs alike the later ones may keep a rougher one.
    """
    pairs = [(u, v) for u in range(len(ups)) for v in range(len(ups)) if u != v]
    rough = {pair: bound_of(ups[pair[0]], downs[pair[1]], levels, objective, rounds=0) for pair in pairs}
    ranked = sorted(pairs, key=rough.__getitem__, reverse=True)
    best, which = -np.inf, ranked[0]
    for rank, pair in enumerate(ranked):
        if rough[pair] <= best:
            break
        rounds = next((rounds for rounds, last in _CLOSE if rank < last), 0)
        close = bound_of(ups[pair[0]], downs[pair[1]], levels, objective, rounds=rounds) if rounds else rough[pair]
        if close > best:
            best, which = close, pair
    return best, which


def _box_gap(arms: Sequence[NoisyBinomial], failure_probability: float) -> GapBound:
    highs = [score_box_bound(arm, failure_probability=failure_probability) for arm in arms]
    lows = [1 - score_box_bound(arm.mirrored(), failure_probability=failure_probability) for arm in arms]
    pairs = [(u, v) for u in range(len(arms)) for v in range(len(arms)) if u != v]
    which = max(pairs, key=lambda pair: highs[pair[0]] - lows[pair[1]])
    quotient = max(highs[u] / lows[v] if lows[v] > 0 else np.inf for u, v in pairs)
    return GapBound(tau=float(np.clip(highs[which[0]] - lows[which[1]], 0, 1)), ratio=_inverse(quotient), pair=which)


def _inverse(quotient: float) -> float:
    """Smallest over largest, from a bound on largest over smallest."""
    return 1.0 if quotient <= 1 else 1 / quotient


def release_counts(
    counts: Counts, *, epsilon: float | Sequence[float], rand_below: RandBelow, purpose: str = "look"
) -> Counts:
    """Counts with exact discrete Laplace noise: a record is in one cell, so this costs its group's pure ε in all."""
    epsilons = per_group(epsilon, len(counts))
    errors.finite_positive(epsilon=min(epsilons))
    noise = [[discrete_laplace(group_epsilon, rand_below) for _ in range(counts[0].size)] for group_epsilon in epsilons]
    noisy = counts + np.array(noise, dtype=np.int64).reshape(counts.shape)
    scales = np.broadcast_to(1 / np.reshape(epsilons, (-1,) + (1,) * (counts.ndim - 1)), counts.shape)
    return release(noisy, purpose=purpose, law="laplace", scale=scales, exact=counts)


def per_group(epsilon: float | Sequence[float], n_groups: int) -> tuple[float, ...]:
    """One ε for each group."""
    if isinstance(epsilon, Sequence):
        return tuple(float(value) for value in epsilon)
    return (float(epsilon),) * n_groups


def small(epsilons: Sequence[float], expected_sizes: Sequence[float], kind: str) -> bool:
    """True if the smallest arm of a kind of rate is expected to be too small for pairs, by public numbers."""
    share = PLANNED_CELL if len(RATES[kind].labels) == 1 else 1.0
    return any(uses_score_box(epsilon, share * size) for epsilon, size in zip(epsilons, expected_sizes, strict=True))


def arms_of(counts: Counts, kind: str, epsilons: tuple[float, ...]) -> list[NoisyBinomial]:
    """One arm per group: all of its records, or those of one label."""
    n_noise_terms = len(RATES[kind].counted)
    return [
        NoisyBinomial(positive=int(p), negative=int(n), epsilon=epsilon, n_noise_terms=n_noise_terms)
        for (n, p), epsilon in zip(cells_of(counts, kind), epsilons, strict=True)
    ]
