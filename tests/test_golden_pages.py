"""The golden pages: what differs from day to day is masked, and any other sentence than that of a page is noticed."""

from pathlib import Path

import pytest

import golden_pages


def test_dates_versions_places_and_figures_of_a_fit_are_masked():
    place = Path("/models")
    made = f"in {place} on 2026-02-03 by fairdp 0.1.0, torch 2.7.1+cpu, {'0a' * 32}"
    text = f"{made}: epsilon 0.98765 of 1, δ = 1.25e-05  \n"
    plain = "in PLACE on <date> by fairdp <version>, torch <version>, <sha256>: epsilon {} of 1, δ = {}"
    assert golden_pages.masked(text, place) == plain.format("0.98765", "1.25e-05")
    assert golden_pages.masked(text, place, figures=False) == plain.format("#", "#")


def test_a_page_is_read_as_it_was_written_and_another_word_is_noticed(tmp_path, monkeypatch):
    texts = {"one": "first line\n\nlast line", "two": "a line"}
    (tmp_path / "page.txt").write_text(golden_pages.written("page", texts), encoding="utf-8")
    monkeypatch.setattr(golden_pages, "FOLDER", tmp_path)
    monkeypatch.delenv(golden_pages.NOTED, raising=False)
    golden_pages.page.cache_clear()
    golden_pages.compare("page", "one", texts["one"])
    for title, text in (("one", "first line\n\nlast words"), ("three", "")):
        with pytest.raises(AssertionError, match="make pages"):
            golden_pages.compare("page", title, text)
    golden_pages.page.cache_clear()


def test_every_page_has_texts_and_every_text_one_title():
    for path in golden_pages.FOLDER.glob("*.txt"):
        titles = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith(golden_pages.TITLE)]
        assert len(titles) == len(set(titles)) == len(golden_pages.page(path.stem)) > 0
