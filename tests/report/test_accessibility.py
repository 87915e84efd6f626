"""Pages in a real browser: no violation of WCAG that axe-core can find, nothing wider than a phone, no complaint."""

import json
import re

import pytest

from browser import axe_source, shown_dom, violations
from fairdp.report.page import run_report
from page_reading import parsed

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def axe(request):
    return axe_source(request.config.cache.mkdir("axe-core"))


@pytest.fixture(scope="module")
def appendix(folder_of, tmp_path_factory):
    place = tmp_path_factory.mktemp("appendix")
    exact = {"method": "fairdp", "n_test": 10, "confidence": 0.9, "intervals": {}, "warnings": []}
    metrics = {"accuracy": 0.8, "positive_rate_by_group": {"f": 0.2, "m": 0.3}}
    (place / "exact.json").write_text(json.dumps(exact | {"metrics": metrics}))
    done = run_report(folder_of("certified"), out=place / "page.html", appendix=place / "exact.json")
    return (place / "page-appendix.html").read_text() if done["appendix"] else ""


@pytest.mark.parametrize(
    ("which", "width", "dark"),
    [
        ("model and comparison", 1200, False),
        ("model and comparison", 390, True),
        ("forged", 1200, True),
        ("comparison", 390, False),
        ("appendix", 1200, False),
    ],
)
def test_axe_finds_nothing(page_of, compared_pages, appendix, axe, tmp_path, which, width, dark):
    pages = {
        "model and comparison": lambda: compared_pages["model"],
        "comparison": lambda: compared_pages["trade"],
        "forged": lambda: page_of("forged"),
        "appendix": lambda: appendix,
    }
    assert violations(pages[which](), tmp_path, axe=axe, width=width, dark=dark) == []


def test_axe_finds_what_is_wrong(page_of, axe, tmp_path):
    """Negative control: grey on white, a table without a heading for its rows, a jump between headings."""
    page = page_of("clean").replace("--quiet: #54606e", "--quiet: #b4c0ce").replace('<html lang="en">', "<html>")
    assert {found["rule"] for found in violations(page, tmp_path, axe=axe)} >= {"color-contrast", "html-has-lang"}


_WIDEST = """<script>
const wide = [...document.querySelectorAll("body *")].filter((e) => !e.closest(".wide, .skip, svg, pre, thead"))
  .filter((e) => e.getBoundingClientRect().right > window.innerWidth + 1);
const inner = [...document.querySelectorAll("table.stack")]
  .filter((e) => e.scrollWidth > e.parentElement.clientWidth + 1);
document.body.append(Object.assign(document.createElement("pre"), {id: "wide", textContent:
  JSON.stringify([window.innerWidth, ...[...wide, ...inner].map((e) => e.outerHTML.slice(0, 120))])}));
</script>"""


def test_pages_fit_a_phone(compared_pages, tmp_path):
    """Also the table of a comparison: nothing has to be pushed aside to be read."""
    for name, page in compared_pages.items():
        (tmp_path / name).mkdir()
        frame = f'<iframe style="width:390px;height:900px;border:0" srcdoc="{_quoted(_instrumented(page))}"></iframe>'
        dom, _ = shown_dom(f"<!doctype html><html><body>{frame}{_LIFT}</body></html>", tmp_path / name)
        found = re.search(r'<pre id="lifted">(.*?)</pre>', dom, flags=re.DOTALL)
        assert found
        width, *wide = json.loads(parsed(f"<pre>{found[1]}</pre>").text)
        assert (width, wide) == (390, [])


_LIFT = """<script>
document.querySelector("iframe").addEventListener("load", (event) => {
  const found = event.target.contentDocument.getElementById("wide").textContent;
  document.body.append(Object.assign(document.createElement("pre"), {id: "lifted", textContent: found}));
});
</script>"""


def _instrumented(page: str) -> str:
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    return page.replace("</body>", f"{_WIDEST}</body>")


def _quoted(page: str) -> str:
    return page.replace("&", "&amp;").replace('"', "&quot;")


@pytest.mark.parametrize("which", ["model", "compared"])
def test_browser_has_nothing_to_say_about_the_page(page_of, compared_pages, tmp_path, which):
    dom, said = shown_dom(page_of("certified") if which == "model" else compared_pages["model"], tmp_path)
    assert "CONSOLE" not in said
    shown = parsed(re.sub("<!doctype html>", "", dom, flags=re.IGNORECASE))
    choices = [e for e in shown.everything if e.attributes.get("class") == "choices"]
    # The script ran: what only it can use is there to be used.
    assert all("hidden" not in e.attributes for e in choices)
    assert len(choices) == (which == "compared")
