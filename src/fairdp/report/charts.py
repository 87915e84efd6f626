"""Pictures as plain geometry: where lines, dots and ticks go. Templates turn them into SVG, and escape every name."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairdp.certify.rates import Rate
from fairdp.certify.tables import GroupRow
from fairdp.frontier.points import FrontierPoint, spread_over_gaps
from fairdp.report.exposure import Exposure


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A mark on an axis: its position and its label."""

    at: float
    text: str


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

    def ticks(self, n_wanted: int = 5) -> list[Tick]:
        """About this many round values in the range."""
        step = _round_step((self.high - self.low) / n_wanted)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [Tick(at=self.at(k * step), text=f"{k * step:.{digits}f}") for k in range(first, last + 1)]


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


@dataclass(frozen=True, kw_only=True)
class Line:
    """One curve and what it is about."""

    path: str
    text: str


@dataclass(frozen=True, kw_only=True)
class AttackChart:
    """Bounds on true-positive against false-positive rates; a guess lies on the diagonal."""

    x: Scale
    y: Scale
    diagonal: str
    lines: tuple[Line, ...]


def attack_chart(exposures: Sequence[Exposure]) -> AttackChart:
    """The bound of every kind of record."""
    x = Scale(low=0, high=1, start=56, end=396)
    y = Scale(low=0, high=1, start=344, end=14)
    lines = tuple(
        Line(path=path((x.at(false), y.at(true)) for false, true in exposure.drawn), text=exposure.who)
        for exposure in exposures
    )
    return AttackChart(x=x, y=y, diagonal=path([(x.start, y.start), (x.end, y.end)]), lines=lines)


@dataclass(frozen=True, kw_only=True)
class RateRow:
    """A group's place in the chart of rates; no dot where there is no estimate."""

    name: str
    rate: Rate
    y: float
    low: float
    high: float
    dot: float | None


@dataclass(frozen=True, kw_only=True)
class RateChart:
    """Estimated rates of positive decisions with their intervals, one row for each group."""

    x: Scale
    height: float
    bottom: float
    rows: tuple[RateRow, ...]
    four_fifths: float | None


# Height of a row, and of one where there are many.
_ROW, _LOW_ROW, _MANY = 54.0, 47.0, 6


def rate_chart(rows: Sequence[GroupRow], four_fifths: float) -> RateChart:
    """A row for each group, and a line at four fifths of the highest estimate."""
    rates = [(row.name, row.selection_rate) for row in rows]
    x = scale_over([rate.high for _, rate in rates], start=24, end=616, from_zero=True)
    x = Scale(low=0.0, high=min(1.0, x.high), start=x.start, end=x.end)
    height = _ROW if len(rates) <= _MANY else _LOW_ROW
    bottom = 34 + height * len(rates)
    placed = tuple(
        RateRow(
            name=name,
            rate=rate,
            y=34 + height * place + 34,
            low=x.at(rate.low),
            high=x.at(rate.high),
            dot=None if math.isnan(rate.estimate) else x.at(rate.estimate),
        )
        for place, (name, rate) in enumerate(rates)
    )
    line = None if math.isnan(four_fifths) else x.at(four_fifths)
    return RateChart(x=x, height=bottom + 62, bottom=bottom + 4, rows=placed, four_fifths=line)


@dataclass(frozen=True, kw_only=True)
class FrontierDot:
    """A rule in the chart of the frontier: its place, and the ends of its error bar."""

    point: FrontierPoint
    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class FrontierChart:
    """Accuracy against gap along the prices, with the chosen rule."""

    x: Scale
    y: Scale
    line: str
    dots: tuple[FrontierDot, ...]
    chosen: FrontierDot
    target: float | None


_N_DOTS, _COVERED = 9, 12.0


def frontier_chart(
    points: Sequence[FrontierPoint], chosen: FrontierPoint, *, target: float | None = None
) -> FrontierChart:
    """The line through all rules, error bars on some of them, and the largest gap that was aimed at."""
    reached = [point.gap + 2 * point.gap_standard_error for point in (*points, chosen)]
    x = scale_over(reached, start=70, end=616, from_zero=True)
    y = scale_over([point.accuracy for point in (*points, chosen)], start=272, end=16)

    def dot(point: FrontierPoint) -> FrontierDot:
        reach = 2 * point.gap_standard_error
        return FrontierDot(
            point=point,
            x=x.at(point.gap),
            y=y.at(point.accuracy),
            low=x.at(max(point.gap - reach, 0.0)),
            high=x.at(point.gap + reach),
        )

    marked = dot(chosen)
    dots = [dot(point) for point in spread_over_gaps(points, _N_DOTS)]
    return FrontierChart(
        x=x,
        y=y,
        line=path((x.at(point.gap), y.at(point.accuracy)) for point in points),
        # None that the chosen one would cover.
        dots=tuple(place for place in dots if math.dist((place.x, place.y), (marked.x, marked.y)) > _COVERED),
        chosen=marked,
        target=None if target is None or target > x.high else x.at(target),
    )
