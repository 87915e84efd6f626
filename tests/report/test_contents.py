"""Contents of reports for each kind of model: nothing beyond what is known, and every warning."""

import json
import re
from dataclasses import replace

import pytest
import yaml

from fairdp.data.schema import TableSchema
from fairdp.errors import bound_above, rounded_up
from fairdp.report.cards import cautions, headline
from fairdp.saved.folder import read_record
from fairdp.saved.verify import verify_folder
from fairdp.statements.certificate import four_fifths_verdict
from page_reading import parsed


def text_of(page: str) -> str:
    return parsed(page).text


def test_certified_model_states_its_promises(page_of, folder_of):
    folder, text = folder_of("certified"), text_of(page_of("certified"))
    privacy = json.loads((folder / "privacy.json").read_bytes())
    certificate = read_record(json.loads((folder / "certificate.json").read_bytes())).certificate()
    assert f"ε = {rounded_up(privacy['epsilon'])} at δ = 1e-05 for adding or removing one record" in text
    for gap in certificate.gaps.values():
        assert f"≤ {bound_above(gap.tau)}" in text
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        assert line.split()[0] in text
    for check in verify_folder(folder):
        assert " ".join(check.found.split()) in text
    for words in ("Arithmetic checked: yes", "Seeded noise:", "not legal advice"):
        assert words in text


def test_only_released_values_are_shown_of_groups(page_of, folder_of):
    certificate = json.loads((folder_of("certified") / "certificate.json").read_bytes())
    text = text_of(page_of("certified"))
    for group in certificate["counts"]:
        assert f" {sum(map(sum, group)):,} " in text
    assert "n_train" not in text


def test_no_page_calls_a_model_fair(page_of):
    for kind in ("certified", "clean", "forged"):
        text = text_of(page_of(kind)).lower()
        for virtue in ("is fair", "unbiased", "fair model", "is compliant", "anonymous"):
            assert virtue not in text


KINDS = ("certified", "not certified", "clean", "dp_postprocess", "pure", "by moments", "missed", "forged")


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_says_of_each_kind_what_it_is(page_of, golden, kind):
    """Of all but the first only what differs from it."""
    usual = set(page_of("certified", "markdown").splitlines()) if kind != "certified" else ()
    said = [line for line in page_of(kind, "markdown").splitlines() if line not in usual]
    golden("report", kind, "\n".join(said), figures=False)


def test_the_accountant_that_was_chosen_is_named_with_what_the_other_gives(page_of, folder_of):
    text = text_of(page_of("by moments"))
    privacy = json.loads((folder_of("by moments") / "privacy.json").read_bytes())
    assert rounded_up(privacy["epsilon_rdp"]) in text
    assert rounded_up(privacy["epsilon_pld"]) in text


def test_model_that_does_not_verify_says_so_first(page_of):
    text = text_of(page_of("forged"))
    assert text.index("NOT VERIFIED. What the folder claims") < text.index("ε = 0.1") < text.index("Arithmetic checked")
    assert "Arithmetic checked: no" in text
    assert "Guarantee asked for reached: yes" not in text
    assert "Model useful: yes" not in text
    assert re.search(r"Check failed: epsilon: total: recorded 0\.1, computed 1\.99\d+\.", text)
    assert "claimed, not verified" in text
    assert "certified, 95 %" not in text


def test_undeclared_schema_and_collapse_are_warned_of(report_of):
    report = report_of("certified")
    column = {"type": "numeric", "name": "age", "low": 0, "high": 1}
    content = {"label": "y", "positive": "1", "negative": "0", "columns": [column], "declared": False}
    schema = TableSchema.from_dict({**content, "sensitive": [{"name": "sex", "groups": ["f", "m"]}]})
    changed = replace(report, schema=schema, estimates={"positive_rate": 0.001})
    assert {"Schema read from the table", "Collapsed"} <= {caution.split(":")[0] for caution in cautions(changed)}
    assert headline(changed).startswith("A classifier of y trained with fairdp:")


@pytest.mark.parametrize(
    ("ratio", "estimate", "expected"),
    [
        (0.81, 0.9, "is not below 0.8"),
        (0.7, 0.9, "the certified lower bound, 0.7000, is below that, and the estimate, 0.9000, is not below that"),
        (0.7, 0.75, "the estimate, 0.7500, is below that"),
        (None, 0.75, "no lower bound of the ratio is certified"),
        (0.0, float("nan"), "there is no estimate"),
    ],
)
def test_four_fifths_is_established_only_by_the_bound(report_of, ratio, estimate, expected):
    report = report_of("certified")
    gaps = {"demographic_parity": replace(report.certificate.gaps["demographic_parity"], ratio=ratio)}
    changed = replace(report, certificate=replace(report.certificate, gaps=gaps))
    verdict = four_fifths_verdict(changed.certificate, {"demographic_parity_ratio": estimate})
    assert expected in verdict
    assert ("not established" in verdict) == (ratio is None or ratio < 0.8)


def test_names_are_escaped(page_of):
    page, text = page_of("odd"), text_of(page_of("odd"))
    assert "<b>" not in page
    assert "<b>&\"'" in text
    assert "*x*|`y`[z](u)" in text


@pytest.mark.parametrize("kind", ["certified", "not certified", "clean", "dp_postprocess", "forged", "odd"])
def test_markdown_is_a_model_card(page_of, kind):
    page = page_of(kind, "markdown")
    _, front, body = page.split("---\n", 2)
    card = yaml.safe_load(front)
    assert (card["library_name"], card["license"]) == ("fairdp", "unknown")
    assert "tabular-classification" in card["tags"]
    assert ("NOT VERIFIED" in body) == (kind == "forged")
    for heading in ("Privacy", "Fairness", "Model card", "Data card", "Verification"):
        assert f"\n## {heading}\n" in body
    assert "<b>" not in body
    assert "*x*" not in body


def test_exposures_are_worst_for_the_held_out(report_of):
    trained, held_out = report_of("certified").exposures
    assert (trained.who, held_out.who) == ("trained on", "held out")
    assert trained.advantage < held_out.advantage < 1
    for own in (trained, held_out):
        drawn = [true for _, true in own.drawn]
        assert drawn == sorted(drawn)
        assert own.drawn[-1] == (1.0, 1.0)
