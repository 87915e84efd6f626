"""Write the golden pages anew, from the tests that compare with them.

`python tests/golden/write.py [TEST…]`
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent.parent
# What compares with a page: the fixture itself, and those of refusals.
FIXTURES = re.compile(r"\b(golden\w*|refused|refuses)\b")
sys.path.insert(0, str(TESTS))

from golden_pages import FOLDER, NOTED, written


def main() -> int:
    """Run the tests that know sentences, and write what they found; pages of a part of them are completed, not cut."""
    asked = sys.argv[1:]
    users = asked or [str(path) for path in sorted(TESTS.rglob("test_*.py")) if FIXTURES.search(path.read_text())]
    with tempfile.TemporaryDirectory() as place:
        noted = Path(place) / "noted"
        noted.touch()
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not more", *users]
        # A few tests take less time than two processes to begin.
        command += [] if asked else ["-n", "2", "--dist", "loadfile"]
        code = subprocess.run(command, cwd=TESTS.parent, env={**os.environ, NOTED: str(noted)}).returncode
        lines = [json.loads(line) for line in noted.read_text(encoding="utf-8").splitlines()]
    pages: dict[str, dict[str, str]] = {}
    for name, title, text in lines:
        if pages.setdefault(name, {}).setdefault(title, text) != text:
            raise SystemExit(f"{name}: {title!r} has two texts")
    for name, texts in pages.items():
        path = FOLDER / f"{name}.txt"
        before = _texts(path) if asked and path.exists() else {}
        path.write_text(written(name, before | texts), encoding="utf-8")
    return code


def _texts(path: Path) -> dict[str, str]:
    from golden_pages import page

    return page(path.stem)


if __name__ == "__main__":
    raise SystemExit(main())
