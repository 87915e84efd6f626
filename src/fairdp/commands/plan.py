"""What a run would cost and what its certificate would be worth, from public numbers alone."""

import math
from dataclasses import dataclass
from typing import Any

from fairdp import _checks
from fairdp.accounting.account import privacy_spent
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import Plan, make_plan
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.gaussian import utility_ceiling
from fairdp.certify.paper import monte_carlo_error, theorem_2_corrected, theorem_2_printed
from fairdp.certify.widths import expected_widths, fraction_for_width
from fairdp.config.certificate import METRICS, SMALLEST_EPSILON
from fairdp.config.defaults import METHOD_MODELS, check_groups, train_config
from fairdp.config.preregistration import Preregistration
from fairdp.config.training import TrainConfig
from fairdp.methods import METHODS


@dataclass(frozen=True, kw_only=True)
class CertificatePlan:
    """What is expected of a certificate: guesses of rates, which only its width depends on.

    Parameters
    ----------
    fraction
        Share of the records that is held out.
    positive_rate, label_rate
        Expected share of positive decisions and of positive labels.
    target_width
        Slack that is hoped for; None asks nothing.
    input_agnostic_tau
        A bound over all inputs whose price in accuracy is asked for.
    """

    fraction: float = 0.2
    confidence: float = 0.95
    metrics: tuple[str, ...] = METRICS
    positive_rate: float = 0.1
    label_rate: float = 0.25
    target_width: float | None = None
    input_agnostic_tau: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.fraction < 1:
            raise ValueError(f"certify_fraction must be in [0, 1), got {self.fraction!r}.")
        _checks.in_unit_interval(
            positive_rate=self.positive_rate,
            label_rate=self.label_rate,
            input_agnostic_tau=self.input_agnostic_tau,
        )
        Preregistration(confidence=self.confidence, metrics=self.metrics)
        if self.target_width is not None:
            _checks.positive(target_width=self.target_width)


def plan_report(
    *,
    group_sizes: tuple[int, ...],
    method: str,
    epsilon: float,
    delta: float,
    certificate: CertificatePlan | None = None,
    **training: Any,
) -> dict[str, Any]:
    """Noise and epsilon per group of a run on groups of these sizes, with the defaults of the MLP.

    Parameters
    ----------
    group_sizes
        Records of each group, those for training and those held out for the certificate together.
    training
        The numbers of the run that `train_config` takes.
    """
    _checks.one_of(METHODS, method=method)
    for size in group_sizes:
        _checks.positive_integer(group_sizes=size)
    budget = PrivacyBudget(epsilon=epsilon, delta=delta)
    budget.check_for(sum(group_sizes))
    certificate = certificate or CertificatePlan()
    certifiable = len(group_sizes) > 1 and SMALLEST_EPSILON <= epsilon < math.inf and certificate.fraction > 0
    held_out = certificate.fraction if certifiable else 0.0
    config, plan, spent = _planned_run(method, budget, group_sizes, held_out, training)
    return {
        "method": method,
        "group_sizes": list(group_sizes),
        "expected_batch_sizes": plan.recipe.expected_batch_sizes.tolist(),
        "sensitivities": plan.recipe.sensitivities.tolist(),
        "privacy": spent.to_dict(),
        "certificate": _widths(certificate, group_sizes, spent) if certifiable else None,
        "paper": _paper_bounds(plan, config),
        "utility_ceiling": _utility_ceiling(certificate),
    }


def _planned_run(
    method: str, budget: PrivacyBudget, group_sizes: tuple[int, ...], held_out: float, training: dict[str, Any]
) -> tuple[TrainConfig, Plan, PrivacySpent]:
    """The run on what is left of the groups when this share is held out, and what it spends."""
    sizes = tuple((1 - held_out) * size for size in group_sizes)
    names = tuple(f"group {index}" for index in range(len(group_sizes)))
    check_groups(names, sizes, training["sample_rate"])
    config = train_config(METHOD_MODELS.get(method, "mlp"), method, min(sizes), learning_rate=None, **training)
    histogram = METHODS[method].histogram_epsilon(budget.epsilon)
    plan = make_plan(METHODS[method].recipe(config, sizes), budget, n_steps=config.n_steps, counts_epsilon=histogram)
    spent = privacy_spent(
        plan,
        names,
        group_sizes="public",
        noise_seeded=False,
        certify_fraction=held_out,
        histogram_epsilon=histogram,
    )
    return config, plan, spent


def _widths(plan: CertificatePlan, group_sizes: tuple[int, ...], spent: PrivacySpent) -> dict[str, Any]:
    """Expected distance of each bound from the observed gap: an estimate, not a guarantee."""
    settings: dict[str, Any] = {
        "group_sizes": group_sizes,
        "epsilon": tuple(spent.certify_epsilons.values()),
        "confidence": plan.confidence,
        "positive_rate": plan.positive_rate,
        "label_rate": plan.label_rate,
        "metrics": plan.metrics,
    }
    fraction = None if plan.target_width is None else fraction_for_width(plan.target_width, **settings)
    return {
        "fraction": plan.fraction,
        "confidence": plan.confidence,
        "positive_rate": plan.positive_rate,
        "label_rate": plan.label_rate,
        "expected_widths": expected_widths(certify_fraction=plan.fraction, **settings),
        "target_width": plan.target_width,
        "fraction_for_target_width": fraction,
    }


def _utility_ceiling(plan: CertificatePlan) -> dict[str, float]:
    """What accuracy a bound over all inputs would leave."""
    rarer = min(plan.label_rate, 1 - plan.label_rate)
    return {
        "input_agnostic_tau": plan.input_agnostic_tau,
        "accuracy": utility_ceiling(rarer, tau=plan.input_agnostic_tau),
    }


def _paper_bounds(plan: Plan, config: TrainConfig) -> dict[str, Any]:
    """Theorem 2 and the errors of its ensemble, as diagnostics: none of them speaks of the deployed model."""
    rate, recipe = config.sgd_learning_rate, plan.recipe
    bound = {"weight_bound": recipe.weight_bound, "clip_norm": recipe.clip_norm, "learning_rate": rate}
    if not plan.noise_std or math.isinf(recipe.weight_bound):
        return {"theorem_2_printed": None, "theorem_2_corrected": None, "monte_carlo_error": None}
    # The mean of N heads is N^½ times as noisy as the one head that the theorem speaks of.
    deployed = rate * plan.noise_std * math.sqrt(recipe.n_members)
    n_groups = len(recipe.group_sizes)
    return {
        "theorem_2_printed": theorem_2_printed(**bound, n_groups=n_groups, head_noise=rate * plan.noise_std),
        "theorem_2_corrected": theorem_2_corrected(**bound, head_noise=deployed),
        "monte_carlo_error": monte_carlo_error(n_members=recipe.n_members),
    }
