"""`fairdp plan`: the cost of a run and the worth of its certificate, from public numbers alone."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairdp.accounting.plan import Plan
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.outlook import expected_widths, fraction_for_width, utility_ceiling
from fairdp.config import Preregistration, TrainConfig
from fairdp.errors import ParameterError, in_unit_interval, one_of, positive, positive_integer
from fairdp.frontier.verdict import GroupOutlook, SurveyNoise, outlook_of, two_digits
from fairdp.methods import METHODS
from fairdp.paper import LastStep, monte_carlo_error, why_no_paper_bounds
from fairdp.parameters import DEFAULT_MAX_GAP, METRICS, SMALLEST_EPSILON, Parameters, check_parameters
from fairdp.run.plan import budget_of, check_looks, check_privacy, plan_run

# Multiples of records and of epsilon beyond which nothing is worth naming.
_LEAST, _MOST = 1e-4, 1e4


@dataclass(frozen=True, kw_only=True)
class CertificatePlan:
    """Expectations of a certificate: guesses of rates, which only its width depends on.

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
    for_tau, gap
        A bound that is hoped for on a model with this gap, and what it takes; None asks nothing, and assumes a gap.
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
    for_tau: float | None = None
    gap: float | None = None
    input_agnostic_tau: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.fraction < 1:
            raise ParameterError("certify_fraction", self.fraction, "must be in [0, 1)")
        in_unit_interval(
            positive_rate=self.positive_rate,
            label_rate=self.label_rate,
            input_agnostic_tau=self.input_agnostic_tau,
        )
        check_parameters(score_share=self.score_share)
        Preregistration(confidence=self.confidence, metrics=self.metrics, n_looks=self.n_looks)
        if self.target_width is not None:
            positive(target_width=self.target_width)
        if self.for_tau is None:
            if self.gap is not None:
                raise ParameterError("gap", self.gap, "is a guess for `for_tau`", "add it")
            return
        in_unit_interval(for_tau=self.for_tau)
        if self.gap is not None and not 0 <= self.gap < self.for_tau:
            raise ParameterError(
                "gap", self.gap, f"must be in [0, {self.for_tau:g})", "a bound cannot lie below the gap"
            )


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
class TauAnswer:
    """The answer to whether a bound of ``tau`` is to be expected on a model with this ``gap``, and what would do.

    ``expected`` is the bound to expect. ``records`` are enough at the planned ε and fraction, ``epsilon`` with the
    planned records and fraction, ``fraction`` of the planned records at the planned ε; None where nothing is.
    """

    tau: float
    gap: float
    expected: float
    reached: bool
    records: float | None
    epsilon: float | None
    fraction: float | None


@dataclass(frozen=True, kw_only=True)
class PlanReport:
    """The cost of a run, the worth of its certificate, and how well each group could be measured.

    ``outlook`` is for methods that read a frontier, ``paper`` for those with a linear score and noise in their last
    step; None for others. ``paper`` has Theorem 2 and the error of its ensemble, as diagnostics: none of them speaks of
    the deployed model. ``utility_ceiling`` is the best accuracy that a bound over all inputs would leave.
    """

    method: str
    group_sizes: tuple[int, ...]
    expected_batch_sizes: tuple[float, ...]
    sensitivities: tuple[float, ...]
    privacy: PrivacySpent
    certificate: ExpectedWidths | None
    paper: dict[str, Any] | None
    utility_ceiling: dict[str, float]
    outlook: list[GroupOutlook] | None = None
    for_tau: TauAnswer | None = None


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
    one_of(METHODS, method=method)
    totals, certificate = _named(group_sizes), certificate or CertificatePlan()
    chosen = Parameters(
        method=method,
        epsilon=epsilon,
        delta=delta,
        accountant=accountant,
        noise_multiplier=noise_multiplier,
        group_sizes=totals if group_sizes == totals else None,
        certify_fraction=certificate.fraction,
        n_looks=certificate.n_looks,
        **training,
    )
    check_privacy(chosen)
    check_looks(method, certificate.n_looks)
    kind = METHODS[method].table_model
    budget = budget_of(chosen, kind=kind, n_groups=len(totals))
    certifiable = len(totals) > 1 and SMALLEST_EPSILON <= budget.epsilon < math.inf and certificate.fraction > 0
    if certificate.for_tau is not None and not certifiable:
        raise ParameterError(
            "for_tau", certificate.for_tau, "needs a certificate: two groups, a finite epsilon and records held out"
        )
    held_out = certificate.fraction if certifiable else 0.0
    sizes = {name: (1 - held_out) * size for name, size in totals.items()}
    config, plan, privacy = plan_run(
        chosen, kind=kind, budget=budget, sizes=sizes, groups=tuple(sizes), certify_fraction=held_out
    )
    return PlanReport(
        method=method,
        group_sizes=tuple(totals.values()),
        expected_batch_sizes=tuple(plan.recipe.expected_batch_sizes.tolist()),
        sensitivities=tuple(plan.recipe.sensitivities.tolist()),
        privacy=privacy,
        certificate=_widths(certificate, tuple(totals.values()), privacy) if certifiable else None,
        for_tau=_for_tau(certificate, tuple(totals.values()), privacy),
        paper=_paper_bounds(method, config, plan),
        utility_ceiling={
            "input_agnostic_tau": certificate.input_agnostic_tau,
            "accuracy": utility_ceiling(
                min(certificate.label_rate, 1 - certificate.label_rate), tau=certificate.input_agnostic_tau
            ),
        },
        outlook=_outlook(config, plan, sizes, certificate) if METHODS[method].joint and len(sizes) > 1 else None,
    )


def _named(group_sizes: Mapping[str, int] | tuple[int, ...]) -> dict[str, int]:
    """Sizes with names, made up where none were given."""
    if not isinstance(group_sizes, Mapping):
        group_sizes = {f"group {index}": size for index, size in enumerate(group_sizes)}
    for size in group_sizes.values():
        positive_integer(group_sizes=size)
    return dict(group_sizes)


def _outlook(config: TrainConfig, plan: Plan, sizes: Mapping[str, float], guess: CertificatePlan) -> list[GroupOutlook]:
    return outlook_of(
        sizes,
        SurveyNoise.of(plan),
        parity=config.parity,
        epsilon=plan.budget.epsilon,
        label_rate=guess.label_rate,
        positive_rate=guess.positive_rate,
    )


def _widths(plan: CertificatePlan, group_sizes: tuple[int, ...], spent: PrivacySpent) -> ExpectedWidths:
    guessed = _guessed(plan)
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


def _for_tau(plan: CertificatePlan, group_sizes: tuple[int, ...], spent: PrivacySpent) -> TauAnswer | None:
    if plan.for_tau is None:
        return None
    return answer_for_tau(
        plan.for_tau,
        assumed_gap(plan.for_tau) if plan.gap is None else plan.gap,
        group_sizes=group_sizes,
        certify_fraction=plan.fraction,
        epsilon=tuple(spent.certify_epsilons.values()),
        budget=spent.epsilon,
        metrics=plan.metrics,
        **_guessed(plan),
    )


def _guessed(plan: CertificatePlan) -> dict[str, Any]:
    return {
        "confidence": plan.confidence,
        "n_looks": plan.n_looks,
        "score_share": plan.score_share,
        "positive_rate": plan.positive_rate,
        "label_rate": plan.label_rate,
    }


def answer_for_tau(
    tau: float,
    gap: float,
    *,
    group_sizes: Sequence[int],
    certify_fraction: float,
    epsilon: Sequence[float],
    budget: float,
    **guessed: Any,
) -> TauAnswer:
    """Records, ε or fraction that a bound takes.

    ``budget`` is the ε of the run, ``epsilon`` what is left of it for each group's certificate. The rest is what
    `expected_widths` takes.
    """

    def slack(records: float = 1.0, private: float = 1.0) -> float:
        widths = expected_widths(
            group_sizes=[max(1, math.ceil(records * size)) for size in group_sizes],
            certify_fraction=certify_fraction,
            epsilon=tuple(private * value for value in epsilon),
            **guessed,
        )
        return max(widths.values())

    wanted, now = tau - gap, slack()
    more = _least(lambda multiple: slack(records=multiple) <= wanted)
    freer = _least(lambda multiple: slack(private=multiple) <= wanted)
    return TauAnswer(
        tau=tau,
        gap=gap,
        expected=min(1.0, gap + now),
        reached=now <= wanted,
        records=None if more is None else two_digits(more * sum(group_sizes)),
        epsilon=None if freer is None else two_digits(freer * budget),
        fraction=fraction_for_width(wanted, group_sizes=group_sizes, epsilon=epsilon, **guessed),
    )


def _least(enough: Callable[[float], bool]) -> float | None:
    """The smallest multiple that is enough, by halving on a logarithmic scale; None if there is none."""
    low, high = _LEAST, _MOST
    if not enough(high):
        return None
    while high / low > 1.005:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def assumed_gap(tau: float) -> float:
    """The gap that a model is assumed to have if nobody says: the default target, but at most half of the bound.

    >>> assumed_gap(0.1), assumed_gap(0.04)
    (0.03, 0.02)
    """
    return min(DEFAULT_MAX_GAP, tau / 2)


def _paper_bounds(method: str, config: TrainConfig, plan: Plan) -> dict[str, Any] | None:
    """Theorem 2 as printed, with its arithmetic corrected, and so at the noise of the deployed head.

    Also with M = 0, where step size and clip norm cancel: no choice makes it smaller but more noise.
    """
    last = LastStep.planned(plan, config)
    if last is None or why_no_paper_bounds(method, noise_std=plan.noise_std):
        return None
    stds = last.deviations

    def theorem_2(weight_bound: float) -> dict[str, float]:
        printed, corrected = last.theorem_2(stds["printed"], weight_bound=weight_bound)
        _, deployed = last.theorem_2(stds["deployed"], weight_bound=weight_bound)
        return {"printed": printed, "corrected": corrected, "deployed": deployed}

    return {
        "learning_rate": last.learning_rate,
        "optimizer": last.optimizer,
        "theorem_2": theorem_2(last.weight_bound),
        "theorem_2_at_zero": theorem_2(0.0),
        "monte_carlo_error": monte_carlo_error(n_members=last.n_members),
    }
