"""Utility against the three gaps, by method or by imbalance of groups: points with bars both ways, joined over ε."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from fairdp.experiments.drawing.page import (
    Layout,
    Row,
    by_dataset,
    epsilons_of,
    facts,
    in_percent,
    is_private,
    page,
    titled,
)
from fairdp.report.style import GAPS, QUIET, UTILITIES, house_style, mixed, stands_out, style_of

# Diameters in points, from the smallest ε to the largest, and of points that have none.
_SMALLEST, _LARGEST, _WITHOUT = 3.4, 7.8, 7.2

# Marker shapes fill different parts of their square: these look equally large.
FILL = {"D": 0.82, "s": 0.88, "d": 1.1, "*": 1.35, "P": 1.1, "X": 1.1, "h": 1.08, "p": 1.1}

_RATIO_MARKERS = ("o", "s", "^", "D", "v", "p")
# The part of the colour map that is dark enough for labels on white.
_LIGHTEST = 0.48


@dataclass(frozen=True, kw_only=True)
class _Cloud:
    """Rows that belong together.

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
    rows: Sequence[Row]
    hollow: bool = False
    strong: bool = False

    def points(self, dataset: str, utility: str, gap: str) -> NDArray[np.float64]:
        """Rows (ε, utility, gap, their standard errors) of a panel, by ε, which is infinite where nothing is private.

        Rows without either value are left out; an unknown standard error is drawn as none.
        """
        found = [
            [np.inf if row["epsilon"] is None else row["epsilon"]]
            + [_number(row[kind].get(name)) for kind in ("mean", "standard_error") for name in (utility, gap)]
            for row in self.rows
            if row["dataset"] == dataset
        ]
        points = np.array(sorted(found), dtype=np.float64).reshape(-1, 5)
        points[:, 3:] = np.nan_to_num(points[:, 3:])
        return points[np.isfinite(points[:, 1:]).all(axis=1)]

    def marker_look(self, *, private: bool) -> dict[str, str | float]:
        """How matplotlib draws a marker: filled, shaded where nothing is private, or an outline."""
        face = "white" if self.hollow else self.colour if private else mixed(self.colour, "white", 0.78)
        filled = private and not self.hollow
        edge = "white" if filled else self.colour
        width = 0.5 if filled else 1.1
        return {"marker": self.marker, "markerfacecolor": face, "markeredgecolor": edge, "markeredgewidth": width}

    @property
    def line_look(self) -> dict[str, str | float]:
        """How matplotlib draws the line that joins the points."""
        return {"linestyle": ":" if self.hollow else "-", "linewidth": 1.6 if self.strong else 0.9}

    def handle(self) -> Line2D:
        """Its entry in a legend."""
        private = any(is_private(row["epsilon"]) for row in self.rows)
        look = {**(self.line_look if private else {"linestyle": "none"}), **self.marker_look(private=private)}
        line = Line2D([], [], color=self.colour, label=self.label, gid="strong" if self.strong else None)
        line.set(markersize=6.0 * FILL.get(self.marker, 1.0), **look)
        return line


def tradeoff_figure(
    rows: Sequence[Row], *, utility: str, controls: Sequence[Row] = (), titles: Mapping[str, str] | None = None
) -> Figure:
    """Utility against each gap: a row of panels per data set, a line of points per method.

    Parameters
    ----------
    rows
        A method on a data set at one ε (None: not private): ``dataset``, ``method``, ``epsilon``, ``mean`` and
        ``standard_error`` by metric, ``n_runs``; ``variant`` and ``delta`` if they have them.
    utility
        ``accuracy`` or ``auc``.
    controls
        DP-SGD with its threshold moved to the positive rate of another method, which ``at`` names, and ``variant`` if
        there are several.
    titles
        What else to say of a data set, above its row of panels.
    """
    controls = [row for row in controls if row["dataset"] in by_dataset(rows)]
    keys = list(dict.fromkeys((row["method"], row.get("variant")) for row in rows))
    clouds = []
    for method, variant in keys:
        look, kin = style_of(method), [key for key in keys if key[0] == method]
        # Variants keep the method's hue and marker; the later ones are darker.
        shade = 0.6 * kin.index((method, variant)) / max(1, len(kin) - 1)
        clouds.append(
            _Cloud(
                label=f"{look.label} ({variant})" if variant else look.label,
                colour=mixed(look.colour, "black", shade),
                marker=look.marker,
                rows=[row for row in rows if (row["method"], row.get("variant")) == (method, variant)],
                strong=stands_out(method) and len(kin) == 1,
            )
        )
    for at, variant in dict.fromkeys((row["at"], row.get("variant")) for row in controls):
        matched = [row for row in controls if (row["at"], row.get("variant")) == (at, variant)]
        look = style_of(matched[0]["method"])
        label = f"{look.label} at {style_of(at).label}'s positive rate{f' ({variant})' if variant else ''}"
        clouds.append(_Cloud(label=label, colour=look.colour, marker=look.marker, rows=matched, hollow=True))
    headline = f"Fairness gaps against {UTILITIES[utility]}"
    return _cloud_figure(clouds, utility=utility, headline=headline, caption="Means on the test set", titles=titles)


def imbalance_figure(rows: Sequence[Row], *, utility: str, words: str = "") -> Figure:
    """FairDP's utility against each gap: a row of panels per data set, a line of points per ratio ρ of the groups.

    Parameters
    ----------
    rows
        ``dataset``, ``ratio``, ``epsilon``, and ``mean`` and ``standard_error`` by metric.
    utility
        ``accuracy`` or ``auc``.
    words
        How FairDP was trained, for the caption.
    """
    ratios = sorted({row["ratio"] for row in rows})
    shades = np.linspace(_LIGHTEST, 0.0, len(ratios))
    clouds = [
        _Cloud(
            label=f"ρ = {ratio:g}",
            colour=to_hex(colormaps["plasma"](shade)),
            marker=_RATIO_MARKERS[rank % len(_RATIO_MARKERS)],
            rows=[row for row in rows if row["ratio"] == ratio],
        )
        for rank, (ratio, shade) in enumerate(zip(ratios, shades, strict=True))
    ]
    headline = f"FairDP under imbalance: fairness gaps against {UTILITIES[utility]}"
    caption = f"{words}{' · ' if words else ''}ρ: ratio of the groups' sizes, darker is larger"
    return _cloud_figure(clouds, utility=utility, headline=headline, caption=caption)


def _cloud_figure(
    clouds: Sequence[_Cloud],
    *,
    utility: str,
    headline: str,
    caption: str,
    titles: Mapping[str, str] | None = None,
) -> Figure:
    """A row of panels per data set, a panel per gap."""
    rows = [row for cloud in clouds for row in cloud.rows]
    epsilons, groups = epsilons_of(rows), by_dataset(rows)
    key = _size_key(epsilons, with_public=any(not is_private(row["epsilon"]) for row in rows))
    with house_style():
        figure, panels = page(
            len(groups),
            len(GAPS),
            layout=Layout(width=3.1, height=2.6, between=0.5, below=0.85, right=0.25),
            headline=headline,
            caption=" · ".join([caption, *facts(rows), "bars: one standard error"]),
            legends=[[cloud.handle() for cloud in clouds], *([key] if key else [])],
            row_names=[titled(name, titles) for name in groups],
        )
        for line, (dataset, group) in zip(panels, groups.items(), strict=True):
            line[0].set_ylabel("gap (lower is fairer)")
            for axes, (gap, title) in zip(line, GAPS.items(), strict=True):
                axes.set_title(f"{title} gap")
                axes.set_xlim(*_limits(group, utility))
                in_percent(axes.yaxis, axes.xaxis)
                if utility != "accuracy":
                    axes.xaxis.set_major_formatter("{x:g}")
                points = [(cloud, cloud.points(dataset, utility, f"{gap}_difference")) for cloud in clouds]
                top = max((float((its[:, 2] + its[:, 4]).max()) for _, its in points if len(its)), default=0.0)
                axes.set_ylim(0.0, 1.15 * top if top > 0 else 1.0)
                for cloud, its in points:
                    _draw_cloud(axes, cloud, its, epsilons)
        for axes in panels[-1]:
            axes.set_xlabel(f"{UTILITIES[utility]} (higher is better)")
    return figure


def _draw_cloud(axes: Axes, cloud: _Cloud, points: NDArray[np.float64], epsilons: Sequence[float]) -> None:
    layer = 4.0 if cloud.strong else 3.0
    budgets, xs, ys, x_errors, y_errors = points.T
    bars = axes.errorbar(xs, ys, xerr=x_errors, yerr=y_errors, fmt="none", ecolor=mixed(cloud.colour, "white", 0.45))
    for bar in bars[2]:
        bar.set(linewidth=0.8, zorder=layer - 0.4)
    private = np.isfinite(budgets)
    (path,) = axes.plot(xs[private], ys[private], color=cloud.colour)
    path.set(alpha=0.75, zorder=layer - 0.2, **cloud.line_look)
    for epsilon, x, y, *_ in points.tolist():
        # Not clipped: a gap of zero lies on the axis.
        (marker,) = axes.plot([x], [y], linestyle="none", gid="point", clip_on=False, zorder=layer)
        size = _diameter(epsilon, epsilons) * FILL.get(cloud.marker, 1.0)
        marker.set(markersize=size, **cloud.marker_look(private=is_private(epsilon)))


def _limits(rows: Sequence[Row], utility: str) -> tuple[float, float]:
    """Limits of the utility axis that hold all rows with their bars."""
    means = np.array([_number(row["mean"].get(utility)) for row in rows])
    errors = np.nan_to_num([_number(row["standard_error"].get(utility)) for row in rows])
    known = np.isfinite(means)
    low, high = min((means - errors)[known], default=0.0), max((means + errors)[known], default=1.0)
    # Two points of utility at least: less would make noise look like a difference.
    room = max(0.08 * (high - low), 0.01 - (high - low) / 2)
    return low - room, high + room


def _size_key(epsilons: Sequence[float], *, with_public: bool) -> list[Line2D]:
    """The meaning of the size of markers, and of those that are shaded."""
    key, handles = _Cloud(label="", colour=QUIET, marker="o", rows=()), []
    shown: list[float | None] = [*(epsilons if len(epsilons) > 1 else ()), *([None] if with_public else [])]
    for epsilon in shown:
        label = "shaded: not private" if epsilon is None else f"ε = {epsilon:g}"
        handles.append(Line2D([], [], color=QUIET, linestyle="none", label=label))
        handles[-1].set(markersize=_diameter(epsilon, epsilons), **key.marker_look(private=epsilon is not None))
    return handles


def _diameter(epsilon: float | None, epsilons: Sequence[float]) -> float:
    """By rank: budgets that differ by a factor of a hundred remain visible."""
    if epsilon is None or epsilon not in epsilons:
        return _WITHOUT
    if len(epsilons) == 1:
        return (_SMALLEST + _LARGEST) / 2
    return float(np.linspace(_SMALLEST, _LARGEST, len(epsilons))[list(epsilons).index(epsilon)])


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
