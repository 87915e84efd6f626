import math

import numpy as np
import pytest
from scipy.special import ndtri

from fairdp.certify.combination import bent, critical_values


def test_on_the_axis_only_one_score_counts():
    value = critical_values(0.05).largest(np.array([0.0]), np.array([0.0]))[0]
    exact = -float(bent(np.array(ndtri(0.05))))
    assert exact <= value < exact + 0.02


def test_no_direction_is_missed_too_often():
    """400,000 draws: the chance is at most .05 in every direction, and hardly less."""
    scores = bent(np.random.default_rng(0).standard_normal((2, 400_000)))
    for angle in np.linspace(0, math.pi / 2, 7):
        limit = critical_values(0.05).largest(np.array([angle]), np.array([angle]))[0]
        missed = np.mean(math.cos(angle) * scores[0] + math.sin(angle) * scores[1] <= -limit)
        assert 0.047 < missed < 0.0518  # five standard errors above .05


def test_the_largest_over_a_range_is_that_of_its_parts():
    table = critical_values(0.1)
    low, high = np.array([0.1, 0.7]), np.array([0.9, 0.71])
    dense = [table.largest(*(np.linspace(a, b, 2001),) * 2).max() for a, b in zip(low, high, strict=True)]
    assert (table.largest(low, high) >= np.array(dense) - 1e-12).all()
    assert table.largest(low, high) == pytest.approx(dense, abs=1e-3)
