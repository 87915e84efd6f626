"""The page of a figure: a head, and panels in rows and columns at fixed places."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from fairdp.report.style import FAINT, INK, QUIET

DPI = 160

# Inches, from the top of the page: how much each line of the head takes.
_HEADLINE, _CAPTION, _KEY = 0.23, 0.165, 0.22


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Sizes in inches.

    Parameters
    ----------
    right
        Room right of the last column, for labels that stand outside the panels.
    row_gap
        Room between rows, for ticks, the axis label and the titles of the next row.
    row_names
        Names above the rows; none where rows are not data sets.
    """

    panel_width: float
    panel_height: float
    column_gap: float
    row_gap: float
    right: float
    row_names: tuple[str, ...] = ()
    left: float = 0.72
    bottom: float = 0.55


@dataclass(frozen=True, kw_only=True)
class Head:
    """The words above the panels.

    Parameters
    ----------
    key
        Markers and their meaning, drawn on a line of their own.
    """

    headline: str
    caption: str
    key: tuple[tuple[Line2D | None, str], ...] = ()


def panel_grid(n_rows: int, n_columns: int, *, layout: Layout, head: Head) -> tuple[Figure, list[list[Axes]]]:
    """A figure with its head and empty panels, as rows of panels."""
    columns = n_columns * layout.panel_width + (n_columns - 1) * layout.column_gap
    width = layout.left + columns + layout.right
    headlines, captions = _wrapped(head.headline, 12.0, width), _wrapped(head.caption, 8.5, width)
    above = 0.6 if layout.row_names else 0.32
    top = 0.14 + _HEADLINE * len(headlines) + _CAPTION * len(captions) + (_KEY if head.key else 0.0) + above
    rows = n_rows * layout.panel_height + (n_rows - 1) * layout.row_gap
    height = top + rows + layout.bottom
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    _draw_head(figure, headlines, captions, head.key)
    panels = []
    for row in range(n_rows):
        from_top = top + row * (layout.panel_height + layout.row_gap)
        if layout.row_names:
            _name_row(figure, layout.row_names[row], height - from_top + 0.29)
        base = (height - from_top - layout.panel_height) / height
        lefts = [layout.left + column * (layout.panel_width + layout.column_gap) for column in range(n_columns)]
        size = (layout.panel_width / width, layout.panel_height / height)
        panels.append([figure.add_axes((left / width, base, *size)) for left in lefts])
        # Names of axes stand in one column, however wide the ticks are.
        panels[-1][0].yaxis.set_label_coords(-0.5 / layout.panel_width, 0.5)
    return figure, panels


def percent() -> FuncFormatter:
    """Fractions as percentages, with no more digits than they have."""
    return FuncFormatter(lambda value, _: f"{100 * value:.6g}%".replace("-", "−"))


def facts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a caption says of the rows: ε, and δ and the number of seeds where they state them."""
    said = []
    epsilons = epsilons_of(rows)
    if epsilons:
        said.append("ε = " + ", ".join(f"{epsilon:g}" for epsilon in epsilons))
    deltas = sorted({row["delta"] for row in rows if row.get("delta")})
    if deltas:
        said.append("δ = " + _range([f"{delta:.2g}".replace("e-0", "e-") for delta in deltas]))
    seeds = sorted({row["n_runs"] for row in rows if row.get("n_runs")})
    if seeds:
        said.append(f"{_range([str(n) for n in seeds])} seed{'' if seeds == [1] else 's'}")
    return said


def epsilons_of(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """The budgets of the private rows, in order."""
    return sorted({row["epsilon"] for row in rows if is_private(row["epsilon"])})


def is_private(epsilon: float | None) -> bool:
    """Whether a budget is one: neither missing nor infinite."""
    return epsilon is not None and epsilon < float("inf")


def in_order(rows: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    """The values of a key, each once, as they first appear."""
    return list(dict.fromkeys(row[key] for row in rows))


def _range(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{words[0]} to {words[-1]}"


def _wrapped(text: str, size: float, width: float) -> list[str]:
    """Lines that fit the page; a character of this font takes about 0.6 of its size."""
    return textwrap.wrap(text, int((width - 0.3) * 72 / (0.6 * size)), break_on_hyphens=False)


def _draw_head(
    figure: Figure, headlines: Sequence[str], captions: Sequence[str], key: Sequence[tuple[Line2D | None, str]]
) -> None:
    height = figure.get_figheight()
    inches = figure.dpi_scale_trans
    down = height - 0.14
    for line in headlines:
        figure.text(0.15, down, line, transform=inches, size=12, weight="bold", va="top", color=INK, gid="headline")
        down -= _HEADLINE
    for line in captions:
        figure.text(0.15, down, line, transform=inches, size=8.5, va="top", color=QUIET, gid="caption")
        down -= _CAPTION
    if key:
        _draw_key(figure, key, down - 0.13)


def _draw_key(figure: Figure, key: Sequence[tuple[Line2D | None, str]], base: float) -> None:
    """Entries side by side, each as wide as it is."""
    left, inches = 0.15, figure.dpi_scale_trans
    for marker, words in key:
        if marker is not None:
            marker.set_data([left + 0.09], [base])
            marker.set_transform(inches)
            figure.add_artist(marker)
            left += 0.2
        text = figure.text(left, base, words, transform=inches, size=8.5, va="center_baseline", color=QUIET, gid="key")
        left += text.get_window_extent().width / figure.dpi + (0.14 if marker is not None else 0.06)


def _name_row(figure: Figure, name: str, base: float) -> None:
    width = figure.get_figwidth()
    inches = figure.dpi_scale_trans
    figure.add_artist(Line2D([0.15, width - 0.15], [base + 0.2] * 2, transform=inches, color=FAINT, linewidth=0.7))
    figure.text(0.15, base, name, transform=inches, size=10.5, weight="bold", va="bottom", color=INK, gid="row")
