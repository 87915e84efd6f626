"""Bounds on attacks against closed forms, against what an (ε, δ) alone would say, and in their order."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from fairdp.accounting.mechanisms import LaplaceRelease, SampledGaussian, epsilon_spent
from fairdp.report.model import FALSE_POSITIVE_RATES, curve_of, pure_curve, worst_of

RATES = np.array([0.0, *FALSE_POSITIVE_RATES, 0.3, 0.5, 0.9, 1.0])
DELTA = 1e-5


def gaussian(multiplier: float, **more) -> SampledGaussian:
    return SampledGaussian(**{"sample_rate": 1.0, "noise_multiplier": multiplier, "n_steps": 1, **more})


@pytest.mark.parametrize("multiplier", [0.7, 4.0])
def test_gaussian_mechanism_has_its_closed_form(multiplier):
    mu, curve = 1 / multiplier, curve_of(gaussian(multiplier))
    exact = norm.cdf(norm.ppf(RATES) + mu)  # 1 − f(α) = Φ(Φ⁻¹(α) + μ), Dong, Roth, Su (2022)
    found = curve.true_positive_rates(RATES)
    assert (found >= exact - 1e-12).all()
    np.testing.assert_allclose(found, exact, atol=1e-4)
    assert 0 <= curve.advantage - (2 * norm.cdf(mu / 2) - 1) < 1e-4


def test_composed_gaussians_are_one_with_less_noise():
    composed, alone = curve_of(gaussian(3.0, n_steps=9)), curve_of(gaussian(1.0))
    np.testing.assert_allclose(composed.true_positive_rates(RATES), alone.true_positive_rates(RATES), atol=1e-3)


def test_randomised_response_is_the_worst_pure_mechanism():
    curve, epsilon = pure_curve(1.0), 1.0
    exact = np.minimum(np.exp(epsilon) * RATES, 1 - np.exp(-epsilon) * (1 - RATES))
    np.testing.assert_allclose(curve.true_positive_rates(RATES), exact, atol=1e-12)
    assert curve.advantage == pytest.approx((math.e - 1) / (math.e + 1))


@pytest.mark.parametrize("sample_rate", [0.1, 1.0])
def test_no_bound_is_looser_than_the_one_of_its_epsilon_and_delta(sample_rate):
    mechanism = gaussian(1.4, sample_rate=sample_rate, n_steps=5)
    epsilon = epsilon_spent(mechanism, DELTA)
    trivial = np.minimum(1.0, np.exp(epsilon) * RATES + DELTA)
    assert (curve_of(mechanism).true_positive_rates(RATES) <= trivial + 1e-4).all()


def test_curve_gives_the_delta_of_the_accountant():
    mechanism = gaussian(1.4, sample_rate=0.2, n_steps=10)
    curve = curve_of(mechanism)
    assert np.interp(epsilon_spent(mechanism, DELTA), curve.epsilons, curve.deltas) == pytest.approx(DELTA, rel=0.02)


def test_bounds_grow_with_steps_and_rates_and_shrink_with_noise():
    base = {"sample_rate": 0.2, "n_steps": 10}
    ordered = [
        gaussian(1.4, **base),
        gaussian(1.2, **base),
        gaussian(1.2, **{**base, "n_steps": 20}),
        gaussian(1.2, **{**base, "n_steps": 20, "sample_rate": 0.4}),
        gaussian(1.2, **{**base, "n_steps": 20, "sample_rate": 0.4, "counts_epsilon": 0.3}),
    ]
    curves = [curve_of(own) for own in ordered]
    advantages = [curve.advantage for curve in curves]
    assert advantages == sorted(advantages)
    found = np.array([curve.true_positive_rates(RATES) for curve in curves])
    assert (np.diff(found, axis=0) >= -1e-9).all()
    assert (np.diff(found, axis=1) >= -1e-12).all()
    assert (found >= RATES).all()


def test_counts_are_no_better_than_their_pure_epsilon_alone():
    faint = gaussian(200.0, counts_epsilon=0.5)
    assert curve_of(faint).advantage >= pure_curve(0.5).advantage


def test_laplace_release_is_pure_and_no_noise_is_no_protection():
    curve = curve_of(LaplaceRelease(noise_multiplier=2.0, counts_epsilon=0.5))
    assert curve.advantage == pytest.approx(math.tanh(0.5))
    assert curve_of(gaussian(0.0)) is None


def test_worst_of_several_is_the_largest_at_each_rate():
    steep, flat = pure_curve(2.0), pure_curve(0.5)
    np.testing.assert_array_equal(worst_of([steep, flat], RATES), steep.true_positive_rates(RATES))
