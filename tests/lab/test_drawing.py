"""Figures of studies: every row is where it says, nothing overlaps, and the same rows make the same files."""

import xml.etree.ElementTree as ET
from copy import deepcopy
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from fairdp.methods import METHODS
from fairdp.report.charts import stands_out, style_of
from fairdp_lab.drawing import (
    gain_figure,
    house_style,
    imbalance_figure,
    rate_figure,
    save_figure,
    shift_figure,
    spread,
    target_figure,
    tradeoff_figure,
)

EPSILONS = (0.5, 1.0, 1.5, 2.0)
GAPS = ("demographic_parity", "equal_opportunity", "equalized_odds")
# Accuracy and demographic parity gap on Adult, as close together as those of real methods.
PLACES = {
    "clean": (0.80, 0.078),
    "dpsgd": (0.80, 0.08),
    "dpsgd_f": (0.80, 0.082),
    "dp_is_sgd": (0.79, 0.05),
    "fairsmooth": (0.78, 0.026),
    "dpsgd_smooth": (0.799, 0.079),
    "fairdp": (0.78, 0.02),
    "fairdp_frontier": (0.79, 0.03),
}


def make_row(method, epsilon, place, rng, **more):
    accuracy, gap = place
    less = 1 / (epsilon or 3.0)
    mean = {f"{name}_difference": gap * (1 + 0.4 * k) * (1 + 0.15 * less) for k, name in enumerate(GAPS)}
    mean |= {"accuracy": accuracy - 0.006 * less, "auc": accuracy + 0.06 - 0.004 * less, "positive_rate": 0.2}
    mean = {name: float(value + rng.normal(0, 0.001)) for name, value in mean.items()}
    errors = {name: float(rng.uniform(0.0005, 0.002)) for name in mean}
    row = {"dataset": "adult", "method": method, "epsilon": epsilon, "mean": mean, "standard_error": errors}
    return {**row, "n_runs": 5, "delta": 1e-5, **more}


def method_rows():
    """Two data sets, eight methods."""
    rng = np.random.default_rng(0)
    return [
        make_row(method, epsilon, place, rng, dataset=dataset)
        for dataset in ("adult", "utkface")
        for method, place in PLACES.items()
        for epsilon in ((None,) if method in ("clean", "fairsmooth") else EPSILONS)
    ]


def control_rows():
    rng = np.random.default_rng(1)
    return [make_row("dpsgd", epsilon, (0.788, 0.044), rng, at="fairdp") for epsilon in EPSILONS]


def gain_rows():
    gains = {f"{name}_difference": (0.7 - 0.02 * k, 0.04) for k, name in enumerate(GAPS)}
    drops = {"auc": (0.02, 0.002), "accuracy": (0.021, 0.003)}
    places = [(dataset, epsilon) for dataset in ("adult", "credit") for epsilon in EPSILONS]
    return [{"dataset": d, "epsilon": e, "gains": dict(gains), "drops": dict(drops)} for d, e in places]


def shift_rows(certified=0.08):
    observed = {name: (0.02 + float(name) / 10, 0.002) for name in ("0.0", "0.05", "0.1")}
    return [
        {
            "dataset": dataset,
            "metric": metric,
            "epsilon": epsilon,
            "clean": (0.08, 0.004),
            "observed": observed,
            "paper_tau": (0.05 + 0.02 / epsilon, 0.004),
            "certified_tau": (certified + 0.02 / epsilon, 0.004),
            "certified_tau_shifted": {"0.05": (0.13 + 0.02 / epsilon, 0.004)},
        }
        for dataset in ("adult", "credit")
        for metric in GAPS
        for epsilon in EPSILONS
    ]


def imbalance_rows():
    rng = np.random.default_rng(2)
    return [
        make_row("fairdp", epsilon, (0.78 - 0.004 * k, 0.02 + 0.008 * k), rng, ratio=ratio)
        for k, ratio in enumerate((1.5, 2.0, 3.0))
        for epsilon in EPSILONS
    ]


def rate_rows():
    def row(part, n_steps, excess, noise, epsilon=None):
        numbers = {"n_steps": n_steps, "excess_risk": excess, "standard_error": 0.1 * excess}
        return {"part": part, "noise_multiplier": noise, "epsilon": epsilon, **numbers}

    return [
        *(row("fixed noise", n, 2 / n, 2.0) for n in (100, 1_000, 10_000)),
        *(row("fixed noise", n, 0.7 / n**0.5, 20.0) for n in (100, 1_000, 10_000)),
        *(row("fixed epsilon", n, 0.01, n / 100, 0.1) for n in (100, 10_000)),
        row("clip norm", 1_000, 0.5, 1.0, 0.1),
    ]


def target_rows():
    def row(method, target, gap, accuracy, error=0.001):
        mean, errors = {"gap": gap, "accuracy": accuracy}, {"gap": 2 * error, "accuracy": error}
        return {"method": method, "target": target, "mean": mean, "standard_error": errors}

    return [
        row("fairdp_frontier", "none", 0.18, 0.86),
        row("fairdp_frontier", "demographic parity 0.05", 0.049, 0.84),
        row("fairdp_frontier", "demographic parity 0.1", 0.1, 0.85),
        row("dpsgd", "none", 0.17, 0.85),
        row("boosting", "none", 0.19, 0.87, error=float("nan")),
    ]


FIGURES = {
    "trade-offs": lambda: tradeoff_figure(method_rows(), utility="accuracy", controls=control_rows()),
    "gains": lambda: gain_figure(gain_rows(), against="DP-SGD"),
    "gains at one budget": lambda: gain_figure(gain_rows()[:1], against="DPSGD-F"),
    "shift": lambda: shift_figure(shift_rows()),
    "bounds far above the gaps": lambda: shift_figure(shift_rows(certified=0.6)),
    "imbalance": lambda: imbalance_figure(imbalance_rows(), utility="accuracy"),
    "targets": lambda: target_figure(
        target_rows(), titles={"boosting": "boosting, not private"}, headline="Accuracy and gap"
    ),
}


def misplaced(figure):
    """Texts that meet another one, or leave the page."""
    figure.draw_without_rendering()
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        texts += [axes.xaxis.label, axes.yaxis.label]
        # The labels, and the titles on the left, in the middle and on the right.
        texts += [child for child in axes.get_children() if isinstance(child, Text)]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = axis.get_view_interval()
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            texts += [tick.label1 for tick in ticks if tick.label1.get_visible()]
    # Of a label its words, without the line to what it names.
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in texts if text.get_text()]
    page, wrong = figure.bbox, []
    for number, (words, box) in enumerate(boxes):
        if box.x0 < page.x0 or box.y0 < page.y0 or box.x1 > page.x1 or box.y1 > page.y1:
            wrong.append(f"{words!r} leaves the page")
        wrong += [f"{words!r} meets {other!r}" for other, place in boxes[:number] if box.overlaps(place)]
    return wrong


def marked(axes, gid):
    return [line for line in axes.lines if line.get_gid() == gid]


def words_of(figure, gid):
    """The text outside its panels, in one line."""
    return " ".join(" ".join(text.get_text() for text in figure.texts if text.get_gid() == gid).split())


def labels_of(axes):
    return [text.get_text() for text in axes.texts if text.get_gid() == "label"]


def legend_of(figure, number=0):
    """Labels with their colours: the first legend says what is drawn, the second how large and full."""
    return {text.get_text(): text.get_color() for text in figure.legends[number].get_texts()}


@pytest.mark.parametrize("name", FIGURES)
def test_labels_are_apart_and_on_the_page(name):
    assert misplaced(FIGURES[name]()) == []


def test_that_check_notices_a_label_on_another_and_one_that_leaves_the_page():
    figure = gain_figure(gain_rows(), against="DP-SGD")
    one, two = figure.axes[0].texts[:2]
    one.xy, one.xyann = two.xy, two.xyann
    figure.axes[1].texts[0].xyann = (400.0, 0.5)
    wrong = misplaced(figure)
    assert any("meets" in line for line in wrong)
    assert any("leaves the page" in line for line in wrong)


def test_points_of_trade_offs_stand_where_their_rows_say_with_bars_of_one_standard_error():
    rows = method_rows()
    figure = tradeoff_figure(rows, utility="auc", controls=control_rows())
    adult = [row for row in rows if row["dataset"] == "adult"]
    panel = figure.axes[1]
    drawn = {(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in marked(panel, "point")}
    gap = "equal_opportunity_difference"
    assert drawn >= {(row["mean"]["auc"], row["mean"][gap]) for row in adult}
    horizontal, vertical = tradeoff_figure(rows[:1], utility="auc").axes[1].containers[0][2]
    for bars, way, metric in ((horizontal, 0, "auc"), (vertical, 1, gap)):
        ((start, end),) = bars.get_segments()
        assert abs(end[way] - start[way] - 2 * rows[0]["standard_error"][metric]) < 1e-12
    looks = {style_of(row["method"]).label: style_of(row["method"]).colour for row in rows}
    legend = {text.get_text(): text.get_color() for text in figure.legends[0].get_texts()}
    assert looks.items() <= legend.items()
    # The control: hollow, dotted and named.
    assert len([line for line in marked(panel, "point") if line.get_markerfacecolor() == "white"]) == 4
    assert "DP-SGD at FairDP's positive rate" in legend


@pytest.fixture(scope="module")
def trade_offs():
    """For the tests that only look at it."""
    return tradeoff_figure(method_rows(), utility="accuracy")


def test_trade_offs_have_a_panel_for_every_data_set_and_gap(trade_offs):
    assert len(trade_offs.axes) == 2 * 3
    assert [text.get_text() for text in trade_offs.texts if text.get_gid() == "row"] == ["Adult", "UTKFace"]
    titles = ["demographic parity gap", "equal opportunity gap", "equalized odds gap"]
    assert [axes.get_title(loc="left") for axes in trade_offs.axes[:3]] == titles


def test_markers_grow_with_the_budget_and_the_key_says_so(trade_offs):
    colour, points = style_of("fairdp").colour, marked(trade_offs.axes[0], "point")
    sizes = [line.get_markersize() for line in points if line.get_markerfacecolor() == colour]
    assert sizes == sorted(set(sizes))
    assert list(legend_of(trade_offs, 1)) == ["ε = 0.5", "ε = 1", "ε = 1.5", "ε = 2", "shaded: not private"]
    key = [handle.get_markersize() for handle in trade_offs.legends[1].legend_handles[:4]]
    assert key == pytest.approx([3.4, 3.4 + 4.4 / 3, 3.4 + 8.8 / 3, 7.8])
    # Some markers fill more of their square than others.
    assert np.ptp(np.divide(sizes, key)) < 1e-9


def test_points_without_privacy_are_outlined(trade_offs):
    points = marked(trade_offs.axes[0], "point")
    outlined = {line.get_markeredgecolor() for line in points if line.get_markeredgecolor() != "white"}
    assert outlined == {style_of(method).colour for method in ("clean", "fairsmooth")}


def test_captions_state_budget_seeds_and_what_bars_are(trade_offs):
    for words in ("ε = 0.5, 1, 1.5, 2", "δ = 1e-5", "5 seeds", "bars: one standard error"):
        assert words in words_of(trade_offs, "caption")


def test_panels_of_a_row_share_the_utility_axis_and_gaps_start_at_zero():
    rows = method_rows()
    rows[0]["mean"]["accuracy"] = 0.6
    axes = tradeoff_figure(rows, utility="accuracy").axes
    assert len({panel.get_xlim() for panel in axes[:3]}) == 1
    assert axes[0].get_xlim()[0] < 0.6 < axes[3].get_xlim()[0]
    assert all(panel.get_ylim()[0] == 0 for panel in axes)
    # Where all gaps are zero there is an axis too.
    for numbers in (rows[0]["mean"], rows[0]["standard_error"]):
        numbers["demographic_parity_difference"] = 0.0
    assert tradeoff_figure(rows[:1], utility="auc").axes[0].get_ylim() == (0.0, 1.0)


def test_variants_and_their_controls_are_joined_and_named_apart():
    rows = [row for row in method_rows() if row["method"] == "fairdp" and row["dataset"] == "adult"]
    other = [{**row, "mean": {name: 1.05 * mean for name, mean in row["mean"].items()}} for row in rows]
    both = [{**row, "variant": "weight_bound=0.5"} for row in rows] + [{**row, "variant": "1"} for row in other]
    figure = tradeoff_figure(both, utility="accuracy")
    assert sorted(legend_of(figure)) == ["FairDP (1)", "FairDP (weight_bound=0.5)"]
    assert len(set(legend_of(figure).values())) == 2
    assert len([line for line in figure.axes[0].lines if len(line.get_xdata()) == 4]) == 2
    assert misplaced(figure) == []
    twice = [{**row, "variant": name} for row in control_rows() for name in ("M = 1", "M fitted")]
    titles = dict.fromkeys(("adult", "utkface"), "fitted: M = 0.75")
    figure = tradeoff_figure(method_rows(), utility="accuracy", controls=twice, titles=titles)
    assert sum("positive rate (M " in words for words in legend_of(figure)) == 2
    assert "(fitted: M = 0.75)" in words_of(figure, "row")


def test_imbalance_has_a_line_for_every_ratio():
    rows = imbalance_rows()
    figure = imbalance_figure(rows, utility="accuracy")
    assert list(legend_of(figure)) == ["ρ = 1.5", "ρ = 2", "ρ = 3"]
    assert len(set(legend_of(figure).values())) == len(figure.axes) == 3
    for axes in figure.axes:
        assert len(marked(axes, "point")) == len(rows)
        for way in (0, 1):
            assert sum(len(bars[2][way].get_segments()) for bars in axes.containers) == len(rows)


def test_a_value_that_is_missing_is_left_out_and_an_unknown_error_has_no_length():
    rows = [deepcopy(row) for row in method_rows() if (row["method"], row["dataset"]) == ("fairdp", "adult")]
    rows[0]["mean"]["accuracy"] = None
    rows[1]["standard_error"]["accuracy"] = float("nan")
    axes = tradeoff_figure(rows, utility="accuracy").axes[0]
    assert len(marked(axes, "point")) == len(rows) - 1
    (start, end), *_ = axes.containers[0][2][0].get_segments()
    assert start[0] == end[0]


def test_spread_heights_are_a_step_apart_within_their_limits_and_move_least():
    assert spread(np.array([0.0, 5.0]), step=2.0, low=0.0, high=9.0).tolist() == [0.0, 5.0]
    # By hand: the mean of the two stays, and each moves by half of what is missing.
    assert spread(np.array([4.0, 5.0]), step=2.0, low=0.0, high=9.0) == pytest.approx([3.5, 5.5])
    assert spread(np.full(4, 9.0), step=2.0, low=0.0, high=9.0) == pytest.approx([3.0, 5.0, 7.0, 9.0])
    assert np.diff(spread(np.zeros(9), step=2.0, low=0.0, high=9.0)) == pytest.approx(np.full(8, 2.0))


def test_lines_of_gains_and_shifts_stand_where_their_rows_say():
    rows = gain_rows()
    rows[0]["gains"]["equalized_odds_difference"] = (-1.5, 0.2)
    upper, other, lower, _ = gain_figure(rows, against="DP-SGD").axes
    assert marked(upper, "curve")[1].get_ydata() == pytest.approx(np.full(4, 0.68))
    assert marked(lower, "curve")[1].get_ydata() == pytest.approx(np.full(4, 0.02))
    assert np.ptp(upper.containers[0][2][0].get_segments()[0][:, 1]) == pytest.approx(2 * 0.04)
    # A data set with a loss does not press the others flat.
    assert upper.get_ylim()[0] < -1.7 < -0.5 < other.get_ylim()[0] <= 0
    curves = marked(shift_figure(shift_rows()[:4]).axes[0], "curve")
    assert len(curves) == 7
    assert curves[0].get_xdata() == pytest.approx(EPSILONS)
    assert curves[5].get_ydata() == pytest.approx([row["certified_tau"][0] for row in shift_rows()[:4]])
    assert {axes.get_yscale() for axes in FIGURES["bounds far above the gaps"]().axes} == {"log"}
    missing = shift_rows()[0] | {"paper_tau": None, "clean": (None, None)}
    assert len(shift_figure([missing]).axes[0].containers) == 5


def test_gains_have_a_column_for_every_data_set_with_drops_below():
    figure = gain_figure(gain_rows(), against="DP-SGD")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Adult", "Default-CCC", "", ""]
    assert [labels_of(axes) for axes in figure.axes[:2]] == [[name.replace("_", " ") for name in GAPS]] * 2
    assert [labels_of(axes) for axes in figure.axes[2:]] == [["accuracy", "AUC"]] * 2
    assert any("DP-SGD" in text.get_text() for text in figure.texts)


def test_gains_and_shifts_say_how_fairdp_was_trained():
    titles = dict.fromkeys(("adult", "credit"), "M = 0.75, Adam per group")
    figure = gain_figure(gain_rows(), against="DP-SGD", titles=titles)
    assert figure.axes[0].get_title(loc="left").endswith("(M = 0.75, Adam per group)")
    assert misplaced(figure) == []
    assert "M = 1, one Adam" in words_of(shift_figure(shift_rows()[:4], words="M = 1, one Adam"), "caption")


def test_shifts_say_that_the_papers_bound_is_no_guarantee():
    assert "paper's τ: no guarantee for the deployed model" in words_of(shift_figure(shift_rows()[:4]), "caption")


def test_shifts_have_a_panel_for_every_data_set_and_gap_with_what_is_known():
    figure, sizes = shift_figure(shift_rows()), ["observed, γ = 0", "observed, γ = 0.05", "observed, γ = 0.1"]
    assert len(figure.axes) == 2 * 3
    for axes in figure.axes:
        assert labels_of(axes) == [*sizes, "clean", "paper's τ", "certified τ", "certified, γ = 0.05"]
        assert len(marked(axes, "curve")) == len(axes.collections) == 7
    # Larger shifts are darker.
    light = [sum(to_rgb(line.get_color())) for line in marked(figure.axes[0], "curve")[:3]]
    assert light == sorted(set(light), reverse=True)
    without = [{**row, "certified_tau_shifted": {}} for row in shift_rows()[:4]]
    assert labels_of(shift_figure(without).axes[0]) == [*sizes, "clean", "paper's τ", "certified τ"]


def test_lines_of_rates_and_targets_stand_where_their_rows_say():
    rows = rate_rows()
    left, right = rate_figure(rows, at_zero=0.22, n_seeds=5).axes
    much, little, with_log, without = marked(left, "curve")
    assert much.get_ydata().tolist() == [row["excess_risk"] for row in rows[3:6]]
    assert little.get_ydata().tolist() == [row["excess_risk"] for row in rows[:3]]
    # The two rates go through the first point of the largest noise.
    assert without.get_ydata()[[0, -1]].tolist() == pytest.approx([0.07, 0.007])
    assert with_log.get_ydata()[[0, -1]].tolist() == pytest.approx([0.07, 0.07 * 2 / 10])
    assert [line.get_xdata().tolist() for line in marked(right, "curve")] == [[100, 10_000]]
    axes = FIGURES["targets"]().axes[0]
    ours, *others = marked(axes, "points")
    assert (ours.get_xdata().tolist(), ours.get_ydata().tolist()) == ([0.049, 0.1, 0.18], [0.84, 0.85, 0.86])
    assert [len(line.get_xdata()) for line in others] == [1, 1]
    assert [line.get_xdata()[0] for line in marked(axes, "target")] == [0.05, 0.1]


def test_models_without_privacy_are_shaded_and_named_among_targets():
    figure = FIGURES["targets"]()
    ours, plain, boosting = marked(figure.axes[0], "points")
    assert boosting.get_markeredgecolor() != "white"
    assert ours.get_markeredgecolor() == plain.get_markeredgecolor() == "white"
    labels = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert labels == [style_of("fairdp_frontier").label, style_of("dpsgd").label, "boosting, not private"]
    assert "shaded: not private" in words_of(figure, "caption")


def test_rates_are_logarithmic_with_bars_of_one_standard_error_and_named_lines():
    rows = rate_rows()
    figure = rate_figure(rows, at_zero=0.22, n_seeds=5)
    for axes in figure.axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        # What knows nothing is a line across both, and no point is off the page.
        (zero,) = marked(axes, "zero")
        assert set(zero.get_ydata()) == {0.22}
        low, high = axes.get_ylim()
        assert low < min(row["excess_risk"] for row in rows[:8]) < 0.22 < high
    ((start, end), *_) = figure.axes[0].containers[0][2][0].get_segments()
    assert end[1] - start[1] == pytest.approx(0.2 * 0.07)
    assert [labels_of(axes) for axes in figure.axes] == [["σ = 20", "σ = 2", "log T/√T", "1/√T"], ["ε = 0.1"]]


def test_the_same_rows_make_the_same_files_and_other_rows_do_not(tmp_path):
    few = [row for row in method_rows() if row["method"] in ("dpsgd", "clean")]
    for name in ("one", "two", "other"):
        if name == "other":
            few[0]["mean"]["accuracy"] += 0.002
        save_figure(tradeoff_figure(few, utility="accuracy"), tmp_path, name)
    for kind in ("png", "svg"):
        one, two, other = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("one", "two", "other"))
        assert one == two != other
        # Nothing tells when or with what they were made.
        assert b"dc:date" not in one
        assert b"atplotlib" not in one.split(b"<defs>")[0]
    assert len(list(tmp_path.iterdir())) == 6


def test_the_picture_has_160_dots_per_inch(tmp_path):
    figure = gain_figure(gain_rows(), against="DP-SGD")
    path, _ = save_figure(figure, tmp_path, "gains")
    width, height = (int.from_bytes(path.read_bytes()[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == tuple(int(160 * inches) for inches in figure.get_size_inches())


def test_the_drawing_has_a_title_and_its_text_is_text(tmp_path):
    _, path = save_figure(gain_figure(gain_rows(), against="DP-SGD"), tmp_path, "gains")
    space, root = "{http://www.w3.org/2000/svg}", ET.fromstring(path.read_bytes())
    assert root.find(f"{space}title").text
    words = {"".join(text.itertext()).strip() for text in root.iter(f"{space}text")}
    assert {"demographic parity", "AUC", "Adult"} <= words


# What a colour looks like to people without one kind of cone, for linear values: Machado et al. (2009), severity 1.
SIGHTS = {
    "all cones": np.eye(3),
    "no red": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "no green": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    values = np.array(to_rgb(colour))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(values):
    x, y, z = np.cbrt(TO_XYZ @ np.clip(values, 0, 1) / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast_on_white(colour):
    return 1.05 / (linear(colour) @ TO_XYZ[1] + 0.05)


def test_every_method_has_a_style_of_its_own():
    for part in ("label", "colour", "marker"):
        assert len({getattr(method, part) for method in METHODS.values()}) == len(METHODS)


def test_that_contrast_is_computed_as_accessibility_rules_do():
    assert contrast_on_white("#000000") == pytest.approx(21.0)
    assert contrast_on_white("#767676") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_a_label_can_be_read_on_white(method):
    assert contrast_on_white(style_of(method).colour) >= 4.5


@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_differ_for_every_sight_and_ours_differ_most(sight):
    seen = {name: lab(SIGHTS[sight] @ linear(style.colour)) for name, style in METHODS.items()}
    for one, two in combinations(METHODS, 2):
        least = 15.0 if stands_out(one) or stands_out(two) else 8.0
        assert np.linalg.norm(seen[one] - seen[two]) > least, f"{one} and {two} look alike with {sight}"


def test_a_method_that_we_do_not_know_is_grey_under_its_own_name():
    style = style_of("somebody_elses")
    assert style.label == "somebody_elses"
    assert len(set(to_rgb(style.colour))) == 1


def test_settings_hold_inside_only_and_ignore_those_of_the_reader():
    with matplotlib.rc_context({"xtick.labelsize": 30.0, "lines.linewidth": 9.0}):
        with house_style():
            assert matplotlib.rcParams["svg.fonttype"] == "none"
            assert matplotlib.rcParams["lines.linewidth"] != 9.0
            assert matplotlib.rcParams["xtick.labelsize"] == 8.0
        assert matplotlib.rcParams["lines.linewidth"] == 9.0
        assert matplotlib.rcParams["svg.fonttype"] == "path"
