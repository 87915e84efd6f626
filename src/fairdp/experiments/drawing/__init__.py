"""Figures of results: utility against gaps, targets, gains, shifts, imbalance and rates, drawn from plain rows."""

from fairdp.experiments.drawing.clouds import imbalance_figure, tradeoff_figure
from fairdp.experiments.drawing.lines import gain_figure, shift_figure
from fairdp.experiments.drawing.page import save_figure
from fairdp.experiments.drawing.rates import rate_figure
from fairdp.experiments.drawing.targets import target_figure

__all__ = [
    "gain_figure",
    "imbalance_figure",
    "rate_figure",
    "save_figure",
    "shift_figure",
    "target_figure",
    "tradeoff_figure",
]
