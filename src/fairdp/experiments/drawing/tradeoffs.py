"""Utility against the three gaps, by method."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from fairdp.experiments.drawing.clouds import Cloud, Row, cloud_figure, points_of
from fairdp.report.style import UTILITIES, mixed, stands_out, style_of


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
    known = {row["dataset"] for row in rows}
    controls = [row for row in controls if row["dataset"] in known]

    def clouds_of(dataset: str, gap: str) -> list[Cloud]:
        own, checks = ([row for row in some if row["dataset"] == dataset] for some in (rows, controls))
        return _clouds(own, checks, utility=utility, gap=gap)

    return cloud_figure(
        [*rows, *controls],
        clouds_of,
        utility=utility,
        headline=f"Fairness gaps against {UTILITIES[utility]}",
        caption="Means on the test set",
        panel_height=2.75,
    )


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
