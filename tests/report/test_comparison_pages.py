"""The frontier of a comparison: every row once, escaped, and in its place for every choice of axes."""

import json

import pytest

from comparison_cases import row
from fairdp.report.charts import Row, conclusions, frontier_data, marker_path, read_comparison
from fairdp.report.page import run_report
from page_reading import parsed


@pytest.fixture
def page(compared_pages):
    return compared_pages["trade"]


def points_of(root):
    return [e for e in root.everything if e.attributes.get("class") == "point" and "aria-label" in e.attributes]


def test_every_row_is_a_point_that_can_be_reached_by_keyboard(page):
    points = points_of(parsed(page))
    assert len(points) == 6
    assert all(point.attributes["tabindex"] == "0" for point in points)
    labels = [point.attributes["aria-label"] for point in points]
    assert "DP-SGD: private only, ε = 0.5: accuracy 0.700 ± 0.010; AUC 0.800 ± 0.010" in labels[0]
    assert "ratio of rates –" in labels[0]
    assert any(label.startswith("No privacy, no fairness, not private") for label in labels)
    control = "DP-SGD: private only, at the positive rate of “FairDP frontier: our default”, ε = 0.5"
    assert any(label.startswith(control) for label in labels)


def test_table_holds_every_row_for_readers_without_script(page):
    table = next(t for t in parsed(page).all("table") if "All rows" in t.text)
    assert len(table.all("tbody")[0].all("tr")) == 6


def test_names_cannot_leave_their_place(page):
    assert "<i>" not in page
    assert page.count("<script") == page.count("</script") == 2
    script = next(e for e in parsed(page).all("script") if e.attributes.get("type") == "application/json")
    names = [point["name"] for series in json.loads(script.text) for point in series]
    assert "FairDP frontier: our default, x=</script>, ε = 0.5" in names


def test_page_tells_costs_and_origin_but_no_date_or_machine(page):
    text = parsed(page).text
    assert "ε = 3 in all" in text
    assert "Warning: clean <i>: nearly everybody." in text
    assert "for the data holder's eyes" in text
    assert "fairdp compare <x>" in text
    assert "c0de" in text
    assert "2026" not in text
    assert "processors" not in text


def test_better_is_up_and_to_the_left(comparison):
    (frontier,) = read_comparison(comparison).frontiers
    low, high = frontier_data(frontier)[0]
    assert low["x"]["demographic_parity"][0] < high["x"]["demographic_parity"][0]
    assert low["y"]["accuracy"][0] > high["y"]["accuracy"][0]
    for own in (low, high):
        mean, left, right = own["x"]["equalized_odds"]
        assert left < mean < right


def test_missing_value_hides_a_point_and_breaks_no_page(comparison, tmp_path):
    summary = json.loads((comparison / "summary.json").read_text())
    summary["rows"][0]["mean"]["accuracy"] = None
    (comparison / "summary.json").write_text(json.dumps(summary))
    out = tmp_path / "trade.html"
    run_report(comparison, out=out)
    hidden = [e for e in points_of(parsed(out.read_text())) if e.attributes.get("display") == "none"]
    assert [e.attributes["tabindex"] for e in hidden] == ["-1"]


def test_markdown_of_a_comparison(comparison, tmp_path):
    out = tmp_path / "trade.md"
    assert run_report(comparison, out=out)["format"] == "markdown"
    text = out.read_text()
    assert "| people &lt;i&gt; | DP-SGD: private only | ε = 0.5 | 0.700 ± 0.010 |" in text
    assert "Conclusion:" in text
    assert "<i>" not in text


def test_every_marker_has_an_outline_of_its_own():
    outlines = [marker_path(marker) for marker in "osD^v<>hpPX*d"]
    assert len(set(outlines)) == len(outlines)
    assert all(outline.startswith("M") and outline.endswith("Z") for outline in outlines)


def test_a_comparison_ends_with_a_conclusion_that_follows_from_its_rows(page):
    last = parsed(page).all("section")[-1].text.rpartition("Conclusion")[2]
    assert (
        "ε = 0.5: FairDP frontier: our default, x=</script> is the most accurate, 0.720 ± 0.010, and has the smallest "
        "gap between groups, 0.030 ± 0.010 (in accuracy not told apart from it: DP-SGD: private only)." in last
    )
    assert "ε = 2: only DP-SGD: private only can be compared, with accuracy 0.750 ± 0.010." in last
    assert "Means of 2 runs on test records" in last


@pytest.mark.parametrize(
    ("accuracies", "gaps", "rates", "expected"),
    [
        ((0.8, 0.7), (0.2, 0.1), (0.3, 0.3), "own is the most accurate, 0.800 ± 0.010, with a demographic parity gap"),
        ((0.8, 0.7), (0.2, 0.1), (0.3, 0.3), "other has the smallest gap, 0.100 ± 0.010, and is 10.0 points less"),
        ((0.8, 0.7), (0.2, 0.1), (0.3, 0.001), "only own can be compared"),
        ((0.8, 0.7), (0.2, 0.1), (0.999, 0.001), "every method decides alike"),
        ((0.8, 0.79), (0.2, 0.1), (0.3, 0.3), "in accuracy not told apart from it: other"),
    ],
)
def test_conclusions(accuracies, gaps, rates, expected):
    rows = []
    for name, accuracy, gap, rate in zip(("own", "other"), accuracies, gaps, rates, strict=True):
        made = row(name, 1.0, accuracy, gap)
        made["mean"]["positive_rate"] = rate
        rows.append(Row.of(made))
    text = " ".join(conclusions(rows))
    assert expected in text
    assert ("not told apart" in text) == (accuracies[1] == 0.79)
