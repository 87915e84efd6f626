"""The page of a figure: a head with legends, panels in rows and columns, and the files that it is written to."""

import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fairdp._files import write_file
from fairdp.report.style import FAINT, INK, QUIET, dataset_title, house_style

Row = Mapping[str, Any]

DPI = 160

# Inches: margins of the page, and what a line of the headline, of the caption and of a legend takes.
_MARGIN, _LEFT, _BOTTOM = 0.15, 0.72, 0.55
_HEADLINE, _CAPTION, _LEGEND = 0.23, 0.165, 0.21
_COLUMNS = 5


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Sizes in inches: of a panel, of the room between panels, and of that right of the last one, for its labels."""

    width: float
    height: float
    between: float
    below: float
    right: float


def page(
    n_rows: int,
    n_columns: int,
    *,
    layout: Layout,
    headline: str,
    caption: str,
    legends: Sequence[Sequence[Line2D]] = (),
    row_names: Sequence[str] = (),
) -> tuple[Figure, list[list[Axes]]]:
    """A figure with its head and empty panels, as rows of panels."""
    width = _LEFT + n_columns * (layout.width + layout.between) - layout.between + layout.right
    headlines, captions = _wrapped(headline, 12.0, width), _wrapped(caption, 8.5, width)
    n_legend_rows = sum(-(-len(handles) // _COLUMNS) for handles in legends)
    head = _HEADLINE * len(headlines) + _CAPTION * len(captions) + _LEGEND * n_legend_rows
    top = 0.14 + head + (0.6 if row_names else 0.32)
    height = top + n_rows * (layout.height + layout.below) - layout.below + _BOTTOM
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    places = {"left": _LEFT / width, "right": 1 - layout.right / width, "top": 1 - top / height}
    places |= {"bottom": _BOTTOM / height, "wspace": layout.between / layout.width}
    panels = figure.subplots(
        n_rows, n_columns, squeeze=False, gridspec_kw={**places, "hspace": layout.below / layout.height}
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
        _name_row(figure, name, height - top - number * (layout.height + layout.below) + 0.29)
    for row in panels:
        # Names of axes stand in one column, however wide the ticks are.
        row[0].yaxis.set_label_coords(-0.5 / layout.width, 0.5)
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
    """What a caption says of the rows: ε, and δ and the number of seeds where they state them."""
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
    """Whether a budget is one: neither missing nor infinite."""
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
