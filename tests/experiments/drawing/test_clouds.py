"""Figures of utility against gaps: by method, and by imbalance."""

import pytest

from fairdp.experiments.drawing import gain_figure, imbalance_figure, tradeoff_figure
from fairdp.report.style import style_of


@pytest.fixture(scope="module")
def figure(rows_of_methods):
    """A figure for the tests that only look at it."""
    return tradeoff_figure(rows_of_methods, utility="accuracy")


def points_of(axes):
    return [line for line in axes.lines if line.get_gid() == "point"]


def n_bars(axes):
    """Horizontal and vertical bars that are drawn."""
    return [sum(len(bars[2][way].get_segments()) for bars in axes.containers) for way in (0, 1)]


def sizes_of(axes, method):
    return [line.get_markersize() for line in points_of(axes) if line.get_markerfacecolor() == style_of(method).colour]


def test_a_panel_for_every_data_set_and_gap(figure):
    assert len(figure.axes) == 2 * 3
    assert [text.get_text() for text in figure.texts if text.get_gid() == "row"] == ["Adult", "UTKFace"]
    assert [axes.get_title(loc="left") for axes in figure.axes[:3]] == [
        "demographic parity gap",
        "equal opportunity gap",
        "equalized odds gap",
    ]


def test_every_row_is_a_point_with_bars_both_ways(rows, figure):
    adult = [row for row in rows if row["dataset"] == "adult"]
    for axes in figure.axes:
        assert len(points_of(axes)) == len(adult)
        assert n_bars(axes) == [len(adult), len(adult)]


def test_points_stand_where_their_rows_say(rows):
    panel = tradeoff_figure(rows, utility="auc").axes[1]
    drawn = {(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in points_of(panel)}
    wanted = {
        (row["mean"]["auc"], row["mean"]["equal_opportunity_difference"]) for row in rows if row["dataset"] == "adult"
    }
    assert drawn == wanted


def test_bars_are_one_standard_error(rows):
    (row, *_) = rows
    horizontal, vertical = tradeoff_figure([row], utility="accuracy").axes[0].containers[0][2]
    for bars, way, metric in ((horizontal, 0, "accuracy"), (vertical, 1, "demographic_parity_difference")):
        ((start, end),) = bars.get_segments()
        assert abs(end[way] - start[way] - 2 * row["standard_error"][metric]) < 1e-12


def test_labels_are_apart_and_on_the_page(rows, controls, misplaced):
    figure = tradeoff_figure(rows, utility="accuracy", controls=controls)
    assert misplaced(figure) == []


def test_that_check_notices_a_label_on_another_and_one_that_leaves_the_page(gain_rows, misplaced):
    figure = gain_figure(gain_rows, against="DP-SGD")
    one, two = figure.axes[0].texts[:2]
    one.xy, one.xyann = two.xy, two.xyann
    figure.axes[1].texts[0].xyann = (400.0, 0.5)
    wrong = misplaced(figure)
    assert any("meets" in line for line in wrong)
    assert any("leaves the page" in line for line in wrong)


def test_every_method_is_in_the_legend_in_its_colour_and_ours_in_bold(rows, figure, legend_of):
    looks = [style_of(method) for method in dict.fromkeys(row["method"] for row in rows)]
    assert legend_of(figure) == {look.label: look.colour for look in looks}
    bold = {text.get_text() for text in figure.legends[0].get_texts() if text.get_weight() == "bold"}
    assert bold == {"FairDP", "ours (parity)"}


def test_markers_grow_with_the_budget_and_the_key_says_so(figure, legend_of):
    sizes = sizes_of(figure.axes[0], "fairdp")
    assert sizes == sorted(set(sizes))
    assert list(legend_of(figure, 1)) == ["ε = 0.5", "ε = 1", "ε = 1.5", "ε = 2", "shaded: not private"]
    assert [handle.get_markersize() for handle in figure.legends[1].legend_handles[:4]] == pytest.approx(
        [3.4, 3.4 + 4.4 / 3, 3.4 + 8.8 / 3, 7.8]
    )


def test_the_caption_states_budget_and_seeds(figure):
    (caption,) = (text.get_text() for text in figure.texts if text.get_gid() == "caption")
    for words in ("ε = 0.5, 1, 1.5, 2", "δ = 1e-5", "5 seeds", "bars: one standard error"):
        assert words in caption


def test_panels_of_a_row_share_the_utility_axis_and_gaps_start_at_zero(rows):
    rows[0]["mean"]["accuracy"] = 0.6
    axes = tradeoff_figure(rows, utility="accuracy").axes
    assert len({panel.get_xlim() for panel in axes[:3]}) == 1
    assert axes[0].get_xlim()[0] < 0.6 < axes[3].get_xlim()[0]
    assert all(panel.get_ylim()[0] == 0 for panel in axes)


def test_the_control_is_hollow_dotted_and_named(rows, controls, figure, legend_of):
    with_control = tradeoff_figure(rows[:9], utility="accuracy", controls=controls)
    axes = with_control.axes[0]
    hollow = [line for line in points_of(axes) if line.get_markerfacecolor() == "white"]
    assert len(hollow) == len(controls)
    assert [line.get_linestyle() for line in axes.lines].count(":") == 1
    assert "DP-SGD at FairDP's positive rate" in legend_of(with_control)
    assert "DP-SGD at FairDP's positive rate" not in legend_of(figure)


def test_controls_of_variants_and_what_there_is_to_say_of_a_data_set(rows, controls, legend_of):
    twice = [{**row, "variant": name} for row in controls for name in ("M = 1", "M fitted")]
    named = {row["dataset"]: "fitted: M = 0.75" for row in rows}
    figure = tradeoff_figure(rows, utility="accuracy", controls=twice, titles=named)
    assert sum("positive rate (M " in words for words in legend_of(figure)) == 2
    assert any("(fitted: M = 0.75)" in text.get_text() for text in figure.texts)


def test_points_without_privacy_are_outlined(figure):
    axes = figure.axes[0]
    outlined = [line for line in points_of(axes) if line.get_markeredgecolor() != "white"]
    assert {line.get_markeredgecolor() for line in outlined} == {style_of(m).colour for m in ("clean", "fairsmooth")}


def test_variants_are_joined_and_named_apart(rows, legend_of, misplaced):
    fairdp = [row for row in rows if row["method"] == "fairdp" and row["dataset"] == "adult"]
    other = [{**row, "mean": {name: 1.05 * mean for name, mean in row["mean"].items()}} for row in fairdp]
    both = [{**row, "variant": "weight_bound=0.5"} for row in fairdp] + [{**row, "variant": "1"} for row in other]
    figure = tradeoff_figure(both, utility="accuracy")
    axes = figure.axes[0]
    assert sorted(legend_of(figure)) == ["FairDP (1)", "FairDP (weight_bound=0.5)"]
    assert len([line for line in axes.lines if len(line.get_xdata()) == 4]) == 2
    assert len(set(legend_of(figure).values())) == 2
    assert misplaced(figure) == []


def test_one_method_with_one_point(rows, legend_of, misplaced):
    row = next(row for row in rows if row["method"] == "fairdp")
    figure = tradeoff_figure([row], utility="accuracy")
    assert [len(points_of(axes)) for axes in figure.axes] == [1, 1, 1]
    assert list(legend_of(figure)) == ["FairDP"]
    assert misplaced(figure) == []


def test_a_value_that_is_missing_is_left_out_and_an_unknown_error_has_no_length(rows):
    rows = [row for row in rows if row["method"] == "fairdp" and row["dataset"] == "adult"]
    rows[0]["mean"]["accuracy"] = None
    rows[1]["standard_error"]["accuracy"] = float("nan")
    axes = tradeoff_figure(rows, utility="accuracy").axes[0]
    assert len(points_of(axes)) == len(rows) - 1
    (start, end), *_ = axes.containers[0][2][0].get_segments()
    assert start[0] == end[0]


def test_a_gap_of_zero_has_a_panel_too(rows):
    rows[0]["mean"]["demographic_parity_difference"] = 0.0
    rows[0]["standard_error"]["demographic_parity_difference"] = 0.0
    assert tradeoff_figure(rows[:1], utility="auc").axes[0].get_ylim() == (0.0, 1.0)


def test_imbalance_has_a_line_for_every_ratio(imbalance_rows, legend_of, misplaced):
    figure = imbalance_figure(imbalance_rows, utility="accuracy")
    assert len(figure.axes) == 3
    assert list(legend_of(figure)) == ["ρ = 1.5", "ρ = 2", "ρ = 3"]
    assert len(set(legend_of(figure).values())) == 3
    for axes in figure.axes:
        assert len(points_of(axes)) == len(imbalance_rows)
        assert n_bars(axes) == [len(imbalance_rows)] * 2
    assert misplaced(figure) == []


def test_imbalance_with_one_point(imbalance_rows, legend_of):
    figure = imbalance_figure(imbalance_rows[:1], utility="auc")
    assert list(legend_of(figure)) == ["ρ = 1.5"]
