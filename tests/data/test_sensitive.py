"""Groups from whatever users hold."""

import numpy as np
import pandas as pd
import pytest

from fairdp.data.sensitive import groups_of

SEX = ["m", "f", "m", "f"]
REGION = ["north", "north", "south", "south"]


CONTAINERS = {
    "list": SEX,
    "tuple": tuple(SEX),
    "array": np.array(SEX),
    "objects": np.array(SEX, dtype=object),
    "one column": np.array(SEX)[:, None],
    "Series": pd.Series(SEX),
    "odd index": pd.Series(SEX, index=[9, 3, 1, 7]),
    "category": pd.Series(SEX, dtype="category"),
    "Categorical": pd.Categorical(SEX),
    "DataFrame": pd.DataFrame({"sex": SEX}),
}


@pytest.mark.parametrize("values", CONTAINERS.values(), ids=CONTAINERS)
def test_every_container_gives_the_same_groups(values):
    codes, names = groups_of(values, 4)
    assert codes.tolist() == [1, 0, 1, 0]
    assert names == ("f", "m")
    assert codes.dtype == np.int64


def test_several_columns_are_combined_into_the_intersections_that_occur():
    frame = pd.DataFrame({"sex": SEX[:3], "region": REGION[:3]})
    codes, names = groups_of(frame, 3)
    assert names == ("f & north", "m & north", "m & south")
    assert codes.tolist() == [1, 0, 2]


def test_numbers_and_truth_values_name_groups():
    assert groups_of([1, 0, 1], 3)[1] == ("0", "1")
    assert groups_of([True, False, True], 3)[1] == ("False", "True")


def test_none_is_one_group():
    codes, names = groups_of(None, 3)
    assert codes.tolist() == [0, 0, 0]
    assert names == ("all",)


@pytest.mark.parametrize(
    "values", [["m", None, "f"], [1.0, float("nan"), 2.0], pd.Series(["m", pd.NA, "f"]), pd.DataFrame({"a": [1, None]})]
)
def test_missing_values_are_refused_with_their_position(values):
    with pytest.raises(ValueError, match=r"sensitive_features has no value for 1 records \(first at position 1\)"):
        groups_of(values, len(values))


def test_a_wrong_length_is_refused_with_both_lengths():
    with pytest.raises(ValueError, match=r"sensitive_features has 3 entries, but X has 5 records"):
        groups_of(["m", "f", "m"], 5)


def test_intersections_cannot_be_confused_by_their_separator():
    """('a & b', 'c') and ('a', 'b & c') are different people and must stay different groups."""
    codes, _ = groups_of([["a & b", "c"], ["a", "b & c"]], 2)
    assert codes[0] != codes[1]


def test_the_name_of_a_group_does_not_depend_on_the_other_rows():
    """Beside 2.5 or a missing value pandas would turn 1 into 1.0, and the group of everybody else with it."""
    assert groups_of([1, 2], 2)[1] == ("1", "2")
    assert groups_of([1, 2, 2.5], 3)[1] == ("1", "2", "2.5")
    assert groups_of(np.array([1.0, 2.0]), 2)[1] == ("1", "2")
    assert groups_of(pd.DataFrame({"a": ["01", "1"], "b": [True, 3]}), 2)[1] == ("01 & True", "1 & 3")
