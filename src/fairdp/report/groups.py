"""What a report says of each group, from paid counts: rates with intervals, calibration, and what the scores cost."""

import math
from dataclasses import dataclass

from fairdp.certify.calibration import CalibrationBin, calibration_of
from fairdp.certify.certificate import Certificate
from fairdp.certify.tables import GroupRow, cost_of_scores, group_table

FOUR_FIFTHS = 0.8

# Columns of the table of rates.
RATES = {
    "base_rate": "label positive",
    "selection_rate": "decided positive",
    "true_positive_rate": "decided positive, of label positive",
    "false_positive_rate": "decided positive, of label negative",
    "accuracy": "decided rightly",
}


@dataclass(frozen=True, kw_only=True)
class GroupCalibration:
    """The bins of one group that noise does not hide, and how many it hides."""

    name: str
    bins: tuple[CalibrationBin, ...]
    n_hidden: int


@dataclass(frozen=True, kw_only=True)
class GroupFigures:
    """All groups: their rates, their calibration where scores were counted, and the price of counting them.

    ``cost`` is by how much each certified bound is expected to be wider for it, ``epsilon`` what a record spent on it,
    at the most; empty and zero where no scores were counted.
    """

    rows: tuple[GroupRow, ...]
    calibration: tuple[GroupCalibration, ...]
    cost: dict[str, float]
    epsilon: float


def group_figures(certificate: Certificate) -> GroupFigures:
    """The figures of a certificate's groups. Rates hold together with its confidence, and so do those of scores."""
    rows, scores = group_table(certificate), certificate.scores
    if scores is None:
        return GroupFigures(rows=rows, calibration=(), cost={}, epsilon=0.0)
    bins = calibration_of(scores, failure_probability=certificate.registration.failure_probability)
    return GroupFigures(
        rows=rows,
        calibration=tuple(
            GroupCalibration(
                name=name,
                bins=tuple(own for own in found if not own.hidden),
                n_hidden=sum(own.hidden for own in found),
            )
            for name, found in zip(certificate.group_names, bins, strict=True)
        ),
        cost={metric: value for metric, value in cost_of_scores(certificate).items() if not math.isnan(value)},
        epsilon=max(scores.epsilons),
    )
