"""The page on the architecture names only what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "fairdp"


def missing(text: str) -> list[str]:
    """Paths in backquotes that lead nowhere, from the package or from the repository."""
    named = re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py|\.md|\.json)?)`", text)
    return [path for path in named if not any((home / path).exists() for home in (PACKAGE, ROOT))]


def test_every_module_that_the_architecture_names_is_there():
    pages = (ROOT / "docs" / "project" / "architecture.md", ROOT / "CONTRIBUTING.md")
    assert [path for page in pages for path in missing(page.read_text())] == []


def test_that_check_notices_a_module_that_has_moved():
    assert missing("see `training/recipe.py`, and `training/loop.py`") == ["training/recipe.py"]
