"""Excess risk against the number of steps, at fixed noise and at fixed ε, with the rates that theory names."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from fairdp.experiments.drawing.lines import Line, name_lines
from fairdp.experiments.drawing.page import Layout, Row, page
from fairdp.report.style import QUIET, house_style

_LOOKS = (("#c94a00", "o"), ("#0057b8", "s"), ("#00745a", "^"))
_PARTS = {"fixed noise": ("noise_multiplier", "σ"), "fixed epsilon": ("epsilon", "ε")}


def rate_figure(rows: Sequence[Row], *, at_zero: float, n_seeds: int) -> Figure:
    """A panel for each reading of the theorem, both axes logarithmic.

    Parameters
    ----------
    rows
        ``part``, ``n_steps``, ``noise_multiplier``, ``epsilon``, ``excess_risk`` and its ``standard_error``.
    at_zero
        Excess risk of a head that knows nothing.
    """
    caption = [
        f"dashed: the excess risk of the head 0, {at_zero:.2g}",
        "dotted: rates through the first point of the largest noise",
        f"bars: one standard error over {n_seeds} runs",
    ]
    panels = {part: [row for row in rows if row["part"] == part] for part in _PARTS}
    with house_style():
        figure, (line,) = page(
            1,
            len(panels),
            layout=Layout(width=2.9, height=2.7, between=1.5, below=0.3, right=0.95),
            headline="Theorem 4 measured: the last iterate's excess risk, a linear head in a ball",
            caption=" · ".join(caption),
        )
        for axes, (part, found) in zip(line, panels.items(), strict=True):
            lines = [*_measured(found, *_PARTS[part]), *(_guides(found) if part == "fixed noise" else [])]
            axes.set_title("noise fixed" if part == "fixed noise" else "ε fixed: the noise grows with T", weight="bold")
            axes.set_xlabel("steps T")
            _draw(axes, lines, at_zero, rows)
        line[0].set_ylabel("risk above the least one")
    return figure


def _measured(rows: Sequence[Row], key: str, symbol: str) -> list[Line]:
    values = sorted({row[key] for row in rows}, reverse=True)
    lines = []
    for value, (colour, marker) in zip(values, _LOOKS, strict=False):
        points = [(row["n_steps"], row["excess_risk"], row["standard_error"]) for row in rows if row[key] == value]
        lines.append(Line(label=f"{symbol} = {value:g}", colour=colour, marker=marker, values=np.array(points).T))
    return lines


def _guides(rows: Sequence[Row]) -> list[Line]:
    """The rates through the first point of the largest noise."""
    noisiest = max(row["noise_multiplier"] for row in rows)
    own = [row for row in rows if row["noise_multiplier"] == noisiest]
    steps = np.array([row["n_steps"] for row in own], dtype=np.float64)
    rates = {"log T/√T": np.log(steps) / np.sqrt(steps), "1/√T": 1 / np.sqrt(steps)}
    first = own[0]["excess_risk"]
    return [
        Line(
            label=label,
            colour=QUIET,
            dashes=":",
            marker="",
            values=np.array([steps, first * rate / rate[0], 0 * steps]),
        )
        for label, rate in rates.items()
    ]


def _draw(axes: Axes, lines: Sequence[Line], at_zero: float, rows: Sequence[Row]) -> None:
    shown = [row["excess_risk"] for row in rows if row["part"] in _PARTS]
    axes.set(xscale="log", yscale="log")
    axes.set_ylim(0.6 * min(shown), 1.8 * max(at_zero, *shown))
    axes.axhline(at_zero, color=QUIET, linestyle="--", linewidth=0.9, zorder=1, gid="zero")
    for line in lines:
        steps, means, errors = line.values
        bars = axes.errorbar(steps, means, yerr=errors, fmt="none", ecolor=line.colour)
        bars[2][0].set(linewidth=0.9, alpha=0.6)
        (curve,) = axes.plot(steps, means, color=line.colour, linestyle=line.dashes, marker=line.marker)
        curve.set(linewidth=1.4, markersize=4.5, markeredgecolor="white", markeredgewidth=0.5, gid="curve")
    used = np.unique(np.concatenate([line.values[0] for line in lines]))
    axes.set_xlim(used[0] / 1.25, used[-1] * 1.25)
    decades = 10.0 ** np.arange(np.ceil(np.log10(used[0])), np.floor(np.log10(used[-1])) + 1)
    axes.xaxis.set_major_locator(FixedLocator(decades.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")
    name_lines(axes, lines)
