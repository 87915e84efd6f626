"""`fairdp demo`: the paper's FairDP beside the default, and the picture of it in the README."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from fairdp import FairDPClassifier, load_dataset
from fairdp import parameters as paper
from fairdp.data import catalog as sources
from fairdp.saved.verify import verify_folder

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def no_adult(monkeypatch):
    """A machine on which Adult cannot be had, and a paper of few steps."""

    def fetch(name):
        raise FileNotFoundError(f"{name} could not be fetched.")

    monkeypatch.setattr(sources, "fetch", fetch)
    monkeypatch.setattr(paper, "ASSUMED", {**paper.ASSUMED, "n_steps": 40})


def test_without_adult_both_methods_are_trained_on_the_built_in_population(run, no_adult, tmp_path):
    told = run("demo", "--out", tmp_path, "--seed", 0, "--json")
    assert told.code == 0
    assert told.err.startswith("The Adult data could not be had; using the built-in synthetic population.\n")
    theirs, ours = json.loads(told.out)["models"]
    assert [(model["name"], model["method"]) for model in (theirs, ours)] == [
        ("paper", "fairdp"),
        ("model", "fairdp_frontier"),
    ]
    assert (theirs["privacy"]["accountant"], ours["privacy"]["accountant"]) == ("rdp", "pld")
    assert all(check.passed for name in ("paper", "model") for check in verify_folder(tmp_path / name))
    # The diagnostics are those of the saved model on its training records; the default has no such head.
    data, saved = load_dataset("synthetic").train, FairDPClassifier.load(tmp_path / "paper")
    names = [data.group_names[code] for code in data.groups]
    printed = saved.paper_bounds(data.X, data.y, sensitive_features=names).at["printed"]
    assert theirs["paper_bounds"]["tau_emp"] == pytest.approx(printed.tau_emp)
    assert theirs["paper_bounds"]["theorem_2"] == printed.theorem_2_corrected
    assert ours["paper_bounds"] is None
    # In the table the same figures, each certified bound beside its gap.
    refused = run("demo", "--out", tmp_path, "--seed", 0)
    assert (refused.code, refused.out) == (2, "")
    assert "paper' holds a model already; choose another folder, or add --overwrite to replace it" in refused.err
    shown = run("demo", "--out", tmp_path, "--seed", 0, "--overwrite").out
    for model in (theirs, ours):
        gap, tau = model["metrics"]["demographic_parity_difference"], model["certificate"]["demographic_parity"]["tau"]
        assert any(f"{gap:.4f} (≤ {bound:.4f})" in shown for bound in (tau, tau + 5e-5))
    assert f"{theirs['paper_bounds']['tau_emp']['demographic_parity']:.4f}" in shown
    # Then the default in full, as `fairdp fit` prints it.
    assert ": fairdp_frontier on synthetic; a positive decision" in shown.split("Of our default:")[1]


def picture() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(DOCS / "picture.py")))


def words_of(svg: str) -> list[str]:
    """The text of a picture of a terminal, without its title, in the order of its lines."""
    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    lines = ["".join(text.itertext()) for text in texts if "clip-path" in text.attrib]
    return " ".join(lines).replace("\xa0", " ").split()


def test_a_picture_says_what_was_printed():
    drawn = picture()
    said = drawn.shown("  gap  0.1\n\nmore words\n\nModels: demo/paper. In full:\n\n0.2")
    assert words_of(drawn.svg(said)) == ["$", "fairdp", *drawn.DEMO, "gap", "0.1", "more", "words"]


@pytest.mark.more
@pytest.mark.needs_data("adult")
def test_the_picture_in_the_readme_is_what_the_command_prints(tmp_path):
    drawn = picture()
    command = [sys.executable, "-m", "fairdp", *drawn.DEMO]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    expected = words_of(drawn.svg(drawn.shown(done.stdout)))
    assert len(expected) > 60
    assert words_of((DOCS / "tutorials" / "demo.svg").read_text(encoding="utf-8")) == expected, "run: make picture"
