"""Simple bounds on one rate: the references that the pair construction is measured against."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaincinv
from scipy.stats import binom

from fairdp import _checks
from fairdp.certify.arms import NoisyArm
from fairdp.certify.noise import laplace_sum, noise_quantile


def hoeffding_radius(n_samples: int, *, failure_probability: float) -> float:
    r"""How far a mean of values in [0, 1] may lie below its expectation, :math:`\sqrt{\ln(1/\beta) / (2n)}`.

    References
    ----------
    Hoeffding (1963), Theorem 2.
    """
    _checks.in_unit_interval(failure_probability=failure_probability)
    return math.inf if n_samples <= 0 else math.sqrt(math.log(1 / failure_probability) / (2 * n_samples))


def clopper_pearson_upper(successes: int, failures: int, *, failure_probability: float) -> float:
    r"""Upper bound on a rate from exact counts, :math:`\mathrm{BetaInv}(1 - \beta;\, A + 1, B)`; one without failures.

    References
    ----------
    Clopper and Pearson (1934).
    """
    _checks.in_unit_interval(failure_probability=failure_probability)
    if failures <= 0:
        return 1.0
    return float(betaincinv(max(successes, 0) + 1, failures, 1 - failure_probability))


def box_upper(arm: NoisyArm, *, noise_failure: float, rate_failure: float) -> float:
    """Clopper–Pearson with both counts moved to the unfavourable end of their noise.

    Wrong with at most twice ``noise_failure`` plus ``rate_failure``.
    """
    reach = noise_quantile(arm.epsilon, arm.folds, noise_failure)
    return clopper_pearson_upper(arm.positive + reach, arm.negative - reach, failure_probability=rate_failure)


def conv_upper(arm: NoisyArm, *, size_failure: float, rate_failure: float) -> float:
    r"""Largest rate under which so few noisy positives are not too unlikely, at the least size that is possible.

    .. math:: \sup\{ r : \Pr(\mathrm{Bin}(n^-, r) + X \le \tilde A) \ge \beta \}.

    Without any possible size above zero nothing is known: the bound is one. Raising such a size to one instead, as a
    shortcut, is wrong for an empty cell.
    """
    least = arm.total - noise_quantile(arm.epsilon, 2 * arm.folds, size_failure)
    if least <= 0:
        return 1.0
    return _largest_plausible(least, arm, rate_failure)


def _largest_plausible(size: int, arm: NoisyArm, failure_probability: float) -> float:
    law = laplace_sum(arm.epsilon, arm.folds)
    positives = np.arange(size + 1)
    chances = law.at_most(arm.positive - positives)

    def excess(rate: float) -> float:
        return _mean(chances, size, rate) - failure_probability

    if excess(1.0) >= 0:
        return 1.0
    return 0.0 if excess(0.0) < 0 else float(brentq(excess, 0.0, 1.0, xtol=1e-10))


def _mean(values: NDArray[np.float64], size: int, rate: float) -> float:
    return float(values @ binom.pmf(np.arange(size + 1), size, rate))
