"""Pages as documents: well-formed, accessible, self-contained, small, and the same each time."""

import itertools
import re

import pytest

from fairdp.classifier import FairDPClassifier
from fairdp.report.page import run_report
from page_reading import parsed

KINDS = [
    "certified",
    "no noise",
    "not certified",
    "clean",
    "dp_postprocess",
    "pure",
    "missed",
    "random head",
    "forged",
    "odd",
]


def check_document(page: str) -> None:
    """Rules that hold for every page."""
    root = parsed(page)
    assert root.all("html")[0].attributes["lang"] == "en"
    assert [len(root.all(tag)) for tag in ("h1", "main", "header", "footer", "title")][:4] == [1, 1, 1, 1]
    levels = [int(e.tag[1]) for e in root.everything if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(e.text for e in root.everything if re.fullmatch("h[1-6]|caption|title|th", e.tag))
    ids = [e.attributes["id"] for e in root.everything if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    named = " ".join(e.attributes.get("aria-labelledby") or "" for e in root.everything).split()
    anchors = [(e.attributes["href"] or "").removeprefix("#") for e in root.all("a")]
    assert {*named, *anchors} <= set(ids)
    for table in root.all("table"):
        assert len(table.all("caption")) == 1
        assert all(cell.attributes.get("scope") in ("row", "col") for cell in table.all("th"))
    assert all(svg.all("title") for svg in root.all("svg"))
    check_self_contained(root)
    assert len(page.encode()) < 1_000_000


def check_self_contained(root) -> None:
    """Nothing that a browser would fetch."""
    for element in root.everything:
        assert element.tag not in ("img", "iframe", "object", "embed", "audio", "video", "base")
        assert not {"src", "srcset", "action", "xlink:href"} & element.attributes.keys()
        if "href" in element.attributes:
            assert (element.attributes["href"] or "").startswith("#") or element.tag == "link"
    assert [link.attributes["href"] for link in root.all("link")] == ["data:,"]
    styles = " ".join(style.text for style in root.all("style"))
    assert "url(" not in styles
    assert "@import" not in styles


@pytest.mark.parametrize("kind", KINDS)
def test_model_page_is_a_good_document_without_script(page_of, kind):
    page = page_of(kind)
    check_document(page)
    assert "<script" not in page
    assert "script-src" not in page
    assert "://" not in page


def test_pages_with_a_comparison_are_good_documents(compared_pages):
    for page in compared_pages.values():
        check_document(page)
        assert "://" not in page


def test_that_check_notices_what_is_wrong(page_of):
    page = page_of("clean")
    for wrong in (
        page.replace("</table>", "", 1),
        page.replace('<h2 id="privacy"', '<h2 id="fairness"'),
        page.replace("<caption>", "<caption hidden></caption><caption>", 1),
        page.replace("<footer>", '<footer><img src="x">'),
    ):
        with pytest.raises(AssertionError):
            check_document(wrong)


@pytest.mark.parametrize("format", ["html", "markdown"])
def test_the_same_folder_gives_the_same_bytes(folder_of, tmp_path, monkeypatch, format):
    folder = folder_of("no noise")
    first, second = tmp_path / "one", tmp_path / "two"
    run_report(folder, out=first, format=format)
    monkeypatch.chdir(folder.parent)
    run_report(folder.relative_to(folder.parent), out=second, format=format)
    assert first.read_bytes() == second.read_bytes()
    made = FairDPClassifier.load(folder).fitted_.made.date
    # The day of the model, never that of the page.
    assert set(re.findall(r"20\d\d-\d\d-\d\d", first.read_text(encoding="utf-8"))) == {made}


def test_no_path_of_the_machine_is_in_the_page(page_of, folder_of):
    assert str(folder_of("certified").parent) not in page_of("certified")
