"""The paper's own certificates of a trained model: diagnostics, none of which bounds the gap of that model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairdp import errors
from fairdp._io import to_plain
from fairdp.certify.outlook import smoothed_probability
from fairdp.data.grouped import GroupedData
from fairdp.networks.model import ScoreModel
from fairdp.paper import (
    LastStep,
    check_for_paper_bounds,
    last_step_of,
    monte_carlo_error,
    monte_carlo_error_measured,
    monte_carlo_error_printed,
    proposition_3,
    range_of_chances,
    remark_2_release,
    remark_2_scale_needed,
    remark_2_scale_printed,
)
from fairdp.parameters import CERTIFIABLE
from fairdp.saved.folder import Fitted, restored

ByEvent = Mapping[str, list[float]]
# By event, which records of each group it is about.
Cells = Mapping[str, list[NDArray[np.bool_]]]

# What each metric compares between groups: rates among all records, or among those with a label.
EVERYBODY, NEGATIVE, POSITIVE = "everybody", "label 0", "label 1"
# Equalized odds in the two readings that the paper's numbers leave open: the larger gap, or false positives alone.
_EVENT_OF = {"positive": EVERYBODY, "true_positive": POSITIVE, "false_positive": NEGATIVE}
METRIC_EVENTS = {
    **{metric: tuple(_EVENT_OF[rate] for rate in about.rates) for metric, about in CERTIFIABLE.items()},
    "false_positive_rate": (NEGATIVE,),
}
STATUS = "Diagnostics, not certified: the paper's bounds are on expectations over the noise of the last step."
UNPAID = (
    "Exact figures of these records, without noise: for the data holder's eyes only, outside the privacy guarantee."
)


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
    def of(cls, model: ScoreModel, X: NDArray[np.float32]) -> "EmbeddedRecords":
        """Records as the released heads see them."""
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


def tau_emp(model: ScoreModel, data: GroupedData, *, deviation: float, confidence: float = 0.95) -> dict[str, float]:
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


def cells_of(data: GroupedData) -> Cells:
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
class MonteCarloErrors:
    """The error of N heads by metric, summed over its rates as the paper does; and the most that one rate can have."""

    printed: dict[str, float]
    measured: dict[str, float]
    at_most_per_rate: float


@dataclass(frozen=True, kw_only=True)
class Remark2:
    """τ_emp from one draw of the noisy rates: at the printed scale, and at the scale that a release needs."""

    epsilon: float
    scale_printed: float
    tau_printed: dict[str, float]
    tau_needed: dict[str, float]


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
    monte_carlo: MonteCarloErrors
    remark_2: Remark2
    notes: tuple[str, ...]
    status: str = STATUS

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dict(to_plain(self))


def paper_bounds(
    model: ScoreModel,
    data: GroupedData,
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
    head_norm = float(torch.linalg.vector_norm(model.heads.mean(0)))
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


def _monte_carlo(rates: tuple[RateOfHeads, ...], n_members: int) -> MonteCarloErrors:
    of_metric = {metric: [rate for rate in rates if rate.event in events] for metric, events in METRIC_EVENTS.items()}
    sizes = {metric: [rate.n_records for rate in found] for metric, found in of_metric.items()}
    return MonteCarloErrors(
        printed={
            metric: monte_carlo_error_printed(found, n_members=n_members) if min(found) else math.nan
            for metric, found in sizes.items()
        },
        measured={metric: math.fsum(rate.standard_error for rate in found) for metric, found in of_metric.items()},
        at_most_per_rate=monte_carlo_error(n_members=n_members),
    )


def _remark_2(
    rates: tuple[RateOfHeads, ...], cells: Cells, rng: np.random.Generator, epsilon: float, **given: Any
) -> Remark2:
    exact, printed = [rate.rate for rate in rates], remark_2_scale_printed(epsilon=epsilon)
    needed = [rate.scale_needed if rate.n_records else 0.0 for rate in rates]

    def taus(scales: list[float]) -> dict[str, float]:
        noisy = iter(remark_2_release(exact, scales=scales, rng=rng))
        return taus_of({event: [next(noisy) for _ in masks] for event, masks in cells.items()}, cells, **given)

    return Remark2(
        epsilon=epsilon,
        scale_printed=printed,
        tau_printed=taus([printed] * len(rates)),
        tau_needed=taus(needed),
    )


def _notes(last: LastStep, *, tosses_coins: bool, bias: bool) -> tuple[str, ...]:
    notes = [
        UNPAID,
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


def last_step_of_model(model: Fitted) -> LastStep:
    """The step that made the deployed head."""
    parameters, scores = restored(model.fitted_parameters_), model.score_model_
    return last_step_of(
        parameters,
        model.model_config_.kind,
        model.privacy_,
        n_members=len(scores.heads),
        # While it was trained, there was one head.
        n_params=scores.n_extractor_params + scores.head_size,
    )


def paper_bounds_of(model: Fitted, data: GroupedData, **options: Any) -> PaperBounds:
    """The paper's certificates of a model on records that are already encoded, as diagnostics."""
    method = model.fitted_parameters_["method"]
    check_for_paper_bounds(method, noise_std=model.privacy_.noise_std)
    coins = model.predictor_.tosses_coins
    last = last_step_of_model(model)
    return paper_bounds(model.score_model_, data, last, method=method, tosses_coins=coins, **options)
