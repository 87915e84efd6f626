"""Coins per group and decision that close the gaps of a finished classifier, found from noisy counts alone."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from fairdp.config.certificate import CERTIFIABLE
from fairdp.config.parameters import check_parameters

# Public, so it costs no privacy: every cell is assumed to hold at least this many records.
_SMALLEST_CELL = 1.0
# Records that a sure flip must save to be worth it: far below one record, far above the solver's 1e-7.
_FLIP_COST = 1e-3
# The finest the solver allows: a gap may exceed its limit by this much on either side.
_TOLERANCE = 1e-10


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
    cells = {"positive": counts.sum(1), "true_positive": counts[:, 1], "false_positive": counts[:, 0]}
    rows = np.zeros((n_kinds, n_groups, 2 * n_groups + n_kinds))
    for index, kind in enumerate(kinds):
        shares = cells[kind] / cells[kind].sum(1, keepdims=True)
        for group in range(n_groups):
            rows[index, group, 2 * group : 2 * group + 2] = shares[group]
        rows[index, :, 2 * n_groups + index] = -1
    return rows.reshape(n_kinds * n_groups, -1)
