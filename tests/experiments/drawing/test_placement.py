"""Labels beside points and at the ends of lines."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fairdp.experiments.drawing.lines import spread
from fairdp.experiments.drawing.placement import Label, place_labels


@pytest.fixture
def axes():
    figure = Figure(figsize=(4, 3), dpi=100)
    FigureCanvasAgg(figure)
    return figure.add_axes((0.1, 0.1, 0.8, 0.8))


def label(words, *points):
    anchors = np.array(points, dtype=float)
    return Label(
        words=words, colour="black", bold=False, anchors=anchors, radii=np.full(len(points), 4.0), trace=anchors
    )


def leaders_of(axes):
    return [line for line in axes.lines if line.get_gid() == "leader"]


def test_a_label_alone_stands_right_of_its_point(axes):
    (text,) = place_labels(axes, [label("alone", (150, 150))])
    box = text.get_window_extent()
    assert 154 < box.x0 < 162
    assert box.y0 < 150 < box.y1
    assert not leaders_of(axes)


def test_a_label_at_the_right_edge_stands_elsewhere_and_inside(axes):
    (text,) = place_labels(axes, [label("at the edge", (355, 150))])
    assert text.get_window_extent().x1 <= axes.bbox.x1


def test_crowded_labels_do_not_meet_and_those_far_away_have_a_line(axes):
    labels = [label(f"method {k}", (200 + k, 150 - k)) for k in range(12)]
    boxes = [text.get_window_extent() for text in place_labels(axes, labels)]
    assert not any(one.overlaps(two) for one, two in combinations(boxes, 2))
    assert all(axes.bbox.contains(*corner) for box in boxes for corner in box.corners())
    assert 4 < len(leaders_of(axes)) < 12


def test_that_the_same_labels_would_meet_right_of_their_points(axes):
    boxes = []
    for k in range(12):
        figure_of_one = axes.figure.add_axes((0.1, 0.1, 0.8, 0.8))
        (text,) = place_labels(figure_of_one, [label(f"method {k}", (200 + k, 150 - k))])
        boxes.append(text.get_window_extent())
    assert any(one.overlaps(two) for one, two in combinations(boxes, 2))


def test_labels_keep_off_the_points_and_lines_of_others(axes):
    wall = label("wall", *[(180 + 6 * k, 150) for k in range(12)])
    texts = place_labels(axes, [label("point", (160, 150)), wall])
    for text in texts:
        box = text.get_window_extent()
        assert not any(box.contains(*point) for point in [*wall.anchors, (160, 150)])


def test_spread_heights_are_a_step_apart_and_move_least():
    assert spread(np.array([0.0, 5.0]), step=2.0, low=0.0, high=9.0).tolist() == [0.0, 5.0]
    # By hand: the mean of the two stays, and each moves by half of what is missing.
    assert spread(np.array([4.0, 5.0]), step=2.0, low=0.0, high=9.0) == pytest.approx([3.5, 5.5])


def test_spread_heights_stay_within_their_limits():
    crowded = spread(np.full(4, 9.0), step=2.0, low=0.0, high=9.0)
    assert crowded == pytest.approx([3.0, 5.0, 7.0, 9.0])
    assert spread(np.zeros(3), step=2.0, low=0.0, high=9.0) == pytest.approx([0.0, 2.0, 4.0])


def test_a_fan_that_is_too_tall_still_has_its_steps():
    assert np.diff(spread(np.zeros(9), step=2.0, low=0.0, high=9.0)) == pytest.approx(np.full(8, 2.0))
