"""The noise that a budget needs: for training, and for counting the groups."""

import math
from collections.abc import Callable

from fairdp import _checks
from fairdp._checks import ParameterError
from fairdp.accounting.mechanisms import (
    ACCOUNTANTS,
    RDP_ORDERS,
    SMALLEST_DELTA_FOR_PLD,
    SMALLEST_FOR_PLD,
    PrivacyBudget,
    SampledGaussian,
    accountant_for,
    epsilon_spent,
)

# A target is met by a multiplier of this many digits, rounded up, that leaves at most this part unspent.
_DIGITS = 6
_TOLERANCE = 1e-3

# Part of the privacy, in inverse variances, that noisy sizes of the groups get: a hundredth makes the other noise half
# a percent larger, and at epsilon 1 a size is then right to some 37 records.
SIZES_SHARE = 0.01


def noise_multiplier_for(
    budget: PrivacyBudget,
    *,
    sample_rate: float,
    n_steps: int,
    counts_std: float = 0.0,
    surveys_multiplier: float = 0.0,
    accountant: str | None = None,
) -> float:
    """Noise multiplier that spends at most the budget and at least 99.9 % of it; rounded up, never down.

    Noisy sizes of deviation ``counts_std`` and surveys are paid from the same budget.
    """
    accountant = accountant_for(budget.delta) if accountant is None else accountant
    _checks.one_of(ACCOUNTANTS, accountant=accountant)
    _checks.sample_rate(sample_rate=sample_rate)
    _checks.positive_integer(n_steps=n_steps)
    if math.isinf(budget.epsilon):
        return 0.0

    def spent_with(multiplier: float) -> float:
        mechanism = SampledGaussian(
            sample_rate=sample_rate,
            noise_multiplier=multiplier,
            n_steps=n_steps,
            counts_std=counts_std,
            surveys_multiplier=surveys_multiplier,
        )
        return epsilon_spent(mechanism, budget.delta, accountant=accountant)

    fixed = tuple(value for value in (counts_std, surveys_multiplier) if value)
    if accountant == "rdp" and _least_by_moments(budget.delta, fixed) >= (1 - _TOLERANCE) * budget.epsilon:
        raise ParameterError(
            "epsilon",
            budget.epsilon,
            f"is too small for the moments accountant at `delta`={budget.delta:g}",
            f"use more, or a `delta` of at least {SMALLEST_DELTA_FOR_PLD:g}",
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


def survey_std(budget: PrivacyBudget, share: float, n_looks: int = 1) -> float:
    r"""Deviation of each of some Gaussian releases about every record that together get a share of the privacy.

    One record moves each by at most one: :math:`\sigma_G(\varepsilon, \delta) \sqrt{m / s}`, rounded up.

    >>> survey_std(PrivacyBudget(epsilon=1.0, delta=1e-5), 0.1)
    11.7973
    """
    return 0.0 if math.isinf(budget.epsilon) else _round_up(math.sqrt(n_looks / share) / gaussian_mu(budget))


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
