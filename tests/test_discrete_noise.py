"""Integer noise, Laplace and Gaussian: its distribution, its symmetry and where its randomness comes from."""

import functools

import numpy as np
import pytest
from scipy import stats

from fairdp.randomness import discrete_gaussian, discrete_laplace
from statistical import FALSE_ALARM, assert_plausible

N_DRAWS = 20_000


@functools.cache
def draws_of(epsilon: float, seed: int = 0, n_draws: int = N_DRAWS) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.array([discrete_laplace(epsilon, lambda below: int(rng.integers(below))) for _ in range(n_draws)])


def probability(x: np.ndarray, epsilon: float) -> np.ndarray:
    """(1 − a) / (1 + a) · a^|x| with a = exp(−ε)."""
    a = np.exp(-epsilon)
    return (1 - a) / (1 + a) * a ** np.abs(x)


def fit_to(draws: np.ndarray, epsilon: float) -> float:
    """p-value of Pearson's chi-square over the values expected at least ten times, the tails pooled."""
    reach = 0
    while len(draws) * probability(np.array(reach + 1), epsilon) >= 10:
        reach += 1
    values = np.arange(-reach, reach + 1)
    observed = [np.sum(draws < -reach), *(np.sum(draws == x) for x in values), np.sum(draws > reach)]
    inner = probability(values, epsilon)
    expected = len(draws) * np.array([(1 - inner.sum()) / 2, *inner, (1 - inner.sum()) / 2])
    return float(stats.chisquare(observed, expected).pvalue)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_draws_follow_the_discrete_laplace_law(epsilon):
    # False-alarm rate 1e-6; notices an epsilon that is 10 % off, see the negative control.
    assert_plausible(fit_to(draws_of(epsilon), epsilon), f"chi-square at epsilon {epsilon}")


@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_that_check_notices_a_wrong_epsilon(epsilon, factor):
    assert fit_to(draws_of(factor * epsilon), epsilon) < FALSE_ALARM


def test_that_check_notices_rounded_continuous_noise():
    rounded = np.round(np.random.default_rng(0).laplace(scale=1.0, size=N_DRAWS)).astype(int)
    assert fit_to(rounded, 1.0) < FALSE_ALARM


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_both_signs_are_equally_likely_and_zero_is_not_counted_twice(epsilon):
    draws = draws_of(epsilon)
    positive, zero = int(np.sum(draws > 0)), int(np.sum(draws == 0))
    assert_plausible(stats.binomtest(positive, len(draws) - zero, 0.5).pvalue, "share of positive values")
    # A sampler that keeps "minus zero" returns zero too often: it would fail here.
    assert_plausible(stats.binomtest(zero, len(draws), float(probability(np.array(0), epsilon))).pvalue, "zeros")


def gaussian_draws(sigma: float, n_draws: int = 6_000) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.array([discrete_gaussian(sigma, lambda below: below_of(rng, below)) for _ in range(n_draws)])


def below_of(rng: np.random.Generator, below: int) -> int:
    """Numbers of any size: exact fractions have long denominators."""
    return int(rng.integers(below)) if below < 2**62 else int.from_bytes(rng.bytes(64), "little") % below


def gaussian_fit(draws: np.ndarray, sigma: float) -> float:
    """p-value of Pearson's chi-square over ranges of values, each of at least a hundredth of all but for the last."""
    values = np.arange(-int(12 * sigma) - 2, int(12 * sigma) + 3)
    law = np.exp(-(values**2) / (2 * sigma**2)) / np.exp(-(values**2) / (2 * sigma**2)).sum()
    cells, held = np.zeros(len(values), dtype=int), 0.0
    for index in range(1, len(values)):
        held += law[index - 1]
        cells[index] = cells[index - 1] + (held >= 0.01)
        held *= held < 0.01
    expected = len(draws) * np.bincount(cells, weights=law)
    observed = np.bincount(cells[draws - values[0]], minlength=len(expected))
    # What is left beyond the last full range is added to it.
    observed, expected = (np.append(part[:-2], part[-2:].sum()) for part in (observed, expected))
    return float(stats.chisquare(observed, expected).pvalue)


@pytest.mark.parametrize("sigma", [0.7, 3.3, 37.3064])
def test_gaussian_draws_follow_the_discrete_law(sigma):
    # False-alarm rate 1e-6; notices a sigma that is 10 % off, see the negative control.
    assert_plausible(gaussian_fit(gaussian_draws(sigma), sigma), f"chi-square at sigma {sigma}")


@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize("sigma", [0.7, 3.3, 37.3064])
def test_that_check_notices_a_wrong_sigma(sigma, factor):
    assert gaussian_fit(gaussian_draws(factor * sigma), sigma) < FALSE_ALARM


@pytest.mark.parametrize("sigma", [0.7, 3.3, 37.3064])
def test_that_check_notices_the_other_law(sigma):
    laplace = draws_of(np.sqrt(2) / sigma, n_draws=6_000)
    assert gaussian_fit(np.clip(laplace, -int(12 * sigma), int(12 * sigma)), sigma) < FALSE_ALARM


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_only_the_given_source_of_randomness_is_used(draw):
    """The answers of ``rand_below`` decide everything: the same answers give the same noise."""
    rng, answers = np.random.default_rng(0), []

    def record(below):
        assert type(below) is int
        answers.append((below, below_of(rng, below)))
        return answers[-1][1]

    noise = [draw(2.5, record) for _ in range(400)]
    pending = iter(answers)

    def replay(below):
        asked, answer = next(pending)
        assert below == asked
        return answer

    assert [draw(2.5, replay) for _ in range(400)] == noise
    assert next(pending, None) is None
    assert len(set(noise)) >= 3


def test_a_small_epsilon_gives_noise_of_its_scale():
    # |X| is nearly exponential with mean 1 / ε, so the sum of 400 is nearly Gamma(400): false-alarm rate 1e-6.
    total = np.abs(draws_of(0.001, n_draws=400)).sum() * 0.001
    assert_plausible(2 * min(stats.gamma.cdf(total, 400), stats.gamma.sf(total, 400)), "mean magnitude")
