"""Saved models to forge."""

import pytest

from forgeries import TIED, saved, sum_up, tie


@pytest.fixture
def saved_as(tmp_path):
    """Folder of a saved model of the kind that is asked for; asked again, it is saved anew."""
    return lambda kind: saved(kind, tmp_path / "model")


@pytest.fixture
def folder(saved_as):
    return saved_as("deterministic")


@pytest.fixture
def reseal():
    """Make the hashes of a folder agree again with a file that was changed."""

    def reseal(folder, name):
        # A changed certificate may be unreadable, and nothing in it names itself.
        if name in TIED:
            tie(folder)
        sum_up(folder)

    return reseal
