"""The gap under shifts, against records drawn anew and against the slope that certificates use."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairdp.certify.shift import shift_slope
from fairdp.experiments.sweeps.shifts import gap_under_reversal, gap_under_shift
from fairdp.metrics.rates import fairness_metrics, group_rates

COUNTS = np.array([[[4757, 74], [528, 62]], [[7467, 137], [2768, 488]]])
TABLES = st.lists(st.integers(1, 500), min_size=12, max_size=12).map(lambda cells: np.array(cells).reshape(3, 2, 2))


def test_without_a_shift_it_is_the_gap():
    assert gap_under_shift(COUNTS, 0.0) == pytest.approx(fairness_metrics(COUNTS)["demographic_parity_difference"])


def test_it_is_the_worst_of_populations_made_by_hand():
    """A tenth of all people leaves one cell for another: twelve ways, of which three give more than they have."""
    sizes, total = COUNTS.sum(2).astype(float), COUNTS.sum()
    found = []
    for giver in np.ndindex(2, 2):
        for taker in np.ndindex(2, 2):
            moved = sizes.copy()
            moved[giver] -= 0.1 * total
            moved[taker] += 0.1 * total
            if giver != taker and moved.min() > 0:
                people = COUNTS / sizes[..., None] * moved[..., None]
                found.append(float(fairness_metrics(people)["demographic_parity_difference"]))
    assert len(found) == 9
    assert gap_under_shift(COUNTS, 0.1) == pytest.approx(max(found))


def excess(counts: np.ndarray, shift: float, share_of_slope: float) -> float:
    """How far the gap lies above the line that certificates draw."""
    rates = group_rates(counts)
    slope = shift_slope(np.abs(rates.true_positive - rates.false_positive), counts.sum((1, 2)) / counts.sum())
    return gap_under_shift(counts, shift) - gap_under_shift(counts, 0.0) - shift * share_of_slope * slope


@settings(max_examples=200, deadline=None)
@given(counts=TABLES, shift=st.floats(0, 0.3))
def test_no_shift_is_worse_than_the_slope_of_certificates(counts, shift):
    assert excess(counts, shift, 1.0) <= 1e-9


def test_that_check_notices_a_slope_that_is_too_small():
    """A tenth of the slope is broken by a table that a generator finds at once."""
    rng = np.random.default_rng(0)
    assert max(excess(rng.integers(1, 500, (3, 2, 2)), 0.05, 0.1) for _ in range(50)) > 0


def test_a_reversal_is_the_population_made_by_hand():
    """A twentieth of all people leaves each of the two cells that sex and income fill, for the other label."""
    sizes, total = COUNTS.sum(2).astype(float), COUNTS.sum()
    # More women with label 0 and men with label 1 than if label and group were independent.
    assert sizes[0, 0] * sizes[1, 1] > sizes[0, 1] * sizes[1, 0]
    moved = sizes + 0.05 * total * np.array([[-1, 1], [1, -1]])
    assert np.abs(moved - sizes).sum() / total / 2 == pytest.approx(0.1)
    people = COUNTS / sizes[..., None] * moved[..., None]
    expected = float(fairness_metrics(people)["demographic_parity_difference"])
    assert gap_under_reversal(COUNTS, 0.1) == pytest.approx(expected)
    # Other labels for the same groups: turned over, the tie and the cells that give are turned over too.
    assert gap_under_reversal(COUNTS[::-1], 0.1) == pytest.approx(expected)


@settings(max_examples=200, deadline=None)
@given(counts=TABLES, shift=st.floats(0, 0.3))
def test_a_reversal_keeps_margins_and_is_never_worse_than_the_slope_of_certificates(counts, shift):
    counts = counts[:2]
    rates = group_rates(counts)
    slope = shift_slope(np.abs(rates.true_positive - rates.false_positive), counts.sum((1, 2)) / counts.sum())
    found = gap_under_reversal(counts, shift)
    assert np.isnan(found) or found <= gap_under_reversal(counts, 0.0) + shift * slope + 1e-9


def test_a_reversal_needs_two_groups_and_people_to_move():
    assert np.isnan(gap_under_reversal(np.ones((3, 2, 2)), 0.1))
    # Each cell that gives has four tenths of all people, so that γ must be below .8.
    assert np.isnan(gap_under_reversal(np.array([[[5, 5], [20, 20]], [[20, 20], [5, 5]]]), 0.9))
    assert not np.isnan(gap_under_reversal(np.array([[[5, 5], [20, 20]], [[20, 20], [5, 5]]]), 0.7))
