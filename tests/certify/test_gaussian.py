import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairdp.certify.gaussian import dilution_for, input_agnostic_bound, smoothed_probability, utility_ceiling


def test_smoothing_in_closed_form_equals_drawing_heads():
    rng = np.random.default_rng(0)
    head, embedding, smoothing = np.array([0.4, -0.3, 0.1]), np.array([1.5, 0.2]), 0.5
    extended = np.append(embedding, 1.0)
    draws = head + smoothing * rng.standard_normal((400_000, 3))
    drawn = np.mean(draws @ extended >= 0)
    exact = smoothed_probability(
        np.array([head @ extended]), np.array([np.linalg.norm(embedding)]), smoothing=smoothing
    )
    assert exact[0] == pytest.approx(drawn, abs=0.004)  # five standard errors


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), nonnegative=st.booleans(), sign=st.sampled_from([-1, 0, 1]))
def test_no_two_inputs_differ_by_more(seed, nonnegative, sign):
    rng = np.random.default_rng(seed)
    head = rng.normal(size=4)
    head = sign * np.abs(head) if sign else head
    embeddings = rng.normal(scale=rng.choice([0.1, 1, 30]), size=(500, 3))
    embeddings = np.abs(embeddings) if nonnegative else embeddings
    extended = np.column_stack([embeddings, np.ones(500)])
    chances = smoothed_probability(extended @ head, np.linalg.norm(embeddings, axis=1), smoothing=0.7)
    assert np.ptp(chances) <= input_agnostic_bound(head, smoothing=0.7, nonnegative=nonnegative) + 1e-12


def test_the_general_bound_by_hand():
    assert input_agnostic_bound(np.array([3.0, 4.0]), smoothing=5.0, nonnegative=False) == pytest.approx(
        math.erf(0.5**0.5)
    )


def test_dilution_meets_a_target_exactly():
    assert (1 - dilution_for(0.2, target=0.05)) * 0.2 == pytest.approx(0.05)
    assert dilution_for(0.04, target=0.05) == 0.0


def test_the_ceiling_by_hand():
    assert utility_ceiling(0.24, tau=0.1) == pytest.approx(0.784)
    assert utility_ceiling(0.24, tau=1.0) == 1.0
