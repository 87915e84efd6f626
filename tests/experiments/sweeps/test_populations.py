"""Records by name: changed as they say, and told apart by what they hold."""

from dataclasses import replace

import numpy as np
import pytest

from fairdp.data.schema import Numeric, OtherThan, TableSchema
from fairdp.experiments.sweeps.populations import Population, digest_of, load
from fairdp.metrics.rates import decision_counts, fairness_metrics


@pytest.mark.needs_data("adult")
def test_four_groups_are_the_two_told_apart_by_race():
    two, four = (load(Population(dataset="adult", by_race=own)) for own in (False, True))
    assert four.train.group_sizes.tolist() == [2129, 8642, 2616, 19174]
    assert np.array_equal(four.train.groups // 2, two.train.groups)
    assert four.train.group_names[1] == f"{two.train.group_names[0]}, white"


@pytest.mark.needs_data("adult")
def test_ten_groups_are_the_two_told_apart_by_every_race():
    four, ten = load(Population(dataset="adult", by_race=True)), load(Population(dataset="adult", by_every_race=True))
    assert ten.train.n_groups == 10
    assert ten.train.group_names[4].endswith(", White")
    # The white are the same people as among four groups, and everybody else is told apart further.
    np.testing.assert_array_equal(ten.train.groups % 5 == 4, four.train.groups % 2 == 1)
    np.testing.assert_array_equal(ten.train.groups // 5, four.train.groups // 2)
    assert ten.train.group_sizes.min() > 0
    assert str(Population(dataset="adult", by_every_race=True)) == "adult by sex and every race"


def test_a_population_with_more_bias_has_a_larger_gap_between_its_labels():
    gaps = []
    for bias in (0.5, 1.5):
        train = load(Population(dataset="synthetic", bias=bias, split=0)).train
        counts = decision_counts(train.y, train.y, train.groups, train.n_groups)
        gaps.append(fairness_metrics(counts)["demographic_parity_difference"])
    assert gaps[0] + 0.05 < gaps[1]


@pytest.mark.parametrize("ratio", [1.0, 1.25])
def test_the_largest_group_is_cut_and_the_test_records_stay(ratio):
    whole, cut = load(Population(dataset="synthetic")), load(Population(dataset="synthetic", ratio=ratio))
    few = int(whole.train.group_sizes.min())
    assert sorted(cut.train.group_sizes.tolist()) == [few, int(ratio * few)]
    assert np.array_equal(cut.test.X, whole.test.X)
    # Another split keeps others.
    other = load(Population(dataset="synthetic", ratio=ratio, split=1))
    assert not np.array_equal(other.train.X, cut.train.X)


def test_a_ratio_that_no_group_exceeds_changes_nothing():
    whole, cut = load(Population(dataset="synthetic")), load(Population(dataset="synthetic", ratio=50.0))
    assert np.array_equal(whole.train.X, cut.train.X)


def test_what_the_columns_mean_is_part_of_the_records():
    """The same numbers, declared as a quantity or as a mark, train another model."""
    parts = load(Population(dataset="synthetic"))
    outcome = {"label": "y", "positive": "1", "negative": "0", "sensitive": ("sex",), "groups": (("f", "m"),)}
    columns = (Numeric(name="a", low=0, high=1), OtherThan(name="a", value="0"))
    schemas = [TableSchema(columns=(column,), **outcome) for column in columns]
    assert len({replace(parts, schema=schema).digest() for schema in schemas}) == 2


def test_other_records_have_another_digest():
    digests = [digest_of(Population(dataset="synthetic", bias=b, split=s)) for b, s in ((1.0, 0), (1.0, 1), (0.5, 0))]
    assert len(set(digests)) == 3
    assert digest_of(Population(dataset="synthetic", bias=1.0, split=0)) == digests[0]
