"""Lower bounds on epsilon from what an attack saw: numbers to numbers, each wrong at most as often as is said.

Three kinds of evidence, and what each is good for. How often an event happened with and without a record bounds ε of
any mechanism. The same counts bound μ of a mechanism that is known to be one Gaussian release, and that says more. How
many guesses about canaries were right bounds ε of a single run.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, log_ndtr, ndtri

from fairdp import errors
from fairdp.certify.bounds import clopper_pearson_upper

# Beyond this a privacy budget promises nothing, and e^ε is still a number.
_LARGEST = 200.0


@dataclass(frozen=True, kw_only=True)
class EventCounts:
    """Counts of an event in independent draws with a record, and without it."""

    with_record: int
    draws_with: int
    without_record: int
    draws_without: int

    def rates(self, failure_probability: float) -> tuple[float, float]:
        """A lower bound on the rate with the record and an upper one on the rate without, both right at once."""
        missed = self.draws_with - self.with_record
        half = failure_probability / 2
        return (
            1 - clopper_pearson_upper(missed, self.with_record, failure_probability=half),
            clopper_pearson_upper(
                self.without_record, self.draws_without - self.without_record, failure_probability=half
            ),
        )


def epsilon_from_events(counts: EventCounts, *, delta: float, failure_probability: float) -> float:
    r"""Lower bound on ε at δ from how often an event happened in two worlds.

    By definition :math:`p_1 \le e^\varepsilon p_0 + \delta`, and the same for the complement with the worlds exchanged,

    .. math::
        \varepsilon \ge \max\Big( \ln \frac{p_1 - \delta}{p_0}, \ln \frac{1 - p_0 - \delta}{1 - p_1} \Big),

    which grows with :math:`p_1` and falls with :math:`p_0`: so the bound on either rate serves both. Draws may have
    different rates; the bounds are then on their means, for which the same inequality holds.

    References
    ----------
    Clopper and Pearson (1934) for the rates; Hoeffding (1956) for those of unequal draws. Jagielski, Ullman, Oprea
    (2020), Auditing Differentially Private Machine Learning.

    >>> seen = EventCounts(with_record=7311, draws_with=10_000, without_record=2689, draws_without=10_000)
    >>> 0.9 < epsilon_from_events(seen, delta=0.0, failure_probability=0.05) < 1
    True
    """
    errors.in_unit_interval(failure_probability=failure_probability)
    above, below = counts.rates(failure_probability)
    return max(0.0, _log_ratio(above - delta, below), _log_ratio(1 - below - delta, 1 - above))


def mu_from_events(counts: EventCounts, *, failure_probability: float) -> float:
    r"""Lower bound on μ of a μ-GDP mechanism from how often an event happened in equally many draws of two worlds.

    No test of a μ-GDP mechanism is better than one of :math:`N(0, 1)` against :math:`N(\mu, 1)`, whose best share of
    right answers is :math:`\Phi(\mu / 2)`: so :math:`\mu \ge 2 \Phi^{-1}((p_1 + 1 - p_0) / 2)`, an equality for the
    event "beyond the middle". One bound on the share of right answers is sharper than one on either rate.

    Only of **one Gaussian release without sampling** does an ε at δ follow from μ: of any other mechanism the
    accounting claims no μ, and `epsilon_from_events` is what is valid.

    References
    ----------
    Dong, Roth, Su (2022), Gaussian Differential Privacy, Definition 2.6 and Theorem 2.7.
    """
    errors.in_unit_interval(failure_probability=failure_probability)
    if counts.draws_with != counts.draws_without:
        raise ValueError(f"both worlds need as many draws, got {counts.draws_with} and {counts.draws_without}.")
    right = counts.with_record + counts.draws_without - counts.without_record
    wrong = counts.draws_with + counts.draws_without - right
    share = 1 - clopper_pearson_upper(wrong, right, failure_probability=failure_probability)
    return max(0.0, 2 * float(ndtri(share)))


def epsilon_of_mu(mu: float, delta: float) -> float:
    r"""The ε at δ of a Gaussian release of sensitivity μ and deviation one.

    .. math:: \delta = \Phi(-\varepsilon/\mu + \mu/2) - e^\varepsilon \Phi(-\varepsilon/\mu - \mu/2).

    References
    ----------
    Dong, Roth, Su (2022), Corollary 2.13; Balle and Wang (2018), Theorem 8.

    >>> round(epsilon_of_mu(1.0, 0.126936737507), 3)  # Worked by hand: Φ(−.5) − e Φ(−1.5).
    1.0
    """
    errors.in_unit_interval(delta=delta)

    def excess(epsilon: float) -> float:
        above, below = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return float(above + math.log1p(-math.exp(min(below - above, -1e-15)))) - math.log(delta)

    if mu <= 0 or excess(0.0) <= 0:
        return 0.0
    # δ is at most Φ(μ/2 − ε/μ), which is below the least δ at this ε.
    largest = mu * (mu / 2 - float(ndtri(delta / 2)))
    return float(brentq(excess, 0.0, largest, xtol=1e-12))


def one_run_p_value(*, canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    r"""Largest chance of so many right guesses, if a run of whatever kind is (ε, δ)-private.

    Each of m canaries was in the data by its own fair coin. With :math:`W \sim \mathrm{Bin}(r, e^\varepsilon /
    (1 + e^\varepsilon))`, r guesses of which v are right have a chance of at most

    .. math::
        \Pr(W \ge v) + 2 m \delta \max_{1 \le i \le v} \frac{\Pr(v - i \le W < v)}{i}.

    Parameters
    ----------
    canaries
        Number of coins, :math:`m`.
    guesses
        Canaries about which a guess was made, :math:`r`; a number fixed beforehand.
    right
        Right guesses, :math:`v`.

    References
    ----------
    Steinke, Nasr, Jagielski (2023), Privacy Auditing with One (1) Training Run, Theorem 5.2 and Appendix D.
    """
    if not 0 <= right <= guesses <= canaries:
        raise ValueError(f"right ≤ guesses ≤ canaries is needed, got {right}, {guesses}, {canaries}.")
    # As 1 / (1 + e^−ε), which does not overflow.
    accuracy = 1 / (1 + math.exp(-epsilon))
    # Pr(W ≥ k) for k = 1 … v, an incomplete beta function; Pr(W ≥ 0) is one.
    wanted = np.arange(1, right + 1)
    tails = np.append(1.0, betainc(wanted, guesses - wanted + 1, accuracy))
    between = tails[:-1] - tails[-1]
    slack = float((between / wanted[::-1]).max()) if right else 0.0
    return min(1.0, float(tails[-1]) + 2 * canaries * delta * slack)


def epsilon_from_guesses(*, canaries: int, guesses: int, right: int, delta: float, failure_probability: float) -> float:
    r"""Lower bound on ε at δ from guesses about the canaries of one run, by bisection of `one_run_p_value`.

    The chance grows with ε as long as :math:`2 m \delta \le 1`: its derivative in the accuracy is r times a mixture of
    binomial probabilities with weights :math:`1 - 2 m \delta / i` and :math:`2 m \delta / i`. With more canaries than
    that nothing is claimed.
    """
    errors.in_unit_interval(failure_probability=failure_probability)
    if 2 * canaries * delta > 1:
        return 0.0

    def excess(epsilon: float) -> float:
        chance = one_run_p_value(canaries=canaries, guesses=guesses, right=right, epsilon=epsilon, delta=delta)
        return chance - failure_probability

    # Never above the ε at which the guesses become likely enough.
    if excess(0.0) > 0:
        return 0.0
    low, high = 0.0, _LARGEST
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return low


def _log_ratio(upper: float, lower: float) -> float:
    """ln(upper / lower), where there is anything above."""
    if upper <= 0:
        return 0.0
    return _LARGEST if lower <= 0 else math.log(upper / lower)
