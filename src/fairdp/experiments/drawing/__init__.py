"""Figures of results: utility against gaps, gains, shifts and imbalance, drawn from plain rows."""

from fairdp.experiments.drawing.gains import gain_figure
from fairdp.experiments.drawing.imbalance import imbalance_figure
from fairdp.experiments.drawing.saving import save_figure
from fairdp.experiments.drawing.shift import shift_figure
from fairdp.experiments.drawing.tradeoffs import tradeoff_figure
from fairdp.report.style import STYLES, Style, style_of

__all__ = [
    "STYLES",
    "Style",
    "gain_figure",
    "imbalance_figure",
    "save_figure",
    "shift_figure",
    "style_of",
    "tradeoff_figure",
]
