"""Utility against the three gaps, by method."""

from collections.abc import Mapping, Sequence
from typing import Any

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
from fairdp.drawing.style import GAPS, UTILITIES, dataset_title, house_style, mixed, stands_out, style_of

Row = Mapping[str, Any]


def tradeoff_figure(rows: Sequence[Row], *, utility: str, controls: Sequence[Row] = ()) -> Figure:
    """Utility against each gap: a row of panels per data set, a line of points per method.

    Parameters
    ----------
    rows
        A method on a data set at one ε (None: not private): ``dataset``, ``method``, ``epsilon``, ``mean`` and
        ``standard_error`` by metric, ``n_runs``; ``variant`` and ``delta`` if they have them.
    utility
        ``accuracy`` or ``auc``.
    controls
        DP-SGD with its threshold moved to the positive rate of another method, which ``at`` names.
    """
    everything = [*rows, *controls]
    groups = datasets_and_rows(rows)
    epsilons = epsilons_of(everything)
    head = Head(
        headline=f"Fairness gaps against {UTILITIES[utility]}",
        caption=" · ".join(["Means on the test set", *facts(everything), "bars: one standard error"]),
        key=size_key(epsilons, with_public=any(not is_private(row["epsilon"]) for row in rows)),
    )
    names = tuple(dataset_title(name) for name, _ in groups)
    layout = Layout(panel_width=3.1, panel_height=2.75, column_gap=0.5, row_gap=0.85, right=0.25, row_names=names)
    with house_style():
        figure, panels = panel_grid(len(groups), len(GAPS), layout=layout, head=head)
        for line, (name, own) in zip(panels, groups, strict=True):
            checks = [row for row in controls if row["dataset"] == name]
            limits = utility_limits([*own, *checks], utility=utility)
            for axes, (gap, title) in zip(line, GAPS.items(), strict=True):
                axes.set_title(f"{title} gap")
                clouds = _clouds(own, checks, utility=utility, gap=f"{gap}_difference")
                draw_clouds(axes, clouds, utility=utility, limits=limits, epsilons=epsilons)
        label_axes(panels, utility=utility)
    return figure


def _clouds(rows: Sequence[Row], controls: Sequence[Row], *, utility: str, gap: str) -> list[Cloud]:
    """One per method and variant, and one per method that DP-SGD is compared at."""
    clouds = []
    keys = list(dict.fromkeys((row["method"], row.get("variant")) for row in rows))
    for method, variant in keys:
        own = [row for row in rows if (row["method"], row.get("variant")) == (method, variant)]
        look = style_of(method)
        words = f"{look.label}\n({variant})" if variant else look.label
        kin = [key for key in keys if key[0] == method]
        # Variants keep the method's hue and marker; the later ones are darker.
        shade = 0.6 * kin.index((method, variant)) / max(1, len(kin) - 1)
        points = points_of(own, utility=utility, gap=gap)
        colour, strong = mixed(look.colour, "black", shade), stands_out(method) and len(kin) == 1
        clouds.append(Cloud(label=words, colour=colour, marker=look.marker, points=points, strong=strong))
    for at in dict.fromkeys(row["at"] for row in controls):
        own = [row for row in controls if row["at"] == at]
        look = style_of(own[0]["method"])
        words = f"{look.label} at {style_of(at).label}'s\npositive rate"
        points = points_of(own, utility=utility, gap=gap)
        clouds.append(Cloud(label=words, colour=look.colour, marker=look.marker, points=points, hollow=True))
    return clouds
