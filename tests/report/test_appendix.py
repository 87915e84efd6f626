"""Exact figures go to a file of their own that says it must not be published, and to no other."""

import json

import pytest

from fairdp.report.model import MARK
from fairdp.report.page import run_report
from page_reading import parsed


def evaluation(**changes) -> dict:
    metrics = {"accuracy": 0.812345, "auc": None, "positive_rate_by_group": {"f": 0.271828, "m": 0.314159}}
    found = {"method": "fairdp", "n_test": 4711, "metrics": metrics, "confidence": 0.9}
    return found | {"intervals": {"accuracy": [0.79, 0.83]}, "warnings": ["small <b>"], "note": "exact"} | changes


@pytest.fixture
def written(folder_of, tmp_path):
    """The two files of a report with an appendix from this evaluation."""

    def write(content: object, out: str = "page.html"):
        file = tmp_path / "exact.json"
        file.write_text(json.dumps(content))
        done = run_report(folder_of("certified"), out=tmp_path / out, appendix=file)
        assert done["appendix"] == str(tmp_path / out.replace("page", "page-appendix"))
        return (tmp_path / out).read_text(), (tmp_path / out.replace("page", "page-appendix")).read_text()

    return write


@pytest.mark.parametrize("out", ["page.html", "page.md"])
def test_exact_figures_are_in_the_appendix_alone(written, page_of, out):
    page, appendix = written(evaluation(), out)
    shown = parsed(appendix).text if out.endswith("html") else appendix
    for text in ("0.8123", "0.7900 to 0.8300", "4,711", "positive rate by group: f", "0.2718"):
        assert text in shown
        assert text not in page
    assert MARK in appendix
    assert MARK not in page
    assert "<b>" not in appendix
    # The page itself is the one that there is without the appendix.
    assert page == page_of("certified", "html" if out.endswith("html") else "markdown")


OTHERS = {
    "list": [],
    "no figures": {"method": "fairdp"},
    "another method": evaluation(method="dpsgd"),
    "other groups": evaluation(metrics={"positive_rate_by_group": {"x": 0.1}}),
}


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
def test_an_evaluation_of_something_else_is_refused_and_nothing_written(refuses, written, tmp_path, content):
    refuses(lambda: written(content))
    assert [path.name for path in tmp_path.iterdir()] == ["exact.json"]
