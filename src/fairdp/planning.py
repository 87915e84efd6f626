"""Cost of a run and worth of its certificate, from public numbers alone: no data are needed."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairdp.accounting.plan import Plan
from fairdp.certify.outlook import expected_widths, fraction_for_width, utility_ceiling
from fairdp.config import Preregistration, TrainConfig
from fairdp.errors import ParameterError, in_unit_interval, one_of, positive, positive_integer
from fairdp.frontier.verdict import SurveyNoise, outlook_of, two_digits
from fairdp.methods import METHODS
from fairdp.paper import LastStep, monte_carlo_error, why_no_paper_bounds
from fairdp.parameters import DEFAULT_MAX_GAP, METRICS, SMALLEST_EPSILON, Parameters, check_parameters
from fairdp.run.plan import budget_of, check_looks, check_privacy, plan_run

# Multiples of records and of epsilon beyond which nothing is worth naming.
_LEAST, _MOST = 1e-4, 1e4


def plan_report(
    *,
    group_sizes: Mapping[str, int] | tuple[int, ...],
    method: str,
    epsilon: float | None,
    delta: float,
    noise_multiplier: float | None = None,
    accountant: str = Parameters.accountant,
    certify_fraction: float = 0.2,
    confidence: float = 0.95,
    certify_metrics: tuple[str, ...] | None = None,
    n_looks: int = 1,
    score_share: float = Parameters.score_share,
    positive_rate: float = 0.1,
    label_rate: float = 0.25,
    target_width: float | None = None,
    for_tau: float | None = None,
    gap: float | None = None,
    input_agnostic_tau: float = 0.1,
    **training: Any,
) -> dict[str, Any]:
    """Noise and epsilon per group of a run on groups of these sizes, with the defaults of the MLP.

    ``certificate`` has the expected distance of each bound from the observed gap: estimates, no guarantees.
    ``epsilon_of_a_look`` is what a record of the group with the smallest ε spends on each look, and ``cost_in_tau`` the
    part of each width that is there because a share of ε is kept for counts of scores. ``outlook`` is for methods that
    read a frontier, ``paper`` for those with a linear score and noise in their last step; None for others. ``paper``
    has Theorem 2 and the error of its ensemble, as diagnostics: none of them speaks of the deployed model.
    ``utility_ceiling`` is the best accuracy that a bound over all inputs would leave.

    Parameters
    ----------
    group_sizes
        Records of each group, those for training and those held out for the certificate together. By name they are
        declared, as a run would be told; else they are a guess of what it counts with noise.
    certify_fraction
        Share of the records that is held out.
    n_looks
        Number of times that a bound which is required beforehand is looked for.
    score_share
        Share of epsilon that is kept for counts of scores.
    positive_rate, label_rate
        Guesses that only the widths depend on: the share of positive decisions and of positive labels.
    target_width
        Slack that is hoped for; None asks nothing.
    for_tau, gap
        A bound that is hoped for on a model with this gap, and what it takes; None asks nothing, and assumes a gap.
    input_agnostic_tau
        A bound over all inputs whose price in accuracy is asked for.
    training
        The numbers of the run that `train_config` takes.
    """
    if not 0 <= certify_fraction < 1:
        raise ParameterError("certify_fraction", certify_fraction, "must be in [0, 1)")
    in_unit_interval(positive_rate=positive_rate, label_rate=label_rate, input_agnostic_tau=input_agnostic_tau)
    check_parameters(score_share=score_share)
    metrics = certify_metrics or METRICS
    Preregistration(confidence=confidence, metrics=metrics, n_looks=n_looks)
    if target_width is not None:
        positive(target_width=target_width)
    if for_tau is None:
        if gap is not None:
            raise ParameterError("gap", gap, "is a guess for `for_tau`", "add it")
    else:
        in_unit_interval(for_tau=for_tau)
        if gap is not None and not 0 <= gap < for_tau:
            raise ParameterError("gap", gap, f"must be in [0, {for_tau:g})", "a bound cannot lie below the gap")
    one_of(METHODS, method=method)
    declared = isinstance(group_sizes, Mapping)
    named = group_sizes if isinstance(group_sizes, Mapping) else {f"group {i}": n for i, n in enumerate(group_sizes)}
    for size in named.values():
        positive_integer(group_sizes=size)
    chosen = Parameters(
        method=method,
        epsilon=epsilon,
        delta=delta,
        accountant=accountant,
        noise_multiplier=noise_multiplier,
        group_sizes=dict(named) if declared else None,
        certify_fraction=certify_fraction,
        n_looks=n_looks,
        **training,
    )
    check_privacy(chosen)
    check_looks(method, n_looks)
    kind = METHODS[method].table_model
    budget = budget_of(chosen, kind=kind, n_groups=len(named))
    certifiable = len(named) > 1 and SMALLEST_EPSILON <= budget.epsilon < math.inf and certify_fraction > 0
    if for_tau is not None and not certifiable:
        raise ParameterError(
            "for_tau", for_tau, "needs a certificate: two groups, a finite epsilon and records held out"
        )
    held_out = certify_fraction if certifiable else 0.0
    sizes = {name: (1 - held_out) * size for name, size in named.items()}
    config, plan, privacy = plan_run(
        chosen, kind=kind, budget=budget, sizes=sizes, groups=tuple(sizes), certify_fraction=held_out
    )
    epsilons = tuple(privacy.certify_epsilons.values())
    guessed: dict[str, Any] = {
        "confidence": confidence,
        "n_looks": n_looks,
        "score_share": score_share,
        "positive_rate": positive_rate,
        "label_rate": label_rate,
    }
    known: dict[str, Any] = {"group_sizes": tuple(named.values()), "epsilon": epsilons, "metrics": metrics, **guessed}
    certificate = answer = outlook = None
    if certifiable:
        widths = expected_widths(certify_fraction=certify_fraction, **known)
        alone = expected_widths(certify_fraction=certify_fraction, **{**known, "score_share": 0.0})
        certificate = {
            "fraction": certify_fraction,
            "confidence": confidence,
            "n_looks": n_looks,
            "epsilon_of_a_look": (1 - score_share) * min(epsilons) / n_looks,
            "positive_rate": positive_rate,
            "label_rate": label_rate,
            "expected_widths": widths,
            "target_width": target_width,
            "fraction_for_target_width": None if target_width is None else fraction_for_width(target_width, **known),
            "score_share": score_share,
            "cost_in_tau": {metric: widths[metric] - alone[metric] for metric in widths},
        }
    if for_tau is not None:
        assumed = assumed_gap(for_tau) if gap is None else gap
        answer = answer_for_tau(for_tau, assumed, certify_fraction=certify_fraction, budget=privacy.epsilon, **known)
    if METHODS[method].joint and len(sizes) > 1:
        outlook = outlook_of(
            sizes,
            SurveyNoise.of(plan),
            parity=config.parity,
            epsilon=plan.budget.epsilon,
            label_rate=label_rate,
            positive_rate=positive_rate,
        )
    return {
        "method": method,
        "group_sizes": tuple(named.values()),
        "expected_batch_sizes": tuple(plan.recipe.expected_batch_sizes.tolist()),
        "sensitivities": tuple(plan.recipe.sensitivities.tolist()),
        "privacy": privacy,
        "certificate": certificate,
        "paper": _paper_bounds(method, config, plan),
        "utility_ceiling": {
            "input_agnostic_tau": input_agnostic_tau,
            "accuracy": utility_ceiling(min(label_rate, 1 - label_rate), tau=input_agnostic_tau),
        },
        "outlook": outlook,
        "for_tau": answer,
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
) -> dict[str, Any]:
    """Records, ε or fraction that a bound of ``tau`` on a model with this ``gap`` takes.

    ``expected`` is the bound to expect. ``records`` are enough at the planned ε and fraction, ``epsilon`` with the
    planned records and fraction, ``fraction`` of the planned records at the planned ε; None where nothing is.

    Parameters
    ----------
    budget, epsilon
        The ε of the run, and what is left of it for each group's certificate.
    guessed
        The rest of what `expected_widths` takes.
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
    return {
        "tau": tau,
        "gap": gap,
        "expected": min(1.0, gap + now),
        "reached": now <= wanted,
        "records": None if more is None else two_digits(more * sum(group_sizes)),
        "epsilon": None if freer is None else two_digits(freer * budget),
        "fraction": fraction_for_width(wanted, group_sizes=group_sizes, epsilon=epsilon, **guessed),
    }


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
