"""The functional mechanism: logistic regression from one noisy polynomial for each protected group."""

import hashlib
import itertools
import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fairdp import _checks
from fairdp.accounting.plan import Plan
from fairdp.data.grouped import GroupedData, bytes_of
from fairdp.networks.extractors import BoundedInputs
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators, RandBelow, discrete_laplace
from fairdp.releases import leave

# Products of features on the lattice and their sums, up to 2^29 records, are then exact in double precision.
FEATURE_STEP = 2.0**-12
COEFFICIENT_STEP = FEATURE_STEP**2 / 8


def fair_functional_head(
    data: GroupedData, *, epsilon: float, rand_below: RandBelow, n_active: int | None = None
) -> tuple[NDArray[np.float64], float]:
    r"""Weights and bias on :func:`bounded_inputs`: the mean of the groups' own private minimisers.

    Adding or removing a record changes the polynomial of its group only, so the whole release is
    :math:`\varepsilon`-private, with :math:`\delta = 0`. No group size is used.

    Parameters
    ----------
    data
        Records of K groups, inputs of shape (n_samples, n_features).
    epsilon
        Budget of each group, :math:`\varepsilon`; infinity means no noise.
    rand_below
        Source of the noise.
    n_active
        Public number of inputs that matter in one record, :math:`k`; see :func:`bounded_inputs`.

    References
    ----------
    Zhang, Zhang, Xiao, Yang, Winslett (2012), Functional Mechanism, PVLDB 5(11), for each group; the mean over groups
    as in Jin et al. (2022), ICML. Relative: Ding et al. (2020), AAAI.
    """
    scales = noise_scales(data.X.shape[1], epsilon=epsilon, n_active=n_active)
    minimisers = []
    for group in range(data.n_groups):
        members = data.take(np.flatnonzero(data.groups == group))
        parts = [members.take(slice(0, 0)), *members.batches()]
        exact = sum(coefficients(features_of(part.inputs, n_active=n_active), part.y) for part in parts)
        noisy = release(np.asarray(exact), scales=scales, rand_below=rand_below)
        minimisers.append(minimiser(noisy, scales=scales))
    return head_of(np.mean(minimisers, axis=0))


def bounded_inputs(X: NDArray[np.floating], *, n_active: int | None = None) -> NDArray[np.float64]:
    r"""Inputs that no record can make large, by a public map of each record alone.

    .. math::
        \hat x = x / \max(1, \|x\|_2, \|x\|_1 / \sqrt k),
        \qquad \text{hence} \quad \|\hat x\|_2 \le 1, \; \|\hat x\|_1 \le \sqrt k.

    Parameters
    ----------
    X
        Inputs, shape (n_samples, n_features). A row that is not finite becomes zero.
    n_active
        Public bound :math:`k`, for which the number of columns before one-hot coding is a good choice: a record with at
        most :math:`k` inputs other than zero is not touched by the last term. By default all inputs.
    """
    finite = np.isfinite(X).all(axis=1, keepdims=True)
    rows = np.where(finite, X, 0).astype(np.float64)
    by_sum = np.abs(rows).sum(axis=1) / math.sqrt(_active(X.shape[1], n_active))
    return rows / np.maximum(1, np.maximum(np.linalg.norm(rows, axis=1), by_sum))[:, None]


def features_of(X: NDArray[np.floating], *, n_active: int | None = None) -> NDArray[np.float64]:
    r"""Features :math:`v = (\hat x, 1) / \sqrt 2`, so that :math:`\|v\|_2 \le 1`, cut towards zero to a lattice.

    Shape (n_samples, n_features + 1). A row of ``X`` that is not finite becomes zero throughout and so adds nothing to
    the polynomial.
    """
    inputs = np.column_stack([bounded_inputs(X, n_active=n_active), np.isfinite(X).all(axis=1)])
    # The margin exceeds every rounding error of the bounds and of the noise scale, which therefore hold exactly.
    margin = 1 - 2.0**-30
    return np.trunc(inputs * (margin / math.sqrt(2) / FEATURE_STEP)) * FEATURE_STEP


def coefficients(V: NDArray[np.float64], y: NDArray[np.int64]) -> NDArray[np.float64]:
    r"""Coefficients of the summed logistic loss, to second order at zero, without its constant.

    .. math::
        \sum_i \ln(1 + e^{w \cdot v_i}) - y_i \, w \cdot v_i \approx n \ln 2 + a_1 \cdot w + w^\top A_2 w, \qquad
        a_1 = \sum_i (\tfrac12 - y_i) v_i, \quad A_2 = \tfrac18 \sum_i v_i v_i^\top.

    Parameters
    ----------
    V
        Features of :func:`features_of`, shape (n_samples, d).
    y
        Labels, 0 or 1, shape (n_samples,).

    Returns
    -------
    :math:`a_1`, then the upper triangle of :math:`A_2` with its diagonal by rows, shape (d (d + 3) / 2,). The lower
    triangle is a copy: to release it too would need more noise.

    References
    ----------
    Zhang et al. (2012), section 5.
    """
    linear, quadratic = (0.5 - y) @ V, V.T @ V / 8
    return np.concatenate([linear, quadratic[np.triu_indices(V.shape[1])]])


class PartScales(NamedTuple):
    """One number for the linear and one for the quadratic part of the polynomial."""

    linear: float
    quadratic: float


def l1_sensitivities(n_features: int, *, n_active: int | None = None) -> PartScales:
    r"""Most that adding or removing one record changes each part of :func:`coefficients`, in L1 norm.

    .. math::
        \Delta_1 = \tfrac12 \|v\|_1 \le \tfrac{s}{2}, \qquad
        \Delta_2 = \tfrac18 \sum_{i \le j} |v_i v_j| = \tfrac{1}{16} (\|v\|_1^2 + \|v\|_2^2) \le \tfrac{s^2 + 1}{16},
        \qquad s = (\sqrt k + 1) / \sqrt 2.

    Both are attained, up to the lattice, by a record with :math:`k` inputs of :math:`1 / \sqrt k`. The published bound
    grows like :math:`d^2 / 4`: it does not use that :math:`\|v\|_2 \le 1`.
    """
    largest_sum = (math.sqrt(_active(n_features, n_active)) + 1) / math.sqrt(2)
    return PartScales(largest_sum / 2, (largest_sum**2 + 1) / 16)


def noise_scales(n_features: int, *, epsilon: float, n_active: int | None = None) -> PartScales:
    r"""Scales :math:`2 \Delta_1 / \varepsilon` and :math:`2 \Delta_2 / \varepsilon`: half of the budget for each part.

    No other split could more than halve either of them; one scale for both, as in the paper, spends most of the budget
    on the linear part.
    """
    _checks.positive(epsilon=epsilon)
    sensitivities = l1_sensitivities(n_features, n_active=n_active)
    return PartScales(*(2 * sensitivity / epsilon for sensitivity in sensitivities))


def release(coefs: NDArray[np.float64], *, scales: PartScales, rand_below: RandBelow) -> NDArray[np.float64]:
    r"""Coefficients with Laplace noise on their lattice, sampled exactly.

    The noise of a coefficient is :math:`h X` with the step :math:`h` of the lattice and
    :math:`\Pr(X = x) \propto e^{-h |x| / b}` for its scale :math:`b`. The coefficients are multiples of :math:`h`
    already, so rounding adds nothing to their sensitivity. A scale of zero means no noise.
    """
    d = _dimension(coefs)
    noisy = np.concatenate(
        [
            _with_laplace(coefs[:d], scales.linear, rand_below),
            _with_laplace(coefs[d:], scales.quadratic, rand_below),
        ]
    )
    each = np.repeat(scales, [d, len(coefs) - d])
    return leave(noisy, purpose="polynomial", law="laplace", scale=each, exact=coefs)


def minimiser(noisy: NDArray[np.float64], *, scales: PartScales) -> NDArray[np.float64]:
    r"""Minimiser of the released polynomial, made convex, in the coordinates of :func:`features_of`.

    .. math::
        w = -\tfrac12 (\Pi(\tilde A_2) + \lambda I)^{-1} \tilde a_1, \qquad \lambda = 5 \sqrt2 \, b_2,

    where :math:`\Pi` sets negative eigenvalues to zero, because the true :math:`A_2` has none. The ridge is five
    standard deviations of the noise. The paper drops directions whose eigenvalue is negative after the ridge and keeps
    those just above zero, whose weights are then huge; with :math:`\Pi` before the ridge there are none. Directions
    without any curvature, possible only without noise, get weight zero. Only the release and public numbers are used.

    References
    ----------
    Zhang et al. (2012), section 6, with the ridge of their published program.
    """
    d = _dimension(noisy)
    upper = np.zeros((d, d))
    upper[np.triu_indices(d)] = noisy[d:]
    eigenvalues, directions = np.linalg.eigh(upper + np.triu(upper, 1).T)
    curvatures = np.maximum(eigenvalues, 0) + 5 * math.sqrt(2) * scales.quadratic
    kept = curvatures > 1e-10 * curvatures.max()
    return -0.5 * directions[:, kept] @ (noisy[:d] @ directions[:, kept] / curvatures[kept])


def head_of(w: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    r"""Weights and bias on :math:`\hat x`, because :math:`w \cdot v = (w / \sqrt 2) \cdot (\hat x, 1)`."""
    head = w / math.sqrt(2)
    return head[:-1], float(head[-1])


def _active(n_features: int, n_active: int | None) -> int:
    if n_active is None:
        return n_features
    _checks.positive_integer(n_active=n_active)
    return min(n_active, n_features)


def _dimension(coefs: NDArray[np.float64]) -> int:
    """The d of d (d + 3) / 2 coefficients."""
    return (math.isqrt(9 + 8 * len(coefs)) - 3) // 2


def _with_laplace(values: NDArray[np.float64], scale: float, rand_below: RandBelow) -> NDArray[np.float64]:
    if scale == 0:
        return values
    rate = COEFFICIENT_STEP / scale
    noisy = [round(value / COEFFICIENT_STEP) + discrete_laplace(rate, rand_below) for value in values.tolist()]
    return COEFFICIENT_STEP * np.array(noisy, dtype=np.float64)


def solve(model: ScoreModel, data: GroupedData, plan: Plan, generators: Generators) -> None:
    """Give the model the head of the functional mechanism: one release and a closed form, in place of steps."""
    # From what is accounted, so that no other noise can be added; and other records meet other noise.
    multiplier = plan.mechanisms[0].noise_multiplier
    epsilon = 1 / multiplier if multiplier else math.inf
    digest = hashlib.sha256()
    for content in itertools.chain.from_iterable(map(bytes_of, (data.X, data.y, data.groups))):
        digest.update(content)
    weights, bias = fair_functional_head(
        data,
        epsilon=epsilon,
        rand_below=generators.below(f"functional mechanism on {digest.hexdigest()} at {epsilon}"),
        n_active=next(layer.n_active for layer in model.extractor.modules() if isinstance(layer, BoundedInputs)),
    )
    model.replace_params(torch.from_numpy(np.append(weights, bias)).float())
