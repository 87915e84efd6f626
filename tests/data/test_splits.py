"""The public split into training and test rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairdp.data.splits import split_rows


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
