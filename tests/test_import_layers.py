"""Imports point down: a package imports only packages before it in the list, and no two modules each other."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from import_graph import PLACES, PRINTED, SOURCES, Graph, import_graph, modules


def pointing_up(graph: Graph) -> list[str]:
    pairs = [(module, used) for module in graph for used in graph[module]]
    return [
        f"fairdp.{module} imports fairdp.{used}"
        for module, used in pairs
        if PLACES[used.split(".")[0]] > PLACES[module.split(".")[0]]
    ]


def test_every_package_imports_only_what_stands_before_it():
    assert not pointing_up(import_graph())


def test_no_module_imports_itself_in_a_circle():
    TopologicalSorter(import_graph()).prepare()


def test_those_checks_notice_an_import_that_points_up_and_a_circle():
    assert pointing_up({"accounting.plan": {"training.loop"}})
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()


@pytest.mark.parametrize("module", sorted(PRINTED))
def test_only_methods_of_printed_values_reach_up_for_their_words(module):
    source = (SOURCES / "fairdp" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    upward = [line for line in source.splitlines() if line.lstrip().startswith("from fairdp.statements.")]
    assert upward
    assert all(line.startswith(" " * 8) for line in upward)


def test_the_list_is_the_package():
    assert set(PLACES) == {module.split(".")[0] for module in modules()}


# Scikit-learn brings joblib to everybody; the other packages come with the extra `lab` alone.
EXTRA = {"interpret", "joblib", "matplotlib", "opacus"}


def test_the_product_imports_nothing_of_the_extra():
    imported = set()
    for path in (Path(__file__).parents[1] / "src" / "fairdp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    assert "torch" in imported
    assert not imported & {*EXTRA, "fairdp_lab"}
