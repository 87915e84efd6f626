"""Lines over ε with their uncertainty, named at their right ends: what FairDP gains, and gaps under shift."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from fairdp.experiments.drawing.page import Layout, Row, by_dataset, epsilons_of, facts, in_percent, page, titled
from fairdp.report.style import GAPS, LABEL_SIZE, QUIET, UTILITIES, dataset_title, house_style, mixed

Floats = NDArray[np.float64]
Pair = Sequence[float | None] | None

_GAIN_LOOKS = {
    "demographic_parity": ("#0057b8", "o"),
    "equal_opportunity": ("#00745a", "s"),
    "equalized_odds": ("#a3477f", "^"),
    "accuracy": ("#262626", "o"),
    "auc": ("#8a6200", "s"),
}
_LIGHT, _DARK = "#d4520a", "#3f1500"
_CLEAN, _PAPER, _CERTIFIED = "#6b6b6b", "#8a4f9e", "#0057b8"

# Bounds many times the gaps would press these to the bottom of a linear axis.
_LOG_FROM = 8.0


@dataclass(frozen=True, kw_only=True)
class Line:
    """A quantity over another: columns (x, mean, standard error); drawn thicker, with a bold label, if ``strong``."""

    label: str
    colour: str
    values: Floats
    marker: str = "o"
    dashes: str = "-"
    strong: bool = False


def gain_figure(rows: Sequence[Row], *, against: str, titles: Mapping[str, str] | None = None) -> Figure:
    """Relative reductions of the gaps above, drops of utility below; a column per data set.

    Parameters
    ----------
    rows
        ``dataset``, ``epsilon``, and ``gains`` and ``drops``: a mean and a standard error by metric, as fractions.
    against
        Name of the other method, for the headline.
    titles
        What else to say of a data set, above its column.
    """
    groups = by_dataset(rows)
    kinds = {"gains": {f"{gap}_difference": gap for gap in GAPS}, "drops": {name: name for name in UTILITIES}}
    axis_names = {"gains": "gap reduced by (higher is fairer)", "drops": "utility lost (lower is better)"}
    with house_style():
        figure, panels = page(
            2,
            len(groups),
            layout=Layout(width=2.25, height=2.0, between=1.82, below=0.3, right=1.45),
            headline=f"What FairDP gains and costs against {against}",
            caption=" · ".join([*facts(rows), "bars: one standard error"]),
        )
        for line, (kind, names) in zip(panels, kinds.items(), strict=True):
            line[0].set_ylabel(axis_names[kind])
            for axes, group in zip(line, groups.values(), strict=True):
                _draw_gains(axes, [_gain_line(group, kind, name, look) for name, look in names.items()])
        for upper, lower, name in zip(*panels, groups, strict=True):
            upper.set_title(titled(name, titles), weight="bold", size=10.5 if titles is None else 8.5)
            upper.tick_params(labelbottom=False)
            lower.set_xlabel("privacy budget ε")
    return figure


def _gain_line(rows: Sequence[Row], kind: str, name: str, look: str) -> Line:
    colour, marker = _GAIN_LOOKS[look]
    values = _values(rows, kind, name)
    return Line(label={**GAPS, **UTILITIES}[look], colour=colour, marker=marker, values=values)


def _draw_gains(axes: Axes, lines: Sequence[Line]) -> None:
    lines = [line for line in lines if line.values.size]
    # With zero and a little room; each data set its own, or one with hardly any gap would press the others flat.
    low = min([0.0, *(float((mean - error).min()) for _, mean, error in (line.values for line in lines))])
    high = max([0.0, *(float((mean + error).max()) for _, mean, error in (line.values for line in lines))])
    room = 0.08 * (high - low) or 0.1
    axes.set_ylim(low - room, high + room)
    in_percent(axes.yaxis)
    axes.axhline(0.0, color=QUIET, linewidth=0.8, zorder=1)
    _draw_lines(axes, lines, bands=False)


def shift_figure(rows: Sequence[Row], *, words: str = "") -> Figure:
    """Gaps under shifts of size γ beside the bounds: a row of panels per data set, a column per metric.

    Parameters
    ----------
    rows
        ``dataset``, ``metric``, ``epsilon``, and, each as a mean and a standard error, ``clean``, ``observed`` by γ,
        ``paper_tau`` (no guarantee for the deployed model), ``certified_tau`` and ``certified_tau_shifted`` by γ.
    words
        How FairDP was trained, for the caption.
    """
    groups = by_dataset(rows)
    metrics = [metric for metric in GAPS if any(row["metric"] == metric for row in rows)]
    caption = [
        *([words] if words else []),
        "γ: size of the shift of the test data",
        "paper's τ: no guarantee for the deployed model",
        *facts(rows),
        f"{'bands' if len(epsilons_of(rows)) > 1 else 'bars'}: one standard error",
    ]
    log = any(_spread(row) > _LOG_FROM for row in rows)
    with house_style():
        figure, panels = page(
            len(groups),
            len(metrics),
            layout=Layout(width=2.1, height=2.5, between=1.85, below=0.85, right=1.45),
            headline="FairDP's gaps under shift, and what is claimed of them",
            caption=" · ".join(caption),
            row_names=[dataset_title(name) for name in groups],
        )
        for line, group in zip(panels, groups.values(), strict=True):
            line[0].set_ylabel("gap (log scale)" if log else "gap")
            for axes, metric in zip(line, metrics, strict=True):
                axes.set_title(f"{GAPS[metric]} gap")
                _draw_shifts(axes, _shift_lines([row for row in group if row["metric"] == metric]), log=log)
        for axes in panels[-1]:
            axes.set_xlabel("privacy budget ε")
    return figure


def _shift_lines(rows: Sequence[Row]) -> list[Line]:
    """What was measured, then what is claimed; the darker, the larger the shift."""

    def by_size(key: str, words: str, colours: tuple[str, str], *, dashes: str, marker: str) -> list[Line]:
        sizes = sorted({size for row in rows for size in row.get(key) or {}}, key=float)
        return [
            Line(
                label=f"{words}, γ = {float(size):g}",
                colour=mixed(*colours, float(shade)),
                values=_values(rows, key, size),
                dashes=dashes,
                marker=marker,
            )
            for size, shade in zip(sizes, np.linspace(0.0, 1.0, len(sizes)), strict=True)
        ]

    dark, darkest = (mixed(_CERTIFIED, "black", share) for share in (0.25, 0.65))
    lines = [
        *by_size("observed", "observed", (_LIGHT, _DARK), dashes="-", marker="o"),
        Line(label="clean", colour=_CLEAN, values=_values(rows, "clean"), dashes="--", marker="d"),
        Line(label="paper's τ", colour=_PAPER, values=_values(rows, "paper_tau"), dashes="-.", marker="^"),
        Line(label="certified τ", colour=_CERTIFIED, values=_values(rows, "certified_tau"), marker="s", strong=True),
        *by_size("certified_tau_shifted", "certified", (dark, darkest), dashes="--", marker="s"),
    ]
    return [line for line in lines if line.values.size]


def _draw_shifts(axes: Axes, lines: Sequence[Line], *, log: bool) -> None:
    means = np.concatenate([line.values[1] for line in lines])
    top = max(float((line.values[1] + line.values[2]).max()) for line in lines)
    in_percent(axes.yaxis)
    percent = axes.yaxis.get_major_formatter()
    if log:
        axes.set_yscale("log", nonpositive="clip")
        axes.set_ylim(0.75 * min(means[means > 0], default=0.01), 1.3 * top)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0), numticks=12))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(percent)
    else:
        axes.set_ylim(0.0, 1.08 * top if top > 0 else 1.0)
    _draw_lines(axes, lines, bands=True)


def _spread(row: Row) -> float:
    """How many times the smallest gap the largest bound is."""
    seen = [pair[0] for observed in row["observed"].values() if (pair := _measured(observed)) and pair[0] > 0]
    bounds = [pair[0] for name in ("paper_tau", "certified_tau") if (pair := _measured(row[name]))]
    return max(bounds, default=1.0) / min(seen, default=1.0)


def _values(rows: Sequence[Row], *path: str) -> Floats:
    """Columns (ε, mean, standard error) of what stands at a path of keys, by ε; a row without a mean is left out."""
    found = [(row["epsilon"], *pair) for row in rows if (pair := _measured(_at(row, path)))]
    return np.array(sorted(found), dtype=np.float64).reshape(-1, 3).T


def _at(row: Row, path: Sequence[str]) -> Any:
    found: Any = row
    for key in path:
        found = found.get(key) if found else None
    return found


def _measured(pair: Pair) -> tuple[float, float] | None:
    """A mean and its standard error; none without a mean, and an unknown error is drawn as none."""
    mean, error = (np.nan if value is None else float(value) for value in pair or (None, None))
    return (mean, float(np.nan_to_num(error))) if np.isfinite(mean) else None


def _draw_lines(axes: Axes, lines: Sequence[Line], *, bands: bool) -> None:
    """Lines with bands or bars of one standard error, their names, and ticks at the budgets that were used."""
    for number, line in enumerate(lines):
        epsilons, means, errors = line.values
        layer = 3.0 + 0.05 * number + (1.0 if line.strong else 0.0)
        # A band needs two points to be seen.
        if bands and len(means) > 1:
            band = axes.fill_between(epsilons, means - errors, means + errors, color=line.colour, linewidth=0)
            band.set(alpha=0.13, zorder=2)
        else:
            bars = axes.errorbar(epsilons, means, yerr=errors, fmt="none", ecolor=line.colour)
            bars[2][0].set(linewidth=0.9, alpha=0.6, zorder=layer - 0.02)
        (curve,) = axes.plot(epsilons, means, color=line.colour, linestyle=line.dashes, marker=line.marker)
        curve.set(linewidth=2.0 if line.strong else 1.3, markersize=5.0 if line.strong else 4.2, zorder=layer)
        curve.set(markeredgecolor="white", markeredgewidth=0.5, gid="curve", clip_on=False)
    used = np.unique(np.concatenate([line.values[0] for line in lines]))
    room = 0.06 * np.ptp(used) or 0.5
    axes.set_xlim(used[0] - room, used[-1] + room)
    axes.xaxis.set_major_locator(FixedLocator(used.tolist()))
    axes.xaxis.set_major_formatter("{x:g}")
    name_lines(axes, lines)


def name_lines(axes: Axes, lines: Sequence[Line]) -> None:
    """Write each label right of the panel, at the height of its line's end or as near as the others allow."""
    unit = axes.figure.dpi / 72
    ends = np.array([axes.transData.transform(line.values[:2, -1]) for line in lines])
    order = np.argsort(ends[:, 1], kind="stable")
    step, heights = 1.28 * LABEL_SIZE * unit, np.empty(len(lines))
    heights[order] = spread(ends[order, 1], step=step, low=axes.bbox.y0 + step / 2, high=axes.bbox.y1)
    for line, end, height in zip(lines, ends, heights, strict=True):
        place = ((axes.bbox.x1 + 9.0 * unit - end[0]) / unit, (height - end[1]) / unit)
        # A label that stands beside its line needs no leader.
        leader = {
            "arrowstyle": "-",
            "color": line.colour,
            "linewidth": 0.6,
            "alpha": 0.55,
            "shrinkA": 0,
            "shrinkB": 3.5,
        }
        text = axes.annotate(
            line.label,
            tuple(line.values[:2, -1]),
            xytext=place,
            textcoords="offset points",
            arrowprops={**leader, "relpos": (0.0, 0.5)} if abs(place[1]) > 2.5 else None,
            annotation_clip=False,
        )
        text.set(color=line.colour, weight="bold" if line.strong else "normal")
        text.set(size=LABEL_SIZE, ha="left", va="center_baseline", gid="label")


def spread(wanted: Floats, *, step: float, low: float, high: float) -> Floats:
    """Sorted heights moved as little as possible (least squares) so that neighbours are a step apart.

    >>> spread(np.array([1.0, 1.0, 9.0]), step=2.0, low=0.0, high=10.0)
    array([0., 2., 9.])
    """
    stairs = step * np.arange(len(wanted))
    # A fan that is too tall for the panel keeps its steps and reaches below it.
    top = high - stairs[-1]
    return np.asarray(np.clip(isotonic_regression(wanted - stairs).x, min(low, top), top) + stairs)
