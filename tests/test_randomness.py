"""Streams that follow from a secret key: repeatable, independent, uniform."""

import numpy as np
import pytest
from scipy import stats

from fairdp.randomness import derived_key, keyed_below
from statistical import FALSE_ALARM, assert_plausible

KEY = bytes(range(32))


def draws(n_draws, below=10, key=KEY, purpose="a"):
    draw = keyed_below(key, purpose)
    return [draw(below) for _ in range(n_draws)]


def uniformity(values, below):
    return stats.chisquare(np.bincount(values, minlength=below)).pvalue


def test_a_stream_follows_from_key_and_purpose_alone():
    assert draws(50) == draws(50)
    assert draws(50) != draws(50, purpose="b")
    assert draws(50) != draws(50, key=bytes(32))


@pytest.mark.parametrize("below", [2, 10, 1000])
def test_draws_are_uniform(below):
    assert_plausible(uniformity(draws(20_000, below), below), f"draws below {below}")


def test_that_check_notices_a_remainder_instead_of_a_rejection():
    skewed = [value % 10 for value in draws(20_000, 16)]
    assert uniformity(skewed, 10) < FALSE_ALARM


def test_numbers_of_any_size_can_be_drawn():
    below = 3 * 2**200
    found = draws(300, below)
    assert max(found) < below
    assert max(found) > below // 2 > min(found)
    assert draws(5, 1) == [0] * 5


def test_streams_of_two_purposes_are_not_correlated():
    first, second = draws(20_000, 2), draws(20_000, 2, purpose="b")
    assert_plausible(stats.binomtest(int(np.equal(first, second).sum()), 20_000).pvalue, "agreement of two streams")


def test_a_derived_key_has_the_length_that_was_asked_for():
    assert len(derived_key(KEY, "people")) == 16
    assert derived_key(KEY, "people") != derived_key(KEY, "hold out")


@pytest.mark.parametrize("below", [1, 3, 5, 6, 1000])
def test_draws_stay_below_their_limit(below):
    assert set(draws(300 * below if below < 10 else 20_000, below)) <= set(range(below))
