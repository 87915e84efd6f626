"""What a recorded mechanism spends."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Real
from typing import Any, Literal

from fairdp import _checks
from fairdp._checks import ParameterError
from fairdp.accounting.reading import Reading, reading_loss
from fairdp.config.parameters import ACCOUNTANTS

RELATION = "add_or_remove_one"

# Below this δ the privacy loss distribution is no bound any more: Fourier transforms and cut tails err by some 1e-15
# for each doubling, which is no longer small beside δ, and at 1e-12 ε comes out up to 7 % too low. The moments
# accountant has no such error: looser, but a bound.
SMALLEST_DELTA_FOR_PLD = 1e-9

# Beyond these PLD takes minutes and the promise is empty.
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-3, 100
_SMALLEST_DELTA = 1e-12
SMALLEST_FOR_PLD = 0.1

# Width of the grid on which PLD keeps the privacy loss. It rounds up, so any width gives an upper bound; little noise
# spreads the loss wide, and a wider grid then costs less than a thousandth of epsilon.
_GRID, _WIDE_GRID = 1e-4, 5e-4
_LITTLE_NOISE = 1.5

# Whole orders only: fractional ones gain nothing at these scales and do not always converge.
RDP_ORDERS = (*range(2, 65), 72, 80, 96, 128, 192, 256, 512, 1024)


@dataclass(frozen=True, kw_only=True)
class PrivacyBudget:
    """The (ε, δ) that a run may spend; an infinite ε is the labelled debugging mode without noise.

    ``accountant`` is the one that was chosen to compute ε; `accountant_for` says which one does. A δ that ``adapts`` is
    the default, and lowered where there are too many records for it.
    """

    epsilon: float
    delta: float
    accountant: str = "pld"
    adapts: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.epsilon, Real) and self.epsilon > 0):
            raise ParameterError(
                "epsilon", self.epsilon, "must be positive", "Typical values: 0.5 to 8; inf trains without noise."
            )
        if self.epsilon < SMALLEST_EPSILON:
            raise ParameterError(
                "epsilon", self.epsilon, f"must be at least {SMALLEST_EPSILON}", "With less, only noise would be left."
            )
        if LARGEST_EPSILON < self.epsilon < math.inf:
            raise ParameterError(
                "epsilon",
                self.epsilon,
                f"must be at most {LARGEST_EPSILON}",
                "More would promise nothing; use inf to train without noise.",
            )
        _checks.in_unit_interval(delta=self.delta)
        if self.delta < _SMALLEST_DELTA:
            raise ParameterError("delta", self.delta, f"must be at least {_SMALLEST_DELTA}, the accountant's precision")
        _checks.one_of(ACCOUNTANTS, accountant=self.accountant)

    @property
    def stated_by(self) -> str:
        """The accountant whose ε is kept within the budget, and stated."""
        return accountant_for(self.delta, self.accountant)

    def for_records(self, n_samples: float, *, released: bool) -> "PrivacyBudget":
        """The budget with a δ below 1/n: a default that is not becomes a tenth of that, rounded down to one digit.

        Not where anything was ``released`` for the first δ, such as n itself: a δ that follows from an outcome promises
        less than one that was fixed, so that is refused.

        >>> PrivacyBudget(epsilon=1.0, delta=1e-5, adapts=True).for_records(300_000, released=False).delta
        3e-07
        """
        if self.adapts and not released and self.delta >= 1 / n_samples:
            digits, exponent = f"{0.1 / n_samples:.12e}".split("e")
            return replace(self, delta=float(f"{digits[0]}e{exponent}"), adapts=False)
        self.check_for(n_samples)
        return replace(self, adapts=False)

    def check_for(self, n_samples: float) -> None:
        """Refuse a δ that would allow a record to be published: it must be below 1/n."""
        if self.delta >= 1 / n_samples:
            raise ParameterError(
                "delta",
                self.delta,
                f"must be below 1/n = {1 / n_samples:.2g} for n = {n_samples:.0f} records",
                f"Use {0.1 / n_samples:.0e} or less.",
            )


@dataclass(frozen=True, kw_only=True)
class SampledGaussian:
    r"""A Gaussian release on a fresh Poisson sample, repeated.

    Parameters
    ----------
    sample_rate
        Chance of each record to be in one sample, :math:`q`.
    noise_multiplier
        Standard deviation of the noise over the sensitivity, :math:`\sigma`; zero means no protection.
    n_steps
        Number of releases, :math:`T`.
    counts_epsilon
        Pure ε spent beside the releases on noisy counts of disjoint groups, zero for none.
    counts_std
        Deviation of discrete Gaussian noise on the sizes of disjoint groups, released beside, zero for none. A record
        is in one group, so it moves one size by one.
    surveys_multiplier
        Noise multiplier of all the Gaussian releases about every record that are made once, before and after the
        steps, taken together; zero for none.
    reading
        How the columns of the table were read before anything else; None if they were declared.
    """

    sample_rate: float
    noise_multiplier: float
    n_steps: int
    counts_epsilon: float = 0.0
    counts_std: float = 0.0
    surveys_multiplier: float = 0.0
    reading: Reading | None = None

    def __post_init__(self) -> None:
        _checks.sample_rate(sample_rate=self.sample_rate)
        _checks.positive_integer(n_steps=self.n_steps)
        for name in ("noise_multiplier", "counts_epsilon", "counts_std", "surveys_multiplier"):
            if not getattr(self, name) >= 0:
                raise ParameterError(name, getattr(self, name), "must be at least 0")

    @property
    def event(self) -> Any:
        """The same mechanism as an event of dp-accounting, the field's common language, but for the δ of a reading."""
        import dp_accounting

        gaussian = dp_accounting.GaussianDpEvent(self.noise_multiplier)
        sampled = dp_accounting.PoissonSampledDpEvent(self.sample_rate, gaussian)
        events = [dp_accounting.SelfComposedDpEvent(sampled, int(self.n_steps))]
        if self.counts_std:
            # There is no event of the discrete Gaussian; its Rényi divergences are at most those of the continuous one
            # (Canonne, Kamath, Steinke, 2020, Theorem 4).
            events.append(dp_accounting.GaussianDpEvent(self.counts_std))
        if self.surveys_multiplier:
            events.append(dp_accounting.GaussianDpEvent(self.surveys_multiplier))
        if self.reading:
            events.append(dp_accounting.GaussianDpEvent(self.reading.multiplier))
        if self.counts_epsilon:
            events.append(dp_accounting.LaplaceDpEvent(1 / self.counts_epsilon))
        return events[0] if len(events) == 1 else dp_accounting.ComposedDpEvent(events)


@dataclass(frozen=True, kw_only=True)
class LaplaceRelease:
    r"""One release with Laplace noise, of pure :math:`\varepsilon = 1 / b` for noise of b times the L1 sensitivity.

    Its other fields are those of a sampled mechanism that samples everybody, once.
    """

    noise_multiplier: float
    counts_epsilon: float = 0.0
    sample_rate: float = 1.0
    n_steps: int = 1
    reading: Reading | None = None
    noise: Literal["laplace"] = "laplace"


Mechanism = SampledGaussian | LaplaceRelease


def joint_multiplier(*multipliers: float) -> float:
    r"""Noise multiplier of several Gaussian queries on one sample, :math:`(\sum_i \sigma_i^{-2})^{-1/2}`.

    Scaled to equal noise they are one query whose sensitivities add up as squares. Accounted as separately sampled they
    would under-report: a record that is in the sample is in it for all of them. Later queries may depend on the noisy
    answers to earlier ones (Dong, Roth, Su, 2022, Corollary 3.3).

    >>> round(joint_multiplier(1.0, 2.0), 4)
    0.8944
    """
    return math.fsum(multiplier**-2 for multiplier in multipliers) ** -0.5


def accountant_for(delta: float, chosen: str = "pld") -> str:
    """The accountant whose ε is stated at δ: the chosen one, but PLD only where its errors are small beside δ."""
    return chosen if delta >= SMALLEST_DELTA_FOR_PLD else "rdp"


def epsilon_spent(mechanism: Mechanism, delta: float, *, accountant: str | None = None) -> float:
    r"""ε of a mechanism at δ, for neighbours that differ by one added or removed record.

    The privacy loss distribution is discretised pessimistically, so the result is an upper bound. Noisy sizes are
    composed with the releases; noisy counts of a pure :math:`\varepsilon_n` enter by basic composition. Without an
    accountant, that of `accountant_for`.

    References
    ----------
    Koskela, Jälkö, Honkela (2020) and Doroshenko et al. (2022) for PLD; Abadi et al. (2016) and Mironov, Talwar,
    Zhang (2019) for RDP, the moments accountant; Canonne, Kamath, Steinke (2020) for the discrete Gaussian.
    """
    _checks.in_unit_interval(delta=delta)
    accountant = accountant_for(delta) if accountant is None else accountant
    _checks.one_of(ACCOUNTANTS, accountant=accountant)
    if mechanism.noise_multiplier == 0:
        return math.inf
    if isinstance(mechanism, LaplaceRelease):
        return 1 / mechanism.noise_multiplier + mechanism.counts_epsilon + reading_epsilon(mechanism.reading, delta)
    if accountant == "pld" and mechanism.noise_multiplier < SMALLEST_FOR_PLD:
        raise ParameterError(
            "noise_multiplier",
            mechanism.noise_multiplier,
            "is too small for PLD",
            "use `accountant`='rdp' or more noise",
        )
    return _composed_epsilon(replace(mechanism, counts_epsilon=0.0), delta, accountant) + mechanism.counts_epsilon


def bound_by(accountant: str, mechanism: Mechanism, delta: float) -> float:
    """ε of a mechanism by an accountant; infinite where it gives no bound, as PLD for a tiny δ or hardly any noise."""
    no_bound = delta < SMALLEST_DELTA_FOR_PLD or mechanism.noise_multiplier < SMALLEST_FOR_PLD
    if accountant == "pld" and isinstance(mechanism, SampledGaussian) and no_bound:
        return math.inf
    return epsilon_spent(mechanism, delta, accountant=accountant)


def grid_width(noise_multiplier: float) -> float:
    """Width of the grid on which the privacy loss is kept: it rounds up, so any width gives a bound."""
    return _GRID if noise_multiplier >= _LITTLE_NOISE else _WIDE_GRID


@lru_cache(maxsize=4096)
def _composed_epsilon(mechanism: SampledGaussian, delta: float, accountant: str) -> float:
    """ε of the releases, and of noisy sizes and surveys beside them."""
    # Imported on use: the package takes a second to load, which commands that spend nothing should not wait for.
    from dp_accounting import NeighboringRelation, rdp

    if accountant == "pld":
        return float(privacy_loss(mechanism).get_epsilon_for_delta(delta))
    account = rdp.RdpAccountant(RDP_ORDERS, NeighboringRelation.ADD_OR_REMOVE_ONE)
    left = delta - (mechanism.reading.delta if mechanism.reading else 0.0)
    return float(account.compose(mechanism.event).get_epsilon(left)) if left > 0 else math.inf


def reading_epsilon(reading: Reading | None, delta: float) -> float:
    """ε of reading the columns of a table, alone, by the better accountant; zero if they were declared."""
    if reading is None:
        return 0.0
    return min(_alone(reading, delta, accountant) for accountant in {accountant_for(delta), "rdp"})


@lru_cache(maxsize=256)
def _alone(reading: Reading, delta: float, accountant: str) -> float:
    from dp_accounting import rdp

    if accountant == "pld":
        return float(reading_loss(reading, _GRID).get_epsilon_for_delta(delta))
    divergences = [order / (2 * reading.multiplier**2) for order in RDP_ORDERS]
    left = delta - reading.delta
    return float(rdp.compute_epsilon(RDP_ORDERS, divergences, left)[0]) if left > 0 else math.inf


def privacy_loss(mechanism: SampledGaussian, width: float | None = None) -> Any:
    """The privacy loss distribution of the releases, of noisy sizes and surveys beside them; pure counts are left out.

    Only distributions on one grid can be composed, whose ``width`` may be given.

    Exact if the law of the releases does not depend on the sizes that came out (Zhu, Dong, Wang, 2022, Theorem 10).
    Where their rate follows from them, it is that of the sizes which came out; docs/privacy.md says what that is worth.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    width, surveys = width or grid_width(mechanism.noise_multiplier), mechanism.surveys_multiplier
    if mechanism.sample_rate == 1:
        # Gaussian releases about everybody are one, exactly: no grid need be composed with itself.
        steps = mechanism.noise_multiplier / math.sqrt(mechanism.n_steps)
        joint = joint_multiplier(steps, surveys) if surveys else steps
        loss = pld.from_gaussian_mechanism(joint, value_discretization_interval=width)
    else:
        loss = pld.from_gaussian_mechanism(
            mechanism.noise_multiplier, sampling_prob=mechanism.sample_rate, value_discretization_interval=width
        ).self_compose(int(mechanism.n_steps))
        if surveys:
            loss = loss.compose(pld.from_gaussian_mechanism(surveys, value_discretization_interval=width))
    if mechanism.reading:
        loss = loss.compose(reading_loss(mechanism.reading, width))
    return loss.compose(sizes_loss(mechanism.counts_std, width)) if mechanism.counts_std else loss


def sizes_loss(std: float, width: float = _GRID) -> Any:
    """The privacy loss distribution of the sizes of disjoint groups with discrete Gaussian noise of a deviation."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_discrete_gaussian_mechanism(std, value_discretization_interval=width, use_connect_dots=True)
