"""The owner's card: a template that can be filled in, texts that reach the page, and refusals in one line."""

import pytest
import yaml
from click.testing import CliRunner

from fairdp.cli.check import report
from fairdp.report.model import FIELDS, TO_FILL_IN, card_template, read_card
from fairdp.report.page import run_report
from page_reading import parsed


def test_the_template_names_every_field_and_fills_none():
    done = CliRunner().invoke(report, ["--card-template"])
    assert (done.exit_code, done.stdout) == (0, card_template())
    assert yaml.safe_load(done.stdout) == dict.fromkeys(FIELDS, "")


def test_an_empty_card_says_nothing(tmp_path):
    (tmp_path / "owner.yaml").write_text(card_template())
    card = read_card(tmp_path / "owner.yaml")
    assert [card.get(key) for key in FIELDS] == [None] * len(FIELDS)


@pytest.mark.parametrize("format", ["html", "markdown"])
def test_what_the_owner_says_stands_on_the_page_and_the_rest_is_asked_for(folder_of, tmp_path, format):
    said = {key: f"{key} <b>said</b>" for key in FIELDS if key != "appeal"} | {"review_date": "2026-10-31"}
    text = yaml.safe_dump(said).replace("'2026-10-31'", "2026-10-31")
    (tmp_path / "owner.yaml").write_text(text)
    run_report(folder_of("no noise"), out=tmp_path / "page", format=format, card=tmp_path / "owner.yaml")
    page = (tmp_path / "page").read_text()
    assert "<b>" not in page
    shown = parsed(page).text if format == "html" else page.replace("\\", "")
    assert shown.count(TO_FILL_IN) == 1
    assert "2026-10-31" in shown
    for key in said.keys() - {"review_date"}:
        assert f"{key} " in shown
    assert ("you must add" in shown) == (format == "html")


def test_without_a_card_every_field_is_to_be_filled_in(page_of):
    text = parsed(page_of("certified")).text
    # Owner and decision are asked for at a glance too.
    assert text.count(TO_FILL_IN) == len(FIELDS) + 2


@pytest.mark.parametrize("content", ["onwer: me", "owner: [a, b]", "owner: yes", "- owner", "owner: {"])
def test_what_is_no_card_is_refused_in_one_line(refuses, tmp_path, content):
    (tmp_path / "owner.yaml").write_text(content)
    refuses(lambda: read_card(tmp_path / "owner.yaml"))
