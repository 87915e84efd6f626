"""A comparison as its report shows it: every row as a point of a frontier, in all metrics and utilities at once."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fairdp._checks import InputError
from fairdp._files import content_of, parsed_json
from fairdp._format import with_error
from fairdp.report.charts import Scale, path, scale_over
from fairdp.report.markers import marker_path
from fairdp.report.method_names import in_words
from fairdp.report.style import GAPS, UTILITIES, mixed, style_of

SUMMARY, PROVENANCE = "summary.json", "provenance.json"

# Share of white in a method's colour on a dark page, where most colours would be too dark to see.
_LIGHTER = 0.55


@dataclass(frozen=True, kw_only=True)
class Row:
    """Means and standard errors over the runs that differ only in their seed; an epsilon of None means not private.

    ``at`` names, for a control, the method to whose positive rate its threshold was moved.
    """

    dataset: str
    method: str
    epsilon: float | None
    n_runs: int
    mean: Mapping[str, float | None]
    standard_error: Mapping[str, float | None]
    variant: str = ""
    at: str = ""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Row":
        """From a row of a summary, which may hold more."""
        return cls(**{field.name: record[field.name] for field in fields(cls) if field.name in record})

    @property
    def label(self) -> str:
        """The method in words, with what distinguishes this row from other rows of the method."""
        at = f", at the positive rate of “{in_words(self.at)}”" if self.at else ""
        return f"{in_words(self.method)}{at}" + (f", {self.variant}" if self.variant else "")

    @property
    def epsilon_text(self) -> str:
        """The budget."""
        return "not private" if self.epsilon is None else f"ε = {self.epsilon:g}"

    def value(self, name: str) -> tuple[float, float]:
        """Mean, NaN where there is none, and standard error, drawn as nothing where there is none."""
        mean, error = self.mean.get(name), self.standard_error.get(name)
        return (math.nan if mean is None else float(mean)), (0.0 if error is None else float(error))

    def figure(self, name: str) -> str:
        """Mean ± standard error, the mean of a single run, or a dash."""
        return with_error(self.value(name)[0], self.standard_error.get(name))

    @property
    def details(self) -> list[tuple[str, str]]:
        """What the reader is told about a point; metrics without a value are a dash."""
        shown = UTILITIES | {f"{metric}_difference": f"{label} gap" for metric, label in GAPS.items()}
        shown |= {"positive_rate": "positive rate", "demographic_parity_ratio": "ratio of rates"}
        return [(label, self.figure(name)) for name, label in shown.items()]


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What helps to repeat a comparison; neither machines nor dates."""

    command: str
    versions: Mapping[str, str]
    code_sha256: str
    records: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One row: places along every axis, by metric and by utility, None where there is no value.

    ``x`` and ``y`` hold the place of the mean and of both ends of one standard error.
    """

    name: str
    label: str
    details: tuple[tuple[str, str], ...]
    radius: float
    x: dict[str, tuple[float, float, float] | None]
    y: dict[str, tuple[float, float, float] | None]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Rows that differ in epsilon only, joined by a line; a control is drawn hollow."""

    label: str
    colour: str
    light: str
    marker: str
    control: bool
    points: tuple[Point, ...]

    def line(self, metric: str, utility: str) -> str:
        """The line through the points that have both values; empty without two of them."""
        ends = [(point.x[metric], point.y[utility]) for point in self.points]
        known = [(x[0], y[0]) for x, y in ends if x is not None and y is not None]
        return path(known) if len(known) > 1 else ""


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """The figure of one data set, with an axis for each metric and each utility."""

    dataset: str
    n_runs: int
    x: dict[str, Scale]
    y: dict[str, Scale]
    series: tuple[Series, ...]


@dataclass(frozen=True, kw_only=True)
class ComparisonReport:
    """A folder of `fairdp compare`: its figures, rows, costs, and where they come from."""

    name: str
    frontiers: tuple[Frontier, ...]
    rows: tuple[Row, ...]
    controls: tuple[Row, ...]
    costs: tuple[str, ...]
    warnings: tuple[str, ...]
    provenance: Provenance


def is_comparison(folder: Path) -> bool:
    """Whether a folder holds a comparison."""
    return (folder / SUMMARY).is_file() and (folder / PROVENANCE).is_file()


def read_comparison(folder: Path) -> ComparisonReport:
    """The report of a comparison; anything that is not one is refused with a line that says so."""
    if not is_comparison(folder):
        raise InputError(f"{str(folder)!r} is not a comparison: it needs {SUMMARY} and {PROVENANCE} of fairdp compare.")
    try:
        summary, origin = (parsed_json(content_of(folder / name)) for name in (SUMMARY, PROVENANCE))
        return _report(folder.resolve().name, summary, origin)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        kind = type(error).__name__
        raise InputError(f"comparison {str(folder)!r} is damaged: it cannot be read ({kind}: {error}).") from None


def _report(name: str, summary: Mapping[str, Any], origin: Mapping[str, Any]) -> ComparisonReport:
    rows, controls = (tuple(map(Row.of, summary[name])) for name in ("rows", "controls"))
    datasets = dict.fromkeys(row.dataset for row in rows)
    frontiers = tuple(
        _frontier(dataset, [row for row in (*rows, *controls) if row.dataset == dataset]) for dataset in datasets
    )
    return ComparisonReport(
        name=name,
        frontiers=frontiers,
        rows=rows,
        controls=controls,
        costs=tuple(str(cost["statement"]) for cost in summary["privacy"]),
        warnings=tuple(map(str, summary.get("warnings", ()))),
        provenance=Provenance(**{field.name: origin[field.name] for field in fields(Provenance)}),
    )


def _frontier(dataset: str, rows: list[Row]) -> Frontier:
    x = {metric: _axis(rows, f"{metric}_difference", start=84, end=620, from_zero=True) for metric in GAPS}
    y = {utility: _axis(rows, utility, start=372, end=16, from_zero=False) for utility in UTILITIES}
    budgets = sorted({row.epsilon for row in rows if row.epsilon is not None})
    together: dict[str, list[Row]] = {}
    for row in rows:
        together.setdefault(row.label, []).append(row)
    series = []
    for label, joined in together.items():
        # A control has the marker of its method and the colour of the one whose rate it was moved to.
        drawn, tint = style_of(joined[0].method), style_of(joined[0].at or joined[0].method).colour
        ordered = sorted(joined, key=lambda row: math.inf if row.epsilon is None else row.epsilon)
        series.append(
            Series(
                label=label,
                colour=tint,
                light=mixed(tint, "#ffffff", _LIGHTER),
                marker=marker_path(drawn.marker),
                control=bool(joined[0].at),
                points=tuple(_point(row, x, y, budgets) for row in ordered),
            )
        )
    return Frontier(dataset=dataset, n_runs=rows[0].n_runs, x=x, y=y, series=tuple(series))


def frontier_data(frontier: Frontier) -> list[list[dict[str, object]]]:
    """What the script of a page needs to move the points to other axes: places by metric and by utility."""
    fields = ("name", "details", "x", "y")
    return [[{name: getattr(point, name) for name in fields} for point in series.points] for series in frontier.series]


def _axis(rows: list[Row], name: str, *, start: float, end: float, from_zero: bool) -> Scale:
    ends = [mean + side * error for mean, error in (row.value(name) for row in rows) for side in (-1, 1)]
    return scale_over([max(0.0, min(1.0, value)) for value in ends], start=start, end=end, from_zero=from_zero)


def _point(row: Row, x: dict[str, Scale], y: dict[str, Scale], budgets: list[float]) -> Point:
    growth = 1.0 if row.epsilon is None else budgets.index(row.epsilon) / max(1, len(budgets) - 1)
    details = tuple(row.details)
    return Point(
        name=f"{row.label}, {row.epsilon_text}",
        label="; ".join(f"{name} {text}" for name, text in details),
        details=details,
        radius=round(5 + 4 * growth, 1),
        x={metric: _place(row, f"{metric}_difference", scale) for metric, scale in x.items()},
        y={utility: _place(row, utility, scale) for utility, scale in y.items()},
    )


def _place(row: Row, name: str, scale: Scale) -> tuple[float, float, float] | None:
    mean, error = row.value(name)
    if math.isnan(mean):
        return None
    low, high = max(scale.low, mean - error), min(scale.high, mean + error)
    return scale.at(mean), scale.at(low), scale.at(high)
