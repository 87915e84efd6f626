"""Colours and markers of the methods, and settings that stay inside."""

from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from fairdp.methods import METHODS
from fairdp.report.style import STYLES, house_style, stands_out, style_of

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
    assert set(STYLES) == set(METHODS)
    for part in ("label", "colour", "marker"):
        assert len({getattr(style, part) for style in STYLES.values()}) == len(STYLES)


def test_that_contrast_is_computed_as_accessibility_rules_do():
    assert contrast_on_white("#000000") == pytest.approx(21.0)
    assert contrast_on_white("#767676") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("method", STYLES)
def test_a_label_can_be_read_on_white(method):
    assert contrast_on_white(style_of(method).colour) >= 4.5


@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_differ_for_every_sight_and_ours_differ_most(sight):
    seen = {name: lab(SIGHTS[sight] @ linear(style.colour)) for name, style in STYLES.items()}
    for one, two in combinations(STYLES, 2):
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
