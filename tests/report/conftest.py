"""Saved models of every kind that a report has to tell apart, and a small comparison."""

import functools
import shutil
from pathlib import Path

import pytest

from classifier_cases import CERTIFIED
from comparison_cases import row, write_comparison
from fairdp.report.model import read_model_report
from fairdp.report.page import run_report
from forgeries import forge, saved
from pool import copied, saved_model

ODD = ("<b>&\"'", "*x*|`y`[z](u)")


def _forged(folder: Path) -> Path:
    saved("parity alone", folder)
    forge(folder, lambda files: files.privacy.update(epsilon=0.1))
    return folder


def _odd(folder: Path) -> Path:
    return copied(saved_model(**CERTIFIED, sex=ODD * 300), folder)


MODELS = {
    "certified": lambda folder: saved("deterministic", folder),
    "not certified": lambda folder: saved("nothing held out", folder),
    "no noise": lambda folder: saved("no noise", folder),
    "clean": lambda folder: saved("not private", folder),
    "dp_postprocess": lambda folder: saved("method dp_postprocess", folder),
    "pure": lambda folder: saved("method fairfm", folder),
    "by moments": lambda folder: saved("moments accountant", folder),
    "missed": lambda folder: saved("required and missed", folder),
    "met": lambda folder: saved("required and met", folder),
    "random head": lambda folder: saved("random head", folder),
    "forged": _forged,
    "odd": _odd,
}


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    """The folder of a model of this kind, made once; no test changes it."""
    made: dict[str, Path] = {}

    def find(kind: str) -> Path:
        if kind not in made:
            made[kind] = MODELS[kind](tmp_path_factory.mktemp("models") / f"{kind} model".replace(" ", "-"))
        return made[kind]

    return find


@pytest.fixture(scope="session")
def page_of(folder_of, tmp_path_factory):
    """The text of a model's report, written once for each format."""
    pages: dict[tuple[str, str], str] = {}

    def find(kind: str, format: str = "html") -> str:
        if (kind, format) not in pages:
            out = tmp_path_factory.mktemp("pages") / "page"
            run_report(folder_of(kind), out=out, format=format)
            pages[kind, format] = out.read_text(encoding="utf-8")
        return pages[kind, format]

    return find


def _small_comparison(folder: Path) -> Path:
    """Methods, budgets, one run without privacy, and a control; names that a page must escape."""
    rows = [row("dpsgd", 0.5, 0.70, 0.10), row("dpsgd", 2.0, 0.75, 0.12), row("clean", None, 0.80, 0.15)]
    rows += [row("fairdp_frontier", 0.5, 0.72, 0.03, variant="x=</script>"), row("own <b>", 1.0, 0.6, 0.2)]
    return write_comparison(folder, rows, [row("dpsgd", 0.5, 0.68, 0.08, at="fairdp_frontier")])


@pytest.fixture
def comparison(tmp_path):
    """A small comparison that a test may change."""
    return _small_comparison(tmp_path / "trade")


@pytest.fixture(scope="session")
def compared_pages(folder_of, tmp_path_factory):
    """Pages with a comparison: beside a model, and alone."""
    folder = tmp_path_factory.mktemp("compared")
    compared = _small_comparison(folder / "trade")
    run_report(folder_of("certified"), out=folder / "model.html", comparison=compared)
    run_report(compared, out=folder / "trade.html")
    return {name: (folder / f"{name}.html").read_text(encoding="utf-8") for name in ("model", "trade")}


@pytest.fixture(scope="session")
def report_of(folder_of):
    """The report model of a folder, read once."""
    return functools.cache(lambda kind: read_model_report(folder_of(kind)))


@pytest.fixture
def copy_of(folder_of, tmp_path):
    """A model's folder that a test may change."""

    def copied(kind: str) -> Path:
        return Path(shutil.copytree(folder_of(kind), tmp_path / "copy"))

    return copied
