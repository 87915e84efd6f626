"""The paper's own certificates, kept as diagnostics: none of them bounds the gap of the model that is deployed.

They speak of an expectation over the noise of the last training step, or of the training records. A model whose every
realisation accepts one group only has an expected gap of zero under such a statement.
"""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from fairdp import _checks
from fairdp.certify.concentration import hoeffding_radius


def head_noise(
    *, noise_multiplier: float, clip_norm: float, learning_rate: float, expected_batch_sizes: Sequence[float]
) -> float:
    r"""Deviation of the head after one averaged step, :math:`\sigma_0 = (\eta\sigma C / K) \sqrt{\sum_k m_k^{-2}}`."""
    n_groups = len(expected_batch_sizes)
    spread = math.sqrt(sum(size**-2 for size in expected_batch_sizes))
    return learning_rate * noise_multiplier * clip_norm / n_groups * spread


def theorem_2_printed(
    *, weight_bound: float, clip_norm: float, learning_rate: float, n_groups: int, head_noise: float
) -> float:
    r"""The worst-case bound as printed, :math:`\mathrm{erf}((MK + \eta C) / (K \sigma_0 \sqrt2))`.

    Its step C/K should be C: averaging K mean gradients of norm C gives C. Not a bound, not even in expectation.
    """
    reach = (weight_bound * n_groups + learning_rate * clip_norm) / n_groups
    return _erf(reach, head_noise)


def theorem_2_corrected(*, weight_bound: float, clip_norm: float, learning_rate: float, head_noise: float) -> float:
    r"""The same with the arithmetic mended, :math:`\mathrm{erf}((M + \eta C) / (\sigma_0 \sqrt2))`.

    True in expectation over the noise of the last step, and one for any useful model: at the paper's settings its
    argument is about ten thousand.
    """
    return _erf(weight_bound + learning_rate * clip_norm, head_noise)


def _erf(reach: float, deviation: float) -> float:
    _checks.finite_positive(head_noise=deviation)
    return math.erf(reach / (deviation * math.sqrt(2)))


def monte_carlo_error_printed(cell_sizes: Sequence[int], *, n_members: int) -> float:
    r"""The printed error of N heads, :math:`\sum 1 / (2 n \sqrt N)` over the cells of a metric.

    For independent people the printed variances add up to :math:`1 / (2\sqrt{nN})`. But all people share the same
    heads, so averaging over people does not reduce it: see `monte_carlo_error`.
    """
    return sum(1 / (2 * size * math.sqrt(n_members)) for size in cell_sizes)


def monte_carlo_error(*, n_members: int) -> float:
    r"""Largest deviation of a rate over N random heads, :math:`1 / (2\sqrt N)`, however many people are averaged."""
    return 1 / (2 * math.sqrt(n_members))


def monte_carlo_error_measured(rates: Sequence[float]) -> float:
    r"""Standard error of the mean of one rate over N heads, :math:`s / \sqrt N`, by its own spread s; NaN for one head.

    Never more than `monte_carlo_error`, up to :math:`\sqrt{N / (N - 1)}`; heads that decide alike have none.
    """
    return statistics.stdev(rates) / math.sqrt(len(rates)) if len(rates) > 1 else math.nan


def range_of_chances(head_norm: float, *, head_noise: float) -> tuple[float, float]:
    r"""The lowest and highest chance of a positive decision, :math:`P_{lb}` and :math:`P_{ub}`, of any input at all.

    .. math:: \frac12 \mp \frac12 \mathrm{erf}(\|w - \eta\mu\| / (\sqrt2 \sigma_0)).

    Over the noise of the last step: the model that was drawn decides every input with chance zero or one.
    """
    reach = _erf(head_norm, head_noise)
    return (1 - reach) / 2, (1 + reach) / 2


def proposition_3(
    rates: Sequence[float], *, sizes: Sequence[int], confidence: float = 0.95, monte_carlo: float = 0.0
) -> float:
    r"""The empirical certificate as printed.

    .. math::
        \tau_{emp} = \max_{u,v} [\hat E_u + r_u - (\hat E_v - r_v)] + O(N^{-1/2}), \qquad
        r_k = \sqrt{\frac{\ln(2 / (1 - \alpha))}{2 n_k}},

    with the two-sided interval of Hoeffding at confidence α, and u = v allowed. It speaks of the expected rates under
    the noise of the last step, not of the rates of the model that was drawn, and does not hold even for those with
    confidence α: the inequality needs records that the model was not trained on, and each radius is for one group.

    Parameters
    ----------
    rates
        Mean over each group's training records, or those of one label, of the chance of a positive decision over the
        noise of the head: :math:`\Phi(\langle w, \xi \rangle / (\|\xi\| \sigma_0))`, see `head_noise`.
    sizes
        Number of these records.
    monte_carlo
        The last term, which the paper takes from `monte_carlo_error_printed`.
    """
    _checks.in_unit_interval(confidence=confidence)
    radii = [hoeffding_radius(size, failure_probability=(1 - confidence) / 2) for size in sizes]
    intervals = [(rate - radius, rate + radius) for rate, radius in zip(rates, radii, strict=True)]
    return max(high for _, high in intervals) - min(low for low, _ in intervals) + monte_carlo


def remark_2_scale_printed(*, epsilon: float) -> float:
    """Scale of the Laplace noise under which the paper would publish a rate, 1/ε'."""
    _checks.finite_positive(epsilon=epsilon)
    return 1 / epsilon


def remark_2_scale_needed(size: int, *, epsilon: float, rates_per_record: int = 2) -> float:
    r"""Scale that the rate of n records needs for the rates of all metrics to cost ε' together, :math:`2 / (n ε')`.

    At released heads a record moves only the rates that it is in, each by at most 1/n, n being public. For all metrics
    that is the rate of its group and that of its group and label, each at half of ε'; for a single metric it is one.
    """
    _checks.finite_positive(epsilon=epsilon, size=size)
    return rates_per_record / (size * epsilon)


def remark_2_release(rates: Sequence[float], *, scales: Sequence[float], rng: np.random.Generator) -> list[float]:
    r"""The rates of `proposition_3` with Laplace noise, as Remark 2 would publish them.

    At the printed scale and the paper's ε' = 0.1 its deviation is :math:`\sqrt2 / \varepsilon' = 14`, on numbers
    between zero and one. Nor is ε' what that costs: the paper's rates use the head before the noise of the last step,
    so one record moves those of all groups, and K of them cost Kε'. Drawn in floating point, to be looked at: noisy
    counts of records kept from training are what fairdp releases.
    """
    return [float(rate + rng.laplace(scale=scale)) for rate, scale in zip(rates, scales, strict=True)]
