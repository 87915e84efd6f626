"""What a run would cost and what its certificate would be worth, from public numbers alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairdp import _checks
from fairdp._checks import ParameterError
from fairdp.accounting.account import known_sizes
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.gaussian import utility_ceiling
from fairdp.certify.paper import monte_carlo_error
from fairdp.certify.widths import expected_widths, fraction_for_width
from fairdp.config.certificate import METRICS, SMALLEST_EPSILON
from fairdp.config.defaults import METHOD_MODELS
from fairdp.config.parameters import Parameters, check_parameters
from fairdp.config.preregistration import Preregistration
from fairdp.frontier.outlook import GroupOutlook, SurveyNoise, outlook_of
from fairdp.methods import METHODS
from fairdp.run.budget import budget_of, check_looks
from fairdp.run.goal import PrivacyGoal
from fairdp.run.last_step import LastStep, why_no_paper_bounds
from fairdp.run.plan import PlannedRun, plan_run


@dataclass(frozen=True, kw_only=True)
class CertificatePlan:
    """What is expected of a certificate: guesses of rates, which only its width depends on.

    Parameters
    ----------
    fraction
        Share of the records that is held out.
    n_looks
        How often a bound that is required beforehand is looked for.
    score_share
        Share of epsilon that is kept for counts of scores.
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
    n_looks: int = 1
    score_share: float = Parameters.score_share
    positive_rate: float = 0.1
    label_rate: float = 0.25
    target_width: float | None = None
    input_agnostic_tau: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.fraction < 1:
            raise ParameterError("certify_fraction", self.fraction, "must be in [0, 1)")
        _checks.in_unit_interval(
            positive_rate=self.positive_rate,
            label_rate=self.label_rate,
            input_agnostic_tau=self.input_agnostic_tau,
        )
        check_parameters(score_share=self.score_share)
        Preregistration(confidence=self.confidence, metrics=self.metrics, n_looks=self.n_looks)
        if self.target_width is not None:
            _checks.positive(target_width=self.target_width)


@dataclass(frozen=True, kw_only=True)
class ExpectedWidths:
    """Expected distance of each bound from the observed gap: an estimate, not a guarantee.

    ``epsilon_of_a_look`` is what a record of the group with the smallest ε spends on each look, and ``cost_in_tau`` the
    part of each width that is there because a share of ε is kept for counts of scores.
    """

    fraction: float
    confidence: float
    n_looks: int
    epsilon_of_a_look: float
    positive_rate: float
    label_rate: float
    expected_widths: dict[str, float]
    target_width: float | None
    fraction_for_target_width: float | None
    score_share: float = 0.0
    cost_in_tau: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Theorem2:
    """The paper's worst case: as printed, with its arithmetic corrected, and so at the noise of the deployed head."""

    printed: float
    corrected: float
    deployed: float


@dataclass(frozen=True, kw_only=True)
class PlannedPaperBounds:
    """Theorem 2 and the error of its ensemble, as diagnostics: none of them speaks of the deployed model.

    ``theorem_2_at_zero`` is the same with M = 0, where step size and clip norm cancel: no choice makes it smaller but
    more noise.
    """

    learning_rate: float
    optimizer: str
    theorem_2: Theorem2
    theorem_2_at_zero: Theorem2
    monte_carlo_error: float


@dataclass(frozen=True, kw_only=True)
class UtilityCeiling:
    """The best accuracy that a bound over all inputs would leave."""

    input_agnostic_tau: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class PlanReport:
    """What a run would cost, what its certificate would be worth, and how well each group could be measured.

    ``outlook`` is for methods that read a frontier, ``paper`` for those with a linear score and noise in their last
    step; None for others.
    """

    method: str
    group_sizes: tuple[int, ...]
    expected_batch_sizes: tuple[float, ...]
    sensitivities: tuple[float, ...]
    privacy: PrivacySpent
    certificate: ExpectedWidths | None
    paper: PlannedPaperBounds | None
    utility_ceiling: UtilityCeiling
    outlook: list[GroupOutlook] | None = None


def plan_report(
    *,
    group_sizes: Mapping[str, int] | tuple[int, ...],
    method: str,
    epsilon: float | None,
    delta: float,
    noise_multiplier: float | None = None,
    accountant: str = Parameters.accountant,
    certificate: CertificatePlan | None = None,
    **training: Any,
) -> PlanReport:
    """Noise and epsilon per group of a run on groups of these sizes, with the defaults of the MLP.

    Parameters
    ----------
    group_sizes
        Records of each group, those for training and those held out for the certificate together. By name they are
        declared, as a run would be told; else they are a guess of what it counts with noise.
    training
        The numbers of the run that `train_config` takes.
    """
    _checks.one_of(METHODS, method=method)
    noise: dict[str, Any] = {"noise_multiplier": noise_multiplier}
    goal = PrivacyGoal(epsilon=epsilon, delta=delta, accountant=accountant, n_steps=training["n_steps"], **noise)
    totals, private = _named(group_sizes), METHODS[method].private and goal.is_private
    certificate = certificate or CertificatePlan()
    about: dict[str, Any] = {
        "method": method,
        "kind": METHOD_MODELS.get(method, "mlp"),
        "training": {"learning_rate": None, **training},
        "group_sizes": known_sizes(totals if group_sizes == totals else None, private=private),
    }
    check_looks(method, certificate.n_looks)
    n_looks = certificate.n_looks if len(totals) > 1 and certificate.fraction else 1
    budget = budget_of(goal, n_groups=len(totals), n_looks=n_looks, **about)
    certifiable = len(totals) > 1 and SMALLEST_EPSILON <= budget.epsilon < math.inf and certificate.fraction > 0
    held_out = certificate.fraction if certifiable else 0.0
    sizes = {name: (1 - held_out) * size for name, size in totals.items()}
    about |= {"certify_fraction": held_out, "n_looks": n_looks}
    planned = plan_run(budget=budget, sizes=sizes, groups=tuple(sizes), **noise, **about)
    plan, privacy = planned.plan, planned.privacy
    return PlanReport(
        method=method,
        group_sizes=tuple(totals.values()),
        expected_batch_sizes=tuple(plan.recipe.expected_batch_sizes.tolist()),
        sensitivities=tuple(plan.recipe.sensitivities.tolist()),
        privacy=privacy,
        certificate=_widths(certificate, tuple(totals.values()), privacy) if certifiable else None,
        paper=_paper_bounds(method, planned),
        utility_ceiling=_utility_ceiling(certificate),
        outlook=_outlook(planned, sizes, certificate) if METHODS[method].joint and len(sizes) > 1 else None,
    )


def _outlook(planned: PlannedRun, sizes: Mapping[str, float], guess: CertificatePlan) -> list[GroupOutlook]:
    plan = planned.plan
    return outlook_of(
        sizes,
        SurveyNoise.of(plan),
        parity=planned.config.parity,
        epsilon=plan.budget.epsilon,
        label_rate=guess.label_rate,
        positive_rate=guess.positive_rate,
    )


def _named(group_sizes: Mapping[str, int] | tuple[int, ...]) -> dict[str, int]:
    """Sizes with names, made up where none were given."""
    if not isinstance(group_sizes, Mapping):
        group_sizes = {f"group {index}": size for index, size in enumerate(group_sizes)}
    for size in group_sizes.values():
        _checks.positive_integer(group_sizes=size)
    return dict(group_sizes)


def _widths(plan: CertificatePlan, group_sizes: tuple[int, ...], spent: PrivacySpent) -> ExpectedWidths:
    guessed: dict[str, Any] = {
        "confidence": plan.confidence,
        "n_looks": plan.n_looks,
        "score_share": plan.score_share,
        "positive_rate": plan.positive_rate,
        "label_rate": plan.label_rate,
    }
    epsilons = tuple(spent.certify_epsilons.values())
    known: dict[str, Any] = {"group_sizes": group_sizes, "epsilon": epsilons, "metrics": plan.metrics, **guessed}
    width, widths = plan.target_width, expected_widths(certify_fraction=plan.fraction, **known)
    alone = expected_widths(certify_fraction=plan.fraction, **{**known, "score_share": 0.0})
    return ExpectedWidths(
        fraction=plan.fraction,
        epsilon_of_a_look=(1 - plan.score_share) * min(epsilons) / plan.n_looks,
        expected_widths=widths,
        cost_in_tau={metric: widths[metric] - alone[metric] for metric in widths},
        target_width=width,
        fraction_for_target_width=None if width is None else fraction_for_width(width, **known),
        **guessed,
    )


def _utility_ceiling(plan: CertificatePlan) -> UtilityCeiling:
    rarer = min(plan.label_rate, 1 - plan.label_rate)
    return UtilityCeiling(
        input_agnostic_tau=plan.input_agnostic_tau, accuracy=utility_ceiling(rarer, tau=plan.input_agnostic_tau)
    )


def _paper_bounds(method: str, planned: PlannedRun) -> PlannedPaperBounds | None:
    plan = planned.plan
    last = LastStep.planned(plan, planned.config)
    if last is None or why_no_paper_bounds(method, noise_std=plan.noise_std):
        return None
    stds = last.deviations

    def theorem_2(weight_bound: float) -> Theorem2:
        printed, corrected = last.theorem_2(stds["printed"], weight_bound=weight_bound)
        _, deployed = last.theorem_2(stds["deployed"], weight_bound=weight_bound)
        return Theorem2(printed=printed, corrected=corrected, deployed=deployed)

    return PlannedPaperBounds(
        learning_rate=last.learning_rate,
        optimizer=last.optimizer,
        theorem_2=theorem_2(last.weight_bound),
        theorem_2_at_zero=theorem_2(0.0),
        monte_carlo_error=monte_carlo_error(n_members=last.n_members),
    )
