"""A saved model to forge, and bounds that are computed once."""

import pytest

from fairdp import verification
from forgeries import remembered_bound, saved


@pytest.fixture(autouse=True)
def bounds_are_computed_once(monkeypatch):
    monkeypatch.setattr(verification.certificate, "gap_bound", remembered_bound)


@pytest.fixture
def folder(tmp_path):
    return saved("deterministic", tmp_path / "model")
