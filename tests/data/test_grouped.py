"""Records, their groups and their splits."""

import hashlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairdp.data import grouped as splits
from fairdp.data.grouped import GroupedData, _chosen_by_own_coin, groups_of, split_by_own_coin, split_rows
from fairdp.errors import DataError
from statistical import FALSE_ALARM, assert_plausible

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


@settings(max_examples=40, deadline=None)
@given(cells=st.lists(st.integers(0, 3), min_size=5, max_size=200), seed=st.integers(0, 100))
def test_every_row_is_on_one_side_and_every_stratum_gives_its_share(cells, seed):
    cells = np.array(cells)
    train, test = split_rows(cells, seed=seed)
    assert sorted([*train, *test]) == list(range(len(cells)))
    assert len(test) == round(0.2 * len(cells))
    counts = np.bincount(cells[test], minlength=4)
    assert (abs(counts - 0.2 * np.bincount(cells, minlength=4)) < 1).all()


def test_same_seed_same_split_other_seed_other_split():
    cells = np.arange(1000) % 4
    first, again, other = (split_rows(cells, seed=seed)[1] for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()


def test_clusters_stay_on_one_side_even_across_strata():
    cells = np.arange(1000) % 3
    clusters = np.arange(1000) // 4
    train, test = split_rows(cells, seed=0, clusters=clusters)
    assert not set(clusters[train]) & set(clusters[test])
    # Whole clusters may leave a quota open, but never exceed it.
    assert 150 < len(test) <= 200


def test_test_share_must_be_a_share():
    with pytest.raises(ValueError, match=r"^test_share must be in \(0, 1\), got 20\.$"):
        split_rows(np.zeros(10, dtype=int), seed=0, test_share=20)


def records_of(n_samples, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((n_samples, 3), dtype=np.float32)
    return GroupedData(X, rng.integers(2, size=n_samples), rng.integers(2, size=n_samples), ("f", "m"))


def without(data, row):
    return data.take(np.delete(np.arange(data.n_samples), row))


def rows_of(data):
    """The records as a multiset: equal ones cannot be told apart, but count."""
    return Counter((*row.tolist(), int(y), int(g)) for row, y, g in zip(data.X, data.y, data.groups, strict=True))


def others_stay(split, data, row):
    """True if removing one record leaves all others on their side."""
    train, test = (rows_of(side) for side in split(data))
    kept_train, kept_test = (rows_of(side) for side in split(without(data, row)))
    return kept_train <= train and kept_test <= test and (train + test).total() == 1 + (kept_train + kept_test).total()


def own_coins(data):
    return split_by_own_coin(data, seed=0, share=0.3)


def permutation(data):
    rows = np.random.default_rng(0).permutation(data.n_samples)
    cut = round(0.3 * data.n_samples)
    return data.take(rows[cut:]), data.take(rows[:cut])


@settings(max_examples=50, deadline=None)
@given(n_samples=st.integers(2, 60), seed=st.integers(0, 1000), row=st.integers(0, 59))
def test_removing_a_record_leaves_all_others_on_their_side(n_samples, seed, row):
    assert others_stay(own_coins, records_of(n_samples, seed), row % n_samples)


def test_that_check_notices_a_shuffled_split():
    data = records_of(60, 0)
    assert not all(others_stay(permutation, data, row) for row in range(10))


def test_the_order_of_the_records_does_not_matter():
    data = records_of(200, 0)
    backwards = data.take(np.arange(200)[::-1])
    assert [rows_of(side) for side in own_coins(data)] == [rows_of(side) for side in own_coins(backwards)]


@settings(max_examples=30, deadline=None)
@given(n_samples=st.integers(2, 40), seed=st.integers(0, 1000), row=st.integers(0, 39))
def test_that_holds_for_equal_records_too(n_samples, seed, row):
    few = records_of(3, seed)
    data = few.take(np.random.default_rng(seed).integers(3, size=n_samples))
    assert others_stay(own_coins, data, row % n_samples)


def test_equal_records_have_coins_of_their_own():
    """Otherwise a part would be a sample of kinds of records, not of records."""
    one = records_of(1, 0)
    _, test = own_coins(one.take(np.zeros(2000, dtype=np.int64)))
    assert_plausible(stats.binomtest(test.n_samples, 2000, 0.3).pvalue, "equal records held out")


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_every_record_has_the_same_chance_to_be_held_out(share):
    # False-alarm rate 1e-6; 10 000 records notice 0.225 instead of 0.2.
    _, test = split_by_own_coin(records_of(10_000, 1), seed=3, share=share)
    assert_plausible(stats.binomtest(test.n_samples, 10_000, share).pvalue, f"test records at share {share}")


def test_that_check_notices_a_wrong_share():
    _, test = split_by_own_coin(records_of(10_000, 1), seed=3, share=0.225)
    assert stats.binomtest(test.n_samples, 10_000, 0.2).pvalue < FALSE_ALARM


def test_another_seed_is_another_split():
    data = records_of(200, 0)
    first, again, other = (rows_of(split_by_own_coin(data, seed=seed, share=0.5)[1]) for seed in (0, 0, 1))
    assert first == again != other


def test_a_record_is_its_features_its_label_and_its_group():
    """Records that differ in one of the three throw different coins."""
    X = np.zeros((64, 1), dtype=np.float32)
    codes = np.arange(64)
    by_group = GroupedData(X, np.zeros(64, dtype=np.int64), codes, tuple(map(str, codes)))
    by_label = GroupedData(np.repeat(np.arange(32, dtype=np.float32), 2)[:, None], codes % 2, 0 * codes, ("all",))
    assert 0 < own_coins(by_group)[1].n_samples < 64
    sides = own_coins(by_label)
    assert set(sides[0].X.ravel().tolist()) & set(sides[1].X.ravel().tolist())


@pytest.mark.parametrize("share", [0, 1, 20])
def test_the_held_out_part_must_be_a_share(share):
    with pytest.raises(ValueError, match=rf"^share must be in \(0, 1\), got {share}\.$"):
        split_by_own_coin(records_of(10, 0), seed=0, share=share)


def chosen_one_by_one(data, seed, share):
    """The definition of the split, record by record."""
    copies, chosen = Counter(), []
    for row, label, group in zip(data.X, data.y.tolist(), data.groups.tolist(), strict=True):
        record = row.tobytes() + bytes([label]) + group.to_bytes(4, "little")
        name = hashlib.blake2b(record, key=seed.to_bytes(16, "little"), digest_size=16).digest()
        copies[name] += 1
        coin = hashlib.blake2b(copies[name].to_bytes(8, "little"), key=name, digest_size=8).digest()
        chosen.append(int.from_bytes(coin, "little") < int(share * 2**64))
    return np.array(chosen, dtype=bool)


def columns_of(data):
    """The records in their order."""
    return data.X.tolist(), data.y.tolist(), data.groups.tolist()


@pytest.mark.parametrize("bytes_at_a_time", [1, 1000, 2**24])
@pytest.mark.parametrize("shape", [(1,), (3,), (2, 4, 4)], ids=str)
@pytest.mark.parametrize(("n_samples", "n_kinds"), [(0, 1), (1, 1), (500, 500), (500, 7)])
def test_coins_tossed_many_at_a_time_are_those_of_each_record(monkeypatch, bytes_at_a_time, shape, n_samples, n_kinds):
    monkeypatch.setattr(splits, "_CHUNK", bytes_at_a_time)
    rng = np.random.default_rng(n_samples)
    kinds = GroupedData(
        rng.random((n_kinds, *shape), dtype=np.float32), np.arange(n_kinds) % 2, np.arange(n_kinds) % 3, tuple("abc")
    )
    data = kinds.take(rng.integers(n_kinds, size=n_samples))
    before = columns_of(data)
    chosen = chosen_one_by_one(data, 2**127 + 5, 0.3)
    expected = [columns_of(data.take(rows)) for rows in (np.flatnonzero(~chosen), np.flatnonzero(chosen))]
    assert [columns_of(side) for side in split_by_own_coin(data, seed=2**127 + 5, share=0.3)] == expected
    assert columns_of(data) == before
    may_consume = replace(data, may_consume=True)
    assert [columns_of(side) for side in split_by_own_coin(may_consume, seed=2**127 + 5, share=0.3)] == expected


def test_the_first_part_of_expendable_records_shares_their_memory_and_no_other_does():
    data = records_of(200, 0)
    before = rows_of(data)
    assert not any(np.shares_memory(side.X, data.X) for side in own_coins(data))
    first, second = own_coins(replace(data, may_consume=True))
    for name in ("X", "y", "groups"):
        assert getattr(first, name).ctypes.data == getattr(data, name).ctypes.data
        assert not np.shares_memory(getattr(second, name), getattr(data, name))
    assert rows_of(data) == before
    # Another split of a part must not move it again under whoever holds it.
    assert not first.may_consume
    assert not second.may_consume


def test_records_with_other_weights_are_not_equal():
    """Else a record that is removed would leave its coin to the next one, whose weight is another."""
    one = records_of(1, 0).take(np.zeros(64, dtype=np.int64))
    data = replace(one, weights=np.arange(64) / 64)
    train, test = own_coins(replace(data, weights=data.weights.copy(), may_consume=True))
    assert sorted([*train.weights, *test.weights]) == data.weights.tolist()
    for row in (0, 30, 63):
        kept = own_coins(without(data, row))[1].weights
        assert set(kept) == set(test.weights) - {data.weights[row]}


@pytest.mark.parametrize("differs", ["y", "groups"])
def test_removing_a_record_leaves_its_twin_of_another_label_or_group_on_its_side(differs):
    """Only records that are equal in everything are numbered: with one of them gone, the others count anew."""
    X, codes = np.repeat(np.arange(40, dtype=np.float32), 2)[:, None], np.arange(80) % 2
    parts = {"y": 0 * codes, "groups": 0 * codes, differs: codes}
    both = GroupedData(X, parts["y"], parts["groups"], ("a", "b"))
    second = both.take(np.arange(1, 80, 2))
    sides = [_chosen_by_own_coin(data, seed=0, share=0.5) for data in (both, second)]
    assert np.array_equal(sides[0][1::2], sides[1])
    assert 0 < sides[1].sum() < 40
