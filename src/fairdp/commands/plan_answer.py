"""How many records, or which epsilon, a certified bound takes: an estimate from public numbers alone."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fairdp import _checks
from fairdp._checks import ParameterError
from fairdp.certify.widths import expected_widths, fraction_for_width
from fairdp.config.parameters import DEFAULT_MAX_GAP
from fairdp.frontier.outlook import two_digits

# Multiples of records and of epsilon beyond which nothing is worth naming.
_LEAST, _MOST = 1e-4, 1e4


@dataclass(frozen=True, kw_only=True)
class TauAnswer:
    """Whether a bound of ``tau`` is to be expected on a model with this ``gap``, and what would do.

    ``expected`` is the bound to expect. ``records`` are enough at the planned ε and fraction, ``epsilon`` with the
    planned records and fraction, ``fraction`` of the planned records at the planned ε; None where nothing is.
    """

    tau: float
    gap: float
    expected: float
    reached: bool
    records: float | None
    epsilon: float | None
    fraction: float | None


def assumed_gap(tau: float) -> float:
    """The gap that a model is assumed to have if nobody says: the default target, but at most half of the bound.

    >>> assumed_gap(0.1), assumed_gap(0.04)
    (0.03, 0.02)
    """
    return min(DEFAULT_MAX_GAP, tau / 2)


def check_asked(for_tau: float | None, gap: float | None) -> None:
    """Refuse a bound that is none, and a gap that it could not lie above."""
    if for_tau is None:
        if gap is not None:
            raise ParameterError("gap", gap, "is a guess for `for_tau`", "add it")
        return
    _checks.in_unit_interval(for_tau=for_tau)
    if gap is not None and not 0 <= gap < for_tau:
        raise ParameterError("gap", gap, f"must be in [0, {for_tau:g})", "a bound cannot lie below the gap")


def answer_for_tau(
    tau: float,
    gap: float,
    *,
    group_sizes: Sequence[int],
    certify_fraction: float,
    epsilon: Sequence[float],
    budget: float,
    **guessed: Any,
) -> TauAnswer:
    """What a bound takes. ``budget`` is the ε of the run, ``epsilon`` what is left of it for each group's certificate.

    The rest is what `expected_widths` takes.
    """

    def slack(records: float = 1.0, private: float = 1.0) -> float:
        widths = expected_widths(
            group_sizes=[max(1, math.ceil(records * size)) for size in group_sizes],
            certify_fraction=certify_fraction,
            epsilon=tuple(private * value for value in epsilon),
            **guessed,
        )
        return max(widths.values())

    wanted, now = tau - gap, slack()
    more = _least(lambda multiple: slack(records=multiple) <= wanted)
    freer = _least(lambda multiple: slack(private=multiple) <= wanted)
    return TauAnswer(
        tau=tau,
        gap=gap,
        expected=min(1.0, gap + now),
        reached=now <= wanted,
        records=None if more is None else two_digits(more * sum(group_sizes)),
        epsilon=None if freer is None else two_digits(freer * budget),
        fraction=fraction_for_width(wanted, group_sizes=group_sizes, epsilon=epsilon, **guessed),
    )


def _least(enough: Callable[[float], bool]) -> float | None:
    """The smallest multiple that is enough, by halving on a logarithmic scale; None if there is none."""
    low, high = _LEAST, _MOST
    if not enough(high):
        return None
    while high / low > 1.005:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
