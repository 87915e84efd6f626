"""Rows as studies make them, with values that lie as closely together as those of real methods."""

from copy import deepcopy

import numpy as np
import pytest
from matplotlib.text import Text

EPSILONS = (0.5, 1.0, 1.5, 2.0)
GAPS = ("demographic_parity", "equal_opportunity", "equalized_odds")

# Accuracy and demographic parity gap on Adult.
PLACES = {
    "clean": (0.80, 0.078),
    "dpsgd": (0.80, 0.08),
    "dpsgd_f": (0.80, 0.082),
    "dp_is_sgd": (0.79, 0.05),
    "fairsmooth": (0.78, 0.026),
    "dpsgd_smooth": (0.799, 0.079),
    "fairdp": (0.78, 0.02),
    "fairdp_parity": (0.79, 0.03),
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


@pytest.fixture(scope="session")
def rows_of_methods():
    """Two data sets, eight methods."""
    rng = np.random.default_rng(0)
    return [
        make_row(method, epsilon, place, rng, dataset=dataset)
        for dataset in ("adult", "utkface")
        for method, place in PLACES.items()
        for epsilon in ((None,) if method in ("clean", "fairsmooth") else EPSILONS)
    ]


@pytest.fixture
def rows(rows_of_methods):
    """The same, for a test to change."""
    return deepcopy(rows_of_methods)


@pytest.fixture
def controls():
    rng = np.random.default_rng(1)
    return [make_row("dpsgd", epsilon, (0.788, 0.044), rng, at="fairdp") for epsilon in EPSILONS]


@pytest.fixture
def gain_rows():
    return [
        {
            "dataset": dataset,
            "epsilon": epsilon,
            "gains": {f"{name}_difference": (0.7 - 0.02 * k, 0.04) for k, name in enumerate(GAPS)},
            "drops": {"auc": (0.02, 0.002), "accuracy": (0.021, 0.003)},
        }
        for dataset in ("adult", "credit")
        for epsilon in EPSILONS
    ]


@pytest.fixture
def shift_rows():
    sizes = {"0.0": 0.0, "0.05": 0.05, "0.1": 0.1}
    return [
        {
            "dataset": dataset,
            "metric": metric,
            "epsilon": epsilon,
            "clean": (0.08, 0.004),
            "observed": {name: (0.02 + size / 10, 0.002) for name, size in sizes.items()},
            "paper_tau": (0.05 + 0.02 / epsilon, 0.004),
            "certified_tau": (0.08 + 0.02 / epsilon, 0.004),
            "certified_tau_shifted": {"0.05": (0.13 + 0.02 / epsilon, 0.004)},
        }
        for dataset in ("adult", "credit")
        for metric in GAPS
        for epsilon in EPSILONS
    ]


@pytest.fixture
def imbalance_rows():
    rng = np.random.default_rng(2)
    return [
        make_row("fairdp", epsilon, (0.78 - 0.004 * k, 0.02 + 0.008 * k), rng, ratio=ratio)
        for k, ratio in enumerate((1.5, 2.0, 3.0))
        for epsilon in EPSILONS
    ]


@pytest.fixture
def words_of():
    """The artists of a panel that carry a mark, as text."""

    def words(axes, gid="label"):
        return [text.get_text() for text in axes.texts if text.get_gid() == gid]

    return words


@pytest.fixture
def legend_of():
    """Labels of a figure's legend with their colours: the first says what is drawn, the second how large and full."""

    def labels(figure, number=0):
        return {text.get_text(): text.get_color() for text in figure.legends[number].get_texts()}

    return labels


@pytest.fixture
def misplaced():
    """Texts that meet another one, or leave the page."""

    def found(figure):
        figure.draw_without_rendering()
        wrong = []
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
        page = figure.bbox
        for number, (words, box) in enumerate(boxes):
            if box.x0 < page.x0 or box.y0 < page.y0 or box.x1 > page.x1 or box.y1 > page.y1:
                wrong.append(f"{words!r} leaves the page")
            wrong += [f"{words!r} meets {other!r}" for other, place in boxes[:number] if box.overlaps(place)]
        return wrong

    return found
