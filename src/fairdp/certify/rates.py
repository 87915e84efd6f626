"""A certificate in use: rates of each group with intervals, and calibration.

Everything here follows from released counts, so it costs no privacy.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv

from fairdp import errors
from fairdp.certify.bounds import NoisyBinomial, noise_reach, noise_variance, score_box_bound
from fairdp.certify.certificate import (
    Certificate,
    ScoreCounts,
)
from fairdp.certify.outlook import cost_in_tau
from fairdp.metrics import metrics_of_counts, rate_of_counts
from fairdp.parameters import RATES

Parts = Mapping[str, tuple[int, ...]]

# Draws of noise over epsilon up to which exact p-values take no longer than about a second.
_AFFORDABLE = 25.0
# Of the failure probability where they are not taken: each of two noises, and the rest for the draw of the people.
_FOR_NOISE = 0.25
# How the values of several protected columns form the name of a group.
JOINED = " & "
# Deviations of its noise below which a noisy count says nothing of a rate: noise alone moves the rate by .18 there.
_HIDDEN = 4.0


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A rate: its estimate from noisy counts, NaN where the noise left nothing, and bounds that hold with it."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class NoisySum:
    """A sum of released counts, and the epsilon of every draw of noise in it."""

    value: int
    epsilons: tuple[float, ...]

    @classmethod
    def of(cls, cells: Iterable[tuple[int, float]]) -> "NoisySum":
        """The sum of counts, each with the epsilon it was released with."""
        counts, epsilons = zip(*cells, strict=True)
        return cls(sum(counts), epsilons)


def rate_of(positive: NoisySum, negative: NoisySum, *, failure_probability: float, estimate: float) -> Rate:
    """The rate with an interval whose ends fail with half of this probability each."""
    high = upper_rate(positive, negative, failure_probability=failure_probability / 2)
    low = 1 - upper_rate(negative, positive, failure_probability=failure_probability / 2)
    return Rate(estimate=estimate, low=max(0.0, min(low, high)), high=high)


def upper_rate(positive: NoisySum, negative: NoisySum, *, failure_probability: float) -> float:
    r"""Upper bound on the rate behind two noisy sums of people; wrong with at most this probability.

    Where both sums have equally many draws of the same noise, and not too many, by exact p-values (`score_box_bound`).
    Else the true numbers lie, except for a quarter of the probability each, at :math:`A \le \tilde A + r_A` and
    :math:`B \ge \tilde B - r_B` (`noise_reach`), and the bound of Clopper and Pearson, which grows with A and falls
    with B, has the rest. Which of the two is taken follows from public numbers alone.
    """
    errors.in_unit_interval(failure_probability=failure_probability)
    same = positive.epsilons == negative.epsilons and len(set(positive.epsilons)) == 1
    n_noise_terms, epsilon = len(positive.epsilons), min(positive.epsilons)
    if same and n_noise_terms / epsilon <= _AFFORDABLE:
        arm = NoisyBinomial(
            positive=positive.value, negative=negative.value, epsilon=epsilon, n_noise_terms=n_noise_terms
        )
        return score_box_bound(arm, failure_probability=failure_probability)
    for_noise = _FOR_NOISE * failure_probability
    most = positive.value + noise_reach(positive.epsilons, for_noise)
    fewest = max(0, negative.value - noise_reach(negative.epsilons, for_noise))
    if most < 0 or fewest == 0:
        # Nobody may be negative, or the counts are as unlikely as was allowed for: then nothing is claimed.
        return 1.0
    return float(betaincinv(most + 1, fewest, 1 - (failure_probability - 2 * for_noise)))


def share(part: float, rest: float) -> float:
    """Share of a part in the whole, after counts below zero became zero; NaN of nothing."""
    part, rest = max(float(part), 0.0), max(float(rest), 0.0)
    return part / (part + rest) if part + rest else math.nan


def estimated_metrics(certificate: Certificate) -> dict[str, Any]:
    """Metrics under the names users see; no AUC follows from counts."""
    counts = np.array(certificate.counts, dtype=np.float64).clip(min=0)
    return {"auc": math.nan, **metrics_of_counts(counts, certificate.group_names)}


@dataclass(frozen=True, kw_only=True)
class GroupRow:
    """One group: its noisy number of records, which may be below zero, and its rates under the deployed rule.

    ``base_rate`` is the share of label 1, ``selection_rate`` that of positive decisions; the next two are the latter
    among records of label 1 and of label 0.
    """

    name: str
    n: int
    base_rate: Rate
    selection_rate: Rate
    true_positive_rate: Rate
    false_positive_rate: Rate
    accuracy: Rate


def group_table(certificate: Certificate) -> tuple[GroupRow, ...]:
    """The groups of a certificate; all intervals hold together with its confidence, as a separate statement.

    Both ends of all intervals get an equal share of the failure probability, and each is bounded by itself
    (`upper_rate`). The certificate itself bounds differences more tightly.
    """
    return _rows(certificate, _each(certificate.group_names), len(certificate.group_names))


def tables_by_attribute(
    certificate: Certificate, attributes: Sequence[str] | None = None
) -> dict[str, tuple[GroupRow, ...]]:
    """A table for each protected attribute, and last one of all groups: the intersections.

    The counts of intersections add up to those of one attribute, with all their noise. The intervals of all tables
    hold together with the certificate's confidence, as a separate statement.

    Parameters
    ----------
    attributes
        Names of the protected columns, in the order in which their values form the names of groups.
    """
    parts = parts_of(certificate.group_names, attributes)
    n_rows = sum(len(rows) for rows in parts.values())
    return {name: _rows(certificate, rows, n_rows) for name, rows in parts.items()}


def parts_of(group_names: Sequence[str], attributes: Sequence[str] | None = None) -> dict[str, Parts]:
    """Which groups make up each value of each attribute, by their places; last, every group by itself.

    Names that do not come apart into as many values as there are attributes are left whole.

    >>> parts_of(["f & old", "f & young", "m & old"], ["sex", "age"])["sex"]
    {'f': (0, 1), 'm': (2,)}
    """
    apart = [name.split(JOINED) for name in group_names]
    n_values = len(apart[0]) if attributes is None else len(attributes)
    if n_values < 2 or any(len(values) != n_values for values in apart):
        return {JOINED.join(attributes or ("group",)): _each(group_names)}
    named = attributes or [f"attribute {place + 1}" for place in range(n_values)]
    found: dict[str, Parts] = {
        attribute: {
            value: tuple(group for group, values in enumerate(apart) if values[place] == value)
            for value in dict.fromkeys(values[place] for values in apart)
        }
        for place, attribute in enumerate(named)
    }
    return {**found, JOINED.join(named): _each(group_names)}


def selection_rates(certificate: Certificate, parts: Sequence[tuple[int, ...]]) -> list[Rate]:
    """The selection rate of each of these unions of groups, by their places; the intervals hold together as above."""
    failure = certificate.registration.failure_probability / len(parts)
    return [_rates(certificate, groups, ("positive",), failure)["selection_rate"] for groups in parts]


def over_largest(rates: Mapping[str, Rate]) -> dict[str, Rate]:
    """Every rate over the largest of them; bounds hold with those of the rates themselves."""
    if not rates:
        return {}
    largest = max((rate.estimate for rate in rates.values() if not math.isnan(rate.estimate)), default=0.0)
    most, least = max(rate.high for rate in rates.values()), max(rate.low for rate in rates.values())
    return {
        name: Rate(
            estimate=rate.estimate / largest if largest else math.nan,
            low=rate.low / most if most else 0.0,
            high=min(1.0, rate.high / least) if least else 1.0,
        )
        for name, rate in rates.items()
    }


def cost_of_scores(certificate: Certificate) -> dict[str, float]:
    """Expected widening of each metric's bound for the counts of scores; an estimate by noisy counts.

    Zero where nothing was kept for them. NaN where the noise left no count above zero.
    """
    of_all = np.array(certificate.counts).clip(min=0).sum(0)
    positive_rate, label_rate = (float(rate_of_counts(of_all, kind)) for kind in ("positive", "base"))
    if not certificate.registration.score_share or not (0 < positive_rate < 1 and 0 < label_rate < 1):
        known = 0.0 if not certificate.registration.score_share else math.nan
        return dict.fromkeys(certificate.registration.metrics, known)
    return cost_in_tau(
        certificate.registration,
        sizes=certificate.expected_sizes,
        epsilon=certificate.epsilons,
        positive_rate=positive_rate,
        label_rate=label_rate,
    )


def _each(group_names: Sequence[str]) -> Parts:
    return {name: (group,) for group, name in enumerate(group_names)}


def _rows(certificate: Certificate, parts: Parts, n_rows: int) -> tuple[GroupRow, ...]:
    """Rows of a table, when there are so many rows in all tables that shall hold together."""
    failure = certificate.registration.failure_probability / (len(RATES) * n_rows)
    return tuple(_row(certificate, name, groups, failure) for name, groups in parts.items())


def _row(certificate: Certificate, name: str, groups: tuple[int, ...], failure_probability: float) -> GroupRow:
    n = int(np.array(certificate.counts)[list(groups)].sum())
    return GroupRow(name=name, n=n, **_rates(certificate, groups, tuple(RATES), failure_probability))


def _rates(
    certificate: Certificate, groups: tuple[int, ...], kinds: Sequence[str], failure_probability: float
) -> dict[str, Rate]:
    """These kinds of rate of a union of groups under the deployed rule, by their names in tables."""
    counts, epsilons = np.array(certificate.counts), certificate.epsilons_of_a_look

    def added(cells: tuple[tuple[int, int], ...]) -> tuple[NoisySum, float]:
        noisy = NoisySum.of((int(counts[group][cell]), epsilons[group]) for group in groups for cell in cells)
        # Estimated as the certificate's own estimates are: counts below zero count as zero, cell by cell.
        return noisy, float(sum(max(counts[list(groups)].sum(0)[cell], 0) for cell in cells))

    rates = {}
    for about in map(RATES.__getitem__, kinds):
        (positive, likely), (negative, unlikely) = added(about.counted), added(about.against)
        estimate = share(likely, unlikely)
        rates[about.name] = rate_of(positive, negative, failure_probability=failure_probability, estimate=estimate)
    return rates


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
) -> tuple[float, tuple[Rate, ...]]:
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
        return math.nan, (Rate(estimate=math.nan, low=0.0, high=1.0),) * len(parts)
    place = int(np.searchsorted(every.cumsum(), every.sum() / 2))
    (low, high), before = limits[place], every[:place].sum()
    part_of_bin = float((every.sum() / 2 - before) / every[place])
    each = failure_probability / (2 * len(scores.edges) * len(parts))
    found = []
    for groups in parts:
        own = counts[list(groups)].sum(0).clip(min=0)
        above = own[place + 1 :].sum() + own[place] * (1 - part_of_bin)
        least, most = 0.0, 1.0
        if place < len(limits) - 1:
            least = 1 - upper_rate(*_cut(scores, groups, place + 1), failure_probability=each)
        if place:
            most = upper_rate(*_cut(scores, groups, place)[::-1], failure_probability=each)
        found.append(Rate(estimate=share(above, own.sum() - above), low=max(0.0, min(least, most)), high=most))
    return low + (high - low) * part_of_bin, tuple(found)


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
