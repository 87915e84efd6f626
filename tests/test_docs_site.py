"""The site: it builds without a warning, its tutorials run and print what they say, its generated pages are current."""

import contextlib
import io
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fairdp import METHODS
from fairdp.cli import fairdp, main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TUTORIALS = ("quickstart", "tutorial-engineer", "tutorial-researcher")
ON_ADULT = ("certificate", "errata")
FENCES = re.compile(r"^```(python|sh|text)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def printed(run: Callable[[], object]) -> str:
    """What a piece of the page prints; warnings are for people here, not for pytest."""
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run()
    return stdout.getvalue()


def run_line(line: str) -> str:
    """One line of a shell block; ours in this process, because starting it anew would load torch again."""
    command, _, target = line.split("  #")[0].partition(" > ")
    if not command.startswith("fairdp "):
        return subprocess.run(["bash", "-ec", line], capture_output=True, text=True, check=True).stdout

    def ours() -> None:
        with pytest.raises(SystemExit) as stop:
            main(shlex.split(command)[1:])
        assert stop.value.code == 0, line

    found = printed(ours)
    if target:
        Path(target.strip()).write_text(found)
    return found


def lines_of(text: str) -> list[str]:
    """The lines without layout and with every number as one sign: figures may differ between machines, words not."""
    masked = re.sub(r"\d+(?:\.\d+)?(?:e-?\d+)?", "#", text)
    return [" ".join(line.split()) for line in masked.splitlines()]


def not_printed(shown: str, output: str) -> list[str]:
    """Lines that a page shows and that did not come out; "…" stands for lines, or for the rest of one."""
    found = lines_of(output)

    def came_out(line: str) -> bool:
        return any(own.startswith(line[:-1]) if line.endswith("…") else own == line for own in found)

    return [line for line in lines_of(shown) if line != "…" and not came_out(line)]


def test_other_words_are_noticed_and_other_figures_are_not() -> None:
    assert not_printed("…\ngap at most 0.0583", "ok\n  gap   at most 0.0927") == []
    assert not_printed("gap at least 0.0583", "ok\n  gap   at most 0.0927") == ["gap at least #"]
    assert not_printed("gap at most 0.1; …", "gap at most 0.2; more") == []
    assert not_printed("gap at least 0.1; …", "gap at most 0.2; more") == ["gap at least #; …"]


@pytest.fixture
def known_methods() -> Iterator[None]:
    """Methods that a page adds are gone after it."""
    known = set(METHODS)
    yield
    for name in set(METHODS) - known:
        del METHODS[name]


@pytest.mark.more
@pytest.mark.usefixtures("known_methods")
@pytest.mark.parametrize(
    "name", [*TUTORIALS, *(pytest.param(name, marks=pytest.mark.needs_data("adult")) for name in ON_ADULT)]
)
def test_page_runs_and_prints_what_it_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    names: dict[str, object] = {"__name__": "page"}
    output = ""
    for language, block in FENCES.findall((DOCS / f"{name}.md").read_text()):
        if language == "python":
            code = compile(block, f"{name}.md", "exec")
            output = printed(lambda code=code: exec(code, names))
        elif language == "sh":
            commands = [line for line in block.replace("\\\n", "").splitlines() if line and not line.startswith("#")]
            output = "".join(run_line(line) for line in commands)
        else:
            assert not_printed(block, output) == [], output


@pytest.mark.more
def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html"]
    built = subprocess.run(
        [*command, "-d", tmp_path / "trees", DOCS, tmp_path / "site"], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    pages = [*DOCS.glob("*.md"), *DOCS.glob("methods/*.md")]
    missing = [
        page.name for page in pages if not (tmp_path / "site" / page.relative_to(DOCS)).with_suffix(".html").is_file()
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("script", "target"),
    [
        ("cli_reference", "cli.md"),
        ("parameter_reference", "parameters.md"),
        ("error_messages", "errors.md"),
        ("architecture", "packages.svg"),
        ("tables_page", "tables.md"),
        ("gallery", "gallery.md"),
    ],
)
def test_generated_page_is_current(script: str, target: str) -> None:
    made = runpy.run_path(str(DOCS / f"{script}.py"))["page"]()
    assert (DOCS / target).read_text() == made, "run: make pages"


def test_the_gallery_shows_commands_that_are_understood_and_pictures_that_are_small() -> None:
    made = runpy.run_path(str(DOCS / "gallery.py"))
    assert len(made["EXAMPLES"]) == 4
    for example in made["EXAMPLES"]:
        _, name, *words = shlex.split(example.command)
        assert fairdp.commands[name].make_context(name, words, **fairdp.context_settings).params["out"]
    assert all(shot.stat().st_size <= made["LARGEST"] for shot in made["PICTURES"].glob("*"))


def test_figures_of_the_paper_are_current_and_well_formed() -> None:
    for name, draw in runpy.run_path(str(DOCS / "paper_figures.py"))["FIGURES"].items():
        drawn = draw()
        assert (DOCS / name).read_text(encoding="utf-8") == drawn, "run: make pages"
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


def test_every_method_has_a_page() -> None:
    assert {page.stem for page in (DOCS / "methods").glob("*.md")} == set(METHODS)


def test_every_public_name_is_in_the_reference() -> None:
    import fairdp

    text = (DOCS / "api.md").read_text()
    assert [name for name in fairdp.__all__ if f":: fairdp.{name}" not in text] == []
