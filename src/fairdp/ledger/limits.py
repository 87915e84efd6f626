"""Limits on what may be spent in total, kept before anything is spent."""

import math
from collections.abc import Iterable, Mapping, Sequence

from fairdp import _checks
from fairdp._checks import DataError, ParameterError
from fairdp._format import rounded_up
from fairdp.accounting.mechanisms import RDP_ORDERS, SampledGaussian, epsilon_spent
from fairdp.ledger.composition import summed
from fairdp.ledger.costs import Cost, renyi_divergence
from fairdp.ledger.entries import Entry, Limit
from fairdp.ledger.sharing import History

# Sums of floats that should be equal to a limit may be larger by this part.
_ROUNDING = 1e-9


def check_limit(limit: Limit) -> None:
    """Refuse a limit that cannot be kept."""
    _checks.finite_positive(epsilon=limit.epsilon)
    if limit.delta is not None:
        _checks.in_unit_interval(delta=limit.delta)
    if limit.order is None:
        return
    if limit.order not in RDP_ORDERS:
        orders = ", ".join(map(str, RDP_ORDERS[:3]))
        raise ParameterError("order", limit.order, f"must be one of {orders}, … {RDP_ORDERS[-1]}")
    if limit.delta is None:
        raise ParameterError("order", limit.order, "needs `delta`", "a Renyi divergence has an epsilon only at a delta")
    if allowed_divergence(limit) <= 0:
        raise ParameterError("epsilon", limit.epsilon, f"is too small for `order`={limit.order}", "use a larger order")


def allowed_divergence(limit: Limit) -> float:
    r"""The Rényi divergence at the limit's order that ε and δ allow.

    :math:`\varepsilon - \ln(1 - 1/\lambda) + (\ln \delta + \ln \lambda) / (\lambda - 1)` (Canonne, Kamath, Steinke,
    2020, Proposition 12).
    """
    assert limit.order is not None
    assert limit.delta is not None
    order = limit.order
    return limit.epsilon - math.log1p(-1 / order) + (math.log(limit.delta) + math.log(order)) / (order - 1)


def refuse_beyond(
    limit: Limit, cost: Cost, table: str, histories: Sequence[History], entries: Mapping[int, Entry]
) -> None:
    """Refuse a cost that would pass a limit: for the table by its name, or for a single record by what it has spent.

    The sum, and the Rényi divergence at an order that was fixed with the limit, are bounds also if each ε is chosen
    after seeing the results of those before (Rogers, Roth, Ullman, Vadhan, 2016; Feldman and Zrnic, 2021).
    """
    for whom, costs in _spent_before(limit, table, histories, entries):
        if limit.order is None:
            _refuse_sum(limit, cost, costs, whom)
        else:
            _refuse_divergence(limit, cost, costs, whom)


def _spent_before(
    limit: Limit, table: str, histories: Sequence[History], entries: Mapping[int, Entry]
) -> Iterable[tuple[str, list[Cost]]]:
    """What was spent that the limit counts, and on whom: under its table's name, and on each record of its table."""
    named = {number for number, entry in entries.items() if entry.table == limit.table}
    if table == limit.table:
        yield "", [entries[number].cost for number in named]
    for history in histories:
        if table == limit.table or named & set(history):
            yield " on some of its records, under any name", [entries[number].cost for number in history]


def _refuse_sum(limit: Limit, cost: Cost, before: list[Cost], whom: str) -> None:
    spent = summed(before)
    if spent + cost.epsilon > limit.epsilon * (1 + _ROUNDING):
        raise _refusal(limit, cost, spent, whom, max(0.0, limit.epsilon - spent))
    deltas = math.fsum(each.delta for each in before)
    if limit.delta is not None and deltas + cost.delta > limit.delta * (1 + _ROUNDING):
        raise DataError(
            f"delta {cost.delta:g} would pass the limit of {limit.delta:g} on table {limit.table!r}, of which "
            f"{deltas:g} is spent{whom}: {max(0.0, limit.delta - deltas):g} is left; use a smaller `delta`."
        )


def _refuse_divergence(limit: Limit, cost: Cost, before: list[Cost], whom: str) -> None:
    assert limit.order is not None
    allowed, spent = allowed_divergence(limit), math.fsum(worst_divergence(each, limit.order) for each in before)
    if spent + worst_divergence(cost, limit.order) > allowed * (1 + _ROUNDING):
        raise _refusal(limit, cost, summed(before), whom, _gaussian_epsilon(limit, allowed - spent))


def worst_divergence(cost: Cost, order: int) -> float:
    """The largest Rényi divergence over the ways in which an entry may use a record."""
    return max(renyi_divergence(way, order) for way in cost.ways)


def _gaussian_epsilon(limit: Limit, left: float) -> float:
    """ε of the one Gaussian release whose divergence is what is left, for people to go by."""
    assert limit.order is not None
    assert limit.delta is not None
    if left <= 0:
        return 0.0
    multiplier = math.sqrt(limit.order / (2 * left))
    release = SampledGaussian(sample_rate=1.0, noise_multiplier=multiplier, n_steps=1)
    return min(limit.epsilon, epsilon_spent(release, limit.delta, accountant="rdp"))


def _refusal(limit: Limit, cost: Cost, spent: float, whom: str, left: float) -> DataError:
    how = "" if limit.order is None else f" by a Renyi filter at order {limit.order}"
    remedy = f"use `epsilon` {_rounded_down(left)} or less" if left > 1e-3 else "use other records"
    return DataError(
        f"epsilon {rounded_up(cost.epsilon)} would pass the limit of {limit.epsilon:g} on table {limit.table!r}{how}, "
        f"of which {rounded_up(spent)} is spent{whom}: {_rounded_down(left)} is left; {remedy}, or a larger limit."
    )


def _rounded_down(value: float) -> str:
    return f"{math.floor(1e4 * value) / 1e4:g}"
