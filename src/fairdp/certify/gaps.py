"""The largest gap between groups, bounded from noisy counts: one event for any number of groups."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairdp.certify.arms import NoisyArm
from fairdp.certify.pairs import Objective, PairLevels, Side, bound_of, difference, ratio, score_box_bound

# Below this many expected people times epsilon the pair loses to two separate bounds.
SMALL = 20.0

# How closely pairs are looked at: rounds of refinement, and the rank up to which a pair gets them.
_CLOSE = ((2, 6), (1, 30))


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
    """Whether arms of this expected size are certified one by one; decided from public numbers, before looking."""
    return epsilon * expected_smallest < SMALL


def gap_bound(arms: Sequence[NoisyArm], *, failure_probability: float, score_box: bool = False) -> GapBound:
    r"""Bound the gap of all groups at the level of a single pair.

    The true gap is the difference of one fixed pair, and the bound is at least the bound of that pair: it fails only
    if that one does, so no union over pairs is paid. With ``score_box`` it fails only if one of two rates is missed.
    """
    if len(arms) < 2:
        return GapBound(tau=0.0, ratio=1.0, pair=(0, 0))
    if score_box:
        return _box_gap(arms, failure_probability / 2)
    levels = PairLevels.of(failure_probability)
    ups = [Side.of(arm, levels) for arm in arms]
    downs = [Side.of(arm.mirrored(), levels) for arm in arms]
    gap, pair = _largest(ups, downs, levels, difference)
    quotient, _ = _largest(ups, downs, levels, ratio)
    return GapBound(tau=float(np.clip(gap, 0, 1)), ratio=_inverse(quotient), pair=pair)


def _largest(
    ups: list[Side], downs: list[Side], levels: PairLevels, objective: Objective
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


def _box_gap(arms: Sequence[NoisyArm], failure_probability: float) -> GapBound:
    highs = [score_box_bound(arm, failure_probability=failure_probability) for arm in arms]
    lows = [1 - score_box_bound(arm.mirrored(), failure_probability=failure_probability) for arm in arms]
    pairs = [(u, v) for u in range(len(arms)) for v in range(len(arms)) if u != v]
    which = max(pairs, key=lambda pair: highs[pair[0]] - lows[pair[1]])
    quotient = max(highs[u] / lows[v] if lows[v] > 0 else np.inf for u, v in pairs)
    return GapBound(tau=float(np.clip(highs[which[0]] - lows[which[1]], 0, 1)), ratio=_inverse(quotient), pair=which)


def _inverse(quotient: float) -> float:
    """Smallest over largest, from a bound on largest over smallest."""
    return 1.0 if quotient <= 1 else 1 / quotient
