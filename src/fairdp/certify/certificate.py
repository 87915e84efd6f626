"""The fairness certificate of a deployed predictor: noisy counts in, bounds on all gaps out."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp import _validate
from fairdp.certify.arms import NoisyArm
from fairdp.certify.gaps import GapBound, gap_bound, uses_score_box
from fairdp.discrete import RandBelow, discrete_laplace

METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds")
Counts = NDArray[np.int64]

# Shares of the failure probability for positive, true-positive and false-positive rates: cells of positives are the
# smallest and need most (fixed in advance; equal shares would be valid too).
_SHARES = {"positive": 0.2, "true_positive": 0.6, "false_positive": 0.2}
# Share of a group that its smaller label is planned to have, when cells are judged small before looking.
_PLANNED_CELL = 0.1


@dataclass(frozen=True, kw_only=True)
class CertifiedGap:
    """One metric's bound: the gap is at most ``tau``; for demographic parity also the ratio is at least ``ratio``."""

    tau: float
    pair: tuple[str, str]
    ratio: float | None = None


@dataclass(frozen=True, kw_only=True)
class Certificate:
    r"""Bounds on the true gaps of one predictor, all at once.

    For every population, with probability at least ``confidence`` over the certification records and the noise, and
    given the predictor: each gap is at most its ``tau``. ``gaps`` holds the metrics that were asked for beforehand;
    the others were not looked at.

    Parameters
    ----------
    epsilon
        Pure ε spent on the certification records.
    counts
        The released counts per group, label and decision, shape (n_groups, 2, 2).
    expected_sizes
        Public expected number of certification records of each group, which decided how small cells are treated.
    """

    confidence: float
    epsilon: float
    group_names: tuple[str, ...]
    expected_sizes: tuple[float, ...]
    counts: tuple[tuple[tuple[int, ...], ...], ...]
    gaps: dict[str, CertifiedGap]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the metrics stand beside the rest, as users read them."""
        record = {name: value for name, value in asdict(self).items() if name != "gaps"}
        return {"certified": True, **record, **{name: asdict(gap) for name, gap in self.gaps.items()}}


def release_counts(counts: Counts, *, epsilon: float, rand_below: RandBelow) -> Counts:
    """Counts with exact discrete Laplace noise: a record is in one cell, so this costs a pure ε in all."""
    _validate.finite_positive(epsilon=epsilon)
    flat = [int(count) + discrete_laplace(epsilon, rand_below) for count in counts.ravel()]
    return np.array(flat, dtype=np.int64).reshape(counts.shape)


def certify(
    counts: Counts,
    *,
    epsilon: float,
    confidence: float,
    group_names: tuple[str, ...],
    expected_sizes: tuple[float, ...],
    metrics: tuple[str, ...] = METRICS,
) -> Certificate:
    """Certificate from released counts; it may be computed again by anyone, with the same result.

    Parameters
    ----------
    counts
        Noisy counts per group, label and decision, shape (n_groups, 2, 2).
    metrics
        Metrics registered before looking; fewer get tighter bounds.
    """
    _validate.in_unit_interval(confidence=confidence)
    for metric in metrics:
        _validate.one_of(METRICS, metrics=metric)
    bounds = {
        kind: _bound(counts, kind, level, epsilon, expected_sizes)
        for kind, level in _levels(metrics, 1 - confidence).items()
    }
    return Certificate(
        confidence=confidence,
        epsilon=epsilon,
        group_names=group_names,
        expected_sizes=expected_sizes,
        counts=tuple(tuple(tuple(int(n) for n in row) for row in group) for group in counts),
        gaps={metric: _gap(metric, bounds, group_names) for metric in metrics},
    )


def _levels(metrics: tuple[str, ...], failure_probability: float) -> dict[str, float]:
    """Failure probability of each kind of rate; equalised odds alone is one event, for it is the larger of two gaps."""
    if metrics == ("equalized_odds",):
        return {"true_positive": failure_probability, "false_positive": failure_probability}
    needed = {
        "positive": "demographic_parity" in metrics,
        "true_positive": len(set(metrics) - {"demographic_parity"}) > 0,
        "false_positive": "equalized_odds" in metrics,
    }
    total = sum(share for kind, share in _SHARES.items() if needed[kind])
    return {kind: failure_probability * share / total for kind, share in _SHARES.items() if needed[kind]}


def _bound(
    counts: Counts, kind: str, failure_probability: float, epsilon: float, expected_sizes: tuple[float, ...]
) -> GapBound:
    smallest = min(expected_sizes) * (1.0 if kind == "positive" else _PLANNED_CELL)
    return gap_bound(
        _arms(counts, kind, epsilon),
        failure_probability=failure_probability,
        score_box=uses_score_box(epsilon, smallest),
    )


def _arms(counts: Counts, kind: str, epsilon: float) -> list[NoisyArm]:
    """One arm per group: all of its records, or those of one label."""
    if kind == "positive":
        cells, folds = counts.sum(1), 2
    else:
        cells, folds = counts[:, int(kind == "true_positive")], 1
    return [NoisyArm(positive=int(p), negative=int(n), epsilon=epsilon, folds=folds) for n, p in cells]


def _gap(metric: str, bounds: dict[str, GapBound], names: tuple[str, ...]) -> CertifiedGap:
    if metric == "demographic_parity":
        bound = bounds["positive"]
        return CertifiedGap(tau=bound.tau, pair=_named(bound, names), ratio=bound.ratio)
    if metric == "equal_opportunity":
        return CertifiedGap(tau=bounds["true_positive"].tau, pair=_named(bounds["true_positive"], names))
    worse = max((bounds["true_positive"], bounds["false_positive"]), key=lambda bound: bound.tau)
    return CertifiedGap(tau=worse.tau, pair=_named(worse, names))


def _named(bound: GapBound, names: tuple[str, ...]) -> tuple[str, str]:
    return names[bound.pair[0]], names[bound.pair[1]]
