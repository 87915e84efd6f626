"""The sketch: exact counts at every position, and one record moves it by at most one."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairdp.frontier.sketch import counts_of, covariance_of, exact_sketch, prefix_root, turning_points
from statistical import assert_normal, assert_plausible

N_CELLS = 4
# As runs have them: both sides of none, closer together near it.
LINE = np.array([0.6 * np.sign(u) * abs(u) ** 1.7 for u in np.linspace(-1, 1, 65)])


def decisions(values, pulls, positions):
    """Shape (n_records, n_positions)."""
    return values[:, None] - positions * pulls[:, None] >= 0


def counted(values, pulls, cells, positions):
    positive = decisions(values, pulls, positions)
    return np.array([positive[cells == cell].sum(0) for cell in range(N_CELLS)])


def table(n_records: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    values, pulls = rng.normal(size=n_records), 4 * rng.normal(size=n_records)
    return values, pulls, rng.integers(N_CELLS, size=n_records)


def without(record: int, *arrays):
    return [np.delete(array, record) for array in arrays]


@pytest.mark.parametrize("positions", [LINE, np.linspace(0, 1, 33), np.array([0.0]), np.array([-1.0, 2.0])])
def test_counts_are_those_of_deciding_at_every_position(positions):
    values, pulls, cells = table(500)
    sketch = exact_sketch(values, pulls, cells, N_CELLS, positions)
    assert sketch.shape == (N_CELLS, len(positions))
    assert np.allclose(counts_of(sketch), counted(values, pulls, cells, positions), atol=1e-8)


# Small whole numbers over powers of two: arithmetic is exact, and there are many ties.
WHOLE = st.integers(-3, 3).map(float)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(WHOLE, WHOLE, st.integers(0, N_CELLS - 1)), min_size=1, max_size=12),
    st.sets(st.sampled_from([-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 3.0]), min_size=1),
)
def test_ties_zero_pulls_and_records_that_never_turn_are_counted_exactly(records, positions):
    values, pulls, cells = (np.array(column) for column in zip(*records, strict=True))
    places = np.array(sorted(positions))
    found = counts_of(exact_sketch(values, pulls, cells, N_CELLS, places))
    assert np.allclose(found, counted(values, pulls, cells, places), atol=1e-8)


def test_turning_points_by_hand():
    """At a tie the decision is positive: it is lost only beyond it, and won at it."""
    cases = [  # value, pull, place, decision at the first position
        (1.0, 1.0, 3, True),  # zero at 1, between the last two
        (0.0, 1.0, 2, True),  # zero exactly at the second position: lost at the third
        (0.0, -1.0, 1, False),  # won at it
        (0.5, 1.0, 3, True),  # tie at the third: lost at the fourth
        (-1.0, 1.0, 1, True),  # zero at the first position itself
        (-1.5, 1.0, 4, False),  # beyond it before: never turns
        (2.0, 1.0, 4, True),  # tie at the last: stays
        (2.1, 1.0, 4, True),
        (-2.0, -1.0, 3, False),  # won at the last
        (-2.1, -1.0, 4, False),
        (1.0, -1.0, 4, True),  # a tie at the first, then ever better
        (0.0, 0.0, 4, True),  # nothing pulls: zero is positive
        (-1.0, 0.0, 4, False),
        (1.0, 0.0, 4, True),
    ]
    values, pulls, places, start = (np.array(column) for column in zip(*cases, strict=True))
    found, first = turning_points(values, pulls, np.array([-1.0, 0.0, 0.5, 2.0]))
    assert found.tolist() == places.tolist()
    assert first.tolist() == start.tolist()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_tie_at_the_first_position_survives_rounding(sign):
    """A value that is rounded onto the first position is lost, or won, right after it, wherever division puts it."""
    rng = np.random.default_rng(1)
    firsts, pulls = rng.uniform(0.1, 1, 400), sign * rng.uniform(0.1, 3, 400)
    values = firsts * pulls
    if sign < 0:
        values = np.nextafter(values, -np.inf)
    misplaced = (values / pulls < firsts) if sign > 0 else (values / pulls <= firsts)
    assert misplaced.any()
    for value, pull, first in zip(values, pulls, firsts, strict=True):
        positions = np.array([first, first + 0.5, first + 1.0])
        one = np.zeros(1, np.int64)
        found = counts_of(exact_sketch(np.array([value]), np.array([pull]), one, 1, positions))
        assert found[0].round(8).tolist() == decisions(np.array([value]), np.array([pull]), positions)[0].tolist()


def test_the_root_squared_adds_up():
    root, _ = prefix_root(20)
    assert np.allclose(root @ root, np.tril(np.ones((20, 20))))
    assert root[:3, 0].tolist() == [1.0, 0.5, 0.375]


@pytest.mark.parametrize("positions", [LINE, np.linspace(0, 1.0, 33), np.array([0.0])])
def test_removing_any_record_moves_the_sketch_by_at_most_one(positions):
    values, pulls, cells = table(80, seed=2)
    whole = exact_sketch(values, pulls, cells, N_CELLS, positions)
    moves = [
        np.linalg.norm(whole - exact_sketch(*without(record, values, pulls, cells), N_CELLS, positions))
        for record in range(80)
    ]
    assert max(moves) <= 1 + 1e-9
    assert max(moves) >= 0.7


def largest_move(n_points: int, sensitivity: float) -> float:
    """Of a record of every kind: never turning, lost at each place, won at each place; for sums over a sensitivity."""
    positions = np.arange(n_points, dtype=float)
    zeros = np.concatenate([[-1.0, n_points], positions[:-1] + 0.5])
    values, pulls = np.concatenate([zeros, -zeros]), np.repeat([1.0, -1.0], len(zeros))
    rescaled = prefix_root(n_points)[1] / sensitivity
    moves = [
        np.linalg.norm(exact_sketch(values[[i]], pulls[[i]], np.zeros(1, np.int64), N_CELLS, positions))
        for i in range(len(values))
    ]
    return max(moves) * rescaled


@pytest.mark.parametrize("n_points", [1, 2, 3, 33, 65])
def test_the_sensitivity_is_attained_and_never_exceeded(n_points):
    assert largest_move(n_points, prefix_root(n_points)[1]) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("n_points", [33, 65])
def test_that_check_notices_the_bound_of_a_single_column(n_points):
    """A record that is lost leaves at one place and was there at the first: one column alone is too little."""
    root, _ = prefix_root(n_points)
    assert largest_move(n_points, np.linalg.norm(root, axis=0).max()) > 1.05


def whitened(covariance: np.ndarray, std: float) -> np.ndarray:
    """Noise on the sums as it arrives at the counts, in units of a covariance; shape (n_draws, n_positions)."""
    noise = std * np.random.default_rng(3).standard_normal((4000, len(covariance)))
    return np.linalg.solve(np.linalg.cholesky(covariance), counts_of(noise).T).T


def assert_white(draws: np.ndarray) -> None:
    assert_normal(draws, 1.0)
    for left, right in pairwise(draws.T):
        assert_normal(left, 1.0)
        assert_plausible(stats.pearsonr(left, right).pvalue, "two positions")


def test_the_covariance_is_that_of_the_counts():
    """36 000 draws notice a deviation 4 % off; 17 tests in all, each with its own false alarm."""
    assert_white(whitened(covariance_of(9, 2.5), 2.5))


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_that_check_notices_a_wrong_scale(factor):
    with pytest.raises(AssertionError, match="scale"):
        assert_white(whitened(covariance_of(9, 2.5), 2.5 * factor))


def test_that_check_notices_that_counts_move_together():
    with pytest.raises(AssertionError, match="two positions"):
        assert_white(whitened(np.diag(np.diag(covariance_of(9, 2.5))), 2.5))
