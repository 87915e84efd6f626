"""Figures of results: utility against gaps, targets, gains, shifts, imbalance and rates, drawn from plain rows."""

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import colormaps, style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from fairdp._io import write_file
from fairdp.parameters import CERTIFIABLE
from fairdp.report.charts import FAINT, GAPS, INK, QUIET, UTILITIES, Style, dataset_title, mixed, stands_out, style_of

LABEL_SIZE = 8.5


_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica", "sans-serif"],
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelcolor": QUIET,
    "axes.labelsize": 8.5,
    "axes.edgecolor": "#8c8c8c",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "axes.titlesize": 9.0,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 7.0,
    "axes.grid": True,
    "grid.color": "#ededed",
    "grid.linewidth": 0.6,
    "xtick.color": "#8c8c8c",
    "ytick.color": "#8c8c8c",
    "xtick.labelcolor": QUIET,
    "ytick.labelcolor": QUIET,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    # Text stays text, and names inside the file do not change from run to run.
    "svg.fonttype": "none",
    "svg.hashsalt": "fairdp",
}
Row = Mapping[str, Any]
_WHITE, _BLACK = "#ffffff", "#000000"
DPI = 160
# Inches: margins of the page, and what a line of the headline, of the caption and of a legend takes.
_MARGIN, _LEFT, _BOTTOM = 0.15, 0.72, 0.55
_HEADLINE, _CAPTION, _LEGEND = 0.23, 0.165, 0.21
_COLUMNS = 5
# Diameters in points, from the smallest ε to the largest, and of points that have none.
_SMALLEST, _LARGEST, _WITHOUT = 3.4, 7.8, 7.2
# Marker shapes fill different parts of their square: these look equally large.
FILL = {"D": 0.82, "s": 0.88, "d": 1.1, "*": 1.35, "P": 1.1, "X": 1.1, "h": 1.08, "p": 1.1}
_RATIO_MARKERS = ("o", "s", "^", "D", "v", "p")
# The part of the colour map that is dark enough for labels on white.
_LIGHTEST = 0.48
Floats = NDArray[np.float64]
Pair = Sequence[float | None] | None
_GAIN_LOOKS = {
    **{metric: (about.colour, about.marker) for metric, about in CERTIFIABLE.items()},
    "accuracy": ("#262626", "o"),
    "auc": ("#8a6200", "s"),
}
_LIGHT, _DARK = "#d4520a", "#3f1500"
_CLEAN, _PAPER, _CERTIFIED = "#6b6b6b", "#8a4f9e", "#0057b8"
# Bounds many times the gaps would press these to the bottom of a linear axis.
_LOG_FROM = 8.0
# Models by others have no style among the methods; those without privacy are shaded.
_OTHERS = {
    "dp_ebm": ("#00745a", "^", True),
    "dp_ebm_tuned": ("#00745a", "v", True),
    "boosting": ("#6b6b6b", "P", False),
    "logistic_regression": ("#6b6b6b", "X", False),
    "reduction": ("#936d5d", "h", False),
}
_LOOKS = (("#c94a00", "o"), ("#0057b8", "s"), ("#00745a", "^"))
_PARTS = {"fixed noise": ("noise_multiplier", "σ"), "fixed epsilon": ("epsilon", "ε")}
__all__ = [
    "gain_figure",
    "imbalance_figure",
    "rate_figure",
    "save_figure",
    "shift_figure",
    "target_figure",
    "tradeoff_figure",
]


@contextmanager
def house_style() -> Iterator[None]:
    """Our settings while a figure is drawn or written, whatever the reader has set; theirs return afterwards."""
    with style.context("default"), matplotlib.rc_context(_SETTINGS):
        yield


def page(
    n_rows: int,
    n_columns: int,
    *,
    panel: tuple[float, float],
    room: tuple[float, float, float],
    headline: str,
    caption: str,
    legends: Sequence[Sequence[Line2D]] = (),
    row_names: Sequence[str] = (),
) -> tuple[Figure, list[list[Axes]]]:
    """A figure with its head and empty panels, as rows of panels.

    Sizes are in inches: width and height of a panel, and the room beside it, below it, and right of the last one.
    """
    (panel_width, panel_height), (between, below, right) = panel, room
    width = _LEFT + n_columns * (panel_width + between) - between + right
    headlines, captions = _wrapped(headline, 12.0, width), _wrapped(caption, 8.5, width)
    n_legend_rows = sum(-(-len(handles) // _COLUMNS) for handles in legends)
    head = _HEADLINE * len(headlines) + _CAPTION * len(captions) + _LEGEND * n_legend_rows
    top = 0.14 + head + (0.6 if row_names else 0.32)
    height = top + n_rows * (panel_height + below) - below + _BOTTOM
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    places = {"left": _LEFT / width, "right": 1 - right / width, "top": 1 - top / height}
    places |= {"bottom": _BOTTOM / height, "wspace": between / panel_width}
    panels = figure.subplots(
        n_rows, n_columns, squeeze=False, gridspec_kw={**places, "hspace": below / panel_height}
    ).tolist()
    inches, down = figure.dpi_scale_trans, height - 0.14
    figure.text(_MARGIN, down, "\n".join(headlines), transform=inches, size=12, weight="bold", va="top", gid="headline")
    down -= _HEADLINE * len(headlines)
    figure.text(_MARGIN, down, "\n".join(captions), transform=inches, size=8.5, va="top", color=QUIET, gid="caption")
    down -= _CAPTION * len(captions) + 0.05
    for handles in legends:
        _add_legend(figure, handles, down)
        down -= _LEGEND * -(-len(handles) // _COLUMNS)
    for number, name in enumerate(row_names):
        _name_row(figure, name, height - top - number * (panel_height + below) + 0.29)
    for row in panels:
        # Names of axes stand in one column, however wide the ticks are.
        row[0].yaxis.set_label_coords(-0.5 / panel_width, 0.5)
    return figure, panels


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``NAME.png`` and ``NAME.svg``, the same byte for byte whenever they are drawn from the same rows."""
    said = {text.get_gid(): text.get_text().replace("\n", " ") for text in figure.texts}
    words = {"Title": said["headline"], "Description": said["caption"]}
    # A date or a version would differ from run to run or from machine to machine.
    unsaid = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    paths = []
    for kind, none in unsaid.items():
        stream = io.BytesIO()
        with house_style():
            figure.savefig(stream, format=kind, dpi=DPI, metadata={**none, **words})
        paths.append(folder / f"{name}.{kind}")
        write_file(paths[-1], stream.getvalue())
    return paths


def in_percent(*axes: Axis) -> None:
    """Few round ticks, and fractions as percentages with no more digits than they have."""
    for axis in axes:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.6g}%".replace("-", "−")))


def facts(rows: Sequence[Row]) -> list[str]:
    """Words of a caption about the rows: ε, and δ and the number of seeds where they state them."""
    deltas = sorted({row["delta"] for row in rows if row.get("delta")})
    seeds = sorted({row["n_runs"] for row in rows if row.get("n_runs")})
    said = {
        "ε = ": ", ".join(f"{epsilon:g}" for epsilon in epsilons_of(rows)),
        "δ = ": _range([f"{delta:.2g}".replace("e-0", "e-") for delta in deltas]),
        "": seeds and f"{_range([str(n) for n in seeds])} seed{'' if seeds == [1] else 's'}",
    }
    return [f"{name}{words}" for name, words in said.items() if words]


def epsilons_of(rows: Sequence[Row]) -> list[float]:
    """The budgets of the private rows, in order."""
    return sorted({row["epsilon"] for row in rows if is_private(row["epsilon"])})


def is_private(epsilon: float | None) -> bool:
    """True if a budget is one: neither missing nor infinite."""
    return epsilon is not None and epsilon < float("inf")


def by_dataset(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each data set, as they first appear."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["dataset"], []).append(row)
    return found


def titled(dataset: str, titles: Mapping[str, str] | None) -> str:
    """A data set's name, with what else there is to say of it."""
    more = (titles or {}).get(dataset)
    return f"{dataset_title(dataset)} ({more})" if more else dataset_title(dataset)


def _range(words: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys([*words[:1], *words[-1:]]))


def _wrapped(text: str, size: float, width: float) -> list[str]:
    """Lines that fit the page; a character of this font takes about 0.6 of its size."""
    return textwrap.wrap(text, int((width - 2 * _MARGIN) * 72 / (0.6 * size)), break_on_hyphens=False)


def _add_legend(figure: Figure, handles: Sequence[Line2D], base: float) -> None:
    legend = figure.legend(
        handles=list(handles),
        loc="upper left",
        bbox_to_anchor=(_MARGIN, base),
        bbox_transform=figure.dpi_scale_trans,
        ncols=min(_COLUMNS, len(handles)),
        fontsize=8.5,
        frameon=False,
        borderpad=0.1,
        borderaxespad=0.0,
        columnspacing=1.6,
    )
    for text, handle in zip(legend.get_texts(), handles, strict=True):
        text.set(color=handle.get_color(), weight="bold" if handle.get_gid() == "strong" else "normal")


def _name_row(figure: Figure, name: str, base: float) -> None:
    ends = [_MARGIN, figure.get_figwidth() - _MARGIN]
    inches = figure.dpi_scale_trans
    figure.add_artist(Line2D(ends, [base + 0.2] * 2, transform=inches, color=FAINT, linewidth=0.7))
    figure.text(_MARGIN, base, name, transform=inches, size=10.5, weight="bold", va="bottom", color=INK, gid="row")


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
        """Arguments of matplotlib for a marker: filled, shaded where nothing is private, or an outline."""
        face = "white" if self.hollow else self.colour if private else mixed(self.colour, _WHITE, 0.78)
        filled = private and not self.hollow
        edge = "white" if filled else self.colour
        width = 0.5 if filled else 1.1
        return {"marker": self.marker, "markerfacecolor": face, "markeredgecolor": edge, "markeredgewidth": width}

    @property
    def line_look(self) -> dict[str, str | float]:
        """Arguments of matplotlib for the line that joins the points."""
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
                colour=mixed(look.colour, _BLACK, shade),
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
            panel=(3.1, 2.6),
            room=(0.5, 0.85, 0.25),
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
    bars = axes.errorbar(xs, ys, xerr=x_errors, yerr=y_errors, fmt="none", ecolor=mixed(cloud.colour, _WHITE, 0.45))
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
            panel=(2.25, 2.0),
            room=(1.82, 0.3, 1.45),
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
            panel=(2.1, 2.5),
            room=(1.85, 0.85, 1.45),
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
    """Measured gaps, then claimed ones; the darker, the larger the shift."""

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

    dark, darkest = (mixed(_CERTIFIED, _BLACK, share) for share in (0.25, 0.65))
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
    """Largest bound over the smallest gap."""
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


@dataclass(frozen=True, kw_only=True)
class _Path:
    """The points of a method, from its smallest gap to its largest: columns (gap, accuracy, their standard errors)."""

    style: Style
    private: bool
    strong: bool
    points: NDArray[np.float64]

    @property
    def look(self) -> dict[str, object]:
        """Arguments of matplotlib for its markers: filled, or shaded where nothing is private."""
        colour = self.style.colour
        face, edge = (colour, "white") if self.private else (mixed(colour, _WHITE, 0.78), colour)
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
            panel=(6.4, 3.9),
            room=(0.5, 0.85, 0.25),
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
    bars = axes.errorbar(xs, ys, xerr=x_errors, yerr=y_errors, fmt="none", ecolor=mixed(colour, _WHITE, 0.45))
    for bar in bars[2]:
        bar.set(linewidth=0.8, zorder=layer - 0.4)
    (line,) = axes.plot(xs, ys, color=colour, gid="points", zorder=layer, linewidth=1.6 if path.strong else 0.9)
    line.set(**path.look)


def rate_figure(rows: Sequence[Row], *, at_zero: float, n_seeds: int) -> Figure:
    """A panel for each reading of the theorem, both axes logarithmic.

    Parameters
    ----------
    rows
        ``part``, ``n_steps``, ``noise_multiplier``, ``epsilon``, ``excess_risk`` and its ``standard_error``.
    at_zero
        Excess risk of a head that knows nothing.
    """
    caption = [
        f"dashed: the excess risk of the head 0, {at_zero:.2g}",
        "dotted: rates through the first point of the largest noise",
        f"bars: one standard error over {n_seeds} runs",
    ]
    panels = {part: [row for row in rows if row["part"] == part] for part in _PARTS}
    with house_style():
        figure, (line,) = page(
            1,
            len(panels),
            panel=(2.9, 2.7),
            room=(1.5, 0.3, 0.95),
            headline="Theorem 4 measured: the last iterate's excess risk, a linear head in a ball",
            caption=" · ".join(caption),
        )
        for axes, (part, found) in zip(line, panels.items(), strict=True):
            lines = [*_measured_rates(found, *_PARTS[part]), *(_guides(found) if part == "fixed noise" else [])]
            axes.set_title("noise fixed" if part == "fixed noise" else "ε fixed: the noise grows with T", weight="bold")
            axes.set_xlabel("steps T")
            _draw_rates(axes, lines, at_zero, rows)
        line[0].set_ylabel("risk above the least one")
    return figure


def _measured_rates(rows: Sequence[Row], key: str, symbol: str) -> list[Line]:
    values = sorted({row[key] for row in rows}, reverse=True)
    lines = []
    for value, (colour, marker) in zip(values, _LOOKS, strict=False):
        points = [(row["n_steps"], row["excess_risk"], row["standard_error"]) for row in rows if row[key] == value]
        lines.append(Line(label=f"{symbol} = {value:g}", colour=colour, marker=marker, values=np.array(points).T))
    return lines


def _guides(rows: Sequence[Row]) -> list[Line]:
    """The rates through the first point of the largest noise."""
    noisiest = max(row["noise_multiplier"] for row in rows)
    own = [row for row in rows if row["noise_multiplier"] == noisiest]
    steps = np.array([row["n_steps"] for row in own], dtype=np.float64)
    rates = {"log T/√T": np.log(steps) / np.sqrt(steps), "1/√T": 1 / np.sqrt(steps)}
    first = own[0]["excess_risk"]
    return [
        Line(
            label=label,
            colour=QUIET,
            dashes=":",
            marker="",
            values=np.array([steps, first * rate / rate[0], 0 * steps]),
        )
        for label, rate in rates.items()
    ]


def _draw_rates(axes: Axes, lines: Sequence[Line], at_zero: float, rows: Sequence[Row]) -> None:
    shown = [row["excess_risk"] for row in rows if row["part"] in _PARTS]
    axes.set(xscale="log", yscale="log")
    axes.set_ylim(0.6 * min(shown), 1.8 * max(at_zero, *shown))
    axes.axhline(at_zero, color=QUIET, linestyle="--", linewidth=0.9, zorder=1, gid="zero")
    for line in lines:
        steps, means, errors = line.values
        bars = axes.errorbar(steps, means, yerr=errors, fmt="none", ecolor=line.colour)
        bars[2][0].set(linewidth=0.9, alpha=0.6)
        (curve,) = axes.plot(steps, means, color=line.colour, linestyle=line.dashes, marker=line.marker)
        curve.set(linewidth=1.4, markersize=4.5, markeredgecolor="white", markeredgewidth=0.5, gid="curve")
    used = np.unique(np.concatenate([line.values[0] for line in lines]))
    axes.set_xlim(used[0] / 1.25, used[-1] * 1.25)
    decades = 10.0 ** np.arange(np.ceil(np.log10(used[0])), np.floor(np.log10(used[-1])) + 1)
    axes.xaxis.set_major_locator(FixedLocator(decades.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")
    name_lines(axes, lines)
