import numpy as np
import pytest

from fairdp.certify.noise import laplace_sum, noise_quantile, noise_variance


def test_one_draw_by_hand():
    # a = e⁻¹ = .36788: Pr(0) = (1 − a)/(1 + a) = .46212, Pr(±1) = .17000.
    law = laplace_sum(1.0, 1)
    assert law.probabilities[-law.first] == pytest.approx(0.46212, abs=1e-5)
    assert law.probabilities[1 - law.first] == pytest.approx(0.17000, abs=1e-5)
    assert law.probabilities.sum() + law.missing == pytest.approx(1, abs=1e-12)
    assert noise_variance(1.0) == pytest.approx(1.8413, abs=1e-4)


@pytest.mark.parametrize("folds", [1, 2, 4])
def test_sums_have_the_right_variance_and_tails(folds):
    law = laplace_sum(0.5, folds)
    values = np.arange(law.first, law.last + 1)
    assert law.probabilities @ values**2 == pytest.approx(folds * noise_variance(0.5), rel=1e-9)
    assert law.at_most(np.array([0]))[0] + law.at_least(np.array([1]))[0] == pytest.approx(1, abs=1e-10)
    assert law.at_most(np.array([law.last + 9]))[0] == pytest.approx(1, abs=1e-12)


def test_multiples_and_sums_by_brute_force():
    law = laplace_sum(2.0, 1)
    combined = law.times(3).plus(law.times(-2))
    rng = np.random.default_rng(0)
    draws = rng.geometric(1 - np.exp(-2), (2, 2, 200_000))
    x, y = draws[:, 0] - draws[:, 1]
    observed = np.mean(3 * x - 2 * y <= 1)
    assert combined.at_most(np.array([1]))[0] == pytest.approx(observed, abs=0.006)  # five standard errors


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("level", [0.1, 1e-4])
def test_a_quantile_is_the_smallest_that_holds(epsilon, level):
    law, t = laplace_sum(epsilon, 2), noise_quantile(epsilon, 2, level)
    assert law.at_least(np.array([t + 1]))[0] <= level
    assert t == 0 or law.at_least(np.array([t]))[0] > level


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_what_is_cut_off_is_kept_as_missing(epsilon):
    """The tails beyond the table, 2 a^(r+1) / (1 + a): every chance is raised by them, so that none is too small."""
    law = laplace_sum(epsilon, 1)
    a = np.exp(-epsilon)
    assert law.missing == pytest.approx(2 * a ** (law.last + 1) / (1 + a))
    assert 0 < law.missing < 1e-13
    assert laplace_sum(epsilon, 2).missing == pytest.approx(2 * law.missing)
    assert law.at_most(np.array([law.first - 5]))[0] == law.missing
