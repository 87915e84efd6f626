"""What an epsilon means to an attacker: how well anyone can tell whether one record was used, at the most."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp import _checks
from fairdp.accounting.mechanisms import LaplaceRelease, Mechanism, SampledGaussian, grid_width, privacy_loss
from fairdp.accounting.reading import Reading, reading_loss
from fairdp.accounting.selection import Selection

Floats = NDArray[np.float64]

# False-positive rates at which the best true-positive rate is stated.
FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)

# Points of the curve of (ε, δ) that are used, and the δ where it ends; leaving any out only loosens the bound.
_N_POINTS = 1500
_LAST_DELTA = 1e-10
# Room for rounding in sums of the privacy loss, added to every δ.
_ROUNDING = 1e-9
# Of the grid of privacy losses without steps.
_WIDTH = 1e-4


@dataclass(frozen=True, eq=False)
class PrivacyCurve:
    """Pairs (ε, δ), from ε = 0 on, that all hold of one mechanism, for a record that is added and for one removed."""

    epsilons: Floats
    deltas: Floats

    @property
    def advantage(self) -> float:
        """Bound on the true-positive rate minus the false-positive rate of any attack: δ at ε = 0."""
        return float(self.deltas[0])

    def true_positive_rates(self, false_positive_rates: Floats) -> Floats:
        r"""Bound on the true-positive rate of any attack at each false-positive rate, :math:`1 - f(\alpha)`.

        .. math::
            f(\alpha) = \sup_{\varepsilon} \max\{0,\; 1 - \delta(\varepsilon) - e^{\varepsilon} \alpha,\;
            e^{-\varepsilon} (1 - \delta(\varepsilon) - \alpha)\}.

        References
        ----------
        Dong, Roth, Su (2022), Gaussian differential privacy, Proposition 2.5; Wasserman, Zhou (2010).
        """
        rates = np.asarray(false_positive_rates, dtype=np.float64)[:, None]
        kept = 1 - self.deltas
        misses = np.maximum(kept - np.exp(self.epsilons) * rates, np.exp(-self.epsilons) * (kept - rates))
        found: Floats = 1 - np.clip(misses.max(axis=1), 0, 1)
        return found


def pure_curve(epsilon: float, reading: Reading | None = None) -> PrivacyCurve:
    """The curve of everything that is ε-differentially private with δ = 0: randomised response is the worst.

    The columns of the table may have been read before it.
    """
    _checks.finite_positive(epsilon=epsilon)
    if reading is not None:
        return _curve_of_loss(reading_loss(reading, _WIDTH).compose(_pure_loss(epsilon, _WIDTH)))
    return PrivacyCurve(np.array([0.0, epsilon]), np.array([math.tanh(epsilon / 2), 0.0]))


def curve_of(mechanism: Mechanism) -> PrivacyCurve | None:
    """The curve of a recorded mechanism; None without noise, when nothing is protected."""
    if mechanism.noise_multiplier == 0:
        return None
    if isinstance(mechanism, LaplaceRelease):
        return pure_curve(1 / mechanism.noise_multiplier + mechanism.counts_epsilon, mechanism.reading)
    return _sampled_gaussian_curve(mechanism)


def selected_curve(selection: Selection, group: str) -> PrivacyCurve:
    """The curve of a choice between trials, for a record of a group, from its Rényi divergences."""
    least = _LAST_DELTA if selection.reading is None else 2 * selection.reading.delta
    deltas = np.logspace(-2, math.log10(least), 60)
    epsilons = np.array([selection.epsilon(group, float(delta)) for delta in deltas])
    # From any pair to ε = 0 (Kairouz, Oh, Viswanath, 2015, Remark A.1).
    advantages = (np.expm1(epsilons) + 2 * deltas) / (np.exp(epsilons) + 1)
    return PrivacyCurve(np.append(0.0, epsilons), np.append(advantages.min(), deltas))


def worst_of(curves: Iterable[PrivacyCurve], false_positive_rates: Floats) -> Floats:
    """The largest bound over several mechanisms, at each false-positive rate."""
    largest: Floats = np.max([curve.true_positive_rates(false_positive_rates) for curve in curves], axis=0)
    return largest


@lru_cache(maxsize=64)
def _sampled_gaussian_curve(mechanism: SampledGaussian) -> PrivacyCurve:
    """PLD as in accounting, which adds the pure ε of noisy counts; here they enter as the worst mechanism of that ε."""
    loss = privacy_loss(mechanism)
    if mechanism.counts_epsilon:
        loss = loss.compose(_pure_loss(mechanism.counts_epsilon, grid_width(mechanism.noise_multiplier)))
    return _curve_of_loss(loss)


def _pure_loss(epsilon: float, width: float) -> Any:
    # Imported on use: the package takes a second to load.
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, 0.0), width)


def _curve_of_loss(loss: Any) -> PrivacyCurve:
    # A mass at infinity, as of what passes a threshold, no ε gets below.
    last = float(loss.get_epsilon_for_delta(_LAST_DELTA + loss.get_delta_for_epsilon(math.inf)))
    epsilons = np.linspace(0.0, last if math.isfinite(last) else 1.0, _N_POINTS)
    deltas = np.asarray(loss.get_delta_for_epsilon(epsilons), dtype=np.float64)
    return PrivacyCurve(epsilons, np.clip(deltas + _ROUNDING, 0, 1))
