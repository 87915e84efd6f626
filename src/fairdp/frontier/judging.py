"""Claims that follow from noisy counts: was anything learnt, is a target met, has the rate collapsed."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fairdp._checks import in_words
from fairdp.frontier.curve import spread_of
from fairdp.frontier.evidence import TRAINING, Evidence
from fairdp.frontier.ranking import Estimate

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


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Whether the model learnt anything: against the majority class, and by ranking."""

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
    """Whether the fairness target that was aimed at is met.

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
    """What paid counts say of a fitted model.

    ``verdict`` is ``"good"``, ``"missed"``, ``"weak"``, ``"collapsed"`` or ``"undecided"``; each statement is wrong in
    at most one case of twenty. ``counted_on`` says which records were counted, None for none. ``lines``
    say it in words, parameters in backquotes.
    """

    verdict: str
    quality: Quality | None
    target: TargetMet | None
    base_rate: float | None = None
    positive_rate: float | None = None
    counted_on: str | None = None
    has_prices: bool = False
    lines: tuple[str, ...] = ()

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Groups whose rates cannot be seen through the noise."""
        return () if self.target is None else self.target.unmeasured

    def __str__(self) -> str:
        return "\n".join(in_words(line, str) for line in self.lines)


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


@dataclass(frozen=True)
class _Pair:
    """Two rates: how far they are beyond the limit, its standard error, and the gap or ratio itself."""

    value: float
    beyond: float
    error: float
    certain: bool


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
    worst = max(pairs, key=lambda pair: pair.beyond - surer * pair.error if pair.certain else -math.inf)
    estimate = _estimate(seen, kind)
    if worst.certain and worst.beyond - surer * worst.error > 0:
        return (estimate if _beyond(estimate.value, limit, kind) > 0 else Estimate(worst.value, worst.error)), "no"
    # A model fits its training records better than others: what they meet, others may not.
    holds = seen.counted_on != TRAINING and all(pair.beyond + sure * pair.error <= slack for pair in pairs)
    return estimate, "yes" if holds else "undecided"


def _pair(seen: Evidence, i: int, j: int, limit: float, kind: str) -> _Pair:
    low, high = sorted((i, j), key=lambda event: seen.rates[event])
    rates, errors = seen.rates[[low, high]].clip(0.0, 1.0), seen.errors[[low, high]]
    certain = bool(errors.max() <= _BLIND)
    if kind == "max_gap":
        gap = float(rates[1] - rates[0])
        return _Pair(gap, gap - limit, math.hypot(*errors), certain)
    # The ratio is below r where low < r high, which is linear: its error is known even where rates are small.
    top = max(float(rates[1]), 1e-9)
    ratio = float(rates[0]) / top
    return _Pair(ratio, limit - ratio, math.hypot(errors[0], limit * errors[1]) / top, certain)


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
    """Whether nearly everybody gets the same decision, more so than labels that are rare explain."""
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
