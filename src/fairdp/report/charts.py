"""The pictures of a page as plain geometry, and the reading of a comparison, which is a page of pictures.

Lines, dots and ticks get their places here; templates turn them into SVG, and escape every name.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fairdp._io import content_of, parsed_json
from fairdp.certify.rates import GroupRow
from fairdp.errors import InputError, with_error
from fairdp.frontier.curve import FrontierPoint, spread_over_gaps
from fairdp.methods import METHODS
from fairdp.parameters import CERTIFIABLE, METRICS, WITH_RATIO
from fairdp.report.model import Exposure
from fairdp.statements.certificate import collapse_warning

SUMMARY, PROVENANCE = "summary.json", "provenance.json"

# What helps to repeat a comparison; neither machines nor dates.
_ORIGIN = ("command", "versions", "code_sha256", "records")

GAPS = {metric: about.label for metric, about in CERTIFIABLE.items()}
UTILITIES = {"accuracy": "accuracy", "auc": "AUC"}
_GAP = f"{METRICS[0]}_difference"

# Differences below so many standard errors may be chance.
_SURE = 2.0
INK = "#262626"
QUIET = "#5c5c5c"
FAINT = "#d9d9d9"

# Share of white in a method's colour on a dark page, where most colours would be too dark to see.
_LIGHTER = 0.55

# Height of a row, and of one where there are many.
_ROW, _LOW_ROW, _MANY = 54.0, 47.0, 6

# Rules of a frontier that get an error bar, and how close to the chosen one a dot would be covered by it.
_N_DOTS, _COVERED = 9, 12.0
_DATASETS = {"adult": "Adult", "credit": "Default-CCC", "utkface": "UTKFace"}


@dataclass(frozen=True)
class Style:
    """The looks of a method in figures: label in a legend, colour, marker, and a few words where there is room."""

    label: str
    colour: str
    marker: str
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Maps values to positions along one axis of a picture."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Position of a value, to a tenth of a unit, so that the same values always give the same file."""
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)

    def ticks(self, n_wanted: int = 5) -> list[tuple[float, str]]:
        """About this many round values in the range: position and label of each."""
        step = _round_step((self.high - self.low) / n_wanted)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(self.at(k * step), f"{k * step:.{digits}f}") for k in range(first, last + 1)]


def scale_over(values: Iterable[float], *, start: float, end: float, from_zero: bool = False) -> Scale:
    """A scale from one round value to another that covers those given, with some room if they are equal."""
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    low = 0.0 if from_zero else low
    room = max(high - low, 0.02)
    step = _round_step(room / 5)
    low = low if from_zero else math.floor((low - 0.05 * room) / step) * step
    return Scale(low=low, high=math.ceil((high + 0.05 * room) / step) * step, start=start, end=end)


def _round_step(width: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is at least this wide."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= width * (1 - 1e-9))


def path(points: Iterable[tuple[float, float]]) -> str:
    """Points as the path of a line."""
    return "M" + " L".join(f"{x:g},{y:g}" for x, y in points)


def attack_chart(exposures: Sequence[Exposure]) -> dict[str, Any]:
    """Bounds on true-positive against false-positive rates of every kind of record; a guess lies on the diagonal."""
    x = Scale(low=0, high=1, start=56, end=396)
    y = Scale(low=0, high=1, start=344, end=14)
    curves = {own.who: path((x.at(false), y.at(true)) for false, true in own.drawn) for own in exposures}
    return {"x": x, "y": y, "diagonal": path([(x.start, y.start), (x.end, y.end)]), "curves": curves}


def rate_chart(rows: Sequence[GroupRow], four_fifths: float) -> dict[str, Any]:
    """Estimated rates of positive decisions with their intervals, one row for each group.

    A line is at four fifths of the highest estimate; no dot where there is no estimate.
    """
    rates = [(row.name, row.selection_rate) for row in rows]
    x = scale_over([rate.high for _, rate in rates], start=24, end=616, from_zero=True)
    x = Scale(low=0.0, high=min(1.0, x.high), start=x.start, end=x.end)
    height = _ROW if len(rates) <= _MANY else _LOW_ROW
    bottom = 34 + height * len(rates)
    placed = [
        {
            "name": name,
            "rate": rate,
            "y": 34 + height * place + 34,
            "low": x.at(rate.low),
            "high": x.at(rate.high),
            "dot": None if math.isnan(rate.estimate) else x.at(rate.estimate),
        }
        for place, (name, rate) in enumerate(rates)
    ]
    line = None if math.isnan(four_fifths) else x.at(four_fifths)
    return {"x": x, "height": bottom + 62, "bottom": bottom + 4, "rows": placed, "four_fifths": line}


def frontier_chart(
    points: Sequence[FrontierPoint], chosen: FrontierPoint, *, target: float | None = None
) -> dict[str, Any]:
    """Accuracy against gap: the line through all rules, error bars on some, and the largest gap that was aimed at."""
    reached = [point.gap + 2 * point.gap_standard_error for point in (*points, chosen)]
    x = scale_over(reached, start=70, end=616, from_zero=True)
    y = scale_over([point.accuracy for point in (*points, chosen)], start=272, end=16)

    def dot(point: FrontierPoint) -> dict[str, Any]:
        reach = 2 * point.gap_standard_error
        ends = {"low": x.at(max(point.gap - reach, 0.0)), "high": x.at(point.gap + reach)}
        return {"point": point, "x": x.at(point.gap), "y": y.at(point.accuracy), **ends}

    marked = dot(chosen)
    dots = [dot(point) for point in spread_over_gaps(points, _N_DOTS)]
    return {
        "x": x,
        "y": y,
        "line": path((x.at(point.gap), y.at(point.accuracy)) for point in points),
        # None that the chosen one would cover.
        "dots": [own for own in dots if math.dist((own["x"], own["y"]), (marked["x"], marked["y"])) > _COVERED],
        "chosen": marked,
        "target": None if target is None or target > x.high else x.at(target),
    }


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
        at = f", at the positive rate of “{style_of(self.at).words}”" if self.at else ""
        return f"{style_of(self.method).words}{at}" + (f", {self.variant}" if self.variant else "")

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
        """Every metric of a point as text; those without a value are a dash."""
        shown = UTILITIES | {f"{metric}_difference": f"{label} gap" for metric, label in GAPS.items()}
        shown |= {"positive_rate": "positive rate", f"{WITH_RATIO}_ratio": "ratio of rates"}
        return [(label, self.figure(name)) for name, label in shown.items()]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Rows that differ in epsilon only, joined by a line; a control is drawn hollow. See `_point` for its points."""

    label: str
    colour: str
    light: str
    marker: str
    control: bool
    points: tuple[dict[str, Any], ...]

    def line(self, metric: str, utility: str) -> str:
        """The line through the points that have both values; empty without two of them."""
        ends = [(point["x"][metric], point["y"][utility]) for point in self.points]
        known = [(x[0], y[0]) for x, y in ends if x is not None and y is not None]
        return path(known) if len(known) > 1 else ""


@dataclass(frozen=True, kw_only=True)
class ComparisonReport:
    """A folder of `fairdp compare`: its figures, rows, costs, and where they come from."""

    name: str
    frontiers: tuple[dict[str, Any], ...]
    rows: tuple[Row, ...]
    controls: tuple[Row, ...]
    costs: tuple[str, ...]
    warnings: tuple[str, ...]
    provenance: Mapping[str, Any]


def is_comparison(folder: Path) -> bool:
    """True if a folder holds a comparison."""
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
        provenance={name: origin[name] for name in _ORIGIN},
    )


def _frontier(dataset: str, rows: list[Row]) -> dict[str, Any]:
    """The figure of one data set, with an axis for each metric and each utility."""
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
    return {"dataset": dataset, "n_runs": rows[0].n_runs, "x": x, "y": y, "series": series}


def _axis(rows: list[Row], name: str, *, start: float, end: float, from_zero: bool) -> Scale:
    ends = [mean + side * error for mean, error in (row.value(name) for row in rows) for side in (-1, 1)]
    return scale_over([max(0.0, min(1.0, value)) for value in ends], start=start, end=end, from_zero=from_zero)


def _point(row: Row, x: dict[str, Scale], y: dict[str, Scale], budgets: list[float]) -> dict[str, Any]:
    """One row: its places along every axis, mean and both ends of one standard error; None where there is no value."""
    growth = 1.0 if row.epsilon is None else budgets.index(row.epsilon) / max(1, len(budgets) - 1)
    details = tuple(row.details)
    return {
        "name": f"{row.label}, {row.epsilon_text}",
        "label": "; ".join(f"{name} {text}" for name, text in details),
        "details": details,
        "radius": round(5 + 4 * growth, 1),
        "x": {metric: _place(row, f"{metric}_difference", scale) for metric, scale in x.items()},
        "y": {utility: _place(row, utility, scale) for utility, scale in y.items()},
    }


def _place(row: Row, name: str, scale: Scale) -> tuple[float, float, float] | None:
    mean, error = row.value(name)
    if math.isnan(mean):
        return None
    low, high = max(scale.low, mean - error), min(scale.high, mean + error)
    return scale.at(mean), scale.at(low), scale.at(high)


def frontier_data(frontier: Mapping[str, Any]) -> list[list[dict[str, object]]]:
    """The points for the script of a page, which moves them to other axes: places by metric and by utility."""
    fields = ("name", "details", "x", "y")
    return [[{name: point[name] for name in fields} for point in series.points] for series in frontier["series"]]


def conclusions(rows: Sequence[Row]) -> list[str]:
    """A sentence for each data set and budget, and one on what the sentences are worth."""
    found = []
    datasets = dict.fromkeys(row.dataset for row in rows)
    for dataset in datasets:
        own = [row for row in rows if row.dataset == dataset]
        where = f"{dataset}, " if len(datasets) > 1 else ""
        budgets = sorted({row.epsilon for row in own}, key=lambda budget: math.inf if budget is None else budget)
        for budget in budgets:
            found += _at_budget(where, [row for row in own if row.epsilon == budget])
    runs = min((row.n_runs for row in rows), default=0)
    several = f"Means of {runs} runs" if runs > 1 else "Single runs, whose differences may be chance"
    return [*found, f"{several} on test records: estimates, and no promise about a model. A certificate is."]


def _at_budget(where: str, rows: list[Row]) -> list[str]:
    # Where nearly everybody gets the same decision there is no gap, and no use.
    useful = [row for row in rows if _decides(row)]
    lead = f"{where}{rows[0].epsilon_text}: "
    if not useful:
        return [f"{lead}every method decides alike for nearly everybody, so none is useful."]
    if len(useful) == 1:
        return [f"{lead}only {useful[0].label} can be compared, with accuracy {useful[0].figure('accuracy')}."]
    best, even = max(useful, key=lambda row: row.value("accuracy")[0]), min(useful, key=lambda row: row.value(_GAP)[0])
    if best is even:
        text = (
            f"{best.label} is the most accurate, {best.figure('accuracy')}, and has the smallest gap between groups, "
        )
        return [f"{lead}{text}{best.figure(_GAP)}{_doubt(best, useful)}."]
    lost = 100 * (best.value("accuracy")[0] - even.value("accuracy")[0])
    return [
        f"{lead}{best.label} is the most accurate, {best.figure('accuracy')}, with a {CERTIFIABLE[METRICS[0]].name} of "
        f"{best.figure(_GAP)}; {even.label} has the smallest gap, {even.figure(_GAP)}, and is {lost:.1f} points less "
        f"accurate{_doubt(best, useful)}."
    ]


def _decides(row: Row) -> bool:
    rate = row.value("positive_rate")[0]
    known = not any(math.isnan(row.value(name)[0]) for name in ("accuracy", _GAP))
    return known and not math.isnan(rate) and collapse_warning(rate) is None


def _doubt(best: Row, rows: Iterable[Row]) -> str:
    """The methods that the spread over seeds does not tell apart from the most accurate one."""
    mean, error = best.value("accuracy")
    others = [(row.label, *row.value("accuracy")) for row in rows if row is not best]
    close = [label for label, own, spread in others if mean - own <= _SURE * math.hypot(error, spread)]
    return f" (in accuracy not told apart from it: {', '.join(close)})" if close else ""


def style_of(method: str) -> Style:
    """The style of a method; a grey one under its own name if we do not know it.

    >>> style_of("dpsgd").label
    'DP-SGD'
    """
    known = METHODS.get(method)
    if known is None:
        return Style(method, "#737373", "o", method)
    return Style(known.label or method, known.colour, known.marker, known.words or method)


def stands_out(method: str) -> bool:
    """True for the methods that the figures are about."""
    return method in METHODS and METHODS[method].stands_out


def dataset_title(name: str) -> str:
    """A data set's name as readers know it."""
    return _DATASETS.get(name, name)


def mixed(colour: str, other: str, share: float) -> str:
    """A colour with a share of another one.

    >>> mixed("#000000", "#ffffff", 0.2)
    '#333333'
    """
    pairs = zip(bytes.fromhex(colour[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + "".join(f"{round((1 - share) * one + share * two):02x}" for one, two in pairs)


Outline = tuple[tuple[float, float], ...]
_CIRCLE = "M-1,0 A1,1 0 1,1 1,0 A1,1 0 1,1 -1,0 Z"
_SIDE = 0.89


def marker_path(marker: str) -> str:
    """The outline of a marker as figures know it by its letter; a circle for any that is not known.

    >>> marker_path("s")
    'M-0.89,-0.89 L0.89,-0.89 L0.89,0.89 L-0.89,0.89 Z'
    """
    points = _OUTLINES.get(marker)
    return _CIRCLE if points is None else "M" + " L".join(f"{x:g},{y:g}" for x, y in points) + " Z"


def _regular(n_corners: int, *, turned: float = 0.0, size: float = 1.15) -> Outline:
    """A regular polygon with a corner at the top, turned by a part of a full turn."""
    angles = [2 * math.pi * (corner / n_corners + turned) for corner in range(n_corners)]
    return tuple((round(size * math.sin(angle), 2), round(-size * math.cos(angle), 2)) for angle in angles)


def _star() -> Outline:
    outer, inner = _regular(5, size=1.35), _regular(5, turned=0.1, size=0.6)
    return tuple(point for pair in zip(outer, inner, strict=True) for point in pair)


def _cross(arm: float = 0.4, reach: float = 1.1) -> Outline:
    corners = ((-arm, -reach), (arm, -reach), (arm, -arm))
    quarters: list[Outline] = [corners]
    for _ in range(3):
        quarters.append(tuple((-y, x) for x, y in quarters[-1]))
    return tuple(point for quarter in quarters for point in quarter)


def _turned(points: Outline) -> Outline:
    """By an eighth of a turn."""
    root = math.sqrt(0.5)
    return tuple((round(root * (x - y), 2) + 0.0, round(root * (x + y), 2) + 0.0) for x, y in points)


_OUTLINES: dict[str, Outline] = {
    "s": ((-_SIDE, -_SIDE), (_SIDE, -_SIDE), (_SIDE, _SIDE), (-_SIDE, _SIDE)),
    "D": ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
    "d": ((0, -1.35), (0.85, 0), (0, 1.35), (-0.85, 0)),
    "^": _regular(3, size=1.3),
    "v": _regular(3, turned=0.5, size=1.3),
    "<": _regular(3, turned=0.75, size=1.3),
    ">": _regular(3, turned=0.25, size=1.3),
    "p": _regular(5),
    "h": _regular(6),
    "*": _star(),
    "P": _cross(),
    "X": _turned(_cross()),
}
