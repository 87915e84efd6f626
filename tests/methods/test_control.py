import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairdp.methods.control import BandControl, balanced

VALUES = st.integers(1, 8).flatmap(lambda n: arrays(np.float64, n, elements=st.floats(-5, 5)))


@given(VALUES, st.floats(0, 2), st.integers(0, 1000))
def test_pulls_sum_to_zero_and_leave_a_band_alone(values, threshold, seed):
    gains = np.random.default_rng(seed).uniform(0.01, 3, len(values))
    pulls = balanced(values, gains, threshold)
    assert abs(pulls.sum()) < 1e-9
    if np.ptp(values) <= 2 * threshold:
        assert np.abs(pulls).max() < 1e-9
    else:
        assert pulls[values.argmax()] >= -1e-9
        assert pulls[values.argmin()] <= 1e-9


def test_two_cells_by_hand():
    """k₁ (x₁ − b − h) = k₂ (b − h − x₂): b = (1 · .8 + 3 · .3) / 4 = .425, both pulled by .375."""
    assert balanced(np.array([0.9, 0.2]), np.array([1.0, 3.0]), 0.1) == pytest.approx([0.375, -0.375])


def test_three_cells_of_which_one_lies_within():
    pulls = balanced(np.array([0.6, 0.4, 0.2]), np.ones(3), 0.1)
    assert pulls == pytest.approx([0.1, 0.0, -0.1])


@pytest.mark.parametrize("gain", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("n_groups", [2, 3, 6])
def test_rates_that_answer_to_their_pull_come_within_the_band(gain, n_groups):
    """A plant with the lag of an average over twenty steps, whose gain the controller does not know."""
    shares = np.random.default_rng(n_groups).dirichlet(np.ones(n_groups) * 5)
    free, integral, smoothed = np.linspace(0.1, 0.4, n_groups), np.zeros(n_groups), np.zeros(n_groups)
    rates = free.copy()
    for step in range(1, 301):
        control = BandControl(shares=shares, width=0.05, integral=1.8 * (1 - (step - 1) / 300), proportional=13.6)
        smoothed = 0.8 * smoothed + 0.2 * rates
        integral = control.raised(integral, rates)
        pulls = integral + control.damping(smoothed / (1 - 0.8**step))
        rates = rates + 0.05 * (free - 0.1 * gain * pulls / shares - rates)
    assert np.ptp(rates) <= 0.05 + 0.02


def test_that_check_notices_an_integral_without_damping():
    """The same plant, pulled by an integral alone that is large enough to be as fast: it swings."""
    integral, rates, largest = np.zeros(2), np.array([0.6, 0.1]), []
    measured = [rates] * 5
    for step in range(300):
        control = BandControl(shares=np.full(2, 0.5), width=0.05, integral=60.0, proportional=0.0)
        integral = control.raised(integral, measured[-5])
        rates = rates + 0.05 * (np.array([0.6, 0.1]) - 0.6 * integral - rates)
        measured.append(rates)
        largest.append(np.ptp(rates) if step >= 250 else 0.0)
    assert max(largest) > 0.07
