"""The paper's own certificates, kept as diagnostics: none of them bounds the gap of the model that is deployed.

They speak of an expectation over the noise of the last training step, or of the training records. A model whose every
realisation accepts one group only has an expected gap of zero under such a statement. First the formulas, then what
they say of a trained model and its records.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairdp import errors
from fairdp._io import to_plain
from fairdp.accounting.plan import Plan, Recipe
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.bounds import hoeffding_radius
from fairdp.certify.outlook import smoothed_probability
from fairdp.config import TrainConfig, in_order
from fairdp.errors import ParameterError
from fairdp.methods import METHODS
from fairdp.parameters import CERTIFIABLE, RATES
from fairdp.run.plan import train_config
from fairdp.statements.certificate import PAPER_BOUNDS
from fairdp.statements.privacy import EXACT_FOR_PAPER

if TYPE_CHECKING:  # `fairdp plan` needs the formulas alone, and no torch or pandas
    from fairdp.data.grouped import GroupedData
    from fairdp.networks.model import ScoreModel
    from fairdp.parameters import Parameters
    from fairdp.saved.folder import FittedEstimator

ByEvent = Mapping[str, list[float]]
# By event, which records of each group it is about.
Cells = Mapping[str, list[NDArray[np.bool_]]]

# What each metric compares between groups: rates among all records, or among those with a label.
EVERYBODY, NEGATIVE, POSITIVE = "everybody", "label 0", "label 1"
# Equalized odds in the two readings that the paper's numbers leave open: the larger gap, or false positives alone.
_EVENT_OF = {(0, 1): EVERYBODY, (0,): NEGATIVE, (1,): POSITIVE}
METRIC_EVENTS = {
    **{metric: tuple(_EVENT_OF[RATES[rate].labels] for rate in about.rates) for metric, about in CERTIFIABLE.items()},
    "false_positive_rate": (NEGATIVE,),
}


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


def last_step_of(chosen: "Parameters", kind: str, privacy: PrivacySpent, *, n_members: int, n_params: int) -> LastStep:
    """The last step of a finished run, from what its model keeps: parameters, kind of model, privacy record, heads."""
    sizes = tuple(privacy.planned_sizes.values())
    weights = in_order("group_weights", chosen.group_weights, tuple(privacy.planned_sizes))
    taken = replace(chosen, n_steps=privacy.n_steps - privacy.look_steps, group_weights=weights)
    config = train_config(taken, kind, sizes)
    multiplier = privacy.noise_multiplier
    if privacy.statistics_multiplier:
        multiplier = (multiplier**-2 - privacy.statistics_multiplier**-2) ** -0.5
    return LastStep.of(
        METHODS[chosen.method].recipe(config, sizes),
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


@dataclass(frozen=True, eq=False)
class EmbeddedRecords:
    """Scores of the mean head, norms of ξ, and the decision of every head; exact figures of real records.

    ``scores`` and ``norms`` have shape (n_records,), ``accepted`` (n_records, n_members).
    """

    scores: NDArray[np.float64]
    norms: NDArray[np.float64]
    accepted: NDArray[np.bool_]
    bias: bool = True

    @classmethod
    def of(cls, model: "ScoreModel", X: NDArray[np.float32]) -> "EmbeddedRecords":
        """Records as the released heads see them."""
        import torch

        (weights, bias), (own_weights, own_biases) = model.split(model.heads.mean(0)), model.split(model.heads)
        with torch.inference_mode():
            parts = list(model.embeddings(torch.from_numpy(np.require(X, np.float32, ["C", "W"]))))
            scores = torch.cat([part @ weights + bias for part in parts])
            norms = torch.cat([part.norm(dim=1) for part in parts])
            accepted = torch.cat([part @ own_weights.T + own_biases >= 0 for part in parts])
        return cls(scores.double().numpy(), norms.double().numpy(), accepted.numpy(), model.bias)

    def chances(self, deviation: float) -> NDArray[np.float64]:
        """Chance of a positive score over noise of this deviation on the mean head; without noise it is certain."""
        if not deviation:
            return (self.scores >= 0).astype(np.float64)
        return smoothed_probability(self.scores, self.norms, smoothing=deviation, bias=self.bias)


def tau_emp(
    model: "ScoreModel", data: "GroupedData", *, deviation: float, confidence: float = 0.95
) -> dict[str, float]:
    r"""Proposition 3 for each metric, from the released heads: a diagnostic, not a bound for this model.

    Where it departs from the paper: the head before the noise of the last step, :math:`w - \eta\mu`, is not kept, and
    must not be, so the released mean of the N heads stands for it; and the Laplace noise of Remark 2 is left out.
    Exact figures of these records, which nothing has paid for. NaN where a group has no such record.

    Parameters
    ----------
    deviation
        That of the head's weights, one of `LastStep.deviations`.
    """
    cells = cells_of(data)
    chances = EmbeddedRecords.of(model, data.inputs).chances(deviation)
    return taus_of(means_in(chances, cells), cells, n_members=len(model.heads), confidence=confidence)


def cells_of(data: "GroupedData") -> Cells:
    """Which records each rate is about."""
    events = {EVERYBODY: data.y >= 0, NEGATIVE: data.y == 0, POSITIVE: data.y == 1}
    return {event: [mask & (data.groups == k) for k in range(data.n_groups)] for event, mask in events.items()}


def means_in(values: NDArray[Any], cells: Cells) -> ByEvent:
    """Mean of a value for each record in every cell; NaN where nobody is."""
    return {
        event: [float(values[mask].mean()) if mask.any() else math.nan for mask in masks]
        for event, masks in cells.items()
    }


def taus_of(rates: ByEvent, cells: Cells, *, n_members: int, confidence: float) -> dict[str, float]:
    """The largest statement about an event of each metric."""

    def statement(event: str) -> float:
        sizes = [int(mask.sum()) for mask in cells[event]]
        if not min(sizes):
            return math.nan
        error = monte_carlo_error_printed(sizes, n_members=n_members)
        return proposition_3(rates[event], sizes=sizes, confidence=confidence, monte_carlo=error)

    found = {event: statement(event) for event in cells}
    return {metric: float(np.max([found[event] for event in events])) for metric, events in METRIC_EVENTS.items()}


@dataclass(frozen=True, kw_only=True)
class BoundsAt:
    """Results of the paper's formulas at one deviation of the head.

    Parameters
    ----------
    lowest_chance, highest_chance
        P_lb and P_ub at the released head; their difference is erf(‖w‖/(√2 σ)).
    tau_emp
        Proposition 3 by metric; NaN where a group has no record of the kind.
    """

    deviation: float
    lowest_chance: float
    highest_chance: float
    theorem_2_printed: float
    theorem_2_corrected: float
    tau_emp: dict[str, float]

    @property
    def reach(self) -> float:
        """The gap between any two inputs' chances, erf(‖w‖/(√2 σ))."""
        return self.highest_chance - self.lowest_chance


@dataclass(frozen=True, kw_only=True)
class RateOfHeads:
    """One rate that Proposition 3 is made of.

    Parameters
    ----------
    rate
        Expected rate at the printed deviation.
    standard_error, spread
        Of the rates of the single heads: standard error of their mean, and largest minus smallest; NaN for one head.
    scale_needed
        Scale of the Laplace noise with which a release of the rates of all metrics would cost ε' together.
    """

    event: str
    group: str
    n_records: int
    rate: float
    standard_error: float
    spread: float
    scale_needed: float


@dataclass(frozen=True, kw_only=True)
class PaperBounds:
    """The paper's certificates of one model on one set of records, as diagnostics.

    Parameters
    ----------
    head_norm
        Norm of the released mean head with its bias, which stands for w − ημ.
    at
        By deviation: ``"printed"`` σ₀, ``"one_head"`` Nσ₀, ``"deployed"`` that of the mean of the heads.
    notes
        What to know before reading the figures.
    """

    method: str
    n_records: int
    confidence: float
    last_step: LastStep
    head_norm: float
    at: dict[str, BoundsAt]
    rates: tuple[RateOfHeads, ...]
    monte_carlo: dict[str, Any]
    remark_2: dict[str, Any]
    notes: tuple[str, ...]
    status: str = PAPER_BOUNDS

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dict(to_plain(self))


def paper_bounds(
    model: "ScoreModel",
    data: "GroupedData",
    last: LastStep,
    *,
    method: str,
    tosses_coins: bool = False,
    confidence: float = 0.95,
    release_epsilon: float = 0.1,
    random_state: int | None = None,
) -> PaperBounds:
    """The paper's certificates of a model, from its released heads and these records, usually its training records.

    Parameters
    ----------
    release_epsilon
        ε' of Remark 2.
    random_state
        Seed of the noise that shows what Remark 2 would do; None: another every time.
    """
    errors.in_unit_interval(confidence=confidence)
    errors.finite_positive(release_epsilon=release_epsilon)
    cells, embedded = cells_of(data), EmbeddedRecords.of(model, data.inputs)
    given: dict[str, Any] = {"n_members": last.n_members, "confidence": confidence}
    head_norm = float(model.heads.mean(0).norm())
    expected = {name: means_in(embedded.chances(std), cells) for name, std in last.deviations.items()}
    rates = _rates(expected["printed"], embedded, cells, data.group_names, release_epsilon)
    return PaperBounds(
        method=method,
        n_records=data.n_samples,
        confidence=confidence,
        last_step=last,
        head_norm=head_norm,
        at={
            name: _bounds_at(last, std, head_norm, taus_of(expected[name], cells, **given))
            for name, std in last.deviations.items()
        },
        rates=rates,
        monte_carlo=_monte_carlo(rates, last.n_members),
        remark_2=_remark_2(rates, cells, np.random.default_rng(random_state), release_epsilon, **given),
        notes=_notes(last, tosses_coins=tosses_coins, bias=model.bias),
    )


def _bounds_at(last: LastStep, deviation: float, head_norm: float, taus: dict[str, float]) -> BoundsAt:
    low, high = range_of_chances(head_norm, head_noise=deviation)
    printed, corrected = last.theorem_2(deviation, weight_bound=last.weight_bound)
    return BoundsAt(
        deviation=deviation,
        lowest_chance=low,
        highest_chance=high,
        theorem_2_printed=printed,
        theorem_2_corrected=corrected,
        tau_emp=taus,
    )


def _rates(
    expected: ByEvent, embedded: EmbeddedRecords, cells: Cells, names: tuple[str, ...], epsilon: float
) -> tuple[RateOfHeads, ...]:
    found = []
    for event, masks in cells.items():
        for name, rate, mask in zip(names, expected[event], masks, strict=True):
            size = int(mask.sum())
            by_head = embedded.accepted[mask].mean(0) if size else np.full(1, math.nan)
            found.append(
                RateOfHeads(
                    event=event,
                    group=name,
                    n_records=size,
                    rate=rate,
                    standard_error=monte_carlo_error_measured(by_head.tolist()),
                    spread=float(np.ptp(by_head)) if len(by_head) > 1 else math.nan,
                    scale_needed=remark_2_scale_needed(size, epsilon=epsilon) if size else math.nan,
                )
            )
    return tuple(found)


def _monte_carlo(rates: tuple[RateOfHeads, ...], n_members: int) -> dict[str, Any]:
    """The error of N heads by metric, summed over its rates as the paper does; and the most that one rate can have."""
    of_metric = {metric: [rate for rate in rates if rate.event in events] for metric, events in METRIC_EVENTS.items()}
    sizes = {metric: [rate.n_records for rate in found] for metric, found in of_metric.items()}
    return {
        "printed": {
            metric: monte_carlo_error_printed(found, n_members=n_members) if min(found) else math.nan
            for metric, found in sizes.items()
        },
        "measured": {metric: math.fsum(rate.standard_error for rate in found) for metric, found in of_metric.items()},
        "at_most_per_rate": monte_carlo_error(n_members=n_members),
    }


def _remark_2(
    rates: tuple[RateOfHeads, ...], cells: Cells, rng: np.random.Generator, epsilon: float, **given: Any
) -> dict[str, Any]:
    """τ_emp from one draw of the noisy rates: at the printed scale, and at the scale that a release needs."""
    exact, printed = [rate.rate for rate in rates], remark_2_scale_printed(epsilon=epsilon)
    needed = [rate.scale_needed if rate.n_records else 0.0 for rate in rates]

    def taus(scales: list[float]) -> dict[str, float]:
        noisy = iter(remark_2_release(exact, scales=scales, rng=rng))
        return taus_of({event: [next(noisy) for _ in masks] for event, masks in cells.items()}, cells, **given)

    return {
        "epsilon": epsilon,
        "scale_printed": printed,
        "tau_printed": taus([printed] * len(rates)),
        "tau_needed": taus(needed),
    }


def _notes(last: LastStep, *, tosses_coins: bool, bias: bool) -> tuple[str, ...]:
    notes = [
        EXACT_FOR_PAPER,
        "w − ημ, the head before the noise of the last step, is never kept: the released mean of the heads stands for "
        "it.",
    ]
    if last.optimizer == "adam":
        notes.append(
            "The last step was one of Adam, no linear function of its noise: the head is not Gaussian, and these are "
            "the figures of an SGD step of the same size."
        )
    if last.noise_grows:
        notes.append("The noise of a step follows clip norms that are not kept; the deviations are the least possible.")
    if not bias:
        notes.append("Without a bias, whoever is embedded to zero is accepted by every head, which P_ub leaves out.")
    if tosses_coins:
        notes.append("This model decides by coins; these are figures of its heads before any coin is tossed.")
    if last.n_members == 1:
        notes.append("One head: there is no spread between heads to measure.")
    return tuple(notes)


def last_step_of_model(model: "FittedEstimator") -> LastStep:
    """The step that made the deployed head."""
    fitted, scores = model.fitted_, model.score_model_
    return last_step_of(
        fitted.parameters,
        fitted.model.kind,
        fitted.privacy,
        n_members=len(scores.heads),
        # While it was trained, there was one head.
        n_params=scores.n_extractor_params + scores.head_size,
    )


def paper_bounds_of(model: "FittedEstimator", data: "GroupedData", **options: Any) -> PaperBounds:
    """The paper's certificates of a model on records that are already encoded, as diagnostics."""
    method = model.fitted_.parameters.method
    check_for_paper_bounds(method, noise_std=model.fitted_.privacy.noise_std)
    coins = model.fitted_.predictor.tosses_coins
    last = last_step_of_model(model)
    return paper_bounds(model.score_model_, data, last, method=method, tosses_coins=coins, **options)
