"""The last noisy step of a run, which the paper's certificates are about."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairdp._checks import ParameterError
from fairdp.accounting.plan import Plan
from fairdp.accounting.recipe import Recipe
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.paper import theorem_2_corrected, theorem_2_printed
from fairdp.config.defaults import TRAINING_PARAMETERS, in_order, train_config
from fairdp.config.training import TrainConfig
from fairdp.methods import METHODS


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
    share
        Weight of the head after this step in the deployed one; below one if an average of the iterates is deployed.
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
    share: float = 1.0
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
            share=1.0 if recipe.averaging == "none" else 1 / (config.n_steps - config.n_steps // 2),
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
            "deployed": self.share * math.sqrt(self.n_members) * printed,
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
