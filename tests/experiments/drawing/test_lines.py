"""Figures of lines over ε: gains, and gaps under shift."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from fairdp.experiments.drawing import gain_figure, shift_figure


def curves_of(axes):
    return [line for line in axes.lines if line.get_gid() == "curve"]


def test_gains_have_a_column_per_data_set_with_drops_below(gain_rows, words_of, misplaced):
    figure = gain_figure(gain_rows, against="DP-SGD")
    assert len(figure.axes) == 4
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Adult", "Default-CCC", "", ""]
    for axes in figure.axes[:2]:
        assert words_of(axes) == ["demographic parity", "equal opportunity", "equalized odds"]
    for axes in figure.axes[2:]:
        assert words_of(axes) == ["accuracy", "AUC"]
    assert misplaced(figure) == []
    assert any("DP-SGD" in text.get_text() for text in figure.texts)


def test_figures_say_how_fairdp_was_trained(gain_rows, shift_rows, words_of, misplaced):
    named = {row["dataset"]: "M = 0.75, Adam per group" for row in gain_rows}
    figure = gain_figure(gain_rows, against="DP-SGD", titles=named)
    assert figure.axes[0].get_title(loc="left").endswith("(M = 0.75, Adam per group)")
    assert misplaced(figure) == []
    shifted = " ".join(text.get_text() for text in shift_figure(shift_rows[:4], words="M = 1, one Adam").texts)
    assert "M = 1, one Adam" in shifted


def test_gains_stand_where_their_rows_say_with_a_bar_each(gain_rows):
    upper, _, lower, _ = gain_figure(gain_rows, against="DP-SGD").axes
    assert curves_of(upper)[1].get_ydata() == pytest.approx(np.full(4, 0.68))
    assert curves_of(lower)[1].get_ydata() == pytest.approx(np.full(4, 0.02))
    assert [len(bars[2][0].get_segments()) for bars in upper.containers] == [4, 4, 4]
    assert np.ptp(upper.containers[0][2][0].get_segments()[0][:, 1]) == pytest.approx(2 * 0.04)


def test_a_negative_gain_is_shown_with_zero(gain_rows):
    gain_rows[0]["gains"]["equalized_odds_difference"] = (-1.5, 0.2)
    first, second = (axes.get_ylim() for axes in gain_figure(gain_rows, against="DP-SGD").axes[:2])
    assert first[0] < -1.7 < 0 < first[1]
    # A data set with a loss does not press the others flat.
    assert -0.5 < second[0] <= 0 < second[1]


def test_gains_at_one_budget(gain_rows, misplaced):
    figure = gain_figure(gain_rows[:1], against="DPSGD-F")
    assert len(figure.axes) == 2
    assert misplaced(figure) == []


def test_shift_has_a_panel_for_every_data_set_and_gap(shift_rows, words_of, misplaced):
    figure = shift_figure(shift_rows)
    assert len(figure.axes) == 2 * 3
    for axes in figure.axes:
        assert words_of(axes) == [
            "observed, γ = 0",
            "observed, γ = 0.05",
            "observed, γ = 0.1",
            "clean",
            "paper's τ",
            "certified τ",
            "certified, γ = 0.05",
        ]
        assert len(curves_of(axes)) == len(axes.collections) == 7
    assert misplaced(figure) == []


def test_shift_says_that_the_papers_bound_is_no_guarantee(shift_rows):
    words = " ".join(" ".join(text.get_text() for text in shift_figure(shift_rows[:4]).texts).split())
    assert "paper's τ: no guarantee for the deployed model" in words


def test_shift_lines_stand_where_their_rows_say(shift_rows):
    curves = curves_of(shift_figure(shift_rows[:4]).axes[0])
    assert curves[0].get_xdata() == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert curves[5].get_ydata() == pytest.approx([row["certified_tau"][0] for row in shift_rows[:4]])


def test_larger_shifts_are_darker(shift_rows):
    darkness = [sum(to_rgb(line.get_color())) for line in curves_of(shift_figure(shift_rows[:4]).axes[0])[:3]]
    assert darkness == sorted(set(darkness), reverse=True)


def test_without_certificates_under_shift_those_lines_are_missing(shift_rows, words_of):
    for row in shift_rows:
        row["certified_tau_shifted"] = {}
    assert "certified, γ = 0.05" not in words_of(shift_figure(shift_rows[:4]).axes[0])


def test_bounds_far_above_the_gaps_make_the_axis_logarithmic(shift_rows, misplaced):
    assert shift_figure(shift_rows[:4]).axes[0].get_yscale() == "linear"
    for row in shift_rows:
        row["certified_tau"] = (0.6, 0.01)
    figure = shift_figure(shift_rows)
    assert {axes.get_yscale() for axes in figure.axes} == {"log"}
    assert figure.axes[0].get_ylabel() == "gap (log scale)"
    assert misplaced(figure) == []


def test_shift_at_one_budget_has_bars(shift_rows, misplaced):
    figure = shift_figure(shift_rows[:1])
    (axes,) = figure.axes
    assert len(axes.containers) == 7
    assert misplaced(figure) == []


def test_a_missing_bound_leaves_its_line_out(shift_rows, words_of):
    shift_rows[0]["paper_tau"] = None
    shift_rows[0]["clean"] = (None, None)
    assert not {"clean", "paper's τ"} & set(words_of(shift_figure(shift_rows[:1]).axes[0]))
