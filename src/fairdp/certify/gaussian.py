"""Bounds that hold for every population without any data, and what they cost."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from fairdp import _checks


def smoothed_probability(
    scores: NDArray[np.float64], embedding_norms: NDArray[np.float64], *, smoothing: float, bias: bool = True
) -> NDArray[np.float64]:
    r"""Chance of a positive decision when the head (w, b) is drawn anew for it with deviation s.

    .. math:: p(x) = \Phi\left( \frac{\langle w, \xi \rangle + b}{s \sqrt{\|\xi\|^2 + 1}} \right).

    Without a bias there is no 1 under the root, and where ξ is zero so is the score, whatever head is drawn: the
    decision is positive.
    """
    _checks.finite_positive(smoothing=smoothing)
    lengths = smoothing * np.sqrt(embedding_norms**2 + bias)
    return np.where(lengths > 0, ndtr(scores / np.where(lengths > 0, lengths, 1.0)), 1.0)


def input_agnostic_bound(head: NDArray[np.float64], *, smoothing: float, nonnegative: bool, bias: bool = True) -> float:
    r"""Bound on the difference of any two decisions' chances, hence on every gap of the smoothed predictor.

    With an embedding that cannot be negative, :math:`\xi' = (\xi, 1) \ge 0`,
    :math:`\Phi(\|w'_+\|/s) - \Phi(-\|w'_-\|/s)` with the positive and negative parts of :math:`w' = (w, b)`; in general
    :math:`\mathrm{erf}(\|w'\| / (s\sqrt2))`. Without a bias a record may be embedded to zero, which is always decided
    positive, so that the larger chance is one.

    Parameters
    ----------
    head
        The head with its bias, if it has one, as last coordinate, :math:`w'`.
    nonnegative
        Whether embeddings are non-negative, as after a ReLU.
    """
    _checks.finite_positive(smoothing=smoothing)
    if not nonnegative:
        reach = float(np.linalg.norm(head)) / smoothing
        return math.erf(reach / math.sqrt(2)) if bias else float(ndtr(reach))
    # Without an entry of one sign the cosine with a non-negative vector cannot reach zero: its ends are the entries'.
    top = float(np.linalg.norm(head.clip(min=0))) if (head > 0).any() else float(head.max())
    bottom = -float(np.linalg.norm(head.clip(max=0))) if (head < 0).any() else float(head.min())
    return float((ndtr(top / smoothing) if bias else 1.0) - ndtr(bottom / smoothing))


def smoothing_bound(distance: float, *, smoothing: float) -> float:
    r"""Most by which two smoothed classifiers can differ on any input, :math:`2 \Phi(\|\theta - \theta'\| / 2s) - 1`.

    It is the total variation of the two Gaussians around their parameters, hence valid for any decision in [0, 1]. It
    compares two models, not two groups.

    References
    ----------
    Jin, Zhang, Zhou, Wu (2022), in its tight form.

    >>> round(smoothing_bound(2.0, smoothing=1.0), 4)
    0.6827
    """
    return float(2 * ndtr(distance / (2 * smoothing)) - 1)


def dilution_for(tau: float, *, target: float) -> float:
    """Smallest dilution with which a certified gap meets a target: no new data, no new budget."""
    return 0.0 if tau <= target else 1 - target / tau


def utility_ceiling(minority_rate: float, *, tau: float) -> float:
    r"""Best accuracy of any predictor whose chances differ by at most τ over all inputs, :math:`1 - \pi + \pi\tau`.

    A right decision on both classes needs far-apart chances; the accuracy :math:`\pi(l + \tau) + (1 - \pi)(1 - l)` of
    chances between l and l + τ is linear in l and largest at l = 0.
    """
    _checks.in_unit_interval(minority_rate=minority_rate)
    return 1 - minority_rate + minority_rate * tau
