"""Methods that are not one run of steps: a closed form, a model for each group, and flips of decisions afterwards.

The functional mechanism (`solve`) makes a logistic regression from one noisy polynomial for each group;
`train_group_models` trains each group alone and averages; `fair_flips` changes decisions by group from noisy counts.
"""

import hashlib
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from fairdp import errors
from fairdp.accounting.plan import Plan
from fairdp.certify.outlook import smoothing_bound
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData, bytes_of
from fairdp.metrics import cells_of
from fairdp.networks.model import BoundedInputs, ScoreModel
from fairdp.parameters import CERTIFIABLE, check_parameters
from fairdp.randomness import Generators, RandBelow, discrete_laplace
from fairdp.releases import release
from fairdp.training.loop import FlatOptimizer, TrainingState, steps

# Products of features on the lattice and their sums, up to 2^29 records, are then exact in double precision.
FEATURE_STEP = 2.0**-12
COEFFICIENT_STEP = FEATURE_STEP**2 / 8
# Public, so it costs no privacy: every cell is assumed to hold at least this many records.
_SMALLEST_CELL = 1.0
# Records that a sure flip must save to be worth it: far below one record, far above the solver's 1e-7.
_FLIP_COST = 1e-3
# The finest the solver allows: a gap may exceed its limit by this much on either side.
_TOLERANCE = 1e-10


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
        noisy = noisy_coefficients(np.asarray(exact), scales=scales, rand_below=rand_below)
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
    errors.positive(epsilon=epsilon)
    sensitivities = l1_sensitivities(n_features, n_active=n_active)
    return PartScales(*(2 * sensitivity / epsilon for sensitivity in sensitivities))


def noisy_coefficients(coefs: NDArray[np.float64], *, scales: PartScales, rand_below: RandBelow) -> NDArray[np.float64]:
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
    return release(noisy, purpose="polynomial", law="laplace", scale=each, exact=coefs)


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
    errors.positive_integer(n_active=n_active)
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


def train_group_models(
    state: TrainingState, data: GroupedData, plan: Plan, config: TrainConfig, observe: Callable[[TrainingState], None]
) -> tuple[float, ...]:
    """Train the model once on each group, from the same start, and set it to the average of the parameters.

    Returns how far the average is from the parameters of each group, ‖θ − θ_k‖.
    """
    start, finished = state.model.params.clone(), []
    for group in range(data.n_groups):
        members = data.take(np.flatnonzero(data.groups == group))
        alone = replace(
            members, groups=np.zeros_like(members.groups), group_names=members.group_names[group : group + 1]
        )
        state.model.replace_params(start.clone())
        state.optimizer, state.step = FlatOptimizer(state.optimizer.kind, config.momentum), 0
        for _ in steps(state, alone, _plan_of(plan, group), config):
            observe(state)
        finished.append(state.model.params.clone())
    average = torch.stack(finished).mean(0)
    state.model.replace_params(average)
    return tuple(float((average - params).norm()) for params in finished)


def _plan_of(plan: Plan, group: int) -> Plan:
    """The plan of one group's own model."""
    one = slice(group, group + 1)
    recipe = replace(
        plan.recipe,
        group_sizes=plan.recipe.group_sizes[one],
        sample_rates=plan.recipe.sample_rates[one],
        group_weights=(1.0,),
    )
    return replace(plan, recipe=recipe, mechanisms=plan.mechanisms[one])


def smoothing_notes(distances: tuple[float, ...], plan: Plan) -> dict[str, list[float]]:
    """FairSmooth's own bound, for each group and any input.

    It is the most by which the expectation of the averaged model, over all noise on its parameters, can be from that of
    the group's model: no bound on a gap between groups, nor on the deployed decision, which is made from a fixed number
    of draws.
    """
    bounds = [smoothing_bound(distance, smoothing=plan.recipe.parameter_noise) for distance in distances]
    return {"overall_against_group_classifier": bounds}


def fair_flips(
    noisy_counts: ArrayLike, *, parity: str, max_gap: float, min_ratio: float = 0.0, positive_rate: float | None = None
) -> NDArray[np.float64]:
    r"""Probability of a positive final decision for each group and base decision, shape (n_groups, 2).

    With :math:`\tilde c_{gyd}` the noisy records of group g, label y and base decision d, raised to at least one, the
    chances :math:`p_{gd}` solve the linear programme

    .. math::
        \min_{p, l} \sum_{g,d} \tilde c_{g0d}\, p_{gd} + \tilde c_{g1d} (1 - p_{gd})
        \quad\text{with}\quad l_r \le \tilde r_g(p) \le l_r + \gamma,
        \qquad \tilde r_g(p) = \sum_d \tilde w_{gd}\, p_{gd},

    for every group and every rate r of the parity, where :math:`\tilde w_{gd}` is the share of decision d among the
    records of the group (demographic parity), of its label 1 (equal opportunity), or of either label (equalised odds).
    One :math:`l_r` for all groups keeps every pair of rates within γ. The chances read nothing but the noisy counts,
    so they are as private as those: one record is in one cell, and Laplace noise of scale 1/ε makes both ε-private.

    The gap γ is that of the estimated rates. Jagielski et al. relax it by
    :math:`4 \ln(8/\beta) / (\min \tilde q\, m \varepsilon)`, so that the best fair rule stays feasible; we do not,
    because the promise is the certificate of the deployed rule, measured afterwards on other records. Using the rule
    takes the group of each person at decision time.

    Among equally good chances those nearest to the base decision are preferred, at a price of at most
    :math:`10^{-3}` records for each chance. A decision that is wrong more often than right is flipped even for γ = 1.

    Parameters
    ----------
    noisy_counts
        Records per (group, label, decision) with their noise, :math:`\tilde c`, shape (n_groups, 2, 2).
    parity
        ``"demographic_parity"``, ``"equal_opportunity"`` or ``"equalized_odds"``.
    max_gap
        Largest gap between the estimated rates of two groups, :math:`\gamma`, from 0 to 1.
    min_ratio
        Smallest over largest estimated rate, at least.
    positive_rate
        Estimated share of positive decisions; None leaves it free.

    References
    ----------
    Hardt, Price, Srebro (2016), Equality of Opportunity in Supervised Learning, "Deriving from a binary
    predictor" (exact counts); Jagielski et al. (2019), Differentially Private Fair Learning, DP-postprocessing (noisy
    counts of two groups).
    """
    check_parameters(parity=parity, max_gap=max_gap, min_ratio=min_ratio, positive_rate=positive_rate)
    counts = _checked(noisy_counts)
    flip_costs = counts[:, 0] - counts[:, 1] + [_FLIP_COST, -_FLIP_COST]
    above = _rates_above_lowest(counts, CERTIFIABLE[parity].rates)
    n_rows, n_variables = above.shape
    n_lowest = n_variables - flip_costs.size
    # r times a rate is not above the lowest one.
    in_ratio = above * np.repeat([min_ratio, 1.0], [flip_costs.size, n_lowest])
    overall = np.append(counts.sum(1).ravel() / counts.sum(), np.zeros(n_lowest))
    # Always feasible: the same chance c for everybody makes every rate c, as the shares of a group sum to one.
    solution = linprog(
        np.append(flip_costs.ravel(), np.zeros(n_lowest)),
        A_ub=np.concatenate([above, -above, in_ratio]),
        b_ub=np.repeat([max_gap, 0.0, 0.0], n_rows),
        A_eq=None if positive_rate is None else overall[None],
        b_eq=None if positive_rate is None else [positive_rate],
        bounds=(0, 1),
        method="highs",
        options={"primal_feasibility_tolerance": _TOLERANCE},
    )
    if solution.x is None or not solution.success:
        raise RuntimeError(f"the linear program for {parity} was not solved: {solution.message}")
    return np.clip(solution.x[: flip_costs.size], 0, 1).reshape(-1, 2)


def _checked(noisy_counts: ArrayLike) -> NDArray[np.float64]:
    """The counts, with every cell raised to the public floor."""
    counts = np.asarray(noisy_counts, dtype=np.float64)
    if counts.ndim != 3 or counts.shape[1:] != (2, 2) or not len(counts):
        raise ValueError(f"noisy_counts must have shape (n_groups, 2, 2), got {counts.shape}.")
    if not np.isfinite(counts).all():
        raise ValueError("noisy_counts must be finite, got NaN or infinity.")
    return np.maximum(counts, _SMALLEST_CELL)


def _rates_above_lowest(counts: NDArray[np.float64], kinds: tuple[str, ...]) -> NDArray[np.float64]:
    """Rows that give each group's rate minus the lowest one, from the chances followed by the lowest of each kind."""
    n_groups, n_kinds = len(counts), len(kinds)
    rows = np.zeros((n_kinds, n_groups, 2 * n_groups + n_kinds))
    for index, kind in enumerate(kinds):
        cells = cells_of(counts, kind)
        shares = cells / cells.sum(1, keepdims=True)
        for group in range(n_groups):
            rows[index, group, 2 * group : 2 * group + 2] = shares[group]
        rows[index, :, 2 * n_groups + index] = -1
    return rows.reshape(n_kinds * n_groups, -1)
