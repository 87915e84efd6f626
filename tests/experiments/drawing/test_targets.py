"""The figure of accuracy against a gap, with the gaps that were aimed at."""

import pytest

from fairdp.experiments.drawing import target_figure
from fairdp.report.style import style_of

TITLES = {"boosting": "boosting, not private"}


def row(method, target, gap, accuracy, error=0.001):
    errors = {"gap": 2 * error, "accuracy": error}
    return {"method": method, "target": target, "mean": {"gap": gap, "accuracy": accuracy}, "standard_error": errors}


ROWS = [
    row("fairdp_frontier", "none", 0.18, 0.86),
    row("fairdp_frontier", "demographic parity 0.05", 0.049, 0.84),
    row("fairdp_frontier", "demographic parity 0.1", 0.1, 0.85),
    row("dpsgd", "none", 0.17, 0.85),
    row("boosting", "none", 0.19, 0.87, error=float("nan")),
]


@pytest.fixture(scope="module")
def figure():
    return target_figure(ROWS, titles=TITLES, headline="Accuracy against the gap")


def lines_of(figure, gid):
    return [line for line in figure.axes[0].lines if line.get_gid() == gid]


def test_a_line_for_every_method_from_its_smallest_gap_to_its_largest(figure):
    ours, *others = lines_of(figure, "points")
    assert ours.get_xdata().tolist() == [0.049, 0.1, 0.18]
    assert ours.get_ydata().tolist() == [0.84, 0.85, 0.86]
    assert [len(line.get_xdata()) for line in others] == [1, 1]


def test_targets_are_lines_across_the_panel(figure):
    assert [line.get_xdata()[0] for line in lines_of(figure, "target")] == [0.05, 0.1]


def test_bars_are_one_standard_error_and_an_unknown_one_has_no_length(figure):
    ours, _, boosting = figure.axes[0].containers
    (start, end), *_ = ours[2][0].get_segments()
    assert end[0] - start[0] == pytest.approx(2 * 0.002)
    (start, end), *_ = boosting[2][0].get_segments()
    assert end[0] == start[0]


def test_models_without_privacy_are_shaded_and_named(figure):
    *_, boosting = lines_of(figure, "points")
    assert boosting.get_markeredgecolor() != "white"
    assert lines_of(figure, "points")[0].get_markeredgecolor() == "white"
    labels = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert labels == [style_of("fairdp_frontier").label, style_of("dpsgd").label, "boosting, not private"]


def test_every_label_is_on_the_page_and_none_on_another(figure, misplaced):
    assert misplaced(figure) == []
