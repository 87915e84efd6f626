"""The frontier of a comparison: every row once, escaped, and in its place for every choice of axes."""

import json

import pytest

from fairdp.report.comparison import frontier_data, read_comparison
from fairdp.report.markers import marker_path
from fairdp.report.writing import run_report
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
    assert "dpsgd, ε = 0.5: accuracy 0.700 ± 0.010; AUC 0.800 ± 0.010" in labels[0]
    assert "ratio of rates –" in labels[0]
    assert any(label.startswith("clean, not private") for label in labels)
    assert any(label.startswith("dpsgd at fairdp_parity, ε = 0.5") for label in labels)


def test_table_holds_every_row_for_readers_without_script(page):
    table = next(t for t in parsed(page).all("table") if "All rows" in t.text)
    assert len(table.all("tbody")[0].all("tr")) == 6


def test_names_cannot_leave_their_place(page):
    assert "<i>" not in page
    assert page.count("<script") == page.count("</script") == 2
    script = next(e for e in parsed(page).all("script") if e.attributes.get("type") == "application/json")
    names = [point["name"] for series in json.loads(script.text) for point in series]
    assert "fairdp_parity, x=</script>, ε = 0.5" in names


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
    assert run_report(comparison, out=out).format == "markdown"
    text = out.read_text()
    assert "| people &lt;i&gt; | dpsgd | ε = 0.5 | 0.700 ± 0.010 |" in text
    assert "<i>" not in text


def test_every_marker_has_an_outline_of_its_own():
    outlines = [marker_path(marker) for marker in "osD^v<>hpPX*d"]
    assert len(set(outlines)) == len(outlines)
    assert all(outline.startswith("M") and outline.endswith("Z") for outline in outlines)
