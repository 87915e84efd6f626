"""Utility against the three gaps as one group grows rare."""

from collections.abc import Sequence

from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from fairdp.experiments.drawing.clouds import Cloud, Row, cloud_figure, points_of
from fairdp.report.style import UTILITIES

_MARKERS = ("o", "s", "^", "D", "v", "p")

# The part of the colour map that is dark enough for labels on white.
_LIGHTEST = 0.48


def imbalance_figure(rows: Sequence[Row], *, utility: str) -> Figure:
    """FairDP's utility against each gap: a row of panels per data set, a line of points per ratio ρ of the groups.

    Parameters
    ----------
    rows
        ``dataset``, ``ratio``, ``epsilon``, and ``mean`` and ``standard_error`` by metric.
    utility
        ``accuracy`` or ``auc``.
    """
    ratios = sorted({row["ratio"] for row in rows})

    def clouds_of(dataset: str, gap: str) -> list[Cloud]:
        own = [row for row in rows if row["dataset"] == dataset]
        present = dict.fromkeys(row["ratio"] for row in own)
        return [_cloud(own, ratio, ratios, utility=utility, gap=gap) for ratio in present]

    return cloud_figure(
        rows,
        clouds_of,
        utility=utility,
        headline=f"FairDP under imbalance: fairness gaps against {UTILITIES[utility]}",
        caption="ρ: ratio of the groups' sizes, darker is larger",
        panel_height=2.5,
    )


def _cloud(rows: Sequence[Row], ratio: float, ratios: Sequence[float], *, utility: str, gap: str) -> Cloud:
    """The points of one ratio; its place among all ratios decides the look, so that it is the same on every panel."""
    rank = ratios.index(ratio)
    lightness = _LIGHTEST * (1 - rank / max(1, len(ratios) - 1))
    colour, marker = to_hex(colormaps["plasma"](lightness)), _MARKERS[rank % len(_MARKERS)]
    points = points_of([row for row in rows if row["ratio"] == ratio], utility=utility, gap=gap)
    return Cloud(label=f"ρ = {ratio:g}", colour=colour, marker=marker, points=points)
