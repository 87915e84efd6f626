"""The examples run, each under sixty lines."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def test_there_are_four():
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(example):
    assert len(example.read_text().splitlines()) < 60


@pytest.mark.parametrize(
    "example",
    [path if path.stem == "loans" else pytest.param(path, marks=pytest.mark.more) for path in EXAMPLES],
    ids=lambda path: path.stem,
)
def test_an_example_runs(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert "epsilon" in capsys.readouterr().out
