"""What FairDP gains in fairness and costs in utility against another method, over ε."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fairdp.experiments.drawing.clouds import datasets_and_rows
from fairdp.experiments.drawing.grid import Head, Layout, facts, panel_grid, percent
from fairdp.experiments.drawing.lines import Line, draw_lines, measured, name_lines, set_epsilons
from fairdp.report.style import GAPS, QUIET, UTILITIES, dataset_title, house_style

Row = Mapping[str, Any]

_LOOKS = {
    "demographic_parity": ("#0057b8", "o"),
    "equal_opportunity": ("#00745a", "s"),
    "equalized_odds": ("#a3477f", "^"),
    "accuracy": ("#262626", "o"),
    "auc": ("#8a6200", "s"),
}


def gain_figure(rows: Sequence[Row], *, against: str) -> Figure:
    """Relative reductions of the gaps above, drops of utility below; a column per data set.

    Parameters
    ----------
    rows
        ``dataset``, ``epsilon``, and ``gains`` and ``drops``: a mean and a standard error by metric, as fractions.
    against
        Name of the other method, for the headline.
    """
    groups = datasets_and_rows(rows)
    head = Head(
        headline=f"What FairDP gains and costs against {against}",
        caption=" · ".join([*facts(rows), "bars: one standard error"]),
    )
    layout = Layout(panel_width=2.25, panel_height=2.0, column_gap=1.82, row_gap=0.3, right=1.45)
    with house_style():
        figure, panels = panel_grid(2, len(groups), layout=layout, head=head)
        for kind, names, line in (("gains", GAPS, panels[0]), ("drops", UTILITIES, panels[1])):
            for axes, (_, own) in zip(line, groups, strict=True):
                axes.set_ylim(*_limits(own, kind, names))
                _fill(axes, own, kind=kind, names=names)
        for axes, (name, _) in zip(panels[0], groups, strict=True):
            axes.set_title(dataset_title(name), weight="bold", size=10.5)
            axes.tick_params(labelbottom=False)
        panels[0][0].set_ylabel("gap reduced by (higher is fairer)")
        panels[1][0].set_ylabel("utility lost (lower is better)")
        for axes in panels[1]:
            axes.set_xlabel("privacy budget ε")
    return figure


def _fill(axes: Axes, rows: Sequence[Row], *, kind: str, names: Mapping[str, str]) -> None:
    ordered = sorted(rows, key=lambda row: row["epsilon"])
    lines = []
    for name, words in names.items():
        found = [(row["epsilon"], _value(row, kind, name)) for row in ordered if _value(row, kind, name)]
        if found:
            epsilons, values = zip(*found, strict=True)
            colour, marker = _LOOKS[name]
            lines.append(Line(label=words, colour=colour, marker=marker, epsilons=epsilons, values=values))
    set_epsilons(axes, [row["epsilon"] for row in ordered])
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(percent())
    axes.axhline(0.0, color=QUIET, linewidth=0.8, zorder=1)
    draw_lines(axes, lines, bands=False)
    if lines:
        name_lines(axes, lines)


def _value(row: Row, kind: str, name: str) -> tuple[float, float] | None:
    """A metric's mean and error; gaps may be named with or without their ending."""
    return measured(row[kind].get(name, row[kind].get(f"{name}_difference")))


def _limits(rows: Sequence[Row], kind: str, names: Mapping[str, str]) -> tuple[float, float]:
    """With zero and a little room; each data set its own, or one with hardly any gap would press the others flat."""
    found = [value for row in rows for name in names if (value := _value(row, kind, name))]
    low = min([0.0, *(mean - error for mean, error in found)])
    high = max([0.0, *(mean + error for mean, error in found)])
    room = 0.08 * (high - low) or 0.1
    return low - room, high + room
