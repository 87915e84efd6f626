"""The noise that a budget needs: for training, and for counting the groups."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from fairdp import _checks
from fairdp._checks import ParameterError
from fairdp.accounting.mechanisms import (
    RDP_ORDERS,
    SMALLEST_DELTA_FOR_PLD,
    SMALLEST_FOR_PLD,
    Mechanism,
    PrivacyBudget,
    SampledGaussian,
    epsilon_spent,
)
from fairdp.accounting.reading import Reading, moved_squared, threshold_for
from fairdp.config.parameters import ACCOUNTANTS
from fairdp.config.reading import DELTA_SHARE, SHARE

# A target is met by a multiplier of this many digits, rounded up, that leaves at most this part unspent.
_DIGITS = 6
_TOLERANCE = 1e-3

# More steps nobody waits for.
_MOST_STEPS = 1_000_000

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
    reading: Reading | None = None,
    accountant: str | None = None,
) -> float:
    """Noise multiplier that spends at most the budget and at least 99.9 % of it; rounded up, never down.

    Noisy sizes of deviation ``counts_std``, surveys and the reading of a table are paid from the same budget.
    """
    accountant = budget.stated_by if accountant is None else accountant
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


def survey_std(budget: PrivacyBudget, share: float, n_looks: int = 1) -> float:
    r"""Deviation of each of some Gaussian releases about every record that together get a share of the privacy.

    One record moves each by at most one: :math:`\sigma_G(\varepsilon, \delta) \sqrt{m / s}`, rounded up.

    >>> survey_std(PrivacyBudget(epsilon=1.0, delta=1e-5), 0.1)
    11.7973
    """
    return 0.0 if math.isinf(budget.epsilon) else _round_up(math.sqrt(n_looks / share) / gaussian_mu(budget))


def reading_for(budget: PrivacyBudget, n_columns: int) -> Reading | None:
    r"""How the columns of a table are read with their share of a budget; None for an infinite one.

    >>> reading_for(PrivacyBudget(epsilon=1.0, delta=1e-5), 15)
    Reading(n_columns=15, std=52.3454, threshold=287)
    """
    if math.isinf(budget.epsilon):
        return None
    std = _round_up(survey_std(budget, SHARE) * math.sqrt(n_columns * moved_squared()))
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
