"""Utility against the three gaps as one group grows rare."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from fairdp.drawing.clouds import (
    Cloud,
    datasets_and_rows,
    draw_clouds,
    label_axes,
    points_of,
    size_key,
    utility_limits,
)
from fairdp.drawing.grid import Head, Layout, epsilons_of, facts, is_private, panel_grid
from fairdp.drawing.style import GAPS, UTILITIES, dataset_title, house_style

_MARKERS = ("o", "s", "^", "D", "v", "p")

# The part of the colour map that is dark enough for labels on white.
_LIGHTEST = 0.48


def imbalance_figure(rows: Sequence[Mapping[str, Any]], *, utility: str) -> Figure:
    """FairDP's utility against each gap: a row of panels per data set, a line of points per ratio ρ of the groups.

    Parameters
    ----------
    rows
        ``dataset``, ``ratio``, ``epsilon``, and ``mean`` and ``standard_error`` by metric.
    utility
        ``accuracy`` or ``auc``.
    """
    groups = datasets_and_rows(rows)
    epsilons = epsilons_of(rows)
    ratios = sorted({row["ratio"] for row in rows})
    head = Head(
        headline=f"FairDP under imbalance: fairness gaps against {UTILITIES[utility]}",
        caption=" · ".join(
            ["ρ: ratio of the groups' sizes, darker is larger", *facts(rows), "bars: one standard error"]
        ),
        key=size_key(epsilons, with_public=any(not is_private(row["epsilon"]) for row in rows)),
    )
    names = tuple(dataset_title(name) for name, _ in groups)
    layout = Layout(panel_width=3.1, panel_height=2.5, column_gap=0.5, row_gap=0.85, right=0.25, row_names=names)
    with house_style():
        figure, panels = panel_grid(len(groups), len(GAPS), layout=layout, head=head)
        for line, (_, own) in zip(panels, groups, strict=True):
            limits = utility_limits(own, utility=utility)
            for axes, (gap, title) in zip(line, GAPS.items(), strict=True):
                axes.set_title(f"{title} gap")
                clouds = [
                    _cloud(own, ratio, ratios, utility=utility, gap=f"{gap}_difference")
                    for ratio in dict.fromkeys(row["ratio"] for row in own)
                ]
                draw_clouds(axes, clouds, utility=utility, limits=limits, epsilons=epsilons)
        label_axes(panels, utility=utility)
    return figure


def _cloud(
    rows: Sequence[Mapping[str, Any]], ratio: float, ratios: Sequence[float], *, utility: str, gap: str
) -> Cloud:
    """The points of one ratio; its place among all ratios decides the look, so that it is the same on every panel."""
    rank = ratios.index(ratio)
    lightness = _LIGHTEST * (1 - rank / max(1, len(ratios) - 1))
    colour, marker = to_hex(colormaps["plasma"](lightness)), _MARKERS[rank % len(_MARKERS)]
    points = points_of([row for row in rows if row["ratio"] == ratio], utility=utility, gap=gap)
    return Cloud(label=f"ρ = {ratio:g}", colour=colour, marker=marker, points=points)
