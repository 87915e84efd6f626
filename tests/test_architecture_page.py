"""The page on the architecture names only what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "fairdp"


def missing(text: str) -> list[str]:
    """Paths in backquotes that lead nowhere, from the package or from the repository."""
    named = re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py|\.md|\.json)?)`", text)
    return [path for path in named if not any((home / path).exists() for home in (PACKAGE, ROOT))]


def undefined(text: str) -> list[str]:
    """Names in backquotes, of functions, types, constants and attributes, that the sources do not have."""
    sources = [
        path.read_text(encoding="utf-8") for home in ("src", "tests", "tools") for path in (ROOT / home).rglob("*.py")
    ]
    known = set(re.findall(r"\w+", "\n".join(sources)))
    named = re.findall(r"`(?:[A-Z]\w*\.)?([A-Za-z_]\w+)`", text)
    return [name for name in dict.fromkeys(named) if name not in known]


def test_every_name_on_the_architecture_page_is_defined():
    page = (ROOT / "docs" / "project" / "architecture.md").read_text(encoding="utf-8")
    assert undefined(page) == []
    # In two parts, because this file is among the sources.
    assert undefined("see `make_plan` and `Recipe.beside_" + "the_gradient`") == ["beside_" + "the_gradient"]


def test_every_module_that_the_architecture_names_is_there():
    pages = (ROOT / "docs" / "project" / "architecture.md", ROOT / "CONTRIBUTING.md")
    assert [path for page in pages for path in missing(page.read_text())] == []


def test_that_check_notices_a_module_that_has_moved():
    assert missing("see `training/recipe.py`, and `training/loop.py`") == ["training/recipe.py"]
