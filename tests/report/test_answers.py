"""The page alone answers what a reader asks; every kind of model has every answer."""

import json
import re
from dataclasses import replace

import pytest

from fairdp.report.model import TO_FILL_IN, group_figures
from fairdp.report.page import render_model
from page_reading import parsed

KINDS = [
    "certified",
    "not certified",
    "no noise",
    "clean",
    "pure",
    "dp_postprocess",
    "missed",
    "random head",
    "forged",
    "odd",
]


def answers_of(page: str) -> dict[str, str]:
    found = [e for e in parsed(page).everything if e.attributes.get("class") == "answer"]
    return {e.all("dt")[0].text: e.all("dd")[0].text for e in found}


@pytest.mark.parametrize("kind", KINDS)
def test_each_question_has_an_answer(page_of, folder_of, kind):
    page, about = page_of(kind), json.loads((folder_of(kind) / "model.json").read_bytes())
    found, head = answers_of(page), parsed(page.split("</header>")[0] + "</header></body></html>").text
    assert "A positive decision is: 1; a negative one: 0." in found["Which decision?"]
    private = kind not in ("no noise", "clean")
    assert ("no attack recognises more than" in found["How private?"]) == private
    assert ("Not private" in found["How private?"]) != private
    # What is not private has nothing to hide in noise.
    how = "noisy" if private else "exact"
    assert re.match(rf"About [\d,]+ records to train on \({how} counts\)", found["For how many people?"])
    # Met or not, useful or not.
    for line in ("Arithmetic checked", "Guarantee asked for reached", "Model useful"):
        assert re.search(rf"{line}: (yes|no|undecided|not asked for) ", head)
    certified = json.loads((folder_of(kind) / "certificate.json").read_bytes())["certified"]
    assert ("confidence 95 %" in found["How sure?"]) == certified
    assert all(group in found["Which groups?"] for group in about["groups"])
    assert "populations other than the one" in found["What is not promised?"]
    assert (
        f"Made on {about['made']['date']} (UTC) with fairdp {about['made']['fairdp']}"
        in found["Who made it, and when?"]
    )
    assert TO_FILL_IN in found["Who made it, and when?"]
    assert f"fairdp verify {kind.replace(' ', '-')}-model/" in found["How to check it?"]
    assert "No ledger was kept" in found["What else was spent on these records?"]


def test_the_number_of_people_is_the_noisy_one(page_of, folder_of):
    certificate = json.loads((folder_of("certified") / "certificate.json").read_bytes())
    noisy = sum(n for group in certificate["counts"] for row in group for n in row)
    assert (
        f"about {noisy:,} others that the certificate counted"
        in answers_of(page_of("certified"))["For how many people?"]
    )


def test_every_answer_leads_to_a_section(page_of):
    root = parsed(page_of("certified"))
    ids = {e.attributes.get("id") for e in root.everything}
    links = [e.all("a")[0].attributes["href"] for e in root.everything if e.attributes.get("class") == "answer"]
    assert len(links) == 9
    assert {link.removeprefix("#") for link in links} <= ids


def test_the_risk_is_that_of_the_weakest_part_rounded_up(report_of):
    report = report_of("certified")
    worst = max(exposure.true_positive_rates[0] for exposure in report.exposures)
    said = float(re.search(r"more than ([\d.]+) of 1,000 people", report.risk)[1])
    assert 1000 * worst <= said + 1e-9 < 1000 * worst + 0.1 + 1e-9


def test_the_limits_of_both_promises_stand_together(page_of):
    (section,) = [e for e in parsed(page_of("clean")).all("section") if e.attributes["aria-labelledby"] == "limits"]
    assert "anything: the model is not private" in section.text
    assert "fairness between individuals" in section.text


def test_figures_of_groups_are_on_the_page_with_their_price(page_of, report_of):
    text, figures = parsed(page_of("certified")).text, report_of("certified").groups
    for row in figures["rows"]:
        for rate in (row.base_rate, row.selection_rate, row.true_positive_rate, row.false_positive_rate, row.accuracy):
            assert f"{rate.estimate:.3f}" in text
            assert 0 <= rate.low <= rate.estimate <= rate.high <= 1
    assert figures["cost"]
    for cost in figures["cost"].values():
        assert f"wider by {cost:.4f}" in text
    for bins in figures["calibration"].values():
        assert len(bins) == 12


@pytest.mark.more
@pytest.mark.parametrize("format", ["html", "markdown"])
def test_sixteen_groups_have_their_place(report_of, format):
    """Every group is in the tables, the head names the first few, and the page stays small."""
    report = report_of("certified")
    names = tuple(f"group {place}" for place in range(16))
    counts = tuple(((40 + place, 10), (10, 30 - place)) for place in range(16))
    fields = {"group_names": names, "epsilons": (1.0,) * 16, "expected_sizes": (90.0,) * 16, "scores": None}
    certificate = replace(report.certificate, counts=counts, **fields)
    about = replace(report.about, groups=names)
    changed = replace(report, certificate=certificate, about=about, groups=group_figures(certificate))
    page = render_model(changed, format=format).decode()
    text = parsed(page).text if format == "html" else page
    assert "16: group 0, group 1, group 2" in text
    assert "and 4 more" in text
    assert all(f"group {place}" in text for place in range(16))
    assert "nothing is known of calibration" in text
    assert len(page) < 200_000


def test_an_image_model_without_a_schema_has_its_page(report_of):
    report = report_of("certified")
    image = replace(report.about, shape=(1, 8, 8), model=replace(report.about.model, kind="cnn"))
    text = parsed(render_model(replace(report, about=image), format="html").decode()).text
    assert "arrays of shape 1 × 8 × 8" in text
    assert "convolutional network" in text
    assert "given as an array; its name is not recorded" in text
