"""Accuracy against a gap: what methods reach at the targets they are given, in one panel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from fairdp.experiments.drawing.clouds import FILL
from fairdp.experiments.drawing.page import Layout, Row, in_percent, page
from fairdp.report.style import FAINT, Style, house_style, mixed, stands_out, style_of

# Models by others have no style among the methods; those without privacy are shaded.
_OTHERS = {
    "dp_ebm": ("#00745a", "^", True),
    "dp_ebm_tuned": ("#00745a", "v", True),
    "boosting": ("#6b6b6b", "P", False),
    "logistic_regression": ("#6b6b6b", "X", False),
    "reduction": ("#936d5d", "h", False),
}


@dataclass(frozen=True, kw_only=True)
class _Path:
    """The points of a method, from its smallest gap to its largest: columns (gap, accuracy, their standard errors)."""

    style: Style
    private: bool
    strong: bool
    points: NDArray[np.float64]

    @property
    def look(self) -> dict[str, object]:
        """How matplotlib draws its markers: filled, or shaded where nothing is private."""
        colour = self.style.colour
        face, edge = (colour, "white") if self.private else (mixed(colour, "white", 0.78), colour)
        shape = {"marker": self.style.marker, "markerfacecolor": face, "markeredgecolor": edge}
        size = (8.0 if self.strong else 6.5) * FILL.get(self.style.marker, 1.0)
        return {**shape, "markersize": size, "markeredgewidth": 0.5 if self.private else 1.1}

    def handle(self) -> Line2D:
        """Its entry in the legend."""
        line = Line2D([], [], color=self.style.colour, label=self.style.label, gid="strong" if self.strong else None)
        line.set(linestyle="-" if len(self.points) > 1 else "none", **self.look)
        return line


def target_figure(rows: Sequence[Row], *, titles: Mapping[str, str], headline: str) -> Figure:
    """A point for every row, joined by method; gaps that were aimed at are lines across the panel.

    Parameters
    ----------
    rows
        ``method``, ``target`` (words that end with the gap), and ``mean`` and ``standard_error`` of ``accuracy`` and
        ``gap``.
    titles
        Names of models that are no methods of the package.
    """
    paths = [_path(method, rows, titles) for method in dict.fromkeys(row["method"] for row in rows)]
    targets = sorted({float(row["target"].split()[-1]) for row in rows if row["target"] != "none"})
    with house_style():
        figure, ((axes,),) = page(
            1,
            1,
            layout=Layout(width=6.4, height=3.9, between=0.5, below=0.85, right=0.25),
            headline=headline,
            caption="Means on the test records · dashed: gaps that were aimed at · shaded: not private · bars: one "
            "standard error over seeds",
            legends=[[path.handle() for path in paths[start : start + 3]] for start in range(0, len(paths), 3)],
        )
        axes.set(xlabel="demographic parity gap (lower is fairer)", ylabel="accuracy (higher is better)")
        in_percent(axes.xaxis, axes.yaxis)
        for target in targets:
            axes.axvline(target, color=FAINT, linestyle="--", linewidth=1.0, zorder=1, gid="target")
        for path in paths:
            _draw(axes, path)
        axes.set_xlim(0.0, 1.06 * max(float(path.points[:, 0].max()) for path in paths))
    return figure


def _path(method: str, rows: Sequence[Row], titles: Mapping[str, str]) -> _Path:
    names = [("mean", "gap"), ("mean", "accuracy"), ("standard_error", "gap"), ("standard_error", "accuracy")]
    points = np.array(
        sorted([float(row[kind][name]) for kind, name in names] for row in rows if row["method"] == method)
    )
    style, private = style_of(method), True
    if method in _OTHERS:
        colour, marker, private = _OTHERS[method]
        style = Style(titles[method], colour, marker)
    return _Path(style=style, private=private, strong=stands_out(method), points=np.nan_to_num(points))


def _draw(axes: Axes, path: _Path) -> None:
    layer, colour = 4.0 if path.strong else 3.0, path.style.colour
    xs, ys, x_errors, y_errors = path.points.T
    bars = axes.errorbar(xs, ys, xerr=x_errors, yerr=y_errors, fmt="none", ecolor=mixed(colour, "white", 0.45))
    for bar in bars[2]:
        bar.set(linewidth=0.8, zorder=layer - 0.4)
    (line,) = axes.plot(xs, ys, color=colour, gid="points", zorder=layer, linewidth=1.6 if path.strong else 0.9)
    line.set(**path.look)
