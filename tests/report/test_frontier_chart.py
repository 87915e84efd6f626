"""The plot of a model's own frontier, and the verdict at the head of its page."""

import numpy as np
import pytest

from fairdp.classifier import FairDPClassifier
from fairdp.frontier.curve import FrontierPoint, frontier_points
from fairdp.report.charts import frontier_chart
from fairdp.report.model import read_model_report
from fairdp.report.page import run_report

POINTS = [
    FrontierPoint(
        price=0.1 * k, gap=0.2 - 0.02 * k, gap_standard_error=0.01, accuracy=0.86 - 0.003 * k, positive_rate=0.2
    )
    for k in range(11)
]


def test_points_lie_where_their_numbers_say():
    chart = frontier_chart(POINTS, POINTS[8], target=0.05)
    assert len(chart["dots"]) == 8
    assert POINTS[8] not in [dot["point"] for dot in chart["dots"]]
    assert chart["chosen"]["x"] == chart["x"].at(POINTS[8].gap)
    assert chart["chosen"]["y"] == chart["y"].at(POINTS[8].accuracy)
    # Larger gaps are further right, higher accuracy is further up.
    assert [dot["x"] for dot in chart["dots"]] == sorted((dot["x"] for dot in chart["dots"]), reverse=True)
    assert [dot["y"] for dot in chart["dots"]] == sorted(dot["y"] for dot in chart["dots"])
    assert chart["target"] == chart["x"].at(0.05)


def test_bars_are_two_errors_long_and_end_at_zero():
    chart = frontier_chart(POINTS, POINTS[-1])
    first, last = chart["dots"][0], chart["chosen"]
    assert (first["low"], first["high"]) == (chart["x"].at(0.18), chart["x"].at(0.22))
    assert last["low"] == chart["x"].at(0.0)
    assert chart["target"] is None


def test_a_target_beyond_the_picture_is_not_drawn():
    assert frontier_chart(POINTS, POINTS[0], target=0.9)["target"] is None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with a frontier, and group names that pages must escape."""
    rng = np.random.default_rng(0)
    n_records = 1500
    group = rng.integers(0, 2, n_records)
    X = rng.normal(size=(n_records, 3)).clip(-3, 3) / 3
    X[:, 1] = (X[:, 1] + group / 2) / 2
    y = (X[:, 0] + X[:, 1] + rng.normal(0, 0.2, n_records) > 0.3).astype(int)
    model = FairDPClassifier(
        method="fairdp_frontier", epsilon=4.0, random_state=0, n_steps=40, certify_metrics=("demographic_parity",)
    )
    model.fit(X, y, sensitive_features=np.array(["<b>", "m"])[group])
    model.save(folder := tmp_path_factory.mktemp("frontier") / "model")
    return folder


@pytest.fixture(scope="module")
def page(folder):
    run_report(folder, out=folder.with_name("page.html"))
    return folder.with_name("page.html").read_text()


def test_the_page_shows_the_frontier_and_says_what_it_was_counted_on(folder, page):
    assert "What else this training offers" in page
    assert "Counted on training records, with noise." in page
    assert page.count('class="dot chosen"') == 1
    report = read_model_report(folder)
    assert report.frontier == tuple(frontier_points(FairDPClassifier.load(folder).frontier_))


def test_the_verdict_stands_with_the_fairness_and_no_badge_for_all_at_the_head(folder, page):
    head, rest = page.split("</header>")
    verdict = FairDPClassifier.load(folder).verdict_
    assert f"<strong>{verdict.verdict.capitalize()}:</strong>" in rest
    assert "<strong>Target:</strong>" in rest
    assert [name in head for name in ("Arithmetic checked", "Guarantee asked for reached", "Model useful")] == [
        True
    ] * 3
    assert "badge" not in page


def test_a_loaded_model_has_the_same_verdict_as_its_report(folder):
    assert read_model_report(folder).verdict == FairDPClassifier.load(folder).verdict_


def test_markdown_has_the_frontier_as_a_table(folder):
    run_report(folder, out=folder.with_name("page.md"))
    text = folder.with_name("page.md").read_text()
    assert "counted on training records, with noise" in text
    assert ", chosen |" in text


@pytest.mark.parametrize("format", ["html", "markdown"])
def test_a_model_without_a_frontier_has_a_verdict_and_no_plot(page_of, format):
    text = page_of("certified", format)
    assert "What else this training offers" not in text
    assert "uality:" in text


def test_a_folder_that_does_not_verify_gets_no_green_verdict(page_of):
    head = page_of("forged").split("</header>")[0]
    assert head.count('class="standing ') == 3
    assert "standing good" not in head
