"""Labels beside the points that they name: the cheapest place of many, never over another label if there is room."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray

from fairdp.report.style import LABEL_GAP, LABEL_SIZE

Floats = NDArray[np.float64]

# The sides of a point where a label may stand, the best first: people look to the right of it.
_SIDES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (1, 0.8), (-1, 0.8), (1, -0.8), (-1, -0.8)], dtype=np.float64)
_DISTANCES = (0.0, 3.0, 7.0, 12.0, 18.0, 26.0, 36.0, 48.0, 62.0)

# Labels further than this many points from what they name get a line to it.
_FAR = 6.0

_SWEEPS = 4
_SAMPLES = 16


@dataclass(frozen=True, kw_only=True)
class Label:
    """Words for a group of points.

    Parameters
    ----------
    anchors
        The points, in pixels, the best place for a label first; shape (n_points, 2).
    radii
        Half the width of each marker, in pixels.
    trace
        Pixels that the group's line and bars pass; shape (n_pixels, 2).
    """

    words: str
    colour: str
    bold: bool
    anchors: Floats
    radii: Floats
    trace: Floats


@dataclass(frozen=True)
class _Places:
    """Where a label may stand: boxes (left, bottom, right, top), lines to the point, and a fixed cost of each."""

    boxes: Floats
    leaders: Floats
    lengths: Floats
    costs: Floats


def place_labels(axes: Axes, labels: Sequence[Label]) -> list[Text]:
    """Write every label near its points; the earlier ones choose first."""
    unit = axes.figure.dpi / 72
    bounds = np.array(axes.bbox.extents) + np.array([2.0, 2.0, -2.0, -2.0])
    texts = [_text(axes, label) for label in labels]
    options = [_places(text, number, labels, bounds, unit) for number, text in enumerate(texts)]
    chosen: dict[int, int] = {}
    # Later sweeps let a label leave a place that those after it have crowded.
    for _ in range(_SWEEPS):
        for number, places in enumerate(options):
            others = [(options[i], chosen[i]) for i in chosen if i != number]
            chosen[number] = int(np.argmin(places.costs + _crowding(places, others, unit)))
    for number, text in enumerate(texts):
        _settle(axes, text, options[number], chosen[number], labels[number], far=_FAR * unit)
    return texts


def _text(axes: Axes, label: Label) -> Text:
    weight = "bold" if label.bold else "normal"
    text = axes.text(0.5, 0.5, label.words, transform=axes.transAxes, color=label.colour, weight=weight)
    text.set(size=LABEL_SIZE, ha="center", va="center", gid="label", linespacing=1.05, zorder=6)
    return text


def _places(text: Text, number: int, labels: Sequence[Label], bounds: Floats, unit: float) -> _Places:
    label = labels[number]
    extent = text.get_window_extent()
    half = np.array([extent.width, extent.height]) / 2
    ranks, sides, steps = (
        grid.ravel() for grid in np.indices((len(label.anchors), len(_SIDES), len(_DISTANCES))).astype(np.int64)
    )
    away = (label.radii[ranks] + (LABEL_GAP + np.array(_DISTANCES)[steps]) * unit)[:, None]
    centres = label.anchors[ranks] + _SIDES[sides] * (half + away * _lean(sides)[:, None])
    boxes = np.hstack([centres - half, centres + half])
    starts = np.clip(label.anchors[ranks], boxes[:, :2], boxes[:, 2:])
    leaders = _towards(starts, label.anchors[ranks], label.radii[ranks])
    lengths = np.linalg.norm(leaders[:, -1] - leaders[:, 0], axis=1)
    costs = lengths / unit + 1.5 * ranks + 0.4 * sides
    costs += 50.0 * np.maximum(0.0, np.hstack([bounds[:2] - boxes[:, :2], boxes[:, 2:] - bounds[2:]])).sum(axis=1)
    return _Places(boxes, leaders, lengths, costs + _cover(boxes, leaders, number, labels, unit))


def _lean(sides: NDArray[np.int64]) -> Floats:
    """Diagonal places come closer, so that the corner of the label has the distance."""
    return np.where(sides < 4, 1.0, 0.6)


def _towards(starts: Floats, ends: Floats, radii: Floats) -> Floats:
    """Sampled lines from labels to the rims of their markers; shape (n_places, n_samples, 2)."""
    way = ends - starts
    length = np.maximum(np.linalg.norm(way, axis=1), 1e-9)
    share = np.clip(1 - (radii + 1.0) / length, 0.0, 1.0)
    steps: Floats = np.linspace(0.0, 1.0, _SAMPLES)[None, :, None] * (way * share[:, None])[:, None]
    return starts[:, None] + steps


def _cover(boxes: Floats, leaders: Floats, number: int, labels: Sequence[Label], unit: float) -> Floats:
    """What it costs to stand on points and lines, to cross points, and to stand nearer to the points of another."""
    costs = np.zeros(len(boxes))
    near = [np.full(len(boxes), np.inf)]
    for other, label in enumerate(labels):
        reach = label.radii[:, None] + 1.0 * unit
        markers = np.hstack([label.anchors - reach, label.anchors + reach])
        costs += 60.0 * _overlaps(boxes, markers).sum(axis=1)
        costs += 3.0 * _inside(label.trace[None], boxes[:, None]).sum(axis=1)
        distances = _distance(boxes, label.anchors) - label.radii
        if other == number:
            own = distances.min(axis=1)
        else:
            near.append(distances.min(axis=1))
            crossed = _inside(leaders[:, :, None], markers[None, None])
            costs += 9.0 * crossed.sum(axis=(1, 2))
    return np.asarray(costs + 14.0 * (np.min(near, axis=0) < own))


def _crowding(places: _Places, others: Sequence[tuple[_Places, int]], unit: float) -> Floats:
    """What the labels that stand already, and their lines, cost each place."""
    costs = np.zeros(len(places.boxes))
    margin = unit * np.array([-2.5, -1.0, 2.5, 1.0])
    for other, at in others:
        box, leader = other.boxes[at], other.leaders[at]
        costs += 1000.0 * _overlaps(places.boxes, (box + margin)[None]).sum(axis=1)
        costs += 20.0 * _inside(places.leaders, (box + margin)[None, None]).sum(axis=1)
        if other.lengths[at] > _FAR * unit:
            costs += 20.0 * _inside(leader[None], places.boxes[:, None]).sum(axis=1)
            costs += 40.0 * _cross(places.leaders[:, 0], places.leaders[:, -1], leader[0], leader[-1])
    return costs


def _settle(axes: Axes, text: Text, places: _Places, at: int, label: Label, *, far: float) -> None:
    """Move a label to its place, in parts of the panel: these hold at every resolution."""
    to_axes = axes.transAxes.inverted()
    left, bottom, right, top = places.boxes[at]
    text.set_position(tuple(to_axes.transform(((left + right) / 2, (bottom + top) / 2))))
    # Lines of a label are flush with the side that looks at the point.
    text.set(multialignment="left" if places.leaders[at][-1][0] < (left + right) / 2 else "right")
    if places.lengths[at] > far:
        ends = to_axes.transform(places.leaders[at][[0, -1]])
        leader = Line2D(ends[:, 0], ends[:, 1], transform=axes.transAxes, color=label.colour, linewidth=0.6)
        leader.set(alpha=0.55, gid="leader", zorder=2)
        axes.add_line(leader)


def _overlaps(boxes: Floats, others: Floats) -> NDArray[np.bool_]:
    """Which boxes meet which others; shape (n_boxes, n_others)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.asarray((low < high).all(axis=2))


def _inside(points: Floats, boxes: Floats) -> NDArray[np.bool_]:
    """Which points lie in which boxes; the leading shapes are broadcast."""
    x, y = points[..., 0], points[..., 1]
    between = (x > boxes[..., 0]) & (x < boxes[..., 2])
    return np.asarray(between & (y > boxes[..., 1]) & (y < boxes[..., 3]))


def _distance(boxes: Floats, points: Floats) -> Floats:
    """From each box to each point; shape (n_boxes, n_points)."""
    nearest = np.clip(points[None], boxes[:, None, :2], boxes[:, None, 2:])
    return np.asarray(np.linalg.norm(nearest - points[None], axis=2))


def _cross(starts: Floats, ends: Floats, start: Floats, end: Floats) -> NDArray[np.bool_]:
    """Which lines cross one other line."""

    def side(a: Floats, b: Floats, c: Floats) -> Floats:
        return np.asarray((b - a)[..., 0] * (c - a)[..., 1] - (b - a)[..., 1] * (c - a)[..., 0])

    apart = side(start, end, starts) * side(start, end, ends) < 0
    return np.asarray(apart & (side(starts, ends, start) * side(starts, ends, end) < 0))
