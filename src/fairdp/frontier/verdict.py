"""The verdict on a fit, from paid counts alone: the certificate's, or else the sketch's.

Counts become evidence about one rule, evidence a judgement of quality and of the target, and both one word with its
reason and remedy. Last, before there is any model: how well each group's rate could be measured (`outlook_of`).
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np

from fairdp.accounting.plan import Plan
from fairdp.accounting.spent import CELLS, DIRECTION, FRONTIER
from fairdp.certify.bounds import noise_variance
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.errors import in_words
from fairdp.frontier.curve import (
    LINE,
    MEASURABLE,
    RAY,
    Chance,
    Estimate,
    Events,
    Floats,
    Frontier,
    FrontierPoint,
    Target,
    by_chance,
    choose,
    cost_of_rest,
    frontier_points,
    last_looks,
    members_of,
    prefix_root,
    spread_of,
)
from fairdp.parameters import DEFAULT_MAX_GAP, RATES, Parameters

NO_CHANCE = Chance(auc=0.5, gain=0.0)
HELD_OUT, TRAINING = "held-out records", "training records"
# No number of records beyond this multiple is worth naming.
_MOST = 1e4
# A rate is between 0 and 1: whoever knows it only to this knows nothing of it.
NOT_AT_ALL = 0.5
# A claim may be wrong in one case of twenty: this is left of it for errors that are not quite normal.
_WRONG = 0.04
# A ranking below this is next to none: a coin has .5.
_SOME_RANKING, _GOOD_RANKING = 0.55, 0.6
# How far beyond its target a gap or a ratio may be that is called met; no further than a gap's target itself.
TOLERANCE = 0.02
# Rates of positive decisions beyond which a rule decides alike for almost everybody: this, or a quarter of the base
# rate where that is less.
_COLLAPSED, _PART_OF_BASE = 0.01, 0.25
# A rate less certain than this is not measured among several; less certain than this, not even a large gap is believed.
_UNMEASURED, _BLIND = 0.03, 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Estimates about one rule; errors hold the noise and the draw of the records.

    Parameters
    ----------
    counted_on
        Which records were counted.
    rates, errors
        Rate of each event that is compared, and its standard error, shape (n_events,).
    gains
        Accuracy less that of deciding always no, and always yes.
    separation
        Ranking by the decisions alone, (1 + true-positive rate - false-positive rate) / 2: a coin has one half.
    auc
        Ranking by the probabilities, counted on training records; None where it was not counted.
    chance
        What the model would seem to be worth on its training records, were their labels drawn at random.
    n_claims
        How many models were looked at before this one was kept, on average.
    """

    counted_on: str
    events: Events
    rates: Floats
    errors: Floats
    accuracy: Estimate
    gains: tuple[Estimate, Estimate]
    separation: Estimate
    base_rate: float
    positive_rate: float
    auc: Estimate | None
    chance: Chance = NO_CHANCE
    n_claims: float = 1.0

    @property
    def majority_accuracy(self) -> float:
        """Accuracy of the better constant decision."""
        return max(self.base_rate, 1 - self.base_rate)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Positive and negative decisions of each cell, 2 a + y, and the variance of their noise."""

    positive: Floats
    negative: Floats
    positive_noise: Floats
    negative_noise: Floats

    def of(self, members: Floats) -> tuple[Floats, Floats]:
        """Rate of each row of members, and its standard error by noise and sampling."""
        yes, no = np.maximum(members @ self.positive, 0.0), np.maximum(members @ self.negative, 0.0)
        noise_yes, noise_no = members @ self.positive_noise, members @ self.negative_noise
        size = np.maximum(yes + no, 1.0)
        rate = yes / size
        # Two more of each decision, as Agresti and Coull (1998): no rate is certain because it is zero.
        fuller = (yes + 2) / (size + 4)
        noise = ((1 - rate) ** 2 * noise_yes + rate**2 * noise_no) / size**2
        return rate, np.sqrt(fuller * (1 - fuller) / (size + 4) + noise)

    def gain(self, decision: int) -> Estimate:
        """Accuracy less that of a constant decision: only those who are decided otherwise count."""
        other, noise = (self.positive, self.positive_noise) if decision == 0 else (self.negative, self.negative_noise)
        right, wrong = float(other[1 - decision :: 2].sum()), float(other[decision::2].sum())
        size = max(float((self.positive + self.negative).sum()), 1.0)
        value = (right - wrong) / size
        spread = max(right, 0.0) + max(wrong, 0.0) + 1.0 + float(noise.sum())
        return Estimate(value, math.sqrt(max(spread - value**2 * size, 1.0)) / size)

    def evidence(self, counted_on: str, events: Events, auc: Estimate | None, n_claims: float) -> Evidence:
        rates, errors = self.of(events.members)
        n_cells = len(self.positive)
        label = np.arange(n_cells) % 2
        of_label = [members_of(RATES[rate].labels, n_cells // 2).sum(0) for rate in ("false_positive", "true_positive")]
        (false, true), (false_error, true_error) = self.of(np.vstack(of_label))
        # Right and wrong decisions in place of positive and negative ones.
        right = _Cells(
            np.where(label == 1, self.positive, self.negative),
            np.where(label == 1, self.negative, self.positive),
            np.where(label == 1, self.positive_noise, self.negative_noise),
            np.where(label == 1, self.negative_noise, self.positive_noise),
        )
        everybody = np.ones((1, n_cells))
        (accuracy,), (accuracy_error,) = right.of(everybody)
        (positive_rate,), _ = self.of(everybody)
        sizes = np.maximum(self.positive + self.negative, 0.0)
        return Evidence(
            counted_on=counted_on,
            events=events,
            rates=rates,
            errors=errors,
            accuracy=Estimate(float(accuracy), float(accuracy_error)),
            gains=(self.gain(0), self.gain(1)),
            separation=Estimate(float(1 + true - false) / 2, math.hypot(true_error, false_error) / 2),
            base_rate=float(sizes[1::2].sum() / max(sizes.sum(), 1.0)),
            positive_rate=float(positive_rate),
            auc=auc,
            n_claims=n_claims,
        )


def certified_evidence(certificate: Certificate, parity: str, auc: Estimate | None = None) -> Evidence:
    """Evidence of a certificate's counts of held-out records."""
    counts, looks = np.array(certificate.counts, dtype=np.float64), certificate.registration.n_looks
    negative, positive = counts[..., 0].ravel(), counts[..., 1].ravel()
    noise = np.repeat([noise_variance(epsilon) for epsilon in certificate.epsilons_of_a_look], 2)
    cells = _Cells(positive, negative, noise, noise)
    n_claims = looks * certificate.registration.expected_trials
    return cells.evidence(HELD_OUT, Events(parity, len(counts)), auc, n_claims)


def sketched_evidence(frontier: Frontier, position: float) -> Evidence:
    """Evidence of a frontier about the rule at a position: the training records, counted with noise."""
    positive = np.array([frontier.at(row, position) for row in frontier.counts])
    noise = np.full(len(positive), frontier.at(frontier.count_variances, position))
    # Negative decisions are what is left of the sizes, which are noisy too.
    cells = _Cells(positive, frontier.sizes - positive, noise, noise + frontier.cells_std**2)
    plain = cells.evidence(TRAINING, frontier.events, frontier.auc, 1.0)
    rates = np.array([frontier.at(row, position) for row in frontier.compared])
    errors = np.array([frontier.at(row, position) for row in frontier.rates[1]])
    sizes = frontier.events.sizes(frontier.sizes)
    likely = ((rates.clip(0, 1) * sizes + 2) / (sizes + 4)).clip(0, 1)
    return replace(plain, rates=rates, errors=np.sqrt(errors**2 + likely * (1 - likely) / (sizes + 4)))


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Judgement of whether the model learnt anything: against the majority class, and by ranking."""

    accuracy: float
    accuracy_error: float
    majority_accuracy: float
    auc: float | None
    auc_error: float | None
    learnt: str

    def to_dict(self) -> dict[str, object]:
        """Plain values, with intervals of 95 %."""
        value, interval = _interval(self.auc, self.auc_error, most=1.0)
        return {
            "accuracy": self.accuracy,
            "accuracy_interval": _interval(self.accuracy, self.accuracy_error, most=1.0)[1],
            "majority_accuracy": self.majority_accuracy,
            "auc": value,
            "auc_interval": interval,
            "learnt": self.learnt,
        }


@dataclass(frozen=True, kw_only=True)
class TargetMet:
    """Judgement of whether the fairness target that was aimed at is met.

    ``kind`` is ``"max_gap"`` or ``"min_ratio"``; ``estimate`` has a standard error of ``error``, both None without any
    evidence. ``unmeasured`` names the groups whose rates cannot be seen through the noise, ``n_measured`` counts the
    others. ``price`` was paid, and no more than ``price_bound`` would have been; ``rest`` is the price at which it
    would be met, and its cost in accuracy.
    """

    metric: str
    kind: str
    value: float
    estimate: float | None
    error: float | None
    met: str
    explicit: bool = True
    price: float | None = None
    price_bound: float | None = None
    rest: tuple[float, float] | None = None
    unmeasured: tuple[str, ...] = ()
    n_measured: int = 2

    def to_dict(self) -> dict[str, object]:
        """Plain values, with an interval of 95 %."""
        return {
            "metric": self.metric,
            "kind": self.kind,
            "value": self.value,
            "explicit": self.explicit,
            "estimate": self.estimate,
            "interval": _interval(self.estimate, self.error, most=1.0)[1],
            "met": self.met,
            "unmeasured": list(self.unmeasured),
            "price": self.price,
        }


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Judgement of a fitted model by paid counts.

    ``verdict`` is ``"good"``, ``"missed"``, ``"weak"``, ``"collapsed"`` or ``"undecided"``; each statement is wrong in
    at most one case of twenty. ``counted_on`` says which records were counted, None for none.
    """

    verdict: str
    quality: Quality | None
    target: TargetMet | None
    base_rate: float | None = None
    positive_rate: float | None = None
    counted_on: str | None = None
    has_prices: bool = False
    certificate: Certificate | NotCertified | None = field(default=None, repr=False)

    @property
    def lines(self) -> tuple[str, ...]:
        """The verdict in words, parameters in backquotes."""
        from fairdp.statements.verdict import verdict_lines

        return tuple(verdict_lines(self))

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Groups whose rates cannot be seen through the noise."""
        return () if self.target is None else self.target.unmeasured

    def __str__(self) -> str:
        return "\n".join(in_words(line, str) for line in self.lines)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The releases of a fit, as far as a verdict goes.

    Parameters
    ----------
    parameters
        Those of the estimator, of which the target is used.
    takes_target
        Whether the method aims at one.
    target
        What the rule of a frontier was chosen for, if it is not what the parameters say.
    n_inputs
        Numbers that the heads see of a record: with more of them a model ranks its own training records better than
        others.
    """

    parameters: Parameters
    takes_target: bool
    group_names: tuple[str, ...]
    certificate: Certificate | NotCertified
    frontier: Frontier | None
    target: Target | None
    n_inputs: int = 0

    @property
    def parity(self) -> str:
        """The rates that should agree."""
        return self.parameters.parity

    @property
    def aimed(self) -> Target | None:
        """The target aimed at; None for one group, or without a target."""
        if not self.takes_target or len(self.group_names) < 2:
            return None
        if self.target is not None:
            return self.target
        gap, ratio = self.parameters.max_gap, self.parameters.min_ratio
        default = DEFAULT_MAX_GAP if ratio is None else 1.0
        return Target(max_gap=default if gap is None else gap, min_ratio=ratio or 0.0, price=math.inf)

    @property
    def explicit(self) -> bool:
        """True if the user stated a target, now or after the fit."""
        stated = self.parameters.max_gap is not None or self.parameters.min_ratio is not None
        aimed = self.aimed
        return stated or (aimed is not None and (aimed.max_gap != DEFAULT_MAX_GAP or aimed.min_ratio != 0.0))

    @cached_property
    def evidence(self) -> Evidence | None:
        """The certificate's counts, else the sketch's."""
        if isinstance(self.certificate, Certificate):
            auc = None if self.frontier is None else self.frontier.auc
            seen = certified_evidence(self.certificate, self.parity, auc)
        elif self.frontier is not None:
            seen = sketched_evidence(self.frontier, self.position)
        else:
            return None
        if self.frontier is None:
            return seen
        return replace(seen, chance=by_chance(self.n_inputs, float(self.frontier.sizes.sum()), seen.base_rate))

    @property
    def position(self) -> float:
        """Where the deployed rule lies on the frontier."""
        assert self.frontier is not None
        return 0.0 if self.target is None else choose(self.frontier, self.target).position

    @property
    def points(self) -> list[FrontierPoint] | None:
        """The rules that the frontier offers."""
        return None if self.frontier is None else frontier_points(self.frontier)


def judged(fit: Fit) -> Verdict:
    """The verdict on a fit by its paid counts."""
    seen, aimed = fit.evidence, fit.aimed
    quality = None if seen is None else judged_quality(seen)
    target = None if aimed is None else _judged_target(fit, aimed)
    return Verdict(
        verdict=verdict_of(quality, target, seen.positive_rate if seen else None, seen.base_rate if seen else None),
        quality=quality,
        target=target,
        base_rate=None if seen is None else seen.base_rate,
        positive_rate=None if seen is None else seen.positive_rate,
        counted_on=None if seen is None else seen.counted_on,
        has_prices=fit.frontier is not None,
        certificate=fit.certificate,
    )


def _judged_target(fit: Fit, aimed: Target) -> TargetMet:
    """The target that is further from being met, if both a gap and a ratio were asked for."""
    asked = [("max_gap", aimed.max_gap)] if aimed.max_gap < 1 or not aimed.min_ratio else []
    asked += [("min_ratio", aimed.min_ratio)] if aimed.min_ratio else []
    found = [_judged_limit(fit, kind, limit) for kind, limit in asked]
    return max(found, key=lambda target: ("yes", "undecided", "no").index(target.met))


def _judged_limit(fit: Fit, kind: str, limit: float) -> TargetMet:
    seen, frontier = fit.evidence, fit.frontier
    if seen is None:
        nothing: dict[str, Any] = {"estimate": None, "error": None, "met": "undecided"}
        return TargetMet(metric=fit.parity, kind=kind, value=limit, explicit=fit.explicit, **nothing)
    blind = unmeasured(seen)
    estimate, met_or_not = met(seen, limit, kind=kind)
    paid: dict[str, Any] = {}
    if frontier is not None and fit.target is not None:
        paid = {
            "price": choose(frontier, fit.target).price,
            "price_bound": fit.target.price,
            "rest": cost_of_rest(frontier, fit.target),
        }
    return TargetMet(
        metric=fit.parity,
        kind=kind,
        value=limit,
        estimate=estimate.value,
        error=estimate.error,
        met=met_or_not,
        explicit=fit.explicit,
        unmeasured=tuple(name for index, name in enumerate(fit.group_names) if index in blind),
        n_measured=len(fit.group_names) - len(blind),
        **paid,
    )


def judged_quality(seen: Evidence) -> Quality:
    """``learnt`` is yes or no only where the counts leave no doubt.

    Yes if the rule is more accurate than either constant decision, or if it ranks: two claims, which share the chance
    of being wrong. No only if it does neither to any degree.
    """
    # More accurate than both constants is one claim: it is wrong only where it is wrong about the better one.
    sure = _quantile(_WRONG / 3 / seen.n_claims)
    # On its training records a model with many inputs ranks and decides well whatever they say.
    luck = seen.chance.gain if seen.counted_on == TRAINING else 0.0
    rankings = [(seen.separation, 0.5)] if seen.counted_on != TRAINING or seen.auc is None else []
    rankings += [] if seen.auc is None else [(seen.auc, seen.chance.auc)]
    gain = min(estimate.value - sure * estimate.error for estimate in seen.gains)
    best = min(estimate.value + sure * estimate.error for estimate in seen.gains)
    ranks = any(found.value - sure * found.error > max(_SOME_RANKING, chance) for found, chance in rankings)
    ranks_not = all(
        found.value + sure * found.error < max(_GOOD_RANKING, chance + _GOOD_RANKING - _SOME_RANKING)
        for found, chance in rankings
    )
    if gain > luck or ranks:
        learnt = "yes"
    else:
        # One constant decision tells nothing about how well the probabilities rank.
        known = seen.auc is not None or not is_collapsed(seen.positive_rate, seen.base_rate)
        learnt = "no" if known and ranks_not and best < luck + TOLERANCE else ""
    return Quality(
        accuracy=seen.accuracy.value,
        accuracy_error=seen.accuracy.error,
        majority_accuracy=seen.majority_accuracy,
        auc=None if seen.auc is None else seen.auc.value,
        auc_error=None if seen.auc is None else seen.auc.error,
        learnt=learnt or "undecided",
    )


def met(seen: Evidence, limit: float, *, kind: str) -> tuple[Estimate, str]:
    r"""The largest gap or smallest ratio, and whether it is within its limit: yes, no, or undecided.

    Yes if every pair of groups is, with the error of that pair: it is the true worst pair that must not be missed. No
    if some pair is certainly not, at a level that is shared by all pairs.
    """
    pairs = [
        _pair(seen, i, j, limit, kind)
        for i, j in itertools.combinations(range(len(seen.rates)), 2)
        if seen.events.bands[i] == seen.events.bands[j]
    ]
    slack = min(TOLERANCE, limit) if kind == "max_gap" else TOLERANCE
    sure, surer = (_quantile(_WRONG / n / seen.n_claims) for n in (1, max(len(pairs), 1)))
    certain = [(gap.value, gap.error, beyond - surer * gap.error) for gap, beyond, is_clear in pairs if is_clear]
    value, error, surely_beyond = max(certain, key=lambda pair: pair[2], default=(0.0, 0.0, -math.inf))
    estimate = _estimate(seen, kind)
    if surely_beyond > 0:
        return (estimate if _beyond(estimate.value, limit, kind) > 0 else Estimate(value, error)), "no"
    # A model fits its training records better than others: what they meet, others may not.
    holds = seen.counted_on != TRAINING and all(beyond + sure * gap.error <= slack for gap, beyond, _ in pairs)
    return estimate, "yes" if holds else "undecided"


def _pair(seen: Evidence, i: int, j: int, limit: float, kind: str) -> tuple[Estimate, float, bool]:
    """Gap or ratio of two rates, how far it is beyond the limit, and whether both rates are seen clearly enough."""
    low, high = sorted((i, j), key=lambda event: seen.rates[event])
    rates, errors = seen.rates[[low, high]].clip(0.0, 1.0), seen.errors[[low, high]]
    certain = bool(errors.max() <= _BLIND)
    if kind == "max_gap":
        gap = float(rates[1] - rates[0])
        return Estimate(gap, math.hypot(*errors)), gap - limit, certain
    # The ratio is below r where low < r high, which is linear: its error is known even where rates are small.
    top = max(float(rates[1]), 1e-9)
    ratio = float(rates[0]) / top
    return Estimate(ratio, math.hypot(errors[0], limit * errors[1]) / top), limit - ratio, certain


def _estimate(seen: Evidence, kind: str) -> Estimate:
    """Over the groups that can be measured, or the two that can be best; drawn together by what noise explains."""
    found = []
    for band in np.unique(seen.events.bands):
        members = np.flatnonzero(seen.events.bands == band)
        clear = members[seen.errors[members] <= _UNMEASURED]
        if len(clear) < 2:
            clear = members[np.argsort(seen.errors[members])[:2]]
        rates = seen.rates[clear, None].clip(0.0, 1.0)
        value, error = spread_of(rates, seen.errors[clear, None], ratio=kind == "min_ratio")
        found.append(Estimate(float(value[0]), float(error[0])))
    lack = max(found)
    return lack if kind == "max_gap" else Estimate(1 - lack.value, lack.error)


def unmeasured(seen: Evidence) -> set[int]:
    """Groups whose rates are hidden by noise; of two, whose interval says enough, only if nothing can be seen."""
    limit = _UNMEASURED if seen.events.n_groups > 2 else _BLIND
    return {int(group) for group in seen.events.groups[seen.errors > limit]}


def _beyond(value: float, limit: float, kind: str) -> float:
    return value - limit if kind == "max_gap" else limit - value


def is_collapsed(positive_rate: float, base_rate: float | None) -> bool:
    """True if nearly everybody gets the same decision, more so than labels that are rare explain."""
    base = 0.5 if base_rate is None else base_rate
    low, high = (min(_COLLAPSED, _PART_OF_BASE * share) for share in (base, 1 - base))
    return not low <= positive_rate <= 1 - high


def verdict_of(
    quality: Quality | None, target: TargetMet | None, positive_rate: float | None, base_rate: float | None = None
) -> str:
    """One word: a rule that decides alike for everybody comes first, then what was learnt, then the target."""
    if positive_rate is not None and is_collapsed(positive_rate, base_rate):
        return "collapsed"
    if quality is None:
        return "undecided"
    if quality.learnt == "no":
        return "weak"
    if target is not None and target.met == "no":
        return "missed"
    return "good" if quality.learnt == "yes" and (target is None or target.met == "yes") else "undecided"


def _quantile(chance: float) -> float:
    return NormalDist().inv_cdf(1 - chance)


def _interval(value: float | None, error: float | None, *, most: float) -> tuple[float | None, Sequence[float] | None]:
    """A value and its interval of 95 %."""
    if value is None or error is None:
        return None, None
    reach = _quantile(0.025) * error
    return value, [max(value - reach, 0.0), min(value + reach, most)]


@dataclass(frozen=True, kw_only=True)
class GroupOutlook:
    """Precision with which one group's rate could be measured, and what would suffice if that is not enough.

    ``standard_error`` is that of the noise; ``records_needed``, and ``epsilon_needed`` for the records there are, are
    None where it is enough.
    """

    group: str
    records: float
    standard_error: float
    measurable: bool
    records_needed: float | None = None
    epsilon_needed: float | None = None


@dataclass(frozen=True, kw_only=True)
class SurveyNoise:
    """Deviations of the noise of the queries; ``looks`` is that of the mean of the last looks, None without any."""

    cells: float
    sketch: float
    looks: float | None

    @classmethod
    def of(cls, plan: Plan) -> "SurveyNoise":
        """Noise that a plan would add."""
        stds, looked = plan.query_stds, [s for s in plan.recipe.queries if s.what == DIRECTION]
        looks = stds[DIRECTION] / math.sqrt(last_looks(looked[0].n_looks)) if looked else None
        return cls(cells=stds[CELLS], sketch=stds[FRONTIER], looks=looks)

    @classmethod
    def of_frontier(cls, frontier: Frontier) -> "SurveyNoise":
        """Noise that was added."""
        sizes = frontier.events.sizes(frontier.sizes)
        looks = frontier.looked[0][1] * float(sizes[0]) if frontier.looked else None
        return cls(cells=frontier.cells_std, sketch=frontier.sketch_std, looks=looks)


def outlook_of(
    sizes: Mapping[str, float],
    noise: SurveyNoise,
    *,
    parity: str,
    epsilon: float,
    label_rate: float = 0.25,
    positive_rate: float = 0.25,
) -> list[GroupOutlook]:
    """Each group's outlook.

    Parameters
    ----------
    sizes
        Training records of each group, as planned.
    label_rate, positive_rate
        Guesses: share of positive labels, and of positive decisions.
    """

    def error_of(records: float) -> float:
        return _error(records, noise, parity=parity, label_rate=label_rate, positive_rate=positive_rate)

    found = []
    for name, size in sizes.items():
        error = error_of(size)
        more = None if error <= MEASURABLE else _enough(error_of, size)
        found.append(
            GroupOutlook(
                group=name,
                records=size,
                standard_error=error,
                measurable=more is None,
                records_needed=None if more is None else two_digits(more * size),
                # Deviations fall about as epsilon grows, and errors with both.
                epsilon_needed=None if more is None else two_digits(more * epsilon),
            )
        )
    return found


def _error(records: float, noise: SurveyNoise, *, parity: str, label_rate: float, positive_rate: float) -> float:
    """Standard error of the rate of a group of this size, the larger over its labels for equalized odds."""
    positions = LINE if noise.looks is None else RAY
    sizes = np.maximum(np.tile([records * (1 - label_rate), records * label_rate], 2), 1.0)
    root, sensitivity = prefix_root(len(positions))
    frontier = Frontier(
        parity=parity,
        cost_ratio=1.0,
        cell_sizes=tuple(sizes.tolist()),
        cells_std=noise.cells,
        prices=(0.0,),
        shift=0.0,
        positions=positions,
        # The same share of positive decisions everywhere.
        sketch=tuple(map(tuple, (positive_rate * np.outer(sizes, root[:, 0]) / sensitivity).tolist())),
        sketch_std=noise.sketch,
        looked=_looked(parity, sizes, noise.looks, positive_rate),
        ranking=((), ()),
        ranking_std=0.0,
    )
    return float(np.median(frontier.rates[1], axis=1).max())


def _looked(parity: str, sizes: Floats, std: float | None, rate: float) -> tuple[tuple[float, float], ...]:
    if std is None:
        return ()
    # Of the two like groups of the made-up frontier.
    events = Events(parity, 2).sizes(sizes)
    return tuple((rate, std / float(size)) for size in events)


def _enough(error_of: Callable[[float], float], size: float) -> float:
    """Smallest multiple of a size at which its rate can be measured, by halving on a logarithmic scale."""
    low, high = 1.0, _MOST
    while high / low > 1.005:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if error_of(middle * size) <= MEASURABLE else (middle, high)
    return high


def two_digits(value: float) -> float:
    """Rounded up.

    >>> two_digits(1234.0)
    1300.0
    """
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.2g}")
