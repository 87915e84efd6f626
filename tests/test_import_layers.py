"""Imports point down: a package imports only packages before it in this list, no two each other."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import fairdp

# Lowest first. A name is a package, or a module at the top.
LAYERS = """
    _checks _records
    _files _format
    randomness
    config
    data
    metrics
    accounting
    certify
    networks
    training
    methods
    run
    saved
    classifier
    own_loop tuning
    report
    commands
    experiments
    cli
""".strip().splitlines()

PLACES = {name: place for place, names in enumerate(LAYERS) for name in names.split()}
SOURCE = Path(fairdp.__file__).parent
MODULES = {
    ".".join(p.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__") for p in SOURCE.rglob("*.py")
}
TOP = {"__init__", "__main__"}


def imports_of(module: str) -> set[str]:
    """Modules of the package that a module imports anywhere, also inside functions and for types only."""
    path = SOURCE.joinpath(*module.split("."))
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"fairdp.{module}: write imports in full"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    names = {name.removeprefix("fairdp.") for name in found if name.startswith("fairdp.")} & MODULES
    # A package named only on the way to one of its modules is not what is imported.
    return {name for name in names if not any(other.startswith(f"{name}.") for other in names)} - {module}


def pointing_up(graph: dict[str, set[str]]) -> list[str]:
    place = {
        module: PLACES[module.split(".")[0]] for module in {*graph, *(used for own in graph.values() for used in own)}
    }
    return sorted(f"fairdp.{m} imports fairdp.{used}" for m in graph for used in graph[m] if place[used] > place[m])


GRAPH = {module: imports_of(module) for module in MODULES - TOP}


def test_every_package_imports_only_what_stands_before_it():
    assert not pointing_up(GRAPH)


def test_no_module_imports_itself_in_a_circle():
    TopologicalSorter(GRAPH).prepare()


def test_those_checks_notice_an_import_that_points_up_and_a_circle():
    assert pointing_up({"accounting.plan": {"training.loop"}})
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()


def test_the_list_is_the_package():
    assert set(PLACES) == {module.split(".")[0] for module in MODULES - TOP}
