"""The pages about the paper: every name on them exists, and every command of the walk through it is understood."""

import importlib
import re
import shlex
from functools import reduce
from pathlib import Path

import click
import pytest

from fairdp import cli

ROOT = Path(__file__).parent.parent
NOTHING = "–"
NAMED = re.compile(r"fairdp\.\w|tests/")


def rows_of(page: str) -> list[list[str]]:
    """The cells of every row of its tables, without their heads: item, place, command, verdict."""
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in page.splitlines() if line[:1] == "|"]
    return [row for row in rows if row[0] != "paper" and not set(row[0]) <= set("|-")]


ROWS = rows_of((ROOT / "docs" / "lab" / "paper.md").read_text(encoding="utf-8"))


def resolved(name: str) -> object:
    """The object or file that a dotted name or a path stands for."""
    if "/" in name:
        assert (ROOT / name).is_file(), name
        return ROOT / name
    parts = name.split(".")
    # Modules before attributes: `fairdp.methods` is a module, and a function of the package that holds it.
    for n_parts in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:n_parts]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[n_parts:], found)
    raise AssertionError(name)


def named_on(page: str) -> list[str]:
    """Names, and tests as pytest names them, that a page has in its text."""
    return [code for code in code_in(re.sub(r"\n```.*?\n```", "", page, flags=re.DOTALL)) if NAMED.match(code)]


def found_test(name: str) -> bool:
    path, _, test = name.partition("::")
    return f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")


def understood(line: str, folder: Path) -> click.Context:
    """The command's options and their values, without running it."""
    for name in ("loans.csv", "new.csv", "labelled.csv", "fresh.csv"):
        (folder / name).touch()
    (folder / "model").mkdir(exist_ok=True)
    program, name, *words = shlex.split(line)
    assert program == "fairdp"
    with cli.fairdp.every_command()[name].make_context(name, words, **cli.fairdp.context_settings) as context:
        return context


def code_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_page_has_a_row_for_every_part_of_the_paper():
    assert {len(row) for row in ROWS} == {4}
    items = " ".join(row[0] for row in ROWS)
    parts = ["Definition 1", "Algorithm 1", "Algorithm 2", "Algorithm 3", "Theorem 1", "Theorem 2", "Proposition 3"]
    parts += ["Remark 1", "Remark 2", "Table I,", "Table II,", "Table III,", "abstract"]
    assert [part for part in parts if part not in items] == []
    figures = " ".join(re.findall(r"Figures? ([\d, and]+)", items))
    assert {int(number) for number in re.findall(r"\d+", figures)} == set(range(1, 12))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_place_exists(row):
    item, place, _, verdict = row
    names = code_in(place)
    assert names or place == NOTHING, item
    assert [name for name in names if resolved(name) is None] == []
    # In a verdict names stand beside commands and flags.
    assert all(resolved(name) for name in code_in(verdict) if name.startswith("fairdp."))
    assert verdict, item


@pytest.mark.parametrize("row", [row for row in ROWS if row[2] != NOTHING], ids=lambda row: row[0])
def test_every_command_is_understood(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (line,) = code_in(row[2])
    assert understood(line, tmp_path).params


@pytest.mark.parametrize("study", sorted({row[2].split()[-1].strip("`") for row in ROWS if " reproduce " in row[2]}))
def test_every_study_exists(study):
    from fairdp_lab.studies.protocol import STUDIES

    assert study in STUDIES


ERRATA = sorted(set(named_on((ROOT / "docs" / "lab" / "errata.md").read_text(encoding="utf-8"))))


def test_errata_name_their_evidence():
    assert len(ERRATA) > 20


@pytest.mark.parametrize("name", ERRATA)
def test_every_name_in_the_errata_exists(name):
    assert found_test(name) if name.startswith("tests/") else resolved(name)


@pytest.mark.parametrize("name", ["tests/certify/test_paper.py::test_nothing", "fairdp.training.loop.descent"])
def test_that_check_notices_evidence_that_is_not_there(name):
    with pytest.raises((AssertionError, AttributeError)):
        test_every_name_in_the_errata_exists(name)


@pytest.mark.parametrize("name", ["fairdp.paper.theorem_3", "fairdp.certifier", "docs/nowhere.md"])
def test_that_check_notices_a_wrong_name(name):
    row = ["a theorem", f"`{name}`", NOTHING, "implemented"]
    with pytest.raises((AssertionError, AttributeError, ImportError)):
        test_every_place_exists(row)


@pytest.mark.parametrize(
    "line",
    ["fairdp fit --dataset adult --methods fairdp", "fairdp fit --dataset adult --optimizer lbfgs", "fairdp trian"],
)
def test_that_check_notices_a_wrong_command(line, tmp_path, monkeypatch):
    with pytest.raises((click.ClickException, KeyError)):
        test_every_command_is_understood(["", "", f"`{line}`", ""], tmp_path, monkeypatch)
