"""Mechanisms and what they spend: budgets, the accountants (PLD and RDP), and the search for the least noise."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairdp import errors
from fairdp.config import DELTA_SHARE, DISTINCT, FEWEST, SHAPES, SHARE, VALUES
from fairdp.errors import ParameterError
from fairdp.parameters import ACCOUNTANTS

# Beyond so many deviations nothing is left of a tail that counts beside δ.
_FAR = 40
# Neighbouring tables: one has a record more.
RELATION = "add_or_remove_one"
# Below this δ the privacy loss distribution is no bound any more: Fourier transforms and cut tails err by some 1e-15
# for each doubling, which is no longer small beside δ, and at 1e-12 ε comes out up to 7 % too low. The moments
# accountant has no such error: looser, but a bound.
SMALLEST_DELTA_FOR_PLD = 1e-9
# Beyond these PLD takes minutes and the promise is empty.
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-3, 100
# Below this δ no accountant here is precise.
_SMALLEST_DELTA = 1e-12
# Least noise multiplier for PLD: with less, the privacy loss spreads over too wide a grid.
SMALLEST_FOR_PLD = 0.1
# Width of the grid on which PLD keeps the privacy loss. It rounds up, so any width gives an upper bound; little noise
# spreads the loss wide, and a wider grid then costs less than a thousandth of epsilon.
_GRID, _WIDE_GRID = 1e-4, 5e-4
_LITTLE_NOISE = 1.5
# Whole orders only: fractional ones gain nothing at these scales and do not always converge.
RDP_ORDERS = (*range(2, 65), 72, 80, 96, 128, 192, 256, 512, 1024)
# A target is met by a multiplier of this many digits, rounded up, that leaves at most this part unspent.
_DIGITS = 6
_TOLERANCE = 1e-3
# More steps nobody waits for.
_MOST_STEPS = 1_000_000
# Part of the privacy, in inverse variances, that noisy sizes of the groups get: a hundredth makes the other noise half
# a percent larger, and at epsilon 1 a size is then right to some 37 records.
SIZES_SHARE = 0.01


@dataclass(frozen=True, kw_only=True)
class Reading:
    r"""One release about all columns of a table, with discrete Gaussian noise.

    Released are, for every column, how many rows have each kind and size, how many values are distinct, and which
    values are frequent: those with a noisy count of at least the threshold. A record adds at most one to one count of
    each, in every one of d columns: :math:`\Delta^2 = d (1 + 1/4 + 1/16)`, in units of the noise on values.

    Whether a value that only just enough people have is released at all is not hidden by the noise: that it passes the
    threshold has a probability that is added to δ.

    Parameters
    ----------
    n_columns
        Columns of the table, d, label and protected ones included.
    std
        Deviation of the noise on the counts of values, σ.
    threshold
        Noisy count from which on a value is released, T.

    References
    ----------
    Korolova, Kenthapadi, Mishra, Ntoulas (2009), Releasing search queries and clicks privately; Canonne, Kamath,
    Steinke (2020) for the noise.
    """

    n_columns: int
    std: float
    threshold: int

    def __post_init__(self) -> None:
        errors.positive_integer(n_columns=self.n_columns, threshold=self.threshold)
        errors.finite_positive(std=self.std)

    @property
    def multiplier(self) -> float:
        """Noise multiplier of all counts together."""
        return self.std / math.sqrt(self.n_columns * moved_squared())

    @property
    def delta(self) -> float:
        r"""Chance that a value is released which is so only with one record, :math:`d \Pr(X \ge T - 10)`, at most."""
        return min(1.0, self.n_columns * upper_tail(self.std, self.threshold - FEWEST))


def moved_squared() -> float:
    """Square of how far a record moves the counts of one column, in units of the noise on values."""
    return math.fsum(factor**-2 for factor in (VALUES, SHAPES, DISTINCT))


@lru_cache(maxsize=256)
def upper_tail(std: float, least: int) -> float:
    r"""Chance that discrete Gaussian noise is at least so much, rounded up.

    The sum of :math:`e^{-k^2 / (2 \sigma^2)}` over all whole numbers is at least :math:`\sqrt{2 \pi} \sigma`, by which
    it is divided here.

    >>> round(upper_tail(10.0, 20), 5)
    0.02554
    """
    if least <= 0:
        return 1.0
    terms = (math.exp(-(k**2) / (2 * std**2)) for k in range(least, least + math.ceil(_FAR * std) + 1))
    return math.fsum(terms) / (math.sqrt(2 * math.pi) * std) * (1 + 1e-12)


def threshold_for(std: float, n_columns: int, delta: float) -> int:
    """The least threshold at which the chance that counts is at most δ."""
    low, high = FEWEST, FEWEST + math.ceil(_FAR * std)
    while high - low > 1:
        middle = (low + high) // 2
        enough = n_columns * upper_tail(std, middle - FEWEST) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


@lru_cache(maxsize=256)
def reading_loss(reading: Reading, width: float) -> Any:
    """The privacy loss distribution of a reading, on a grid of this width.

    A record that moves every count by one tells most, and the counts have independent noise: the distributions of all
    of them are composed, as they are for discrete noise.
    """
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    passed = common.DifferentialPrivacyParameters(0.0, reading.delta)
    loss = pld.from_privacy_parameters(passed, width)
    for factor in (VALUES, SHAPES, DISTINCT):
        one = pld.from_discrete_gaussian_mechanism(
            factor * reading.std, value_discretization_interval=width, use_connect_dots=True
        )
        loss = loss.compose(one.self_compose(reading.n_columns))
    return loss


@dataclass(frozen=True, kw_only=True)
class PrivacyBudget:
    """The (ε, δ) that a run may spend; an infinite ε is the labelled debugging mode without noise.

    ``accountant`` is the one that was chosen to compute ε; `accountant_for` says which one does. A δ that ``adapts`` is
    the default, and lowered where there are too many records for it, unless something was released for it before.
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
        errors.in_unit_interval(delta=self.delta)
        if self.delta < _SMALLEST_DELTA:
            raise ParameterError("delta", self.delta, f"must be at least {_SMALLEST_DELTA}, the accountant's precision")
        errors.one_of(ACCOUNTANTS, accountant=self.accountant)

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
        errors.sample_rate(sample_rate=self.sample_rate)
        errors.positive_integer(n_steps=self.n_steps)
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
    errors.in_unit_interval(delta=delta)
    accountant = accountant_for(delta) if accountant is None else accountant
    errors.one_of(ACCOUNTANTS, accountant=accountant)
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
    """ε of the releases, and of noisy sizes and queries beside them."""
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
    """The privacy loss distribution of the releases, of noisy sizes and queries beside them; pure counts are left out.

    Only distributions on one grid can be composed, whose ``width`` may be given.

    Exact if the law of the releases does not depend on the sizes that came out (Zhu, Dong, Wang, 2022, Theorem 10).
    Where their rate follows from them, it is that of the sizes which came out; what that is worth is in
    docs/explanation/privacy.md.
    """
    width, surveys = width or grid_width(mechanism.noise_multiplier), mechanism.surveys_multiplier
    if mechanism.sample_rate == 1:
        # Gaussian releases about everybody are one, exactly: no grid need be composed with itself.
        steps = mechanism.noise_multiplier / math.sqrt(mechanism.n_steps)
        joint = joint_multiplier(steps, surveys) if surveys else steps
        loss = _gaussian_loss(joint, 1.0, width)
    else:
        one_step = _gaussian_loss(mechanism.noise_multiplier, mechanism.sample_rate, width)
        loss = one_step.self_compose(int(mechanism.n_steps))
        if surveys:
            loss = loss.compose(_gaussian_loss(surveys, 1.0, width))
    if mechanism.reading:
        loss = loss.compose(reading_loss(mechanism.reading, width))
    return loss.compose(sizes_loss(mechanism.counts_std, width)) if mechanism.counts_std else loss


def _gaussian_loss(noise_multiplier: float, sample_rate: float, width: float) -> Any:
    """The privacy loss distribution of one Gaussian release about a Poisson sample.

    Bit for bit that of `from_gaussian_mechanism`, which takes nine times as long because it inverts the privacy loss
    at one point of the grid after the other.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    def masses(adjacency: Any) -> Any:
        loss = GaussianPrivacyLoss(noise_multiplier, sampling_prob=sample_rate, adjacency_type=adjacency)
        ends = loss.connect_dots_bounds()
        lowest, highest = math.floor(ends.epsilon_lower / width), math.ceil(ends.epsilon_upper / width)
        epsilons = np.arange(lowest, highest + 1) * width
        everybody = GaussianPrivacyLoss(noise_multiplier, adjacency_type=adjacency)
        removed = adjacency == AdjacencyType.REMOVE
        deltas = _hockey_stick(loss, everybody, epsilons, sample_rate, sign=1.0 if removed else -1.0)
        if not np.isfinite(deltas).all():
            raise ArithmeticError(f"no privacy loss of noise {noise_multiplier:g} at sampling rate {sample_rate:.17g}.")
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(width, lowest, highest, deltas)

    if sample_rate == 1:
        return pld.PrivacyLossDistribution(masses(AdjacencyType.REMOVE))
    return pld.PrivacyLossDistribution(masses(AdjacencyType.REMOVE), masses(AdjacencyType.ADD))


def _hockey_stick(
    loss: Any, everybody: Any, epsilons: NDArray[np.float64], rate: float, *, sign: float
) -> NDArray[np.float64]:
    r"""The hockey-stick divergence of a sampled release at each ε, from the point at which the privacy loss is ε.

    That point is where the loss about ``everybody`` is :math:`\pm \log(1 + (e^{\pm \varepsilon} - 1) / q)`; beyond
    :math:`\pm\varepsilon = \log(1 - q)` there is none, because a sample without the record is as likely in both worlds.
    """
    deltas, signed = np.zeros_like(epsilons), sign * epsilons
    reached = np.full_like(epsilons, True, dtype=bool) if rate == 1 else signed > math.log1p(-rate)
    if sign > 0:
        deltas[~reached] = -np.expm1(epsilons[~reached])
    at, signed = epsilons[reached], signed[reached]
    unsampled = at
    if rate < 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = signed + np.log(1 / rate)
            logarithms = scaled + np.log1p(-np.exp(np.log(1 / rate - 1) - scaled))
        logarithms[signed == 0] = np.log(1 / rate + (1 - 1 / rate))
        logarithms[np.isclose(signed, math.log(1 - rate), rtol=1e-9, atol=0)] = -math.inf
        unsampled = sign * logarithms
    cutoffs = everybody.inverse_privacy_loss(unsampled)
    deltas[reached] = loss.mu_upper_cdf(cutoffs) - np.exp(at + loss.mu_lower_log_cdf(cutoffs))
    return np.clip(deltas, 0, 1)


def sizes_loss(std: float, width: float = _GRID) -> Any:
    """The privacy loss distribution of the sizes of disjoint groups with discrete Gaussian noise of a deviation."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_discrete_gaussian_mechanism(std, value_discretization_interval=width, use_connect_dots=True)


def noise_multiplier_for(
    budget: PrivacyBudget,
    *,
    sample_rate: float,
    n_steps: int,
    counts_std: float = 0.0,
    surveys_multiplier: float = 0.0,
    reading: Reading | None = None,
    accountant: str | None = None,
) -> float:
    """Noise multiplier that spends at most the budget and at least 99.9 % of it; rounded up, never down.

    Noisy sizes of deviation ``counts_std``, queries and the reading of a table are paid from the same budget.
    """
    accountant = budget.stated_by if accountant is None else accountant
    errors.one_of(ACCOUNTANTS, accountant=accountant)
    errors.sample_rate(sample_rate=sample_rate)
    errors.positive_integer(n_steps=n_steps)
    if math.isinf(budget.epsilon):
        return 0.0

    def spent_with(multiplier: float) -> float:
        mechanism = SampledGaussian(
            sample_rate=sample_rate,
            noise_multiplier=multiplier,
            n_steps=n_steps,
            counts_std=counts_std,
            surveys_multiplier=surveys_multiplier,
            reading=reading,
        )
        return epsilon_spent(mechanism, budget.delta, accountant=accountant)

    read = (reading.multiplier, reading.delta) if reading else (0.0, 0.0)
    fixed = tuple(value for value in (counts_std, surveys_multiplier, read[0]) if value)
    if accountant == "rdp" and _least_by_moments(budget.delta - read[1], fixed) >= (1 - _TOLERANCE) * budget.epsilon:
        raise ParameterError(
            "epsilon",
            budget.epsilon,
            f"is too small for the moments accountant at `delta`={budget.delta:g}",
            "use more, or `accountant`='pld'"
            if budget.delta >= SMALLEST_DELTA_FOR_PLD
            else f"use more, or a `delta` of at least {SMALLEST_DELTA_FOR_PLD:g}",
        )
    # Where to start the search: the Gaussian limit, close but no upper bound (Bu et al., 2020, Theorem 5).
    mu_squared = gaussian_mu(budget) ** 2 - sum(value**-2 for value in fixed)
    start = 1 / math.sqrt(math.log1p(mu_squared / (sample_rate**2 * n_steps)))
    return _solve(spent_with, budget.epsilon, start)


def sizes_std(budget: PrivacyBudget) -> float:
    r"""Deviation of the noise on group sizes, :math:`\sigma_G(\varepsilon, \delta) / \sqrt{s}`, rounded up.

    :math:`\sigma_G` is what one Gaussian release of sensitivity one would need for the whole budget, and s the share
    that sizes get of it, `SIZES_SHARE`; zero for an infinite budget.

    >>> sizes_std(PrivacyBudget(epsilon=1.0, delta=1e-5))
    37.3064
    """
    return 0.0 if math.isinf(budget.epsilon) else _round_up(1 / (gaussian_mu(budget) * math.sqrt(SIZES_SHARE)))


def query_std(budget: PrivacyBudget, share: float, n_looks: int = 1) -> float:
    r"""Deviation of each of some Gaussian releases about every record that together get a share of the privacy.

    One record moves each by at most one: :math:`\sigma_G(\varepsilon, \delta) \sqrt{m / s}`, rounded up.

    >>> query_std(PrivacyBudget(epsilon=1.0, delta=1e-5), 0.1)
    11.7973
    """
    return 0.0 if math.isinf(budget.epsilon) else _round_up(math.sqrt(n_looks / share) / gaussian_mu(budget))


def reading_for(budget: PrivacyBudget, n_columns: int) -> Reading | None:
    r"""Noise and threshold for reading the columns of a table with their share of a budget; None for an infinite one.

    >>> reading_for(PrivacyBudget(epsilon=1.0, delta=1e-5), 15)
    Reading(n_columns=15, std=52.3454, threshold=287)
    """
    if math.isinf(budget.epsilon):
        return None
    std = _round_up(query_std(budget, SHARE) * math.sqrt(n_columns * moved_squared()))
    return Reading(n_columns=n_columns, std=std, threshold=threshold_for(std, n_columns, DELTA_SHARE * budget.delta))


def _least_by_moments(delta: float, multipliers: tuple[float, ...]) -> float:
    """ε that no noise gets below, because orders end (Canonne, Kamath, Steinke, 2020, Proposition 12)."""
    inverse = sum(multiplier**-2 for multiplier in multipliers)
    return min(
        order * inverse / 2 + math.log1p(-1 / order) - math.log(delta * order) / (order - 1) for order in RDP_ORDERS
    )


def _solve(spent_with: Callable[[float], float], epsilon: float, start: float) -> float:
    """Multiplier that spends at most ε and at least 99.9 % of it, by secant steps in the logarithms.

    Locally ε is a power of the multiplier; two points tell which. Where it is not, because most is spent on the sizes,
    the interval that is left is halved.
    """
    multiplier, power = _round_up(start), 1.2
    too_small, enough = 0.0, math.inf
    previous: tuple[float, float] | None = None
    for _ in range(60):
        spent = spent_with(multiplier)
        too_small, enough = (multiplier, enough) if spent > epsilon else (too_small, multiplier)
        # Nothing spent: records are sampled so rarely that delta alone covers them. Or less noise is not accounted for.
        nothing = spent == 0 or (spent <= epsilon and multiplier < 1.01 * SMALLEST_FOR_PLD)
        if nothing or (1 - _TOLERANCE) * epsilon <= spent <= epsilon:
            return multiplier
        if previous is not None and previous[0] != multiplier and previous[1] != spent:
            power = math.log(previous[1] / spent) / math.log(multiplier / previous[0])
        previous = (multiplier, spent)
        aim = (1 - _TOLERANCE / 4) * epsilon
        factor = (spent / aim) ** (1 / max(power, 0.5))
        next_one = _round_up(max(multiplier * min(max(factor, 0.5), 2.0), SMALLEST_FOR_PLD))
        multiplier = next_one if too_small < next_one < enough else _round_up(math.sqrt(too_small * enough))
    raise ArithmeticError(f"no noise multiplier found that spends epsilon={epsilon} (last tried: {multiplier}).")


def steps_within(budget: PrivacyBudget, mechanisms: Iterable[Mechanism]) -> int:
    r"""The largest number of steps with which none of these mechanisms spends more than the budget, T.

    :math:`\varepsilon(T) \le \varepsilon < \varepsilon(T + 1)`, with whatever else they release.
    """
    different = sorted({m for m in mechanisms if isinstance(m, SampledGaussian)}, key=repr)

    def spent_with(n_steps: int) -> float:
        return max(
            epsilon_spent(replace(mechanism, n_steps=n_steps), budget.delta, accountant=budget.stated_by)
            for mechanism in different
        )

    multiplier = min(mechanism.noise_multiplier for mechanism in different)
    rate = max(mechanism.sample_rate for mechanism in different)
    # The Gaussian limit again; beyond the exponent the search would begin at one step anyway.
    per_step = rate**2 * math.expm1(min(multiplier**-2, 500.0))
    n_steps = _most_steps(spent_with, budget.epsilon, gaussian_mu(budget) ** 2 / per_step)
    if not n_steps:
        raise ParameterError(
            "noise_multiplier",
            multiplier,
            f"leaves room for no step within `epsilon`={budget.epsilon:g}",
            "use more noise or more `epsilon`",
        )
    if n_steps == _MOST_STEPS:
        raise ParameterError(
            "noise_multiplier",
            multiplier,
            f"leaves room for more than {_MOST_STEPS:,} steps within `epsilon`={budget.epsilon:g}",
            "give `n_steps` in place of `epsilon`, or use less noise",
        )
    return n_steps


def _most_steps(spent_with: Callable[[int], float], epsilon: float, start: float) -> int:
    """Largest number of steps that spends at most ε; secant steps in the logarithms, and now and then a halving."""
    enough, too_many = 0, _MOST_STEPS + 1
    n_steps, power = round(min(max(start, 1), _MOST_STEPS)), 0.5
    previous: tuple[int, float] | None = None
    for attempt in range(1, 200):
        spent = max(spent_with(n_steps), 1e-12)
        enough, too_many = (n_steps, too_many) if spent <= epsilon else (enough, n_steps)
        if too_many - enough == 1:
            return enough
        if previous is not None and previous[0] != n_steps and previous[1] != spent:
            power = math.log(spent / previous[1]) / math.log(n_steps / previous[0])
        previous = (n_steps, spent)
        guess = n_steps * min(max((epsilon / spent) ** (1 / max(power, 0.1)), 1e-3), 1e3)
        if attempt % 4 == 0:
            guess = math.sqrt(max(enough, 1) * too_many)
        n_steps = min(max(math.floor(guess), enough + 1), too_many - 1)
    raise ArithmeticError(f"no number of steps found that spends epsilon={epsilon} (last tried: {n_steps}).")


def epsilon_for(spent_within: Callable[[float], float], start: float) -> float:
    """The ε whose shares, beside steps with given noise, spend at most ε and at least 99.9 % of it.

    What is released beside the steps has a share of ε, so that what is spent grows with ε, but less: to take for ε what
    was spent comes to rest, here a little above.
    """
    epsilon = start
    for _ in range(200):
        spent = spent_within(epsilon)
        if 0 <= epsilon - spent <= _TOLERANCE * epsilon:
            return epsilon
        epsilon = (1 + _TOLERANCE / 4) * spent
    raise ArithmeticError(f"no epsilon found that its own shares spend (last tried: {epsilon}).")


def _round_up(multiplier: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(multiplier)) + 1 - _DIGITS)
    return float(f"{math.ceil(multiplier / unit) * unit:.{_DIGITS}g}")


def gaussian_mu(budget: PrivacyBudget) -> float:
    """Sensitivity over deviation of one Gaussian release that spends the budget (Balle and Wang, 2018, Theorem 8)."""
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    def log_delta(mu: float) -> float:
        above, below = log_ndtr(mu / 2 - budget.epsilon / mu), log_ndtr(-mu / 2 - budget.epsilon / mu)
        return above + math.log1p(-math.exp(min(below + budget.epsilon - above, -1e-12)))

    return float(brentq(lambda m: log_delta(m) - math.log(budget.delta), 1e-3 * min(1, budget.epsilon), 50.0))
