"""The gap under shifts, against records drawn anew and against the slope that certificates use."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairdp.certify.shift import shift_slope
from fairdp.experiments.sweeps.shifts import gap_under_shift
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
