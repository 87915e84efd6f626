"""Figures of results: utility against gaps, gains, shifts and imbalance, drawn from plain rows."""

from fairdp.drawing.gains import gain_figure
from fairdp.drawing.imbalance import imbalance_figure
from fairdp.drawing.saving import save_figure
from fairdp.drawing.shift import shift_figure
from fairdp.drawing.style import STYLES, Style, style_of
from fairdp.drawing.tradeoffs import tradeoff_figure

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
