"""What a recorded mechanism spends, and the noise that a target epsilon needs."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any, Literal

from fairdp import _checks
from fairdp._checks import ParameterError

ACCOUNTANTS = ("pld", "rdp")
RELATION = "add_or_remove_one"

# A target is met by a multiplier of this many digits, rounded up, that leaves at most this part unspent.
_DIGITS = 6
_TOLERANCE = 1e-3

# Beyond these PLD takes minutes and the promise is empty.
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-3, 100
_SMALLEST_DELTA = 1e-12
_SMALLEST_FOR_PLD = 0.1

# Width of the grid on which PLD keeps the privacy loss. It rounds up, so any width gives an upper bound; little noise
# spreads the loss wide, and a wider grid then costs less than a thousandth of epsilon.
_GRID, _WIDE_GRID = 1e-4, 5e-4
_LITTLE_NOISE = 1.5

# Whole orders only: fractional ones gain nothing at these scales and do not always converge.
RDP_ORDERS = (*range(2, 65), 72, 80, 96, 128, 192, 256, 512, 1024)


@dataclass(frozen=True, kw_only=True)
class PrivacyBudget:
    """The (ε, δ) that a run may spend; an infinite ε is the labelled debugging mode without noise."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (isinstance(self.epsilon, Real) and self.epsilon > 0):
            raise ParameterError(
                "epsilon", self.epsilon, "must be positive", "Typical values: 0.5 to 8; inf trains without noise."
            )
        if self.epsilon < _SMALLEST_EPSILON:
            raise ParameterError(
                "epsilon", self.epsilon, f"must be at least {_SMALLEST_EPSILON}", "With less, only noise would be left."
            )
        if _LARGEST_EPSILON < self.epsilon < math.inf:
            raise ParameterError(
                "epsilon",
                self.epsilon,
                f"must be at most {_LARGEST_EPSILON}",
                "More would promise nothing; use inf to train without noise.",
            )
        _checks.in_unit_interval(delta=self.delta)
        if self.delta < _SMALLEST_DELTA:
            raise ParameterError("delta", self.delta, f"must be at least {_SMALLEST_DELTA}, the accountant's precision")

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
    """

    sample_rate: float
    noise_multiplier: float
    n_steps: int
    counts_epsilon: float = 0.0

    def __post_init__(self) -> None:
        _checks.sample_rate(sample_rate=self.sample_rate)
        _checks.positive_integer(n_steps=self.n_steps)
        for name in ("noise_multiplier", "counts_epsilon"):
            if not getattr(self, name) >= 0:
                raise ParameterError(name, getattr(self, name), "must be at least 0")

    @property
    def event(self) -> Any:
        """The same mechanism as an event of dp-accounting, the field's common language."""
        import dp_accounting

        gaussian = dp_accounting.GaussianDpEvent(self.noise_multiplier)
        sampled = dp_accounting.PoissonSampledDpEvent(self.sample_rate, gaussian)
        composed = dp_accounting.SelfComposedDpEvent(sampled, int(self.n_steps))
        if not self.counts_epsilon:
            return composed
        return dp_accounting.ComposedDpEvent([composed, dp_accounting.LaplaceDpEvent(1 / self.counts_epsilon)])


@dataclass(frozen=True, kw_only=True)
class LaplaceRelease:
    r"""One release with Laplace noise, of pure :math:`\varepsilon = 1 / b` for noise of b times the L1 sensitivity.

    Its other fields are those of a sampled mechanism that samples everybody, once.
    """

    noise_multiplier: float
    counts_epsilon: float = 0.0
    sample_rate: float = 1.0
    n_steps: int = 1
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


def epsilon_spent(mechanism: Mechanism, delta: float, *, accountant: str = "pld") -> float:
    r"""ε of a mechanism at δ, for neighbours that differ by one added or removed record.

    The privacy loss distribution is discretised pessimistically, so the result is an upper bound. The noisy
    counts are a pure :math:`\varepsilon_n` mechanism and enter by basic composition.

    References
    ----------
    Koskela, Jälkö, Honkela (2020) and Doroshenko et al. (2022) for PLD; Abadi et al. (2016) and Mironov, Talwar,
    Zhang (2019) for RDP, the moments accountant.
    """
    _checks.one_of(ACCOUNTANTS, accountant=accountant)
    _checks.in_unit_interval(delta=delta)
    if mechanism.noise_multiplier == 0:
        return math.inf
    if isinstance(mechanism, LaplaceRelease):
        return 1 / mechanism.noise_multiplier + mechanism.counts_epsilon
    if accountant == "pld" and mechanism.noise_multiplier < _SMALLEST_FOR_PLD:
        raise ParameterError(
            "noise_multiplier",
            mechanism.noise_multiplier,
            "is too small for PLD",
            "use `accountant`='rdp' or more noise",
        )
    sampled = (mechanism.sample_rate, mechanism.noise_multiplier, mechanism.n_steps)
    return _sampled_gaussian_epsilon(*sampled, delta, accountant) + mechanism.counts_epsilon


def noise_multiplier_for(budget: PrivacyBudget, *, sample_rate: float, n_steps: int, accountant: str = "pld") -> float:
    """Noise multiplier that spends at most the budget and at least 99.9 % of it; rounded up, never down."""
    _checks.one_of(ACCOUNTANTS, accountant=accountant)
    _checks.sample_rate(sample_rate=sample_rate)
    _checks.positive_integer(n_steps=n_steps)
    if math.isinf(budget.epsilon):
        return 0.0

    def spent_with(multiplier: float) -> float:
        return _sampled_gaussian_epsilon(sample_rate, multiplier, n_steps, budget.delta, accountant)

    return _solve(spent_with, budget.epsilon, _central_limit_multiplier(budget, sample_rate, n_steps))


def _solve(spent_with: Callable[[float], float], epsilon: float, start: float) -> float:
    """Multiplier that spends at most ε and at least 99.9 % of it, by secant steps in the logarithms.

    Locally ε is a power of the multiplier; two points tell which.
    """
    multiplier, power = _round_up(start), 1.2
    previous: tuple[float, float] | None = None
    for _ in range(60):
        spent = spent_with(multiplier)
        # Nothing spent: records are sampled so rarely that delta alone covers them.
        if spent == 0 or (1 - _TOLERANCE) * epsilon <= spent <= epsilon:
            return multiplier
        if previous is not None and previous[0] != multiplier and previous[1] != spent:
            power = math.log(previous[1] / spent) / math.log(multiplier / previous[0])
        previous = (multiplier, spent)
        aim = (1 - _TOLERANCE / 4) * epsilon
        multiplier = _round_up(multiplier * (spent / aim) ** (1 / max(power, 0.5)))
    raise ArithmeticError(f"no noise multiplier found that spends epsilon={epsilon} (last tried: {multiplier}).")


def _round_up(multiplier: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(multiplier)) + 1 - _DIGITS)
    return round(math.ceil(multiplier / unit) * unit, 12)


def grid_width(noise_multiplier: float) -> float:
    """Width of the grid on which the privacy loss is kept: it rounds up, so any width gives a bound."""
    return _GRID if noise_multiplier >= _LITTLE_NOISE else _WIDE_GRID


@lru_cache(maxsize=4096)
def _sampled_gaussian_epsilon(
    sample_rate: float, noise_multiplier: float, n_steps: int, delta: float, accountant: str
) -> float:
    # Imported on use: the package takes a second to load, which commands that spend nothing should not wait for.
    import dp_accounting
    from dp_accounting import pld, rdp

    interval = grid_width(noise_multiplier)
    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    account = pld.PLDAccountant(relation, interval) if accountant == "pld" else rdp.RdpAccountant(RDP_ORDERS, relation)
    mechanism = SampledGaussian(sample_rate=sample_rate, noise_multiplier=noise_multiplier, n_steps=n_steps)
    account.compose(mechanism.event)
    return float(account.get_epsilon(delta))


def _central_limit_multiplier(budget: PrivacyBudget, sample_rate: float, n_steps: int) -> float:
    """Where to start the search: the Gaussian limit, close but no upper bound (Bu et al., 2020, Theorem 5)."""
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    def log_delta(mu: float) -> float:
        above, below = log_ndtr(mu / 2 - budget.epsilon / mu), log_ndtr(-mu / 2 - budget.epsilon / mu)
        return above + math.log1p(-math.exp(min(below + budget.epsilon - above, -1e-12)))

    mu = brentq(lambda m: log_delta(m) - math.log(budget.delta), 1e-3 * min(1, budget.epsilon), 50.0)
    return 1 / math.sqrt(math.log1p(mu**2 / (sample_rate**2 * n_steps)))
