"""The books: code and schema blocks in the documents run, every command is documented, links lead somewhere."""

import re
from pathlib import Path

import pytest
import yaml

from fairdp.cli import fairdp, main
from fairdp.data.schema import read_schema
from test_readme import loans

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "tests" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.needs_data("adult")
@pytest.mark.parametrize(
    ("page", "saved"),
    [("README.md", "model"), pytest.param("docs/tutorials/python.md", "own", marks=pytest.mark.more)],
)
def test_python_in_the_readme_and_on_the_page_about_python_runs(
    page: str, saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    loans(2000, seed=0).to_csv("loans.csv", index=False)
    with pytest.raises(SystemExit, match="0"):
        main(["schema", "loans.csv", "--label", "repaid", "--sensitive", "sex"])
    Path("loans.yaml").write_text(capsys.readouterr().out)
    names: dict[str, object] = {}
    for block in blocks(ROOT / page, "python"):
        exec(compile(block, page, "exec"), names)
    assert ("differentially private" in capsys.readouterr().out) == (page == "README.md")
    assert (tmp_path / saved / "SHA256SUMS").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_every_page_is_python(page: Path) -> None:
    """That it runs is tested of two pages here, and of the tutorials by the tests that take longer."""
    for block in blocks(page, "python"):
        compile(block, page.name, "exec")


def test_no_realised_model_of_the_counter_example_is_called_fair(capsys: pytest.CaptureFixture) -> None:
    block = blocks(ROOT / "docs" / "lab" / "errata.md", "python")[-1]
    exec(compile(block, "errata.md", "exec"), {})
    taus = [float(line) for line in capsys.readouterr().out.splitlines()]
    assert len(taus) == 4
    assert min(taus) > 0.99


def test_schema_in_the_docs_is_one(tmp_path: Path) -> None:
    (block,) = blocks(ROOT / "docs" / "reference" / "schema.md", "yaml")
    path = tmp_path / "loans.yaml"
    path.write_text(block)
    schema = read_schema(path)
    assert schema.group_names == ("Female", "Male")
    assert len(schema.columns) == len(yaml.safe_load(block)["columns"])


def test_every_command_is_documented() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    undocumented = [name for name in fairdp.every_command() if f"fairdp {name}" not in text]
    assert undocumented == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []
