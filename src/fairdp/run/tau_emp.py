"""The paper's empirical certificate, from released heads and exact records: a diagnostic, not a bound for the model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairdp.certify.gaussian import smoothed_probability
from fairdp.certify.paper import monte_carlo_error_printed, proposition_3
from fairdp.data.grouped import GroupedData
from fairdp.networks.models import ScoreModel

# What each metric compares between groups: rates among all records, or among those with a label.
EVERYBODY, NEGATIVE, POSITIVE = "everybody", "label 0", "label 1"
# Equalized odds in the two readings that the paper's numbers leave open: the larger gap, or false positives alone.
METRIC_EVENTS = {
    "demographic_parity": (EVERYBODY,),
    "equal_opportunity": (POSITIVE,),
    "equalized_odds": (POSITIVE, NEGATIVE),
    "false_positive_rate": (NEGATIVE,),
}
ByEvent = Mapping[str, list[float]]
# By event, which records of each group it is about.
Cells = Mapping[str, list[NDArray[np.bool_]]]


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
