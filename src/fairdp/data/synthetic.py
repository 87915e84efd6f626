"""A synthetic population whose true rates are known exactly, in any size, with any number of groups."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, special

from fairdp import _checks
from fairdp._checks import DataError, ParameterError
from fairdp.data.grouped import GroupedData

N_TRAIN = 20_000
N_TEST = 10_000


@dataclass(frozen=True, kw_only=True)
class TrueRates:
    """What a linear rule does to each group of the population, each of shape (n_groups,).

    Parameters
    ----------
    selection
        Pr(ŷ = 1 | a).
    true_positive
        Pr(ŷ = 1 | a, y = 1).
    false_positive
        Pr(ŷ = 1 | a, y = 0).
    """

    selection: NDArray[np.float64]
    true_positive: NDArray[np.float64]
    false_positive: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SyntheticPopulation:
    r"""Groups that differ in their inputs only; the label depends on the inputs and on nothing else.

    .. math::
        a \sim \text{shares}, \qquad x \mid a \sim N(\mu_a, I_d), \qquad
        \Pr(y = 1 \mid x, a) = \Phi\big((\langle v, x \rangle - c) / s\big).

    Here :math:`v = e_1`, and :math:`\mu_a = \text{bias} \cdot t_a (e_1 + e_2) / \sqrt 2` with
    :math:`t_a` evenly spaced from 1/2 (first group) to −1/2 (last group): the first input carries the label
    and the group, the second the group only, the others neither.

    Parameters
    ----------
    n_groups, n_features
        K and d; at least two of either.
    bias
        Distance between the means of the first and the last group. With 0 the groups are alike.
    group_shares
        Pr(a), one for each group, summing to 1.
    threshold
        c: the larger, the rarer is the positive label.
    label_noise
        s: standard deviation of the noise in the label.
    """

    n_groups: int
    n_features: int
    bias: float
    group_shares: tuple[float, ...]
    threshold: float = 0.5
    label_noise: float = 0.5

    def __post_init__(self) -> None:
        _checks.positive_integer(n_groups=self.n_groups, n_features=self.n_features)
        _checks.finite_positive(label_noise=self.label_noise)
        for name in ("n_groups", "n_features"):
            if getattr(self, name) < 2:
                raise ParameterError(name, getattr(self, name), "must be at least 2")
        for name in ("bias", "threshold"):
            if not math.isfinite(getattr(self, name)):
                raise ParameterError(name, getattr(self, name), "must be finite")
        shares = self.group_shares
        if len(shares) != self.n_groups or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
            raise ParameterError("group_shares", shares, f"must be {self.n_groups} positive numbers with sum 1")

    @property
    def group_names(self) -> tuple[str, ...]:
        """``group 0``, ``group 1`` and so on."""
        return tuple(f"group {group}" for group in range(self.n_groups))

    @property
    def group_means(self) -> NDArray[np.float64]:
        r"""Mean of the inputs of each group, :math:`\mu_a`, shape (n_groups, n_features)."""
        means = np.zeros((self.n_groups, self.n_features))
        means[:, :2] = (self.bias * np.linspace(0.5, -0.5, self.n_groups) / math.sqrt(2))[:, None]
        return means

    def sample(self, n_samples: int, rng: np.random.Generator) -> GroupedData:
        """Independent records of the population."""
        groups = rng.choice(self.n_groups, size=n_samples, p=self.group_shares).astype(np.int64)
        x = rng.standard_normal((n_samples, self.n_features)) + self.group_means[groups]
        noise = self.label_noise * rng.standard_normal(n_samples)
        y = (x[:, 0] + noise > self.threshold).astype(np.int64)
        return GroupedData(x.astype(np.float32), y, groups, self.group_names)

    def positive_rate(self, group: int) -> float:
        r"""Share of positive labels in a group, :math:`\Phi((\mu_{a1} - c) / \sqrt{1 + s^2})`."""
        if not 0 <= group < self.n_groups:
            raise ParameterError("group", group, f"must be from 0 to {self.n_groups - 1}")
        return float(special.ndtr((self.group_means[group, 0] - self.threshold) / self._margin_std))

    def rates(self, w: NDArray[np.float64], b: float) -> TrueRates:
        r"""True rates of the rule :math:`\hat y = 1[\langle w, x \rangle + b \ge 0]`.

        Score and noisy label margin are bivariate normal in each group with correlation
        :math:`\rho = w_1 / (\|w\| \sqrt{1 + s^2})`.
        """
        w = np.asarray(w, dtype=np.float64)
        if w.shape != (self.n_features,):
            raise DataError(f"w must have shape ({self.n_features},), got {w.shape}.")
        norm = float(np.linalg.norm(w))
        if norm == 0:
            constant = np.full(self.n_groups, float(b >= 0))
            return TrueRates(selection=constant, true_positive=constant, false_positive=constant)
        score = (self.group_means @ w + b) / norm
        margin = (self.group_means[:, 0] - self.threshold) / self._margin_std
        correlation = float(w[0]) / (norm * self._margin_std)
        joint = np.array([both_below(h, k, correlation) for h, k in zip(score, margin, strict=True)])
        selected, positive = special.ndtr(score), special.ndtr(margin)
        return TrueRates(
            selection=selected,
            true_positive=joint / positive,
            false_positive=(selected - joint) / special.ndtr(-margin),
        )

    @property
    def _margin_std(self) -> float:
        return math.sqrt(1 + self.label_noise**2)


def synthetic_population(
    *,
    n_groups: int = 2,
    n_features: int = 10,
    bias: float = 1.0,
    group_shares: tuple[float, ...] | None = None,
    threshold: float = 0.5,
    label_noise: float = 0.5,
) -> SyntheticPopulation:
    """A population; by default the shares of K groups are in the proportion K : K − 1 : … : 1."""
    _checks.positive_integer(n_groups=n_groups)
    if group_shares is None:
        group_shares = tuple(2 * (n_groups - k) / (n_groups * (n_groups + 1)) for k in range(n_groups))
    return SyntheticPopulation(
        n_groups=n_groups,
        n_features=n_features,
        bias=bias,
        group_shares=group_shares,
        threshold=threshold,
        label_noise=label_noise,
    )


def both_below(h: float, k: float, correlation: float) -> float:
    r"""Pr(U ≤ h, V ≤ k) for standard normal U and V with this correlation.

    .. math::
        \Phi(h)\Phi(k) + \frac{1}{2\pi} \int_0^{\arcsin\rho}
        \exp\Big(-\frac{h^2 + k^2 - 2hk\sin t}{2\cos^2 t}\Big)\,dt.

    References
    ----------
    Plackett (1954), "A reduction formula for normal multivariate integrals", Biometrika 41.
    """

    def density(angle: float) -> float:
        exponent = (h * h + k * k - 2 * h * k * math.sin(angle)) / (2 * math.cos(angle) ** 2)
        return math.exp(-exponent) / (2 * math.pi)

    integral, _ = integrate.quad(density, 0, math.asin(correlation), epsabs=1e-13, epsrel=1e-12)
    return float(special.ndtr(h) * special.ndtr(k) + integral)
