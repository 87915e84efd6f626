"""A certificate in use: rates of each group with intervals, calibration, the statement in words, the record on disk.

Everything here follows from released counts, so it costs no privacy.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.special import betaincinv

from fairdp import errors
from fairdp._format import bound_above, bound_below, html_table, rounded_up
from fairdp._io import from_plain
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.bounds import NoisyBinomial, noise_reach, noise_variance, score_box_bound
from fairdp.certify.certificate import (
    EQUAL_ALLOWED,
    NOT_CHOSEN_BY_TEST,
    UNUSED,
    UNUSED_UNCHECKED,
    Certificate,
    CertifiedGap,
    Event,
    FreshRecords,
    HeldOutRecords,
    NotCertified,
    Origin,
    ScoreCounts,
    share_of_alpha,
)
from fairdp.certify.outlook import cost_in_tau
from fairdp.config import Preregistration
from fairdp.metrics import collapse_warning, metrics_of_counts
from fairdp.parameters import CERTIFIABLE, METRICS, NoCertificate

Parts = Mapping[str, tuple[int, ...]]

# Draws of noise over epsilon up to which exact p-values take no longer than about a second.
_AFFORDABLE = 25.0
# Of the failure probability where they are not taken: each of two noises, and the rest for the draw of the people.
_FOR_NOISE = 0.25
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
# Deviations of its noise below which a noisy count says nothing of a rate: noise alone moves the rate by .18 there.
_HIDDEN = 4.0
NAMES = {metric: about.name for metric, about in CERTIFIABLE.items()}
DEFINITIONS = {
    **{metric: about.definition for metric, about in CERTIFIABLE.items()},
    "ratio": "smallest divided by largest of the groups' rates of positive decisions",
}
NOT_PROMISED = (
    "populations other than the one the records were drawn from",
    "groups that are not named",
    "fairness between individuals",
    "that a small gap is useful (see the positive rate)",
    "the model after any change",
    "the best of several certificates, picked after seeing them",
)
_ASSUMED = {
    UNUSED: "none of these records was used for the model or an earlier certificate, as far as equal values can tell",
    UNUSED_UNCHECKED: "none of these records was used for the model or an earlier certificate; there was no list of "
    "used records to check",
    NOT_CHOSEN_BY_TEST: "nothing was chosen by its test records; fairdp's defaults were chosen with them in view",
    EQUAL_ALLOWED: "records that equal used ones are different people; the check was switched off",
}


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


def html_of_fit(method: str, privacy: PrivacySpent, certificate: Certificate | NotCertified) -> str:
    """Small tables for notebooks; a gap means nothing without the rate of positive decisions beside it."""
    rows, note = [("method", method)], ""
    if isinstance(certificate, Certificate):
        rate = estimated_metrics(certificate)["positive_rate"]
        rows.append(("estimated positive rate", f"{rate:.4f}"))
        note = collapse_warning(rate) or ""
    named = html_table("Fitted FairDPClassifier", rows, note)
    return named + privacy._repr_html_() + certificate._repr_html_()


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
    """Expected widening of each metric's bound for the counts of scores; an estimate by noisy counts.

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
    """These rates of a union of groups under the deployed rule."""
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
        least, most = 0.0, 1.0
        if place < len(limits) - 1:
            least = 1 - upper_rate(*_cut(scores, groups, place + 1), failure_probability=each)
        if place:
            most = upper_rate(*_cut(scores, groups, place)[::-1], failure_probability=each)
        found.append(Rate(estimate=share(above, own.sum() - above), low=max(0.0, min(least, most)), high=most))
    return AboveMedian(median=low + (high - low) * part_of_bin, shares=tuple(found))


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


def certificate_statement(certificate: Certificate | NotCertified) -> str:
    """The promise and its limits, in words."""
    if isinstance(certificate, NotCertified):
        return f"Fairness certificate: not certified, because {certificate.explanation}."
    lines = [
        f"With confidence {100 * certificate.confidence:g} %, over the draw of the certification records and the noise "
        "on their counts, the deployed model has, all at once:",
        *(f"  {_claim(name, gap)}" for name, gap in certificate.gaps.items()),
        *lines_beside_bounds(certificate),
        f"Not promised: {', '.join(NOT_PROMISED[:-1])}, or {NOT_PROMISED[-1]}.",
    ]
    return "\n".join(lines)


def lines_beside_bounds(certificate: Certificate) -> list[str]:
    """The statement beside the bounds: how decisions are made, what was spent, what is assumed."""
    about, registration = certificate.about, certificate.registration
    fresh = about.records if about is not None and isinstance(about.records, FreshRecords) else None
    lines = []
    if about is not None and about.predictor.tosses_coins:
        lines.append(
            "Decisions are randomised: the gaps are between the probabilities of a positive decision, over coins that "
            "are independent for people with different ids (or, if no ids are given, with different records)."
        )
    # A gap means nothing without the rate of positive decisions beside it.
    estimated = estimated_metrics(certificate)
    rates = ", ".join(f"{name} {rate:.4f}" for name, rate in estimated["positive_rate_by_group"].items())
    collapse = collapse_warning(estimated["positive_rate"])
    warning = "" if collapse is None else f" Warning: {collapse}"
    lines.append(f"Estimated rate of positive decisions: {estimated['positive_rate']:.4f} ({rates}).{warning}")
    if registration.require_tau is not None:
        lines.append(_sequence_line(certificate))
    if registration.expected_trials != 1:
        lines.append(
            "These same counts picked the model as the best of a random number of trials, "
            f"{registration.expected_trials:g} on average. The failure probability of each trial's bounds was divided "
            "by that number, so the confidence holds for the model that was kept. The estimates are those of a winner, "
            "so they are a little too good."
        )
    if about is not None and about.earlier:
        lines.append(
            f"This is certificate {len(about.earlier) + 1} of the model. Rely on one that was named before it was "
            "made; for the best of them, picked afterwards, the failure probabilities add up."
        )
    if fresh is not None and fresh.series is not None:
        number, of = fresh.series
        alpha = (1 - certificate.confidence) / share_of_alpha(number, of)
        which = f"number {number} of {of} certificates" if of else f"number {number} of certificates without end"
        lines.append(
            f"It is {which} of the model that hold all together with confidence {100 * (1 - alpha):g} %: each spends "
            "its part of the failure probability."
        )
    lines += _score_lines(certificate)
    if fresh is not None:
        # What fresh records spend is not covered by the privacy statement.
        spent = certificate.epsilon + fresh.sizes_epsilon
        known = "counted with noise" if fresh.group_sizes == "noisy" else "treated as public"
        lines.append(
            f"Each of its records spent a pure epsilon of {rounded_up(spent)} (adding or removing one record); their "
            f"group sizes are {known}."
        )
    if about is not None and about.noise_seeded:
        lines.append(
            "The noise on the counts came from a fixed seed: it protects only while the seed is secret and "
            "used for this certificate alone."
        )
    return lines + ([] if fresh is None else [f"Assumed: {_ASSUMED[code]}." for code in fresh.assumed])


def _claim(name: str, gap: CertifiedGap) -> str:
    if not gap.claimed:
        return f"no claim about the {NAMES[name]}: an earlier bound was missed, and the sequence ended there."
    ratio = "" if gap.ratio is None else f"; smallest over largest rate at least {bound_below(gap.ratio)}"
    nothing = " (which says nothing)" if gap.tau >= 1 else ""
    return f"{NAMES[name]} at most {bound_above(gap.tau)}{nothing}, set by {gap.pair[0]} against {gap.pair[1]}{ratio}."


def _sequence_line(certificate: Certificate) -> str:
    registration = certificate.registration
    verdict = "met" if certificate.met else "missed"
    required = f"Required beforehand: {registration.require_tau:g} for every gap, tested in this order"
    looks = looks_in_words(certificate)
    if looks is None:
        return f"{required}: {verdict}."
    return (
        f"{required} at up to {registration.n_looks} looks during training, all paid for, until one misses it: "
        f"{verdict}; {looks}. A bound that is met is claimed as it was required: what a look found below it is not."
    )


def looks_in_words(certificate: Certificate) -> str | None:
    """Which of several looks the model is of, and why; None if there was only one to take, or none."""
    records = None if certificate.about is None else certificate.about.records
    n_looks, required = certificate.registration.n_looks, certificate.registration.require_tau
    if not isinstance(records, HeldOutRecords) or n_looks == 1:
        return None
    if not certificate.met:
        return f"the model is that of look 1 of {n_looks}, which missed {required:g}, so that training ended there"
    kept = f"the model is that of look {records.look} of {n_looks}, the last that met {required:g}"
    return kept if records.missed is None else f"{kept}: the next look missed it, and ended training"


def _score_lines(certificate: Certificate) -> list[str]:
    """Share of epsilon that counts of scores took, and what this is expected to cost; or why there are none."""
    share, scores = certificate.registration.score_share, certificate.scores
    if scores is None:
        none = "The scores of the model were not counted, because no share of epsilon was kept for it (score_share 0)."
        return [] if certificate.about is None or share else [none]
    cost = max(cost_of_scores(certificate).values())
    dearer = "" if math.isnan(cost) else f", and each bound is expected to be up to {cost:.4f} higher for it"
    return [
        f"The scores of the model were counted too, by group, label and {len(scores.edges) + 1} bins, with noise: a "
        f"share of {share:g} of the certificate's epsilon, {rounded_up(max(scores.epsilons))}, is for these "
        f"counts{dearer}."
    ]


@dataclass(frozen=True, kw_only=True)
class CertificateRecord:
    """Every value of a certificate's record as it stands, whether or not it agrees with the others.

    ``epsilon``, ``events``, ``estimates``, ``definitions`` and ``statement`` follow from the rest; ``files`` are the
    hashes of the files that the certificate speaks of.
    """

    certified: Literal[True]
    confidence: float
    metrics: tuple[str, ...]
    require_tau: float | None
    n_looks: int
    expected_trials: float
    score_share: float
    epsilon: float
    epsilon_by_group: dict[str, float]
    demographic_parity: CertifiedGap | None = None
    equal_opportunity: CertifiedGap | None = None
    equalized_odds: CertifiedGap | None = None
    events: dict[str, Event]
    input_agnostic_tau: float | None
    group_names: tuple[str, ...]
    expected_sizes: tuple[float, ...]
    counts: tuple[tuple[tuple[int, ...], ...], ...]
    scores: ScoreCounts | None
    about: Origin
    statement: str
    estimates: dict[str, object] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def gaps(self) -> dict[str, CertifiedGap]:
        """The claim about each metric."""
        found: dict[str, CertifiedGap | None] = {metric: getattr(self, metric) for metric in METRICS}
        return {metric: gap for metric, gap in found.items() if gap is not None}

    def certificate(self) -> Certificate:
        """The certificate; its bounds are taken as they stand."""
        registration = Preregistration(
            confidence=self.confidence,
            metrics=self.metrics,
            require_tau=self.require_tau,
            n_looks=self.n_looks,
            expected_trials=self.expected_trials,
            score_share=self.score_share,
        )
        return Certificate(
            registration=registration,
            epsilons=tuple(self.epsilon_by_group[name] for name in self.group_names),
            group_names=self.group_names,
            expected_sizes=self.expected_sizes,
            counts=self.counts,
            gaps={name: self.gaps[name] for name in self.metrics},
            input_agnostic_tau=self.input_agnostic_tau,
            scores=self.scores,
            about=self.about,
        )


@dataclass(frozen=True, kw_only=True)
class NoCertificateRecord:
    """The record of a model without a certificate."""

    certified: Literal[False]
    reason: NoCertificate
    statement: str
    files: dict[str, str] = field(default_factory=dict)

    def certificate(self) -> NotCertified:
        """That there is no certificate, and why."""
        return NotCertified(self.reason)


def certificate_record(certificate: Certificate | NotCertified) -> dict[str, object]:
    """Everything that a reader needs to use the certificate and to compute it again, in plain values."""
    record = {**certificate.to_dict(), "statement": certificate_statement(certificate)}
    if isinstance(certificate, NotCertified):
        return record
    return {**record, "estimates": estimated_metrics(certificate), "definitions": DEFINITIONS}


def read_record(plain: object) -> CertificateRecord | NoCertificateRecord:
    """A record from the plain values of a file; a `RecordError` says what is wrong with them."""
    certified = isinstance(plain, dict) and plain.get("certified") is True
    return from_plain(CertificateRecord, plain) if certified else from_plain(NoCertificateRecord, plain)
