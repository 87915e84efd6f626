"""The cost of a release for a record, as mechanisms: enough to account for it again, alone or with others.

Totals compose the privacy loss distributions of all mechanisms that fall on one record.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import combinations_with_replacement, product
from typing import Any, Literal

import numpy as np

from fairdp.accounting.mechanisms import (
    RDP_ORDERS,
    SMALLEST_DELTA_FOR_PLD,
    SMALLEST_FOR_PLD,
    LaplaceRelease,
    Mechanism,
    Reading,
    SampledGaussian,
    epsilon_spent,
    grid_width,
    privacy_loss,
    reading_epsilon,
    reading_loss,
)
from fairdp.accounting.selection import TrialSpend, divergence, pure_divergence, selected_divergences, selected_epsilon
from fairdp.accounting.spent import PrivacySpent

# Points of the grid from one to the next at which the curves of different ways are compared: their differences, and
# with them the rounding errors, are then large enough, and the straight lines in between lose nothing to speak of.
_STRIDE = 10
# Up to so many combinations of ways are each composed; beyond, each entry counts with a curve above those of all its
# ways, which costs some percent.
_MOST_COMBINATIONS = 16
# Part of δ that may be moved from the tail of a curve to infinity.
_TAIL = 1e-5


@dataclass(frozen=True, kw_only=True)
class PureRelease:
    """Counts with noise of a pure ε, and before them the columns of a table if they were read."""

    epsilon: float
    reading: Reading | None = None
    noise: Literal["pure"] = "pure"


@dataclass(frozen=True, kw_only=True)
class AnyRelease:
    """Any release within ε and δ, where what it will be depends on what is read first."""

    epsilon: float
    delta: float
    noise: Literal["any"] = "any"


@dataclass(frozen=True, kw_only=True)
class SearchRelease:
    """The best of a random number of trials, for a record that all of them train on."""

    trials: tuple[Mechanism, ...]
    expected_trials: float
    counts_std: float
    reading: Reading | None = None


LedgerMechanism = SampledGaussian | LaplaceRelease | PureRelease | SearchRelease | AnyRelease


@dataclass(frozen=True, kw_only=True)
class Cost:
    """All that an entry may spend on one record.

    Parameters
    ----------
    epsilon, delta
        What was stated; δ is zero for a pure guarantee.
    by_group
        For a record of each group the ways in which it may be used, such as trained on or held out: one of them.
    """

    epsilon: float
    delta: float
    by_group: dict[str, tuple[LedgerMechanism, ...]]

    @property
    def mechanisms(self) -> tuple[LedgerMechanism, ...]:
        """The different ways, whatever the group, without those that another one covers."""
        different = tuple(dict.fromkeys(mechanism for mechanisms in self.by_group.values() for mechanism in mechanisms))
        return tuple(
            mechanism
            for mechanism in different
            if not any(_covers(other, mechanism) for other in different if other != mechanism)
        )


def _covers(one: LedgerMechanism, other: LedgerMechanism) -> bool:
    """True if whoever may release the one could compute the other from it, for any record.

    Less noise, more steps and a larger chance to be sampled only tell more.
    """
    if isinstance(one, PureRelease) and isinstance(other, PureRelease):
        return one.epsilon >= other.epsilon and one.reading == other.reading
    if not (isinstance(one, SampledGaussian) and isinstance(other, SampledGaussian)):
        return False
    return (
        one.sample_rate >= other.sample_rate
        and one.n_steps >= other.n_steps
        and one.noise_multiplier <= other.noise_multiplier
        and one.counts_epsilon >= other.counts_epsilon
        and (one.counts_std, one.surveys_multiplier) == (other.counts_std, other.surveys_multiplier)
        and one.reading == other.reading
    )


def cost_of(spent: PrivacySpent) -> Cost:
    """The cost of a fit or a search, from its privacy record, which is complete before the first release."""
    laplace = all(isinstance(mechanism, LaplaceRelease) for mechanism in spent.mechanisms.values())
    is_pure = laplace and spent.selection is None and spent.reading is None
    return Cost(
        epsilon=spent.epsilon,
        delta=0.0 if is_pure else spent.delta,
        by_group={name: tuple(_mechanisms(spent, name)) for name in spent.mechanisms},
    )


def pure_cost(epsilon: float, groups: Iterable[str]) -> Cost:
    """The cost of counts with noise, such as those of a certificate."""
    return Cost(epsilon=epsilon, delta=0.0, by_group={name: (PureRelease(epsilon=epsilon),) for name in groups})


def reserved_cost(epsilon: float, delta: float, table: str) -> Cost:
    """The cost of a release that depends on what is read first: the whole of what it may spend."""
    return Cost(epsilon=epsilon, delta=delta, by_group={table: (AnyRelease(epsilon=epsilon, delta=delta),)})


def reading_cost(reading: Reading, delta: float, table: str) -> Cost:
    """The cost of reading the columns of a table, where nothing came after it."""
    mechanism = PureRelease(epsilon=0.0, reading=reading)
    return Cost(epsilon=epsilon_of(mechanism, delta), delta=delta, by_group={table: (mechanism,)})


def _mechanisms(spent: PrivacySpent, group: str) -> Iterable[LedgerMechanism]:
    # Where records are sampled by label too, the certificate knows the coarser groups only.
    held_out = spent.certify_epsilons.get(group, max(spent.certify_epsilons.values(), default=0.0))
    search = spent.selection
    if search is None:
        yield spent.mechanisms[group]
    else:
        trials = search.by_group[group]
        yield SearchRelease(
            trials=tuple(dict.fromkeys(trial.mechanism for trial in trials)),
            expected_trials=search.expected_trials,
            counts_std=search.counts_std,
            reading=search.reading,
        )
        # The choice costs a held-out record twice what one trial does (`selected_epsilon`).
        held_out = 2 * max(trial.held_out_epsilon for trial in trials)
    if held_out:
        yield PureRelease(epsilon=held_out, reading=spent.reading)


def epsilon_of(mechanism: LedgerMechanism, delta: float) -> float:
    """ε of one way at δ."""
    if isinstance(mechanism, PureRelease | AnyRelease):
        return mechanism.epsilon + (
            reading_epsilon(mechanism.reading, delta) if isinstance(mechanism, PureRelease) else 0.0
        )
    if isinstance(mechanism, SearchRelease):
        return selected_epsilon(
            [TrialSpend(mechanism=trial) for trial in mechanism.trials],
            delta,
            expected_trials=mechanism.expected_trials,
            counts_std=mechanism.counts_std,
            reading=mechanism.reading,
        )
    if isinstance(mechanism, LaplaceRelease) or delta:
        by_moments = isinstance(mechanism, SampledGaussian) and 0 < mechanism.noise_multiplier < SMALLEST_FOR_PLD
        return epsilon_spent(mechanism, delta or 0.5, accountant="rdp" if by_moments else None)
    return math.inf


def renyi_divergence(mechanism: LedgerMechanism, order: int) -> float:
    """Rényi divergence of one way at a whole order of `RDP_ORDERS`; infinite where there is only an ε at a δ."""
    if isinstance(mechanism, AnyRelease) or mechanism.reading is not None:
        return math.inf
    if isinstance(mechanism, PureRelease):
        return pure_divergence(mechanism.epsilon, order)
    if isinstance(mechanism, SearchRelease):
        if any(trial.noise_multiplier == 0 for trial in mechanism.trials):
            return math.inf
        found = selected_divergences(
            mechanism.trials, expected_trials=mechanism.expected_trials, counts_std=mechanism.counts_std
        )
        return found[RDP_ORDERS.index(order)]
    return math.inf if mechanism.noise_multiplier == 0 else divergence(mechanism, order)


def width_for(mechanisms: Iterable[LedgerMechanism]) -> float:
    """Width of the grid for the privacy losses of all these ways: it rounds up, so any width gives a bound."""
    sampled = [mechanism.noise_multiplier for mechanism in mechanisms if isinstance(mechanism, SampledGaussian)]
    return max(map(grid_width, sampled), default=grid_width(math.inf))


@lru_cache(maxsize=256)
def loss_of(mechanism: LedgerMechanism, epsilon: float, delta: float, width: float) -> Any:
    """The privacy loss distribution of one way of a cost for which ε and δ were stated.

    Any way satisfies the (ε, δ) that was stated, and pure ways their ε alone: where there is no distribution of its
    own, it is bounded by that of randomised response.
    """
    if isinstance(mechanism, PureRelease):
        return _after_reading(mechanism.reading, _stated(mechanism.epsilon, 0.0, width), width)
    if isinstance(mechanism, LaplaceRelease):
        pure = _stated(1 / mechanism.noise_multiplier + mechanism.counts_epsilon, 0.0, width)
        return _after_reading(mechanism.reading, pure, width)
    known = isinstance(mechanism, SampledGaussian) and mechanism.noise_multiplier >= SMALLEST_FOR_PLD
    if not known or delta < SMALLEST_DELTA_FOR_PLD:
        return _stated(epsilon, delta, width)
    assert isinstance(mechanism, SampledGaussian)
    loss = privacy_loss(mechanism, width)
    return loss.compose(_stated(mechanism.counts_epsilon, 0.0, width)) if mechanism.counts_epsilon else loss


def _after_reading(reading: Reading | None, loss: Any, width: float) -> Any:
    return loss if reading is None else loss.compose(reading_loss(reading, width))


def _stated(epsilon: float, delta: float, width: float) -> Any:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, delta), width)


@dataclass(frozen=True, kw_only=True)
class Total:
    """The sum over entries: ε at δ, and beside it the simple sum, both at the sum of their deltas.

    ε composes the mechanisms and holds for a plan that was fixed in advance. The sum holds in any case, also where each
    ε was chosen after seeing the results of those before.
    """

    epsilon: float
    delta: float
    epsilon_sum: float


NOTHING = Total(epsilon=0.0, delta=0.0, epsilon_sum=0.0)


def composed(costs: Iterable[Cost]) -> Total:
    """The total over costs that all fall on one record, by their privacy loss distributions.

    References
    ----------
    Koskela, Jälkö, Honkela (2020) for the composition; Zhu, Dong, Wang (2022) for curves that dominate others;
    Doroshenko et al. (2022) for the distribution that a curve belongs to.
    """
    costs = tuple(costs)
    total, delta = summed(costs), math.fsum(cost.delta for cost in costs)
    if len(costs) < 2 or math.isinf(total) or delta < SMALLEST_DELTA_FOR_PLD:
        return Total(epsilon=total, delta=delta, epsilon_sum=total)
    width = width_for(mechanism for cost in costs for mechanism in cost.mechanisms)
    numbers = Counter((cost.epsilon, cost.delta, frozenset(cost.mechanisms)) for cost in costs)
    alike = {(cost.epsilon, cost.delta, frozenset(cost.mechanisms)): cost for cost in costs}
    choices = [_choices(alike[same], number, width) for same, number in numbers.items()]
    if math.prod(map(len, choices)) > _MOST_COMBINATIONS:
        choices = [[worst_loss(alike[same], width).self_compose(number)] for same, number in numbers.items()]
    spent = (_composed(chosen).get_epsilon_for_delta(delta) for chosen in product(*choices))
    return Total(epsilon=min(total, float(max(spent))), delta=delta, epsilon_sum=total)


def _choices(cost: Cost, number: int, width: float) -> list[Any]:
    """The different ways in which so many entries of one cost may use a record, each composed."""
    losses = [loss_of(mechanism, cost.epsilon, cost.delta, width) for mechanism in cost.mechanisms]
    if math.comb(len(losses) + number - 1, number) > _MOST_COMBINATIONS:
        return [worst_loss(cost, width).self_compose(number)]
    return [_composed(chosen) for chosen in combinations_with_replacement(losses, number)]


def _composed(losses: Iterable[Any]) -> Any:
    return reduce(lambda one, other: one.compose(other), losses)


def summed(costs: Iterable[Cost]) -> float:
    """The simple sum of ε, by basic composition, which also holds if each is chosen after seeing the last result."""
    return math.fsum(cost.epsilon for cost in costs)


def worst_loss(cost: Cost, width: float) -> Any:
    """A privacy loss distribution that dominates those of all the ways in which an entry may use a record.

    δ as a function of ε is the largest over the ways, and over adding and removing a record, and then one of its own.
    """
    losses = [loss_of(mechanism, cost.epsilon, cost.delta, width) for mechanism in cost.mechanisms]
    return losses[0] if len(losses) == 1 else _dominating(losses, _TAIL * cost.delta, width)


def _dominating(losses: Sequence[Any], tail: float, width: float) -> Any:
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    # Where nothing but the tail is left of any curve.
    furthest = max(float(loss.get_epsilon_for_delta(loss.get_delta_for_epsilon(math.inf) + tail)) for loss in losses)
    n_points = math.ceil(furthest / (_STRIDE * width)) + 1
    grid = _STRIDE * np.arange(-n_points, n_points + 1)
    curves = [np.asarray(loss.get_delta_for_epsilon(grid * width)) for loss in losses]
    highest = np.minimum.accumulate(np.max(curves, axis=0))
    return pld.PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(width, grid, highest))
