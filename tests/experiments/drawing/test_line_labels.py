"""Labels at the ends of lines."""

import numpy as np
import pytest

from fairdp.experiments.drawing.lines import spread


def test_spread_heights_are_a_step_apart_and_move_least():
    assert spread(np.array([0.0, 5.0]), step=2.0, low=0.0, high=9.0).tolist() == [0.0, 5.0]
    # By hand: the mean of the two stays, and each moves by half of what is missing.
    assert spread(np.array([4.0, 5.0]), step=2.0, low=0.0, high=9.0) == pytest.approx([3.5, 5.5])


def test_spread_heights_stay_within_their_limits():
    crowded = spread(np.full(4, 9.0), step=2.0, low=0.0, high=9.0)
    assert crowded == pytest.approx([3.0, 5.0, 7.0, 9.0])
    assert spread(np.zeros(3), step=2.0, low=0.0, high=9.0) == pytest.approx([0.0, 2.0, 4.0])


def test_a_fan_that_is_too_tall_still_has_its_steps():
    assert np.diff(spread(np.zeros(9), step=2.0, low=0.0, high=9.0)) == pytest.approx(np.full(8, 2.0))
