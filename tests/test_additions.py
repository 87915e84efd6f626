"""A method is one entry and a metric is one row: toys of both, in a copy of the sources, work in every command."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cli_cases import SCHEMA, people

SOURCES = Path(__file__).parents[1] / "src"

pytestmark = pytest.mark.more

METHOD = {
    "methods/__init__.py": {
        "def clean(": '''def half_clipped(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """DP-SGD that clips at half the norm."""
    return replace(dpsgd(config, group_sizes), clip_norm=config.clip_norm / 2)


def clean(''',
        "METHODS: dict[str, Method] = {": """METHODS: dict[str, Method] = {
    "half_clipped": Method(
        label="half-clipped",
        words="DP-SGD, clipped at half the norm",
        colour="#123456",
        marker="s",
        recipe=half_clipped,
        guarantee=_RECORD,
        paper="a toy",
    ),""",
    }
}
METRIC = {
    "parameters.py": {
        "METRICS = tuple(CERTIFIABLE)": """CERTIFIABLE["predictive_equality"] = Metric(
    label="predictive equality",
    rates=("false_positive",),
    definition="the same among records with a negative label",
)
METRICS = tuple(CERTIFIABLE)"""
    },
    "saved/folder.py": {
        "    equalized_odds: CertifiedGap | None = None\n": """    equalized_odds: CertifiedGap | None = None
    predictive_equality: CertifiedGap | None = None
"""
    },
    "saved/verify_checks.py": {
        '    "equal_opportunity": ("true_positive",),\n': """    "equal_opportunity": ("true_positive",),
    "predictive_equality": ("false_positive",),
"""
    },
}


@pytest.fixture
def with_changes(tmp_path: Path) -> Callable[..., Callable[..., str]]:
    """Commands of a copy of the sources with these changes, at a table of people."""

    def changed(files: dict[str, dict[str, str]]) -> Callable[..., str]:
        shutil.copytree(SOURCES, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for name, replacements in files.items():
            path = tmp_path / "src" / "fairdp" / name
            text = path.read_text(encoding="utf-8")
            for old, new in replacements.items():
                assert text.count(old) == 1, (name, old)
                text = text.replace(old, new)
            path.write_text(text, encoding="utf-8")
        people(1500).to_csv(tmp_path / "people.csv", index=False)
        people(500, seed=1).to_csv(tmp_path / "new.csv", index=False)
        (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))

        def fairdp(*arguments: object) -> str:
            environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
            command = [sys.executable, "-m", "fairdp", *map(str, arguments)]
            ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert ended.returncode == 0, ended.stderr
            return ended.stdout

        return fairdp

    return changed


FIT = ("fit", "people.csv", "--schema", "schema.yaml", "--n-steps", 20, "--sample-rate", 0.2, "--seed", 0)


def test_a_method_is_added_in_one_file(with_changes, tmp_path):
    fairdp = with_changes(METHOD)
    fitted = json.loads(fairdp(*FIT, "--method", "half_clipped", "--out", "model", "--json"))
    assert fitted["method"] == "half_clipped"
    assert fitted["privacy"]["clip_norm"] == 0.5
    assert json.loads(fairdp("verify", "model", "--json"))["verified"]
    assert "half_clipped" in fairdp("methods")
    fairdp("report", "model", "--out", "report.html")
    assert "half_clipped" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_metric_is_added_in_three_files(with_changes, tmp_path):
    fairdp = with_changes(METRIC)
    metrics = "demographic_parity,predictive_equality"
    fitted = json.loads(fairdp(*FIT, "--certify-metrics", metrics, "--out", "model", "--json"))
    assert 0 < fitted["certificate"]["predictive_equality"]["tau"] < 1
    assert fitted["metrics"]["predictive_equality_difference"] == fitted["metrics"]["false_positive_rate_difference"]
    assert json.loads(fairdp("verify", "model", "--json"))["verified"]
    evaluated = json.loads(fairdp("evaluate", "model", "new.csv", "--json"))
    assert "predictive_equality_difference" in evaluated["metrics"]
    fairdp("report", "model", "--out", "report.html")
    assert "predictive equality" in (tmp_path / "report.html").read_text(encoding="utf-8")
