"""An audit beside a model: what the page says of it, and which files are refused."""

import json

import pytest

from fairdp.report.page import run_report

TEST = {
    "epsilon": 1.0,
    "delta": 1e-5,
    "epsilon_lower": 0.7215,
    "failure_probability": 1e-5,
    "counts": {},
    "passed": True,
}


def of_method(**replay) -> dict:
    one_run = TEST | {"test": "one run, white box, 100 guesses", "epsilon": 1.4101, "delta": 1e-8, "epsilon_lower": 0.0}
    step = TEST | {"test": "one step, two worlds"}
    attack = {"epsilon_lower": 0.7215, "epsilon": 1.0, "delta": 1e-5, "one_run": one_run, "tests": [step, one_run]}
    found = {"releases": 4321, "neighbours": 5, "files": 6, "violations": []} | replay
    return {"private": True, "attack": attack, "replay": found}


@pytest.fixture
def audited(tmp_path, folder_of, report_of):
    """The text of a page with an audit that says this about the model's method."""

    def page(content: dict, kind: str = "certified", format: str = "html", *, passed: bool = True) -> str:
        method = report_of(kind).method_name
        count = TEST | {"test": "noisy <count>, two worlds", "delta": 0.0}
        file, out = tmp_path / "audit.json", tmp_path / "page"
        file.write_text(json.dumps({"passed": passed, "releases": [count], "methods": {method: content}}))
        run_report(folder_of(kind), out=out, format=format, audit=file)
        return out.read_text()

    return page


@pytest.mark.parametrize("format", ["html", "markdown"])
def test_a_page_shows_bounds_beside_what_is_stated(audited, format):
    page = audited(of_method(), format=format)
    assert "4321 releases were replayed" in page
    assert "Nothing contradicts what is stated." in page
    for text in ("0.721", "1.000, δ = 1e-05", "1.411, δ = 1e-08", "1.000, pure", "noisy &lt;count&gt;"):
        assert text in page
    assert "this model's records were not touched" in page


@pytest.mark.parametrize("format", ["html", "markdown"])
def test_a_page_shows_what_is_wrong(audited, format):
    wrong = {"neighbour": "one removed", "release": "gradient 3", "found": "moved <too> far"}
    page = audited(of_method(violations=[wrong]), format=format, passed=False)
    assert "NOT as stated: do not rely on the privacy figures above." in page
    assert "one removed, gradient 3: moved &lt;too&gt; far" in page


def test_a_method_that_is_not_private_says_so(audited):
    assert "is not private, so there was nothing to audit" in audited({"private": False}, kind="clean")


def test_without_an_audit_there_is_no_section(page_of):
    assert 'id="audit"' not in page_of("certified")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"methods": {"fairdp": 1}, "passed": true, "releases": []}'])
def test_what_is_no_audit_is_refused(tmp_path, folder_of, content):
    file = tmp_path / "audit.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=r"holds no results of an audit|is not about"):
        run_report(folder_of("certified"), out=tmp_path / "page", audit=file)


def test_an_audit_of_another_method_and_one_beside_a_comparison_are_refused(tmp_path, folder_of, comparison):
    file = tmp_path / "audit.json"
    file.write_text(json.dumps({"passed": True, "releases": [], "methods": {}}))
    with pytest.raises(ValueError, match=r"is not about '\w+'; run: fairdp audit --method"):
        run_report(folder_of("certified"), out=tmp_path / "page", audit=file)
    with pytest.raises(ValueError, match="is about one model; leave it out"):
        run_report(comparison, audit=file)
