"""A headless browser for the tests of pages, and axe-core in it, which finds what people with disabilities meet."""

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

# MPL 2.0, so fetched and not kept in the repository; the hash is the one of the registry.
AXE = "axe-core@4.14.0"
AXE_SHA512 = "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ=="
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
_FLAGS += ["--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0"]
_RUN = """<script>
axe.run(document, {runOnly: RULES}).then((found) => {
  const kept = found.violations.map((rule) => ({rule: rule.id, at: rule.nodes.map((node) => node.html.slice(0, 200))}));
  const said = document.createElement("pre");
  said.id = "axe";
  said.textContent = JSON.stringify({violations: kept, passes: found.passes.length});
  document.body.append(said);
});
</script>"""


def shown_dom(page: str, place: Path, *, width: int = 1200) -> tuple[str, str]:
    """The document after the browser has run it, and what the browser had to say about it."""
    browser = shutil.which("chromium")
    assert browser, "no browser found: `make browser` installs chromium where it can (Debian: apt-get install chromium)"
    file = place / "page.html"
    file.write_text(page, encoding="utf-8")
    flags = [*_FLAGS, f"--user-data-dir={place / 'profile'}", f"--window-size={width},1200"]
    flags += ["--virtual-time-budget=20000", "--dump-dom", file.as_uri()]
    done = subprocess.run([browser, *flags], capture_output=True, text=True, timeout=300, check=True)
    return done.stdout, done.stderr


def axe_source(cache: Path) -> str:
    """The script of axe-core, fetched once from the npm registry into this folder."""
    kept = cache / f"{AXE}.tgz".replace("@", "-")
    if not kept.exists():
        npm = shutil.which("npm")
        assert npm, f"npm is needed to fetch {AXE} for the tests of pages: install Node.js"
        subprocess.run([npm, "pack", "--silent", AXE], cwd=cache, check=True, timeout=300, stdout=subprocess.DEVNULL)
    assert base64.b64encode(hashlib.sha512(kept.read_bytes()).digest()).decode() == AXE_SHA512
    with tarfile.open(kept) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def violations(page: str, place: Path, *, axe: str, width: int = 1200, dark: bool = False) -> list[dict[str, Any]]:
    """Violations that axe-core finds on a page, at this width, in light or dark colours."""
    # The page forbids scripts that are not its own; here another one looks at it.
    open_page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    if dark:
        open_page = open_page.replace("screen and (prefers-color-scheme: dark)", "screen")
    run = _RUN.replace("RULES", json.dumps(RULES))
    dom, _ = shown_dom(open_page.replace("</body>", f"<script>{axe}</script>{run}</body>"), place, width=width)
    said = re.search(r'<pre id="axe">(.*?)</pre>', dom, flags=re.DOTALL)
    assert said, "axe-core did not come to an end"
    found = json.loads(html.unescape(said[1]))
    assert found["passes"] > 3
    kept: list[dict[str, Any]] = found["violations"]
    return kept
