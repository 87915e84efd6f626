"""Private selection: ε of training a random number of models and keeping the best of them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fairdp import errors
from fairdp.accounting.mechanisms import RDP_ORDERS, LaplaceRelease, Mechanism, Reading, reading_epsilon
from fairdp.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class TrialSpend:
    """Spending of one trial on a record of one group: trained on in all trials, or held out and counted in all."""

    mechanism: Mechanism
    held_out_epsilon: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Selection:
    r"""A choice of the best of :math:`K` trials, each of a candidate drawn at random, by what each has released.

    :math:`K` is drawn from the logarithmic law :math:`\Pr[K = k] \propto (1 - \gamma)^k / k` before anything else, and
    nothing but the best trial is ever shown.

    Parameters
    ----------
    expected_trials
        :math:`\mathrm E[K]`, above one.
    by_group
        For each group the different ways in which the candidates may spend; all count.
    counts_std
        Deviation of the noise on group sizes that were counted once, over the training records, for all trials; zero
        for none.
    reading
        How the columns of the table were read, once, for all trials; None if they were declared.
    """

    expected_trials: float
    by_group: dict[str, tuple[TrialSpend, ...]]
    counts_std: float = 0.0
    reading: Reading | None = None

    def __post_init__(self) -> None:
        if not (1 < self.expected_trials < math.inf):
            raise ParameterError("expected_trials", self.expected_trials, "must be above 1 and finite")

    def epsilon(self, group: str, delta: float) -> float:
        """ε of the whole choice for a record of a group."""
        return selected_epsilon(
            self.by_group[group],
            delta,
            expected_trials=self.expected_trials,
            counts_std=self.counts_std,
            reading=self.reading,
        )


def selected_epsilon(
    trials: Iterable[TrialSpend],
    delta: float,
    *,
    expected_trials: float,
    counts_std: float = 0.0,
    reading: Reading | None = None,
) -> float:
    r"""ε at δ of the best of a random number of trials; their number follows the logarithmic law.

    .. math::
        \varepsilon'(\lambda) = \varepsilon(\lambda)
        + \min_{\hat\lambda} \{ (1 - 1 / \hat\lambda) \, \varepsilon(\hat\lambda) + \ln(1/\gamma) / \hat\lambda \}
        + \frac{\ln \mathrm E[K]}{\lambda - 1}

    with :math:`\varepsilon(\lambda)` the Rényi divergence of one trial, the largest over the candidates. Sizes counted
    once, before the trials, with discrete Gaussian noise add :math:`\lambda / (2 \sigma^2)`. A record that is held out,
    in all trials alike, is in none of these sizes but counted with a pure :math:`\varepsilon_c`, and the choice costs
    it :math:`2 \varepsilon_c`, the limit of the same formula; the larger of both counts. The columns of a table that
    are read once, about all records, add the same to both, and their own part of δ.

    References
    ----------
    Papernot, Steinke (2022), Hyperparameter tuning with Rényi differential privacy, ICLR, Theorem 2 with η = 0; the
    conversion to (ε, δ) as in dp-accounting (Canonne, Kamath, Steinke, 2020).
    """
    from dp_accounting import rdp

    spends = tuple(trials)
    if any(spend.mechanism.noise_multiplier == 0 for spend in spends):
        return math.inf
    mechanisms = tuple(spend.mechanism for spend in spends)
    chosen = selected_divergences(mechanisms, expected_trials=expected_trials, counts_std=counts_std)
    held_out = 2 * max(spend.held_out_epsilon for spend in spends) + reading_epsilon(reading, delta)
    left = delta
    if reading is not None:
        chosen = [value + order / (2 * reading.multiplier**2) for order, value in zip(RDP_ORDERS, chosen, strict=True)]
        left = delta - reading.delta
    return max(float(rdp.compute_epsilon(RDP_ORDERS, chosen, left)[0]) if left > 0 else math.inf, held_out)


def selected_divergences(
    trials: Iterable[Mechanism], *, expected_trials: float, counts_std: float = 0.0
) -> list[float]:
    """Rényi divergences of the best of a random number of trials, for a record that is trained on, at `RDP_ORDERS`."""
    mechanisms = tuple(trials)
    single = [max(divergence(mechanism, order) for mechanism in mechanisms) for order in RDP_ORDERS]
    gamma = gamma_of(expected_trials)
    extra = min(
        (1 - 1 / order) * value - math.log(gamma) / order for order, value in zip(RDP_ORDERS, single, strict=True)
    )
    chosen = [
        value + extra + math.log(expected_trials) / (order - 1) for order, value in zip(RDP_ORDERS, single, strict=True)
    ]
    if counts_std:
        chosen = [value + order / (2 * counts_std**2) for order, value in zip(RDP_ORDERS, chosen, strict=True)]
    return chosen


def divergence(mechanism: Mechanism, order: int) -> float:
    """Rényi divergence of a mechanism for a record that is trained on.

    It is infinite for one that reads columns: whether a rare value passes the threshold has no divergence, only a δ.
    """
    if mechanism.reading is not None:
        return math.inf
    counts = pure_divergence(mechanism.counts_epsilon, order)
    if isinstance(mechanism, LaplaceRelease):
        trained = pure_divergence(1 / mechanism.noise_multiplier, order)
    else:
        trained = sampled_gaussian_divergence(
            mechanism.sample_rate, mechanism.noise_multiplier, mechanism.n_steps, order
        )
        for std in (mechanism.counts_std, mechanism.surveys_multiplier):
            trained += order / (2 * std**2) if std else 0.0
    return trained + counts


def pure_divergence(epsilon: float, order: int) -> float:
    """Largest Rényi divergence that ε with δ = 0 allows: that of randomised response.

    >>> pure_divergence(0.0, 2)
    0.0
    """
    if not epsilon:
        return 0.0
    likely = -math.log1p(math.exp(-epsilon))
    unlikely = likely - epsilon
    terms = (order * likely + (1 - order) * unlikely, order * unlikely + (1 - order) * likely)
    return float(np.logaddexp(*terms)) / (order - 1)


@lru_cache(maxsize=4096)
def sampled_gaussian_divergence(sample_rate: float, noise_multiplier: float, n_steps: int, order: int) -> float:
    """Rényi divergence of a whole order (Mironov, Talwar, Zhang, 2019, section 3.3), over all steps."""
    from scipy.special import gammaln

    k = np.arange(order + 1)
    # A record that is always sampled leaves the last term alone.
    left = (order - k) * math.log1p(-sample_rate) if sample_rate < 1 else np.where(k == order, 0.0, -np.inf)
    log_terms = (
        gammaln(order + 1)
        - gammaln(k + 1)
        - gammaln(order - k + 1)
        + left
        + k * math.log(sample_rate)
        + (k**2 - k) / (2 * noise_multiplier**2)
    )
    return n_steps * max(0.0, float(np.logaddexp.reduce(log_terms))) / (order - 1)


def gamma_of(expected_trials: float) -> float:
    r"""The parameter of the logarithmic law with this mean, :math:`(1 / \gamma - 1) / \ln(1 / \gamma)`.

    >>> gamma = gamma_of(6.0)
    >>> round((1 / gamma - 1) / math.log(1 / gamma), 6)
    6.0
    """
    from scipy.optimize import brentq

    errors.finite_positive(expected_trials=expected_trials)
    log_inverse = brentq(lambda t: math.expm1(t) / t - expected_trials, 1e-9, 50.0, xtol=1e-12)
    return math.exp(-log_inverse)


def draw_trials(expected_trials: float, rng: np.random.Generator) -> int:
    """A number of trials from the logarithmic law with this mean, at least one."""
    return int(rng.logseries(1 - gamma_of(expected_trials)))


def largest_within(spent: Callable[[float], float], budget: float, *, start: float) -> float:
    """A value of at most ``start`` that spends at most the budget and, below it, nearly all; what is spent grows."""
    value = start
    for _ in range(40):
        total = spent(value)
        if total <= budget and (value == start or total >= 0.99 * budget):
            return value
        # Nearly proportional; a little less, so as to end below.
        value = min(start, value * 0.997 * budget / total)
    raise ArithmeticError(f"no share of epsilon={budget} found for one trial (last tried: {value}).")


def merged(plans: Sequence[dict[str, TrialSpend]]) -> dict[str, tuple[TrialSpend, ...]]:
    """Distinct spendings of the candidates on each group, from the plan of each."""
    return {group: tuple(dict.fromkeys(plan[group] for plan in plans)) for group in plans[0]}
