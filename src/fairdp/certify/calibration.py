"""What released counts of scores say: how often label 1 came true where it was predicted, who is above the median."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairdp.certify.noise import noise_variance
from fairdp.certify.rates import NoisySum, Rate, rate_of, share, upper_rate
from fairdp.certify.scores import ScoreCounts

# Deviations of its noise below which a noisy count says nothing of a rate: noise alone moves the rate by .18 there.
_HIDDEN = 4.0


@dataclass(frozen=True, kw_only=True)
class CalibrationBin:
    """The records of one group with scores from ``low`` to ``high``.

    ``n`` is their noisy number, ``predicted`` the middle of the bin, ``observed`` the share of label 1 among them.
    ``hidden``: so few that noise hides what happened to them, by the public deviation of the noise; then nothing is
    claimed, and the interval is that of all rates.
    """

    low: float
    high: float
    predicted: float
    n: int
    observed: Rate
    hidden: bool


@dataclass(frozen=True, kw_only=True)
class AboveMedian:
    """The noisy median of all scores, NaN if the noise left none, and the share of each group that is above it."""

    median: float
    shares: tuple[Rate, ...]


def calibration_of(scores: ScoreCounts, *, failure_probability: float = 0.05) -> tuple[tuple[CalibrationBin, ...], ...]:
    """The bins of each group; all intervals hold together, except with this probability.

    The interval is about people whose score falls into the bin; the middle of the bin is up to half its width from
    what was predicted for them on average.
    """
    limits = bin_limits(scores)
    part = failure_probability / (len(scores.counts) * len(limits))
    return tuple(
        tuple(
            _bin(limits[place], cells, epsilon, failure_probability=part)
            for place, cells in enumerate(zip(*labels, strict=True))
        )
        for labels, epsilon in zip(scores.counts, scores.epsilons, strict=True)
    )


def bin_limits(scores: ScoreCounts) -> list[tuple[float, float]]:
    """Lower and upper end of every bin."""
    return list(itertools.pairwise((0.0, *scores.edges, 1.0)))


def _bin(
    limits: tuple[float, float], cells: tuple[int, int], epsilon: float, *, failure_probability: float
) -> CalibrationBin:
    no, yes = cells
    estimate, hidden = share(yes, no), no + yes < _HIDDEN * math.sqrt(2 * noise_variance(epsilon))
    observed = Rate(estimate=estimate, low=0.0, high=1.0)
    if not hidden:
        sums = NoisySum(yes, (epsilon,)), NoisySum(no, (epsilon,))
        observed = rate_of(*sums, failure_probability=failure_probability, estimate=estimate)
    return CalibrationBin(
        low=limits[0],
        high=limits[1],
        predicted=sum(limits) / 2,
        n=no + yes,
        observed=observed,
        hidden=hidden,
    )


def above_median(
    scores: ScoreCounts, *, parts: Sequence[tuple[int, ...]] | None = None, failure_probability: float = 0.05
) -> AboveMedian:
    r"""Share of each group with a score above the noisy median of all; all intervals hold except with this probability.

    With the noisy counts of each bin, zero where they are below, the median is
    :math:`m = l_b + w_b (N/2 - \sum_{j<b} N_j) / N_b` in the bin b where half of all are reached, and the estimate of a
    group :math:`(\sum_{j>b} n_j + n_b (u_b - m) / w_b) / n`. How scores lie within the bin is not known, so that the
    interval reaches from the share above the bin to the share from its lower end on. It holds for the median that was
    found, wherever that is, because it is a pair of bounds that hold at all edges at once.

    Parameters
    ----------
    parts
        Groups to be taken together, by their places; None: each by itself.
    """
    parts = [(group,) for group in range(len(scores.counts))] if parts is None else parts
    counts, limits = np.array(scores.counts).sum(1), bin_limits(scores)
    every = counts.sum(0).clip(min=0)
    if not every.sum():
        return AboveMedian(median=math.nan, shares=(Rate(estimate=math.nan, low=0.0, high=1.0),) * len(parts))
    place = int(np.searchsorted(every.cumsum(), every.sum() / 2))
    (low, high), before = limits[place], every[:place].sum()
    part_of_bin = float((every.sum() / 2 - before) / every[place])
    each = failure_probability / (2 * len(scores.edges) * len(parts))
    found = []
    for groups in parts:
        own = counts[list(groups)].sum(0).clip(min=0)
        above = own[place + 1 :].sum() + own[place] * (1 - part_of_bin)
        least = 1 - _share_below(scores, groups, place + 1, each) if place < len(limits) - 1 else 0.0
        most = _share_above(scores, groups, place, each) if place else 1.0
        found.append(Rate(estimate=share(above, own.sum() - above), low=max(0.0, min(least, most)), high=most))
    return AboveMedian(median=low + (high - low) * part_of_bin, shares=tuple(found))


def _share_above(scores: ScoreCounts, groups: tuple[int, ...], place: int, failure_probability: float) -> float:
    """Upper bound on the share of these groups in this bin and those above it."""
    below, above = _cut(scores, groups, place)
    return upper_rate(above, below, failure_probability=failure_probability)


def _share_below(scores: ScoreCounts, groups: tuple[int, ...], place: int, failure_probability: float) -> float:
    """Upper bound on the share of these groups in the bins below this one."""
    below, above = _cut(scores, groups, place)
    return upper_rate(below, above, failure_probability=failure_probability)


def _cut(scores: ScoreCounts, groups: tuple[int, ...], place: int) -> tuple[NoisySum, NoisySum]:
    """Noisy numbers below and from a bin on."""
    below, above = (
        NoisySum.of(
            (count, scores.epsilons[group])
            for group in groups
            for label in scores.counts[group]
            for count in label[cut]
        )
        for cut in (slice(None, place), slice(place, None))
    )
    return below, above
