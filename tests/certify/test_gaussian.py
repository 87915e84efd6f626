import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from fairdp.certify.outlook import input_agnostic_bound, smoothed_probability, utility_ceiling


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


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), nonnegative=st.booleans(), sign=st.sampled_from([-1, 0, 1]))
def test_nor_without_a_bias_where_an_embedding_of_zero_is_always_positive(seed, nonnegative, sign):
    rng = np.random.default_rng(seed)
    head = rng.normal(size=3)
    head = sign * np.abs(head) if sign else head
    embeddings = rng.normal(scale=rng.choice([0.1, 1, 30]), size=(500, 3))
    embeddings = np.abs(embeddings) if nonnegative else embeddings
    embeddings[0] = 0.0
    norms = np.linalg.norm(embeddings, axis=1)
    chances = smoothed_probability(embeddings @ head, norms, smoothing=0.7, bias=False)
    assert chances[0] == 1.0
    bound = input_agnostic_bound(head, smoothing=0.7, nonnegative=nonnegative, bias=False)
    assert np.ptp(chances) <= bound + 1e-12
    # Without the constant column lengths do not matter.
    longer = smoothed_probability(3 * embeddings @ head, 3 * norms, smoothing=0.7, bias=False)
    np.testing.assert_allclose(longer, chances, rtol=1e-9)


def test_smoothing_without_a_bias_equals_drawing_heads():
    rng = np.random.default_rng(0)
    head, embeddings = np.array([0.4, -0.3]), np.array([[0.3, 0.1], [0.0, 0.0]])
    drawn = np.mean((head + 0.5 * rng.standard_normal((400_000, 2))) @ embeddings.T >= 0, axis=0)
    norms = np.linalg.norm(embeddings, axis=1)
    exact = smoothed_probability(embeddings @ head, norms, smoothing=0.5, bias=False)
    np.testing.assert_allclose(exact, drawn, atol=0.004)


def test_the_bound_without_a_bias_by_hand():
    """From the least chance, Φ(−1), to that of an embedding of zero, which is one."""
    head = np.array([3.0, -4.0])
    assert input_agnostic_bound(head, smoothing=5.0, nonnegative=False, bias=False) == pytest.approx(ndtr(1.0))
    assert input_agnostic_bound(head, smoothing=4.0, nonnegative=True, bias=False) == pytest.approx(ndtr(1.0))


def test_the_general_bound_by_hand():
    assert input_agnostic_bound(np.array([3.0, 4.0]), smoothing=5.0, nonnegative=False) == pytest.approx(
        math.erf(0.5**0.5)
    )


def test_the_ceiling_by_hand():
    assert utility_ceiling(0.24, tau=0.1) == pytest.approx(0.784)
    assert utility_ceiling(0.24, tau=1.0) == 1.0
