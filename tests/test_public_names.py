"""The names that users import."""

import pytest

import fairdp


@pytest.mark.parametrize("name", fairdp.__all__)
def test_every_public_name_resolves_and_is_documented(name):
    value = getattr(fairdp, name)
    if isinstance(value, type) or callable(value):
        assert value.__doc__


def test_an_unknown_name_is_refused_as_python_does_it():
    with pytest.raises(AttributeError, match=r"module 'fairdp' has no attribute 'FairDP'"):
        _ = fairdp.FairDP


def test_dir_shows_the_public_names():
    assert set(dir(fairdp)) == set(fairdp.__all__)


def test_the_methods_are_listed_with_what_they_promise():
    assert {"clean", "dpsgd", "fairdp"} <= set(fairdp.METHODS)
    assert not fairdp.METHODS["clean"].private
    assert fairdp.METHODS["dpsgd"].private
    assert fairdp.METHODS["fairdp"].private
    assert all(method.guarantee and method.paper for method in fairdp.METHODS.values())


def test_the_version_is_that_of_the_installed_package():
    from importlib.metadata import version

    assert fairdp.__version__ == version("fairdp")
