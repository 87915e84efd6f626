"""Utility against a gap: panels of points with bars both ways, joined over ε and labelled beside them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fairdp.experiments.drawing.grid import Head, Layout, epsilons_of, facts, in_order, is_private, panel_grid, percent
from fairdp.experiments.drawing.placement import Floats, Label, place_labels
from fairdp.report.style import GAPS, QUIET, UTILITIES, dataset_title, house_style, mixed

Row = Mapping[str, Any]

# Diameters in points, from the smallest ε to the largest, and of points that have none.
_SMALLEST, _LARGEST, _WITHOUT = 3.4, 7.8, 7.2

# Marker shapes fill different parts of their square: these look equally large.
_FILL = {"D": 0.82, "s": 0.88, "d": 1.1, "*": 1.35, "P": 1.1, "X": 1.1, "h": 1.08, "p": 1.1}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One row in one panel: utility and gap with their standard errors."""

    x: float
    y: float
    x_error: float
    y_error: float
    epsilon: float | None


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """Points that belong together.

    Parameters
    ----------
    hollow
        Drawn as outlines joined by dots: a comparison that is not a method of its own.
    strong
        Drawn above the others, with a bold label.
    """

    label: str
    colour: str
    marker: str
    points: tuple[Point, ...]
    hollow: bool = False
    strong: bool = False


def cloud_figure(
    rows: Sequence[Row],
    clouds_of: Callable[[str, str], Sequence[Cloud]],
    *,
    utility: str,
    headline: str,
    caption: str,
    panel_height: float,
) -> Figure:
    """A row of panels per data set, a panel per gap.

    Parameters
    ----------
    rows
        All that is drawn, whose budgets and utilities decide sizes and limits.
    clouds_of
        The clouds of a data set and a gap.
    """
    groups, epsilons = datasets_and_rows(rows), epsilons_of(rows)
    head = Head(
        headline=headline,
        caption=" · ".join([caption, *facts(rows), "bars: one standard error"]),
        key=size_key(epsilons, with_public=any(not is_private(row["epsilon"]) for row in rows)),
    )
    names = tuple(dataset_title(name) for name, _ in groups)
    layout = Layout(
        panel_width=3.1, panel_height=panel_height, column_gap=0.5, row_gap=0.85, right=0.25, row_names=names
    )
    with house_style():
        figure, panels = panel_grid(len(groups), len(GAPS), layout=layout, head=head)
        for line, (name, own) in zip(panels, groups, strict=True):
            limits = utility_limits(own, utility=utility)
            for axes, (gap, title) in zip(line, GAPS.items(), strict=True):
                axes.set_title(f"{title} gap")
                draw_clouds(
                    axes, clouds_of(name, f"{gap}_difference"), utility=utility, limits=limits, epsilons=epsilons
                )
        label_axes(panels, utility=utility)
    return figure


def points_of(rows: Iterable[Mapping[str, Any]], *, utility: str, gap: str) -> tuple[Point, ...]:
    """The rows that have both values, by ε; a standard error that is unknown is drawn as none."""
    points = []
    for row in rows:
        x, y = row["mean"].get(utility), row["mean"].get(gap)
        if x is None or y is None or not np.isfinite([x, y]).all():
            continue
        x_error, y_error = (_error(row["standard_error"].get(name)) for name in (utility, gap))
        points.append(Point(x=x, y=y, x_error=x_error, y_error=y_error, epsilon=row["epsilon"]))
    return tuple(sorted(points, key=lambda point: (is_private(point.epsilon), point.epsilon or 0.0)))


def draw_clouds(
    axes: Axes, clouds: Sequence[Cloud], *, utility: str, limits: tuple[float, float], epsilons: Sequence[float]
) -> None:
    """Fill one panel; the gap starts at zero and the utility spans the limits."""
    clouds = [cloud for cloud in clouds if cloud.points]
    top = max((point.y + point.y_error for cloud in clouds for point in cloud.points), default=0.0)
    axes.set_xlim(*limits)
    axes.set_ylim(0.0, 1.15 * top if top > 0 else 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(percent())
    if utility == "accuracy":
        axes.xaxis.set_major_formatter(percent())
    for cloud in clouds:
        _draw_cloud(axes, cloud, epsilons)
    place_labels(axes, [_label(axes, cloud, epsilons) for cloud in sorted(clouds, key=lambda cloud: not cloud.strong)])


def utility_limits(rows: Sequence[Mapping[str, Any]], *, utility: str) -> tuple[float, float]:
    """Limits of the utility axis that hold all rows with their bars and leave room for labels."""
    ends = []
    for row in rows:
        mean, error = row["mean"].get(utility), _error(row["standard_error"].get(utility))
        if mean is not None and np.isfinite(mean):
            ends += [mean - error, mean + error]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    # Two points of utility at least: less would make noise look like a difference.
    room = max(0.14 * (high - low), 0.01 - (high - low) / 2)
    return low - room, high + room


def label_axes(panels: Sequence[Sequence[Axes]], *, utility: str) -> None:
    """Name the axes once per row and column, with the direction that is better."""
    for row in panels:
        row[0].set_ylabel("gap (lower is fairer)")
    for axes in panels[-1]:
        axes.set_xlabel(f"{UTILITIES[utility]} (higher is better)")


def size_key(epsilons: Sequence[float], *, with_public: bool) -> tuple[tuple[Line2D | None, str], ...]:
    """The meaning of the size of markers, as a line of the head."""
    entries: list[tuple[Line2D | None, str]] = []
    if len(epsilons) > 1:
        entries.append((None, "marker size: ε ="))
        entries += [(_key_marker(_diameter(e, epsilons), QUIET), f"{e:g}") for e in epsilons]
    if with_public:
        entries.append((_key_marker(_WITHOUT, mixed(QUIET, "white", 0.78)), "shaded: not private"))
    return tuple(entries)


def datasets_and_rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """The rows of each data set, as they first appear."""
    return [(name, [row for row in rows if row["dataset"] == name]) for name in in_order(rows, "dataset")]


def _draw_cloud(axes: Axes, cloud: Cloud, epsilons: Sequence[float]) -> None:
    xs, ys = [point.x for point in cloud.points], [point.y for point in cloud.points]
    x_errors, y_errors = [point.x_error for point in cloud.points], [point.y_error for point in cloud.points]
    layer = 4.0 if cloud.strong else 3.0
    bars = axes.errorbar(xs, ys, xerr=x_errors, yerr=y_errors, fmt="none", ecolor=mixed(cloud.colour, "white", 0.45))
    for bar in bars[2]:
        bar.set(linewidth=0.8, zorder=layer - 0.4)
    private = [point for point in cloud.points if is_private(point.epsilon)]
    path = Line2D([point.x for point in private], [point.y for point in private], color=cloud.colour, alpha=0.75)
    path.set(linewidth=1.6 if cloud.strong else 0.9, linestyle=":" if cloud.hollow else "-", zorder=layer - 0.2)
    axes.add_line(path)
    for point in cloud.points:
        _draw_marker(axes, point, cloud, size=_point_diameter(point, cloud, epsilons), layer=layer)


def _draw_marker(axes: Axes, point: Point, cloud: Cloud, *, size: float, layer: float) -> None:
    solid = is_private(point.epsilon)
    face = "white" if cloud.hollow else cloud.colour if solid else mixed(cloud.colour, "white", 0.78)
    edge = "white" if solid and not cloud.hollow else cloud.colour
    marker = Line2D([point.x], [point.y], linestyle="none", marker=cloud.marker, markersize=size, gid="point")
    marker.set(markerfacecolor=face, markeredgecolor=edge, markeredgewidth=0.5 if edge == "white" else 1.1)
    axes.add_line(marker)
    # Not clipped: a gap of zero lies on the axis.
    marker.set(zorder=layer, clip_on=False)


def _label(axes: Axes, cloud: Cloud, epsilons: Sequence[float]) -> Label:
    unit = axes.figure.dpi / 72
    points = cloud.points[::-1]
    anchors = axes.transData.transform([(point.x, point.y) for point in points])
    sizes = np.array([_point_diameter(point, cloud, epsilons) for point in points])
    pieces = [anchors]
    for point, (x, y) in zip(points, anchors, strict=True):
        low, high = axes.transData.transform(
            [(point.x - point.x_error, point.y - point.y_error), (point.x + point.x_error, point.y + point.y_error)]
        )
        pieces.append(_between((low[0], y), (high[0], y), unit))
        pieces.append(_between((x, low[1]), (x, high[1]), unit))
    pieces += [_between(tuple(one), tuple(two), unit) for one, two in pairwise(anchors)]
    trace = np.vstack(pieces)
    return Label(
        words=cloud.label, colour=cloud.colour, bold=cloud.strong, anchors=anchors, radii=sizes * unit / 2, trace=trace
    )


def _between(start: tuple[float, ...], end: tuple[float, ...], unit: float) -> Floats:
    """Pixels along a line, about two points apart."""
    steps = 2 + int(np.hypot(end[0] - start[0], end[1] - start[1]) / (2 * unit))
    return np.linspace(start, end, steps)


def _point_diameter(point: Point, cloud: Cloud, epsilons: Sequence[float]) -> float:
    size = _diameter(point.epsilon, epsilons) if point.epsilon in epsilons else _WITHOUT
    return size * _FILL.get(cloud.marker, 1.0)


def _diameter(epsilon: float | None, epsilons: Sequence[float]) -> float:
    """By rank: budgets that differ by a factor of a hundred remain visible."""
    if epsilon is None or len(epsilons) < 2:
        return (_SMALLEST + _LARGEST) / 2
    return _SMALLEST + (_LARGEST - _SMALLEST) * list(epsilons).index(epsilon) / (len(epsilons) - 1)


def _key_marker(size: float, face: str) -> Line2D:
    marker = Line2D([], [], linestyle="none", marker="o", markersize=size, markerfacecolor=face)
    marker.set(markeredgecolor="white" if face == QUIET else QUIET, markeredgewidth=0.5 if face == QUIET else 1.1)
    return marker


def _error(value: float | None) -> float:
    return float(value) if value is not None and np.isfinite(value) else 0.0
