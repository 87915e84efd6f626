"""FairDP's gap on shifted test data, and the bounds that are claimed for it, over ε."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from fairdp.experiments.drawing.clouds import datasets_and_rows
from fairdp.experiments.drawing.grid import Head, Layout, epsilons_of, facts, panel_grid, percent
from fairdp.experiments.drawing.lines import Line, draw_lines, measured, name_lines, set_epsilons
from fairdp.report.style import GAPS, dataset_title, house_style, mixed

Row = Mapping[str, Any]

_LIGHT, _DARK = "#d4520a", "#3f1500"
_CLEAN, _PAPER, _CERTIFIED = "#6b6b6b", "#8a4f9e", "#0057b8"

# Bounds many times the gaps would press these to the bottom of a linear axis.
_LOG_FROM = 8.0


def shift_figure(rows: Sequence[Row]) -> Figure:
    """Gaps under shifts of size γ beside the bounds: a row of panels per data set, a column per metric.

    Parameters
    ----------
    rows
        ``dataset``, ``metric``, ``epsilon``, and, each as a mean and a standard error, ``clean``, ``observed`` by γ,
        ``paper_tau`` (no guarantee for the deployed model), ``certified_tau`` and ``certified_tau_shifted`` by γ.
    """
    groups = datasets_and_rows(rows)
    metrics = [metric for metric in GAPS if any(row["metric"] == metric for row in rows)]
    caption = [
        "γ: size of the shift of the test data",
        "paper's τ: no guarantee for the deployed model",
        *facts(rows),
        f"{'bands' if len(epsilons_of(rows)) > 1 else 'bars'}: one standard error",
    ]
    head = Head(headline="FairDP's gaps under shift, and what is claimed of them", caption=" · ".join(caption))
    names = tuple(dataset_title(name) for name, _ in groups)
    layout = Layout(panel_width=2.1, panel_height=2.5, column_gap=1.85, row_gap=0.85, right=1.45, row_names=names)
    log = any(_spread(row) > _LOG_FROM for row in rows)
    with house_style():
        figure, panels = panel_grid(len(groups), len(metrics), layout=layout, head=head)
        for line, (_, own) in zip(panels, groups, strict=True):
            line[0].set_ylabel("gap (log scale)" if log else "gap")
            for axes, metric in zip(line, metrics, strict=True):
                axes.set_title(f"{GAPS[metric]} gap")
                _fill(axes, [row for row in own if row["metric"] == metric], log=log)
        for axes in panels[-1]:
            axes.set_xlabel("privacy budget ε")
    return figure


def _fill(axes: Axes, rows: Sequence[Row], *, log: bool) -> None:
    ordered = sorted(rows, key=lambda row: row["epsilon"])
    if not ordered:
        return
    lines = _lines(ordered)
    if log:
        axes.set_yscale("log", nonpositive="clip")
    draw_lines(axes, lines, bands=True)
    set_epsilons(axes, [row["epsilon"] for row in ordered])
    means = [mean for line in lines for mean, _ in line.values]
    top = max(mean + error for line in lines for mean, error in line.values)
    if log:
        axes.set_ylim(0.75 * min([mean for mean in means if mean > 0], default=0.01), 1.3 * top)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0), numticks=12))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0.0, 1.08 * top if top > 0 else 1.0)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(percent())
    name_lines(axes, lines)


def _lines(rows: Sequence[Row]) -> list[Line]:
    """What was measured, then what is claimed; the darker, the larger the shift."""
    lines = []
    sizes = _sizes(rows, "observed")
    for rank, size in enumerate(sizes):
        colour = mixed(_LIGHT, _DARK, rank / max(1, len(sizes) - 1))
        lines.append(_line(rows, ("observed", size), f"observed, γ = {float(size):g}", colour))
    lines.append(_line(rows, ("clean",), "clean", _CLEAN, dashes="--", marker="d"))
    lines.append(_line(rows, ("paper_tau",), "paper's τ", _PAPER, dashes="-.", marker="^"))
    lines.append(_line(rows, ("certified_tau",), "certified τ", _CERTIFIED, marker="s", strong=True))
    shifted = _sizes(rows, "certified_tau_shifted")
    for rank, size in enumerate(shifted):
        colour = mixed(_CERTIFIED, "black", 0.25 + 0.4 * rank / max(1, len(shifted) - 1))
        words = f"certified, γ = {float(size):g}"
        lines.append(_line(rows, ("certified_tau_shifted", size), words, colour, dashes="--", marker="s"))
    return [line for line in lines if line.values]


def _line(
    rows: Sequence[Row],
    path: tuple[str, ...],
    label: str,
    colour: str,
    *,
    dashes: str = "-",
    marker: str = "o",
    strong: bool = False,
) -> Line:
    found = [(row["epsilon"], value) for row in rows if (value := _at(row, path))]
    epsilons, values = tuple(epsilon for epsilon, _ in found), tuple(value for _, value in found)
    return Line(
        label=label, colour=colour, epsilons=epsilons, values=values, dashes=dashes, marker=marker, strong=strong
    )


def _at(row: Row, path: tuple[str, ...]) -> tuple[float, float] | None:
    """The value that stands at a path of keys; none if a part is missing."""
    found: Any = row
    for key in path:
        found = found.get(key) if found else None
    return measured(found)


def _sizes(rows: Sequence[Row], key: str) -> list[str]:
    """The sizes of shift that any row has, in order."""
    return sorted({size for row in rows for size in row.get(key) or {}}, key=float)


def _spread(row: Row) -> float:
    """How many times the smallest gap the largest bound is."""
    seen = [value[0] for size in row["observed"] if (value := _at(row, ("observed", size))) and value[0] > 0]
    bounds = [value[0] for name in ("paper_tau", "certified_tau") if (value := _at(row, (name,)))]
    return max(bounds, default=1.0) / min(seen, default=1.0)
