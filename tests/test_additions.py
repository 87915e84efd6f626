"""A method is one entry and a metric is one row: toys of both work in every command, and few files name a real one."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from cli_cases import SCHEMA, people
from fairdp.methods import METHODS
from fairdp.parameters import METRICS

SOURCES = Path(__file__).parents[1] / "src"
PRODUCT = SOURCES / "fairdp"
# Source files that may name one method, and one metric: the table, and what has to be said elsewhere.
MOST_FOR_A_METHOD, MOST_FOR_A_METRIC = 3, 4
# Its second writing is on purpose: it may say again what it checks.
SECOND_WRITING = ("saved/verify.py", "saved/verify_checks.py")

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
    short="PEq",
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

        def python(*arguments: object) -> str:
            environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
            command = [sys.executable, *map(str, arguments)]
            ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert ended.returncode == 0, ended.stderr
            return ended.stdout

        return python

    return changed


FIT = ("fit", "people.csv", "--schema", "schema.yaml", "--n-steps", 20, "--sample-rate", 0.2, "--seed", 0)
RUN = ("-m", "fairdp")


@pytest.mark.more
def test_a_method_is_added_in_one_file(with_changes, tmp_path):
    python = with_changes(METHOD)
    fitted = json.loads(python(*RUN, *FIT, "--method", "half_clipped", "--out", "model", "--json"))
    assert fitted["method"] == "half_clipped"
    assert fitted["privacy"]["clip_norm"] == 0.5
    assert json.loads(python(*RUN, "verify", "model", "--json"))["verified"]
    assert "half_clipped" in python(*RUN, "methods")
    assert "metrics" in json.loads(python(*RUN, "evaluate", "model", "new.csv", "--json"))
    loaded = "from fairdp import FairDPClassifier; print(FairDPClassifier.load('model').get_params()['method'])"
    assert python("-c", loaded).strip() == "half_clipped"
    looks = "from fairdp.report.charts import style_of; look = style_of('half_clipped'); print(look.label, look.colour)"
    assert python("-c", looks).split() == ["half-clipped", "#123456"]
    python(*RUN, "report", "model", "--out", "report.html")
    assert "half_clipped" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.more
def test_a_metric_is_added_in_three_files(with_changes, tmp_path):
    python = with_changes(METRIC)
    metrics = ("--parity", "predictive_equality", "--certify-metrics", "demographic_parity,predictive_equality")
    fitted = json.loads(python(*RUN, *FIT, *metrics, "--out", "model", "--json"))
    assert 0 < fitted["certificate"]["predictive_equality"]["tau"] < 1
    assert fitted["target"]["metric"] == "predictive_equality"
    assert fitted["metrics"]["predictive_equality_difference"] == fitted["metrics"]["false_positive_rate_difference"]
    assert json.loads(python(*RUN, "verify", "model", "--json"))["verified"]
    evaluated = json.loads(python(*RUN, "evaluate", "model", "new.csv", "--json"))
    assert "predictive_equality_difference" in evaluated["metrics"]
    assert "predictive equality gap" in python(*RUN, "evaluate", "model", "new.csv")
    loaded = "from fairdp import FairDPClassifier; print(*FairDPClassifier.load('model').certificate_.gaps)"
    assert python("-c", loaded).split() == ["demographic_parity", "predictive_equality"]
    python(*RUN, "report", "model", "--out", "report.html")
    assert "predictive equality" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.more
@pytest.mark.parametrize("method", ["raco_dp", "dp_postprocess"])
def test_every_method_with_a_target_aims_at_an_added_metric(with_changes, method):
    fit = (*FIT, "--method", method, "--parity", "predictive_equality", "--out", "model", "--json")
    assert json.loads(with_changes(METRIC)(*RUN, *fit))["target"]["metric"] == "predictive_equality"


def test_the_toys_touch_no_more_files_than_may_name_a_real_one():
    assert len(METHOD) <= MOST_FOR_A_METHOD
    assert len(METRIC) <= MOST_FOR_A_METRIC


def names_in(path: Path) -> Iterator[str]:
    """Strings outside docstrings, and annotated fields, of a module; all the text of a template."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield text
        return
    nodes = list(ast.walk(ast.parse(text)))
    remarks = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in remarks:
            yield node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def files_naming(name: str, root: Path = PRODUCT) -> list[str]:
    """Files in which a string or field is this name, mentions it, or is made of it, such as a gap's by its metric."""
    made_of_it = "(_difference|_ratio)?"
    word = re.compile(rf"(?<!\w){name}{made_of_it}(?!\w)")
    paths = [path for suffix in ("py", "jinja", "js") for path in sorted(root.rglob(f"*.{suffix}"))]
    return [str(path.relative_to(root)) for path in paths if any(map(word.search, names_in(path)))]


# The paper's method has the name of the package, which every command mentions: what compares it is looked at below.
@pytest.mark.parametrize("method", [method for method in METHODS if method != "fairdp"])
def test_few_files_name_a_method(method):
    assert len(files_naming(method)) <= MOST_FOR_A_METHOD, files_naming(method)


@pytest.mark.parametrize("metric", METRICS)
def test_few_files_name_a_metric(metric):
    assert len(files_naming(metric)) <= MOST_FOR_A_METRIC, files_naming(metric)


def compared_names(root: Path = PRODUCT) -> list[str]:
    """Comparisons of anything with the name of a single method or metric, where an entry should have a field."""
    found = []
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                values = [side.value for side in (node.left, *node.comparators) if isinstance(side, ast.Constant)]
                if not {*METHODS, *METRICS}.isdisjoint(values):
                    found.append(str(path.relative_to(root)))
    return found


def test_no_code_asks_which_method_or_metric_it_has():
    assert {*compared_names()} <= {*SECOND_WRITING}


def test_those_checks_notice_names_but_not_docstrings(tmp_path):
    sources = {
        "compared.py": 'if method == "raco_dp":\n    pass\n',
        "message.py": 'text = f"use raco_dp, not {method}"\n',
        "field.py": "class Record:\n    raco_dp: float\n",
        "page.html.jinja": "{{ gaps.raco_dp_difference }}",
        "docstring.py": '"""As in raco_dp."""\n',
        "other.py": 'name = "raco_dp2"\n',
    }
    for name, text in sources.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert files_naming("raco_dp", tmp_path) == ["compared.py", "field.py", "message.py", "page.html.jinja"]
    assert len(files_naming("raco_dp", tmp_path)) > MOST_FOR_A_METHOD
    assert compared_names(tmp_path) == ["compared.py"]
