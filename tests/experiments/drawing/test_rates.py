"""The figure of excess risks against the number of steps."""

import numpy as np
import pytest

from fairdp.experiments.drawing import rate_figure


def row(part, n_steps, excess, **named):
    return {"part": part, "n_steps": n_steps, "excess_risk": excess, "standard_error": 0.1 * excess, **named}


ROWS = [
    *(row("fixed noise", n, 2 / n, noise_multiplier=2.0, epsilon=None) for n in (100, 1_000, 10_000)),
    *(row("fixed noise", n, 0.7 / n**0.5, noise_multiplier=20.0, epsilon=None) for n in (100, 1_000, 10_000)),
    *(row("fixed epsilon", n, 0.01, noise_multiplier=n / 100, epsilon=0.1) for n in (100, 10_000)),
    row("clip norm", 1_000, 0.5, noise_multiplier=1.0, epsilon=0.1),
]


@pytest.fixture(scope="module")
def figure():
    return rate_figure(ROWS, at_zero=0.22, n_seeds=5)


def curves(axes):
    return [line for line in axes.lines if line.get_gid() == "curve"]


def test_each_noise_and_each_budget_has_a_line_of_its_own(figure):
    left, right = figure.axes
    measured = curves(left)[:2]
    assert [line.get_ydata().tolist() for line in measured] == [
        [row["excess_risk"] for row in ROWS[3:6]],
        [row["excess_risk"] for row in ROWS[:3]],
    ]
    (only,) = curves(right)
    assert only.get_xdata().tolist() == [100, 10_000]


def test_the_rates_go_through_the_first_point_of_the_largest_noise(figure):
    with_log, without = curves(figure.axes[0])[2:]
    assert without.get_ydata()[[0, -1]].tolist() == pytest.approx([0.07, 0.007])
    assert with_log.get_ydata()[[0, -1]].tolist() == pytest.approx([0.07, 0.07 * 2 / 10])
    assert len(curves(figure.axes[0])) == 4


def test_what_knows_nothing_is_a_line_across_both_panels(figure):
    for axes in figure.axes:
        (zero,) = [line for line in axes.lines if line.get_gid() == "zero"]
        assert set(zero.get_ydata()) == {0.22}
        low, high = axes.get_ylim()
        assert low < min(row["excess_risk"] for row in ROWS[:8]) < 0.22 < high


def test_both_axes_are_logarithmic_and_bars_are_one_standard_error(figure):
    for axes in figure.axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    ((start, end), *_) = figure.axes[0].containers[0][2][0].get_segments()
    assert np.diff([start[1], end[1]])[0] == pytest.approx(0.2 * 0.07)


def test_lines_are_named_at_their_ends(figure):
    named = [[text.get_text() for text in axes.texts if text.get_gid() == "label"] for axes in figure.axes]
    assert named == [["σ = 20", "σ = 2", "log T/√T", "1/√T"], ["ε = 0.1"]]
