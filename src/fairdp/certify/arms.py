"""One rate seen through noisy counts: exact p-values for "the rate is no larger than this", at every size it may have.

An arm has n people, A of them positive; released are A + X and n − A + Y with discrete Laplace noise. The statistic
M A~ − j n~, with j/M near the hypothesised rate, has a mean almost free of the unknown n, so n enters through little
more than a variance.
"""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from fairdp.certify.noise import IntegerLaw, laplace_sum, noise_quantile, noise_variance

# Resolution of the statistic: hypotheses are grouped by round(M p).
_M = 32
# Mass of the binomial that may be left out of a sum, and the rounding of its logarithms; added to every p-value.
_LEFT_OUT = 1e-12
_ROUNDING = 1e-7
_LOG_ZERO = -1e300
_N_BLOCKS = 24
_N_COARSE, _N_FINE = 10, 90

# Where the statistic changes.
_BREAKS = np.unique(np.append((np.arange(_M) + 0.5) / _M, 0.5))

Floats = NDArray[np.float64]
# Blocks of sizes, first and last, grouped into ranges of similar weight.
Blocks = tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True, kw_only=True)
class NoisyArm:
    """Released counts of one group or cell.

    Parameters
    ----------
    positive, negative
        Noisy counts of positive and negative decisions, A~ and B~.
    epsilon
        Parameter of each draw of noise.
    folds
        Draws in each count: 1 for a cell, 2 for a group that adds up two cells.
    """

    positive: int
    negative: int
    epsilon: float
    folds: int

    @property
    def total(self) -> int:
        """Noisy size, n~."""
        return self.positive + self.negative

    def mirrored(self) -> "NoisyArm":
        """The same people with decisions exchanged."""
        return NoisyArm(positive=self.negative, negative=self.positive, epsilon=self.epsilon, folds=self.folds)

    def sizes(self, failure_probability: float) -> tuple[int, int] | None:
        """Range that holds the true size except with twice this probability; None if no size is possible."""
        reach = noise_quantile(self.epsilon, 2 * self.folds, failure_probability)
        return None if self.total + reach < 0 else (max(0, self.total - reach), self.total + reach)


def upper_p_values(
    arm: NoisyArm, rates: Floats, smallest: int, largest: int, *, statistic_of: Floats | None = None
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


def _tail(arm: NoisyArm, rates: Floats, step: int, smallest: int, largest: int, *, upper: bool) -> Floats:
    """Chance that the statistic of this step is at most, or at least, what was observed."""
    drawn, counted = (largest, smallest) if upper else (smallest, largest)
    positives = _likely(drawn, rates)
    limits = _M * (arm.positive - positives) - step * (arm.total - counted)
    law = _statistic_noise(arm.epsilon, arm.folds, step)
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
def _statistic_noise(epsilon: float, folds: int, step: int) -> IntegerLaw:
    """Law of (M − j) X − j Y."""
    law = laplace_sum(epsilon, folds)
    return law.times(_M - step).plus(law.times(-step))


@dataclass(frozen=True, eq=False)
class ArmTable:
    """Cells of hypothesised rates, from low to high, with bounds that hold for every rate and size in them.

    ``p_values`` and the ends of the scale, ``scale_low`` and ``scale_high``, have shape (n_cells, n_size_ranges): sizes
    are cut into a few ranges, because the weight of an arm depends on its size.
    """

    arm: NoisyArm
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


def arm_table(arm: NoisyArm, sizes: tuple[int, int], guard: float) -> ArmTable | None:
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


def largest_rate(arm: NoisyArm, sizes: tuple[int, int], guard: float) -> float | None:
    """Rate above which every rate, at every size, is ruled out by this arm alone; None if all are."""
    return _largest_rate(arm, _blocks(*sizes), guard)


def _largest_rate(arm: NoisyArm, blocks: Blocks, guard: float) -> float | None:
    return _last_kept(arm, np.concatenate([[0.0], _BREAKS, [1.0]]), blocks, guard, rounds=2)


def _last_kept(arm: NoisyArm, edges: Floats, blocks: Blocks, guard: float, rounds: int) -> float | None:
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


def _cell_p_values(arm: NoisyArm, low: Floats, high: Floats, blocks: Blocks) -> Floats:
    """Largest p-value in each cell and range of sizes: at the lower end, with the statistic of the cell.

    A cell in which the statistic changes is never ruled out.
    """
    middle = (low + high) / 2
    mixed = np.searchsorted(_BREAKS, low, "right") < np.searchsorted(_BREAKS, high, "left")
    columns = [
        np.max([upper_p_values(arm, low, *block, statistic_of=middle) for block in group], axis=0) for group in blocks
    ]
    return np.where(mixed[:, None], 1.0, np.column_stack(columns))


def _table_of(arm: NoisyArm, low: Floats, high: Floats, blocks: Blocks) -> ArmTable:
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


def _scale(rates: Floats, size: int, arm: NoisyArm) -> Floats:
    r"""Deviation of the estimated rate, :math:`s^2 = p(1-p)/n + m\nu(p^2 + (1-p)^2)/n^2`; one half for n = 0."""
    if size == 0:
        return np.full(len(rates), 0.5)
    noise = arm.folds * noise_variance(arm.epsilon)
    return np.sqrt(rates * (1 - rates) / size + noise * (rates**2 + (1 - rates) ** 2) / size**2)


def _scale_range(low: Floats, high: Floats, smallest: int, largest: int, arm: NoisyArm) -> tuple[Floats, Floats]:
    """Least and greatest scale over cells of rates and a range of sizes."""
    middle = np.clip(0.5, low, high)
    sizes = {smallest, max(smallest, min(1, largest)), largest}
    at_middle = [_scale(middle, size, arm) for size in sizes]
    at_ends = [_scale(end, size, arm) for size in sizes for end in (low, high)]
    # p(1 − p) and p² + (1 − p)² are extreme at the ends of a cell or at one half.
    every = np.array(at_middle + at_ends)
    return every.min(0), every.max(0)


def scale_at(arm: NoisyArm, rate: float, size: int) -> float:
    """Scale of one hypothesis."""
    return float(_scale(np.array([rate]), size, arm)[0])
