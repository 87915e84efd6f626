"""The site: it builds without a warning, its tutorials run and print what they say, its generated pages are current."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from fairdp import METHODS
from fairdp.cli import fairdp

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
ANSWERS = SimpleNamespace(**runpy.run_path(str(DOCS / "answers.py")))
ON_ADULT = ("explanation/certificate", "lab/errata")


def test_other_words_are_noticed_and_other_figures_where_the_processor_is_the_one_noted() -> None:
    not_printed = ANSWERS.not_printed
    for digits in (False, True):
        assert not_printed("…\ngap at least 0.0583", "ok\n  gap   at most 0.0583", digits=digits)
        assert not_printed("…\ngap at most 0.0583", "ok\n  gap   at most 0.0583", digits=digits) == []
        assert not_printed("gap at most 0.1; …", "gap at most 0.1; more", digits=digits) == []
        assert not_printed("gap at least 0.1; …", "gap at most 0.1; more", digits=digits)
    assert not_printed("gap at most 0.0583", "gap at most 0.0927", digits=False) == []
    assert not_printed("gap at most 0.0583", "gap at most 0.0927", digits=True) == ["gap at most 0.0583"]


def test_figures_are_written_into_the_lines_that_have_their_words() -> None:
    shown = "gap   at most 0.1\n…\n(2, 1e-05) of 3; …\ngap   at most 0.2\n"
    output = "other 9\ngap at most 0.11\n(1.999, 1e-05) of 3; rest 7\ngap at most 0.22\n"
    assert ANSWERS.rewritten(shown, output) == "gap   at most 0.11\n…\n(1.999, 1e-05) of 3; …\ngap   at most 0.22\n"


def test_pages_that_show_what_was_printed_note_on_what() -> None:
    shown = {name for name in ANSWERS.PAGES if ANSWERS.NOTE.search((DOCS / f"{name}.md").read_text())}
    answering = {
        page.relative_to(DOCS).with_suffix("").as_posix()
        for page in DOCS.rglob("*.md")
        if "```text" in page.read_text()
    }
    assert shown == answering == {*ANSWERS.PAGES}


@pytest.mark.more
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.needs_data("adult")] * (name in ON_ADULT)) for name in ANSWERS.PAGES],
)
def test_page_runs_and_prints_what_it_says(name: str) -> None:
    """In a process of its own: what tests change for any processor would change the figures."""
    command = [sys.executable, DOCS / "answers.py", "--check", name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.more
def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html"]
    built = subprocess.run(
        [*command, "-d", tmp_path / "trees", DOCS, tmp_path / "site"], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    pages = [*DOCS.rglob("*.md")]
    missing = [
        page.name for page in pages if not (tmp_path / "site" / page.relative_to(DOCS)).with_suffix(".html").is_file()
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("script", "target"),
    [
        ("cli_reference", "reference/cli.md"),
        ("parameter_reference", "reference/parameters.md"),
        ("architecture", "project/packages.svg"),
        ("tables_page", "explanation/benchmarks.md"),
    ],
)
def test_generated_page_is_current(script: str, target: str) -> None:
    made = runpy.run_path(str(DOCS / f"{script}.py"))["page"]()
    assert (DOCS / target).read_text() == made, "run: make pages"


def test_every_error_message_is_as_its_golden_page_has_it() -> None:
    made = runpy.run_path(str(ROOT / "tools" / "error_messages.py"))
    assert made["PAGE"].read_text() == made["page"](), "run: make pages"


def test_reports_are_shown_with_commands_that_are_understood_and_pictures_that_are_small() -> None:
    made = runpy.run_path(str(DOCS / "gallery.py"))
    told = " ".join((DOCS / "tutorials" / "first-report.md").read_text().split())
    for example in made["EXAMPLES"]:
        assert example.command in told
        assert f"(gallery/{example.name}.png)" in told
        _, name, *words = shlex.split(example.command)
        assert fairdp.every_command()[name].make_context(name, words, **fairdp.context_settings).params["out"]
    assert all(shot.stat().st_size <= made["LARGEST"] for shot in made["PICTURES"].glob("*"))


def test_figures_of_the_paper_are_current_and_well_formed() -> None:
    for name, draw in runpy.run_path(str(DOCS / "paper_figures.py"))["FIGURES"].items():
        drawn = draw()
        assert (DOCS / "lab" / name).read_text(encoding="utf-8") == drawn, "run: make pages"
        picture = ElementTree.fromstring(drawn)
        width, height = map(float, picture.attrib["viewBox"].split()[2:])
        words = list(picture.iter("{http://www.w3.org/2000/svg}text"))
        assert len(words) > 10
        # Half an em for each letter is more than sans-serif takes on average: nothing may run out of the picture.
        for text in words:
            size, x = float(text.get("font-size", "13")), float(text.attrib["x"])
            length = 0.5 * size * len(text.text or "")
            left = x - length / 2 if text.get("text-anchor") == "middle" else x
            assert 0 <= left <= left + length <= width, text.text
            assert 0 < float(text.attrib["y"]) < height


def _row(method: str, target: str, accuracy: float, gap: float) -> dict[str, object]:
    mean = {"accuracy": accuracy, "auc": 0.9, "gap": gap, "demographic_parity_ratio": 0.5, "positive_rate": 0.2}
    named = {"population": "people", "target": target, "method": method, "records": "all"}
    return {**named, "mean": mean, "standard_error": dict.fromkeys(mean, 0.001)}


def test_the_page_of_rivals_says_where_ours_loses_and_nothing_else() -> None:
    page = runpy.run_path(str(DOCS / "tables_page.py"))["page"]
    free, aimed = "none", "demographic parity 0.05"
    ours = [_row("fairdp_frontier", free, 0.85, 0.2), _row("fairdp_frontier", aimed, 0.84, 0.049)]
    behind = [_row("dpsgd", free, 0.84, 0.2), _row("raco_dp", aimed, 0.83, 0.04)]
    ahead = [_row("boosting", free, 0.87, 0.2), _row("dp_postprocess", aimed, 0.8405, 0.03)]
    made = page({"command": "fairdp reproduce tables --seed 0", "rows": [*ours, *behind, *ahead]})
    losses = [line for line in made.splitlines() if line.startswith("- ")]
    assert losses == [
        "- people, target none: **boosting (not private)** is ahead by .020 accuracy.",
        "- people, target demographic parity 0.05: **post-processing** is ahead by .001 accuracy (within two standard "
        "errors), at a gap of .030 against .049, and asks for the group.",
    ]
    missed = page({"command": "", "rows": [_row("fairdp_frontier", aimed, 0.84, 0.06), ours[0], behind[1]]})
    assert "- people, demographic parity 0.05: .060 ± .001." in missed


def test_every_method_has_a_card() -> None:
    cards = re.findall(r"^## (\w+)$", (DOCS / "reference" / "methods.md").read_text(), flags=re.MULTILINE)
    assert sorted(cards) == sorted(METHODS), "docs/reference/methods.md needs a section ## NAME for each method"


def test_every_public_name_is_in_the_reference() -> None:
    import fairdp

    text = (DOCS / "reference" / "python.md").read_text()
    assert [name for name in fairdp.__all__ if f":: fairdp.{name}" not in text] == []
