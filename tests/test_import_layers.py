"""Imports point down: a package imports only packages before it in the list, and no two modules each other."""

from graphlib import CycleError, TopologicalSorter

import pytest

from import_graph import PLACES, Graph, import_graph, modules


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


def test_the_list_is_the_package():
    assert set(PLACES) == {module.split(".")[0] for module in modules()}
