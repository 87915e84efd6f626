"""Records as they are passed on: what they may hold, and what printing them shows."""

import numpy as np
import pytest

from fairdp._checks import DataError
from fairdp.data.grouped import GroupedData

X = np.array([[0.125, 3.0], [0.25, 4.0]], dtype=np.float32)


@pytest.mark.parametrize("labels", [[0, 2], [-1, 1], [0, 1000]])
def test_labels_are_zero_or_one(labels):
    with pytest.raises(DataError, match="y must hold only 0 and 1"):
        GroupedData(X, np.array(labels), np.array([0, 1]), ("a", "b"))


@pytest.mark.parametrize("codes", [[0, 2], [-1, 0]])
def test_group_codes_are_those_of_the_names(codes):
    with pytest.raises(DataError, match="groups must hold codes from 0 to 1"):
        GroupedData(X, np.array([0, 1]), np.array(codes), ("a", "b"))


def test_printing_shows_shapes_only():
    shown = repr(GroupedData(X, np.array([0, 1]), np.array([0, 1]), ("a", "b")))
    assert shown == "GroupedData(X: (2, 2), groups: 2)"
