"""Rates of every group, and of every value of a protected attribute, from a certificate's counts of decisions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairdp.certify.certificate import Certificate
from fairdp.certify.rates import NoisySum, Rate, rate_of, share
from fairdp.certify.widths import cost_in_tau

# How the values of several protected columns form the name of a group.
JOINED = " & "

# Cells (label, decision) of each rate: those it counts, and those it counts against them.
_CELLS = {
    "base_rate": (((1, 0), (1, 1)), ((0, 0), (0, 1))),
    "selection_rate": (((0, 1), (1, 1)), ((0, 0), (1, 0))),
    "true_positive_rate": (((1, 1),), ((1, 0),)),
    "false_positive_rate": (((0, 1),), ((0, 0),)),
    "accuracy": (((0, 0), (1, 1)), ((0, 1), (1, 0))),
}

Parts = Mapping[str, tuple[int, ...]]


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


def impact_ratios(rows: Sequence[GroupRow]) -> dict[str, Rate]:
    """Every selection rate over the largest of the table; bounds hold with those of the rates themselves."""
    return over_largest({row.name: row.selection_rate for row in rows})


def selection_rates(certificate: Certificate, parts: Sequence[tuple[int, ...]]) -> list[Rate]:
    """The selection rate of each of these unions of groups, by their places; the intervals hold together as above."""
    failure = certificate.registration.failure_probability / len(parts)
    return [_rates(certificate, groups, ("selection_rate",), failure)["selection_rate"] for groups in parts]


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
    """How much wider the bound of each metric is expected to be for the counts of scores; an estimate by noisy counts.

    Zero where nothing was kept for them. NaN where the noise left no count above zero.
    """
    (no_no, no_yes), (yes_no, yes_yes) = np.array(certificate.counts).clip(min=0).sum(0).tolist()
    positive_rate, label_rate = share(no_yes + yes_yes, no_no + yes_no), share(yes_no + yes_yes, no_no + no_yes)
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
    failure = certificate.registration.failure_probability / (len(_CELLS) * n_rows)
    return tuple(_row(certificate, name, groups, failure) for name, groups in parts.items())


def _row(certificate: Certificate, name: str, groups: tuple[int, ...], failure_probability: float) -> GroupRow:
    n = int(np.array(certificate.counts)[list(groups)].sum())
    return GroupRow(name=name, n=n, **_rates(certificate, groups, tuple(_CELLS), failure_probability))


def _rates(
    certificate: Certificate, groups: tuple[int, ...], kinds: Sequence[str], failure_probability: float
) -> dict[str, Rate]:
    """These rates of a union of groups under the deployed rule; accuracy needs the base rate beside it."""
    counts, epsilons = np.array(certificate.counts), certificate.epsilons_of_a_look

    def added(cells: tuple[tuple[int, int], ...]) -> tuple[NoisySum, float]:
        noisy = NoisySum.of((int(counts[group][cell]), epsilons[group]) for group in groups for cell in cells)
        # Estimated as the certificate's own estimates are: counts below zero count as zero, cell by cell.
        return noisy, float(sum(max(counts[list(groups)].sum(0)[cell], 0) for cell in cells))

    rates = {}
    for rate in kinds:
        (positive, likely), (negative, unlikely) = map(added, _CELLS[rate])
        estimate = share(likely, unlikely)
        rates[rate] = rate_of(positive, negative, failure_probability=failure_probability, estimate=estimate)
    return _deployed(certificate, rates)


def _deployed(certificate: Certificate, rates: dict[str, Rate]) -> dict[str, Rate]:
    """The rates after a share of the decisions was made constant to reach a target."""
    if certificate.dilution is None:
        return rates
    constant = certificate.dilution.constant
    always = Rate(estimate=float(constant), low=float(constant), high=float(constant))
    then = {}
    if "accuracy" in rates:
        base = rates["base_rate"]
        flipped = Rate(estimate=1 - base.estimate, low=1 - base.high, high=1 - base.low)
        then["accuracy"] = base if constant else flipped
    return {
        name: rate if name == "base_rate" else _mixed(certificate.dilution.share, rate, then.get(name, always))
        for name, rate in rates.items()
    }


def _mixed(part: float, rate: Rate, other: Rate) -> Rate:
    def mix(one: float, two: float) -> float:
        return (1 - part) * one + part * two

    return Rate(
        estimate=mix(rate.estimate, other.estimate), low=mix(rate.low, other.low), high=mix(rate.high, other.high)
    )
