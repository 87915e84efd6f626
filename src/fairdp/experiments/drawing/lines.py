"""Lines over ε with their uncertainty, named at their right ends."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from scipy.optimize import isotonic_regression

from fairdp.experiments.drawing.placement import Floats
from fairdp.report.style import LABEL_SIZE

# Points between a panel and the labels right of it, and how far a label may move without a line to its own.
_ASIDE, _FAR = 9.0, 2.5


@dataclass(frozen=True, kw_only=True)
class Line:
    """One quantity over ε.

    Parameters
    ----------
    values
        Mean and standard error at each ε.
    strong
        Drawn thicker, with a bold label.
    """

    label: str
    colour: str
    epsilons: tuple[float, ...]
    values: tuple[tuple[float, float], ...]
    marker: str = "o"
    dashes: str = "-"
    strong: bool = False


def measured(value: Sequence[float | None] | None) -> tuple[float, float] | None:
    """A mean and its standard error; none without a mean, and an unknown error is drawn as none.

    >>> measured([0.25, None]), measured(None)
    ((0.25, 0.0), None)
    """
    if value is None or value[0] is None or not np.isfinite(value[0]):
        return None
    mean, error = value
    return float(mean or 0.0), float(error) if error is not None and np.isfinite(error) else 0.0


def draw_lines(axes: Axes, lines: Sequence[Line], *, bands: bool) -> None:
    """Draw the lines, with bands or bars of one standard error; the limits of the axes come afterwards."""
    for number, line in enumerate(lines):
        means = np.array([mean for mean, _ in line.values])
        errors = np.array([error for _, error in line.values])
        layer = 3.0 + 0.05 * number + (1.0 if line.strong else 0.0)
        # A band needs two points to be seen.
        if bands and len(means) > 1:
            band = axes.fill_between(line.epsilons, means - errors, means + errors, color=line.colour, linewidth=0)
            band.set(alpha=0.13, zorder=2)
        else:
            bars = axes.errorbar(line.epsilons, means, yerr=errors, fmt="none", ecolor=line.colour)
            bars[2][0].set(linewidth=0.9, alpha=0.6, zorder=layer - 0.02)
        (curve,) = axes.plot(line.epsilons, means, color=line.colour, linestyle=line.dashes, marker=line.marker)
        curve.set(linewidth=2.0 if line.strong else 1.3, markersize=5.0 if line.strong else 4.2, zorder=layer)
        curve.set(markeredgecolor="white", markeredgewidth=0.5, gid="curve", clip_on=False)


def set_epsilons(axes: Axes, epsilons: Sequence[float]) -> None:
    """Ticks at the budgets that were used, on a logarithmic axis where they span more than a factor of ten."""
    if epsilons[-1] > 10 * epsilons[0]:
        axes.set_xscale("log")
        axes.set_xlim(epsilons[0] / 1.15, epsilons[-1] * 1.08)
    else:
        room = 0.06 * (epsilons[-1] - epsilons[0]) or 0.5
        axes.set_xlim(epsilons[0] - room, epsilons[-1] + room)
    axes.xaxis.set_major_locator(FixedLocator(list(epsilons)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def name_lines(axes: Axes, lines: Sequence[Line]) -> list[Text]:
    """Write each label right of the panel, at the height of its line's end or as near as the others allow."""
    unit = axes.figure.dpi / 72
    low, high = axes.bbox.y0, axes.bbox.y1
    ends = np.array([axes.transData.transform((line.epsilons[-1], line.values[-1][0])) for line in lines])
    order = np.argsort(ends[:, 1], kind="stable")
    step = 1.28 * LABEL_SIZE * unit
    heights = np.empty(len(lines))
    heights[order] = spread(ends[order, 1], step=step, low=low + step / 2, high=high)
    left = axes.bbox.x1 + _ASIDE * unit
    return [
        _name(axes, line, end, (left, height), far=_FAR * unit)
        for line, end, height in zip(lines, ends, heights, strict=True)
    ]


def spread(wanted: Floats, *, step: float, low: float, high: float) -> Floats:
    """Sorted heights moved as little as possible (least squares) so that neighbours are a step apart.

    >>> spread(np.array([1.0, 1.0, 9.0]), step=2.0, low=0.0, high=10.0)
    array([0., 2., 9.])
    """
    stairs = step * np.arange(len(wanted))
    # A fan that is too tall for the panel keeps its steps and reaches below it.
    top = high - stairs[-1]
    return np.asarray(np.clip(isotonic_regression(wanted - stairs).x, min(low, top), top) + stairs)


def _name(axes: Axes, line: Line, end: Floats, place: tuple[float, float], *, far: float) -> Text:
    to_axes = axes.transAxes.inverted()
    x, y = to_axes.transform(place)
    weight = "bold" if line.strong else "normal"
    text = axes.text(x, y, line.label, transform=axes.transAxes, color=line.colour, weight=weight)
    text.set(size=LABEL_SIZE, ha="left", va="center_baseline", gid="label")
    if abs(place[1] - end[1]) > far:
        # From beside the marker to just before the words.
        unit = axes.figure.dpi / 72
        ends = to_axes.transform([(end[0] + 3.5 * unit, end[1]), (place[0] - 1.5 * unit, place[1])])
        leader = Line2D(ends[:, 0], ends[:, 1], transform=axes.transAxes, color=line.colour, linewidth=0.6)
        leader.set(alpha=0.55, clip_on=False, gid="leader")
        axes.add_line(leader)
    return text
