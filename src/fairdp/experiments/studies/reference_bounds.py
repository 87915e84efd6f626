"""Simpler bounds on the difference of two rates, to compare the certificate with: two of them valid, Wald's not."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fairdp.certify.arms import NoisyArm
from fairdp.certify.concentration import box_upper, conv_upper
from fairdp.certify.noise import noise_quantile, noise_variance

Floats = NDArray[np.float64]

# Share of each event's failure probability that is spent on the noise of the counts, and on the unknown size.
_BOX_NOISE = 0.2
_CONV_SIZE = 0.1


def box_gap(first: NoisyArm, second: NoisyArm, *, event_failure: float) -> float:
    """Larger difference of an upper and a lower bound, with counts at the unfavourable end of their noise."""

    def upper(arm: NoisyArm) -> float:
        return box_upper(
            arm, noise_failure=_BOX_NOISE / 2 * event_failure, rate_failure=(1 - _BOX_NOISE) * event_failure
        )

    return max(upper(a) - (1 - upper(b.mirrored())) for a, b in ((first, second), (second, first)))


def conv_gap(first: NoisyArm, second: NoisyArm, *, event_failure: float) -> float:
    """The same from the law of the noisy number of positives, at the least and at the largest possible size."""
    size_failure, rate_failure = _CONV_SIZE * event_failure, (1 - _CONV_SIZE) * event_failure

    def difference(high: NoisyArm, low: NoisyArm) -> float:
        upper = conv_upper(high, size_failure=size_failure, rate_failure=rate_failure)
        return upper - conv_lower(low, size_failure=size_failure, rate_failure=rate_failure)

    return max(difference(first, second), difference(second, first))


def conv_lower(arm: NoisyArm, *, size_failure: float, rate_failure: float) -> float:
    r"""Smallest rate under which so many noisy positives are not too unlikely, at the largest possible size.

    .. math:: \inf\{ r : \Pr(\mathrm{Bin}(n^+, r) + X \ge \tilde A) \ge \beta \}.

    Mirroring the arm would be valid too, but it moves the size where that hurts most when rates are small.
    """
    reach = noise_quantile(arm.epsilon, 2 * arm.folds, size_failure)
    # Negatives under n⁺ are n⁺ − A~, with noise of the same law: an upper bound whose least size is n⁺.
    turned = NoisyArm(
        positive=arm.negative + reach, negative=arm.positive + reach, epsilon=arm.epsilon, folds=arm.folds
    )
    return 1 - conv_upper(turned, size_failure=size_failure, rate_failure=rate_failure)


def wald_slack(
    high: tuple[Floats, Floats], low: tuple[Floats, Floats], *, noise: float, failure_probability: float
) -> Floats:
    r"""Normal quantile times the estimated deviation of a difference of rates: no guarantee.

    .. math:: z_\alpha \sqrt{\sum_i p_i(1 - p_i)/n_i + v\,(p_i^2 + (1 - p_i)^2) / n_i^2}.

    Parameters
    ----------
    high, low
        Noisy counts of positive and negative decisions, each of shape (n_draws,).
    noise
        Variance of the noise in each count, v; 0 ignores it.
    """
    variance = _rate_variance(*high, noise) + _rate_variance(*low, noise)
    return -ndtri(failure_probability) * np.sqrt(variance)


def _rate_variance(positive: Floats, negative: Floats, noise: float) -> Floats:
    size = np.maximum(positive + negative, 1.0)
    rate = np.clip(positive / size, 0.0, 1.0)
    return rate * (1 - rate) / size + noise * (rate**2 + (1 - rate) ** 2) / size**2


def estimated_difference(high: tuple[Floats, Floats], low: tuple[Floats, Floats]) -> Floats:
    """Difference of the rates that noisy counts show."""
    rates = [positive / np.maximum(positive + negative, 1.0) for positive, negative in (high, low)]
    return rates[0] - rates[1]


def count_noise(epsilon: float, folds: int) -> float:
    """Variance of the noise in one count."""
    return folds * noise_variance(epsilon)
