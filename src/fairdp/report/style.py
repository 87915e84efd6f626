"""Colours, markers, fonts and names that all figures share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib import style
from matplotlib.colors import to_hex, to_rgb

INK = "#262626"
QUIET = "#5c5c5c"
FAINT = "#d9d9d9"

LABEL_SIZE = 8.5


@dataclass(frozen=True)
class Style:
    """How a method is named and drawn."""

    label: str
    colour: str
    marker: str


# Every colour is also a label's, so each has a contrast of at least 4.5 on white. Ours are the only saturated ones;
# the others were spread in lightness until they differed for every kind of colour blindness.
STYLES: dict[str, Style] = {
    "clean": Style("clean", "#6b6b6b", "P"),
    "dpsgd": Style("DP-SGD", "#1f1f1f", "o"),
    "dpsgd_f": Style("DPSGD-F", "#827643", "^"),
    "dp_is_sgd": Style("DP-IS-SGD", "#2a5248", "v"),
    "fairsmooth": Style("FairSmooth", "#6f446e", "h"),
    "dpsgd_smooth": Style("DPSGD-Smooth", "#607892", "p"),
    "fairfm": Style("FairFM", "#3b481b", "<"),
    "fairfm_smooth": Style("FairFM-Smooth", "#936d5d", ">"),
    "dp_fermi": Style("DP-FERMI", "#0a3b4c", "X"),
    "dp_postprocess": Style("DP post-processing", "#8a4438", "d"),
    "raco_dp": Style("RaCO-DP", "#7170a3", "*"),
    "fairdp": Style("FairDP", "#c94a00", "D"),
    "fairdp_parity": Style("ours (parity)", "#0057b8", "s"),
    "fairdp_frontier": Style("ours (frontier)", "#3200ff", "8"),
}

_OURS = frozenset({"fairdp", "fairdp_parity", "fairdp_frontier"})

GAPS = {
    "demographic_parity": "demographic parity",
    "equal_opportunity": "equal opportunity",
    "equalized_odds": "equalized odds",
}
UTILITIES = {"accuracy": "accuracy", "auc": "AUC"}

_DATASETS = {"adult": "Adult", "credit": "Default-CCC", "utkface": "UTKFace"}

_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica", "sans-serif"],
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelcolor": QUIET,
    "axes.labelsize": 8.5,
    "axes.edgecolor": "#8c8c8c",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "axes.titlesize": 9.0,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 7.0,
    "axes.grid": True,
    "grid.color": "#ededed",
    "grid.linewidth": 0.6,
    "xtick.color": "#8c8c8c",
    "ytick.color": "#8c8c8c",
    "xtick.labelcolor": QUIET,
    "ytick.labelcolor": QUIET,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    # Text stays text, and names inside the file do not change from run to run.
    "svg.fonttype": "none",
    "svg.hashsalt": "fairdp",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Our settings while a figure is drawn or written, whatever the reader has set; theirs return afterwards."""
    with style.context("default"), matplotlib.rc_context(_SETTINGS):
        yield


def style_of(method: str) -> Style:
    """The style of a method; a grey one under its own name if we do not know it.

    >>> style_of("dpsgd").label
    'DP-SGD'
    """
    return STYLES.get(method, Style(method, "#737373", "o"))


def stands_out(method: str) -> bool:
    """Whether a method is one that the figures are about."""
    return method in _OURS


def dataset_title(name: str) -> str:
    """A data set's name as readers know it."""
    return _DATASETS.get(name, name)


def mixed(colour: str, other: str, share: float) -> str:
    """A colour with a share of another one.

    >>> mixed("#000000", "#ffffff", 0.2)
    '#333333'
    """
    pairs = zip(to_rgb(colour), to_rgb(other), strict=True)
    red, green, blue = ((1 - share) * one + share * two for one, two in pairs)
    return to_hex((red, green, blue))
