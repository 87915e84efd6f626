"""The paper's own certificates of a trained model: diagnostics, none of which bounds the gap of that model."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fairdp import _checks
from fairdp._files import to_plain
from fairdp.certify.paper import (
    monte_carlo_error,
    monte_carlo_error_measured,
    monte_carlo_error_printed,
    range_of_chances,
    remark_2_release,
    remark_2_scale_needed,
    remark_2_scale_printed,
)
from fairdp.data.grouped import GroupedData
from fairdp.networks.models import ScoreModel
from fairdp.run.last_step import LastStep
from fairdp.run.tau_emp import METRIC_EVENTS, ByEvent, Cells, EmbeddedRecords, cells_of, means_in, taus_of

STATUS = "Diagnostics, not certified: the paper's bounds are on expectations over the noise of the last step."
UNPAID = (
    "Exact figures of these records, without noise: for the data holder's eyes only, outside the privacy guarantee."
)


@dataclass(frozen=True, kw_only=True)
class BoundsAt:
    """What the paper's formulas give at one deviation of the head.

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
    _checks.in_unit_interval(confidence=confidence)
    _checks.finite_positive(release_epsilon=release_epsilon)
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
    """What to know before reading the figures."""
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
    if last.share < 1:
        notes.append(
            f"An average of iterates is deployed, in which the last one has a weight of {last.share:.3g}: the "
            "deviation of the deployed head is that share of the last step's."
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
