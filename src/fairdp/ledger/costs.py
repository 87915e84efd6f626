"""What a release may spend on a record, as mechanisms: enough to account for it again, alone or with others."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from fairdp.accounting.mechanisms import (
    RDP_ORDERS,
    SMALLEST_DELTA_FOR_PLD,
    SMALLEST_FOR_PLD,
    LaplaceRelease,
    Mechanism,
    SampledGaussian,
    epsilon_spent,
    grid_width,
    privacy_loss,
    reading_epsilon,
)
from fairdp.accounting.reading import Reading, reading_loss
from fairdp.accounting.selection import TrialSpend, divergence, pure_divergence, selected_divergences, selected_epsilon
from fairdp.accounting.spent import PrivacySpent


@dataclass(frozen=True, kw_only=True)
class PureRelease:
    """Counts with noise of a pure ε, and before them the columns of a table if they were read."""

    epsilon: float
    reading: Reading | None = None
    noise: Literal["pure"] = "pure"


@dataclass(frozen=True, kw_only=True)
class AnyRelease:
    """Whatever stays within ε and δ, where what it will be depends on what is read first."""

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


Way = SampledGaussian | LaplaceRelease | PureRelease | SearchRelease | AnyRelease


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What an entry may spend on one record.

    Parameters
    ----------
    epsilon, delta
        What was stated; δ is zero for a pure guarantee.
    by_group
        For a record of each group the ways in which it may be used, such as trained on or held out: one of them.
    """

    epsilon: float
    delta: float
    by_group: dict[str, tuple[Way, ...]]

    @property
    def ways(self) -> tuple[Way, ...]:
        """The different ways, whatever the group, without those that another one covers."""
        different = tuple(dict.fromkeys(way for ways in self.by_group.values() for way in ways))
        return tuple(way for way in different if not any(_covers(other, way) for other in different if other != way))


def _covers(one: Way, other: Way) -> bool:
    """Whether whoever may release the one could compute the other from it, for any record.

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
    return Cost(
        epsilon=spent.epsilon,
        delta=0.0 if _is_pure(spent) else spent.delta,
        by_group={name: tuple(_ways(spent, name)) for name in spent.mechanisms},
    )


def pure_cost(epsilon: float, groups: Iterable[str]) -> Cost:
    """The cost of counts with noise, such as those of a certificate."""
    return Cost(epsilon=epsilon, delta=0.0, by_group={name: (PureRelease(epsilon=epsilon),) for name in groups})


def reserved_cost(epsilon: float, delta: float, table: str) -> Cost:
    """The cost of a release that depends on what is read first: the whole of what it may spend."""
    return Cost(epsilon=epsilon, delta=delta, by_group={table: (AnyRelease(epsilon=epsilon, delta=delta),)})


def reading_cost(reading: Reading, delta: float, table: str) -> Cost:
    """The cost of reading the columns of a table, where nothing came after it."""
    way = PureRelease(epsilon=0.0, reading=reading)
    return Cost(epsilon=epsilon_of(way, delta), delta=delta, by_group={table: (way,)})


def _is_pure(spent: PrivacySpent) -> bool:
    laplace = all(isinstance(mechanism, LaplaceRelease) for mechanism in spent.mechanisms.values())
    return laplace and spent.selection is None and spent.reading is None


def _ways(spent: PrivacySpent, group: str) -> Iterable[Way]:
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


def epsilon_of(way: Way, delta: float) -> float:
    """ε of one way at δ."""
    if isinstance(way, PureRelease | AnyRelease):
        return way.epsilon + (reading_epsilon(way.reading, delta) if isinstance(way, PureRelease) else 0.0)
    if isinstance(way, SearchRelease):
        return selected_epsilon(
            [TrialSpend(mechanism=mechanism) for mechanism in way.trials],
            delta,
            expected_trials=way.expected_trials,
            counts_std=way.counts_std,
            reading=way.reading,
        )
    if isinstance(way, LaplaceRelease) or delta:
        by_moments = isinstance(way, SampledGaussian) and 0 < way.noise_multiplier < SMALLEST_FOR_PLD
        return epsilon_spent(way, delta or 0.5, accountant="rdp" if by_moments else None)
    return math.inf


def renyi_divergence(way: Way, order: int) -> float:
    """Rényi divergence of one way at a whole order of `RDP_ORDERS`; infinite where there is only an ε at a δ."""
    if isinstance(way, AnyRelease) or way.reading is not None:
        return math.inf
    if isinstance(way, PureRelease):
        return pure_divergence(way.epsilon, order)
    if isinstance(way, SearchRelease):
        if any(mechanism.noise_multiplier == 0 for mechanism in way.trials):
            return math.inf
        found = selected_divergences(way.trials, expected_trials=way.expected_trials, counts_std=way.counts_std)
        return found[RDP_ORDERS.index(order)]
    return math.inf if way.noise_multiplier == 0 else divergence(way, order)


def width_for(ways: Iterable[Way]) -> float:
    """Width of the grid for the privacy losses of all these ways: it rounds up, so any width gives a bound."""
    sampled = [way.noise_multiplier for way in ways if isinstance(way, SampledGaussian)]
    return max(map(grid_width, sampled), default=grid_width(math.inf))


@lru_cache(maxsize=256)
def loss_of(way: Way, epsilon: float, delta: float, width: float) -> Any:
    """The privacy loss distribution of one way of a cost for which ε and δ were stated.

    Any way satisfies the (ε, δ) that was stated, and pure ways their ε alone: where there is no distribution of its
    own, it is bounded by that of randomised response.
    """
    if isinstance(way, PureRelease):
        return _after_reading(way.reading, _stated(way.epsilon, 0.0, width), width)
    if isinstance(way, LaplaceRelease):
        pure = _stated(1 / way.noise_multiplier + way.counts_epsilon, 0.0, width)
        return _after_reading(way.reading, pure, width)
    known = isinstance(way, SampledGaussian) and way.noise_multiplier >= SMALLEST_FOR_PLD
    if not known or delta < SMALLEST_DELTA_FOR_PLD:
        return _stated(epsilon, delta, width)
    assert isinstance(way, SampledGaussian)
    loss = privacy_loss(way, width)
    return loss.compose(_stated(way.counts_epsilon, 0.0, width)) if way.counts_epsilon else loss


def _after_reading(reading: Reading | None, loss: Any, width: float) -> Any:
    return loss if reading is None else loss.compose(reading_loss(reading, width))


def _stated(epsilon: float, delta: float, width: float) -> Any:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, delta), width)
