"""The paper's utility theorem, number 4: steps that decay, and the excess risk they promise, as proved and printed."""

import math


def gradient_norm(*, clip_norm: float, noise_std: float, n_params: int, sampling: float = 0.0) -> float:
    r"""Root of the largest mean square of a noisy gradient, :math:`G = \sqrt{C^2 (1 + v) + r s^2}`.

    Parameters
    ----------
    noise_std
        Deviation of the noise on one coordinate of the released mean gradient, s.
    n_params
        Number of coordinates, r.
    sampling
        What Poisson samples with expected sizes add, :math:`v = \sum_k \alpha_k^2 (1 - q_k) / m_k`: a larger batch than
        expected has a longer mean.
    """
    return math.sqrt(clip_norm**2 * (1 + sampling) + n_params * noise_std**2)


def shamir_zhang_rate(step: int, *, diameter: float, gradient_norm: float) -> float:
    r"""Step size :math:`\eta_t = Q / (G \sqrt t)`, the first step being t = 1."""
    return diameter / (gradient_norm * math.sqrt(step))


def printed_rate(step: int, *, n_groups: int, noise_multiplier: float, clip_norm: float, n_params: int) -> float:
    r"""Step size as printed, :math:`\eta(t) = K / \sqrt{t (\beta^2 + K \sigma^2 C^2 r)}`, with β = C as advised.

    By its own proof it would be :math:`K Q / \sqrt{t (m^2 \beta^2 + K \sigma^2 C^2 r)}`: the diameter Q and
    :math:`m^2`, m being the number of records in a step, are lost in the O(·). And the proof has the noise of a sum of
    gradients, :math:`\sigma C`, where the update takes that of a mean, :math:`\sigma C / |B_k|`.
    """
    return n_groups / math.sqrt(step * clip_norm**2 * (1 + n_groups * noise_multiplier**2 * n_params))


def shamir_zhang_bound(
    n_steps: int, *, diameter: float, gradient_norm: float, first_rate: float | None = None
) -> float:
    r"""Bound on the expected excess risk of the last iterate, :math:`(Q^2 / c + c G^2) (2 + \ln T) / \sqrt T`.

    Shamir and Zhang (2013), Theorem 2: SGD with steps :math:`c / \sqrt t`, projected to a convex set of diameter Q, on
    a convex risk, along gradients that are right on average and of mean square :math:`G^2` at most; T is at least 2.

    Parameters
    ----------
    first_rate
        Step size of the first step, c; None: :math:`Q / G`, with which :math:`2 Q G (2 + \ln T) / \sqrt T` is least.
    """
    rate = shamir_zhang_rate(1, diameter=diameter, gradient_norm=gradient_norm) if first_rate is None else first_rate
    return (diameter**2 / rate + rate * gradient_norm**2) * (2 + math.log(n_steps)) / math.sqrt(n_steps)


def printed_bound(n_steps: int, *, n_groups: int, noise_multiplier: float, clip_norm: float, n_params: int) -> float:
    r"""The bound as printed, :math:`\sigma C \sqrt r \ln T / \sqrt{T K}`, with one for the constant of its O(·).

    Not a bound: Q and β are gone from it, and without noise it would be zero after any number of steps.
    """
    return noise_multiplier * clip_norm * math.sqrt(n_params / n_groups / n_steps) * math.log(n_steps)


def lipschitz_constant(row_norm: float) -> float:
    r"""Longest gradient of a record's logistic loss, :math:`\beta = \sqrt{R^2 + 1}`, for a linear head with a bias.

    It is :math:`(\hat p - y) (x, 1)`, and :math:`\|x\| \le R`. At the clip norm :math:`C = \beta` no gradient is cut.
    """
    return math.hypot(row_norm, 1.0)
