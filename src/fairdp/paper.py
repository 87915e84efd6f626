"""The paper's own certificates, kept as diagnostics: none of them bounds the gap of the model that is deployed.

They speak of an expectation over the noise of the last training step, or of the training records. A model whose every
realisation accepts one group only has an expected gap of zero under such a statement.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairdp import errors
from fairdp.accounting.plan import Plan, Recipe
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.bounds import hoeffding_radius
from fairdp.config import TrainConfig, in_order
from fairdp.defaults import TRAINING_PARAMETERS, train_config
from fairdp.errors import ParameterError
from fairdp.methods import METHODS


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
    errors.finite_positive(head_noise=deviation)
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
    errors.in_unit_interval(confidence=confidence)
    radii = [hoeffding_radius(size, failure_probability=(1 - confidence) / 2) for size in sizes]
    intervals = [(rate - radius, rate + radius) for rate, radius in zip(rates, radii, strict=True)]
    return max(high for _, high in intervals) - min(low for low, _ in intervals) + monte_carlo


def remark_2_scale_printed(*, epsilon: float) -> float:
    """Scale of the Laplace noise under which the paper would publish a rate, 1/ε'."""
    errors.finite_positive(epsilon=epsilon)
    return 1 / epsilon


def remark_2_scale_needed(size: int, *, epsilon: float, rates_per_record: int = 2) -> float:
    r"""Scale that the rate of n records needs for the rates of all metrics to cost ε' together, :math:`2 / (n ε')`.

    At released heads a record moves only the rates that it is in, each by at most 1/n, n being public. For all metrics
    that is the rate of its group and that of its group and label, each at half of ε'; for a single metric it is one.
    """
    errors.finite_positive(epsilon=epsilon, size=size)
    return rates_per_record / (size * epsilon)


def remark_2_release(rates: Sequence[float], *, scales: Sequence[float], rng: np.random.Generator) -> list[float]:
    r"""The rates of `proposition_3` with Laplace noise, as Remark 2 would publish them.

    At the printed scale and the paper's ε' = 0.1 its deviation is :math:`\sqrt2 / \varepsilon' = 14`, on numbers
    between zero and one. Nor is ε' what that costs: the paper's rates use the head before the noise of the last step,
    so one record moves those of all groups, and K of them cost Kε'. Drawn in floating point, to be looked at: noisy
    counts of records kept from training are what fairdp releases.
    """
    return [float(rate + rng.laplace(scale=scale)) for rate, scale in zip(rates, scales, strict=True)]


@dataclass(frozen=True, kw_only=True)
class LastStep:
    r"""Step size, noise and bounds of the step that made the deployed head.

    Parameters
    ----------
    learning_rate
        Step size η of that step: with N > 1 heads that of DP-MC, else the schedule's last.
    noise_std
        Deviation s of the noise on the averaged gradient, so that :math:`\sigma_0 = \eta s`.
    clip_norm, weight_bound
        C and M; M is infinite where the method does not bound the head.
    optimizer
        ``"sgd"``, or ``"adam"``, whose step is no linear function of the noise.
    noise_grows
        Whether the noise follows released clip norms that no model keeps; ``noise_std`` is then its least.
    """

    learning_rate: float
    noise_std: float
    clip_norm: float
    weight_bound: float
    n_groups: int
    n_members: int
    optimizer: str
    noise_grows: bool = False

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        config: TrainConfig,
        *,
        noise_std: float,
        noise_multiplier: float,
        n_params: int,
        n_members: int | None = None,
    ) -> "LastStep":
        """The last step of a run; ``n_members`` is the number of heads that it has made, unless as planned."""
        n_members, last, n_groups = n_members or recipe.n_members, config.n_steps - 1, len(recipe.group_sizes)
        rate = config.step_size(
            last, n_groups=n_groups, n_params=n_params, noise_multiplier=noise_multiplier, noise_std=noise_std
        )
        is_sgd = n_members > 1 or config.optimizer == "sgd" or config.is_after_adam(last)
        return cls(
            learning_rate=config.sgd_learning_rate if n_members > 1 else rate,
            noise_std=noise_std,
            clip_norm=recipe.clip_norm,
            weight_bound=recipe.weight_bound,
            n_groups=n_groups,
            n_members=n_members,
            optimizer="sgd" if is_sgd else "adam",
            noise_grows=recipe.statistics is not None and recipe.statistics.of == "norms",
        )

    @classmethod
    def planned(cls, plan: Plan, config: TrainConfig) -> "LastStep | None":
        """The last step of a planned run; none if its size follows the number of parameters, which no plan knows."""
        if config.schedule != "piecewise" and plan.recipe.n_members == 1:
            return None
        multiplier = float(plan.gradient_multipliers.min())
        return cls.of(plan.recipe, config, noise_std=plan.mean_noise_std, noise_multiplier=multiplier, n_params=1)

    @property
    def deviations(self) -> dict[str, float]:
        r"""Deviation of each weight: :math:`\sigma_0` as printed, :math:`N\sigma_0` of one head, and as deployed.

        Each of N heads sees an N-th of the batch. Their mean, which decides, has the deviation :math:`\sqrt N\sigma_0`.
        """
        printed = self.learning_rate * self.noise_std
        return {
            "printed": printed,
            "one_head": self.n_members * printed,
            "deployed": math.sqrt(self.n_members) * printed,
        }

    def theorem_2(self, deviation: float, *, weight_bound: float) -> tuple[float, float]:
        """Theorem 2 as printed and corrected at a deviation of the head and a bound M."""
        bound = {
            "weight_bound": weight_bound,
            "clip_norm": self.clip_norm,
            "learning_rate": self.learning_rate,
            "head_noise": deviation,
        }
        return theorem_2_printed(**bound, n_groups=self.n_groups), theorem_2_corrected(**bound)


def last_step_of(
    parameters: Mapping[str, Any], kind: str, privacy: PrivacySpent, *, n_members: int, n_params: int
) -> LastStep:
    """The last step of a finished run, from what its model keeps: parameters, kind of model, privacy record, heads."""
    sizes, method = tuple(privacy.planned_sizes.values()), parameters["method"]
    n_steps = privacy.n_steps - privacy.look_steps
    training = {name: parameters[name] for name in TRAINING_PARAMETERS} | {"n_steps": n_steps}
    weights = in_order("group_weights", parameters["group_weights"], tuple(privacy.planned_sizes))
    config = train_config(kind, method, sizes, **{**training, "group_weights": weights})
    multiplier = privacy.noise_multiplier
    if privacy.statistics_multiplier:
        multiplier = (multiplier**-2 - privacy.statistics_multiplier**-2) ** -0.5
    return LastStep.of(
        METHODS[method].recipe(config, sizes),
        config,
        noise_std=privacy.mean_noise_std,
        noise_multiplier=multiplier,
        n_params=n_params,
        n_members=n_members,
    )


def why_no_paper_bounds(method: str, *, noise_std: float) -> str:
    """Why the paper's certificates mean nothing for a method, if so: they are of a linear score with a noisy head."""
    about = METHODS[method]
    if about.closed_form:
        return "is one release and a closed form: the paper's certificates are about a last step"
    if about.joint:
        return "decides by the heads of several cells: the paper's certificates are about one linear score"
    if about.smooths:
        return "averages scores over noise on all parameters: the paper's certificates are about one linear score"
    if about.post_processes:
        return "changes decisions by group: the paper's certificates are about the sign of a score"
    return "" if noise_std else "was trained without noise: the paper's certificates are about that of the last step"


def check_for_paper_bounds(method: str, *, noise_std: float) -> None:
    """Refuse a method that the paper's certificates have no meaning for."""
    rule = why_no_paper_bounds(method, noise_std=noise_std)
    if rule:
        remedy = "fit a model with fairdp fit --paper, or with `method`='fairdp' and a finite `epsilon`"
        raise ParameterError("method", method, rule, remedy)
