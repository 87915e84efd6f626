"""Single releases in two worlds: the bound comes close to ε, never passes it, and passes it where something is wrong.

Each test below fails correct code with probability at most FALSE_ALARM, which is the failure probability of the bounds.
"""

from dataclasses import replace

import numpy as np
import pytest

from fairdp.audit import two_worlds
from fairdp.audit.two_worlds import audit_release, gaussian_sum, group_size, noisy_count, noisy_polynomial
from fairdp.certify import release
from fairdp.methods import functional
from fairdp.randomness import Generators, discrete_laplace
from fairdp.training.noise import add_gaussian_noise
from statistical import FALSE_ALARM


def found_in(tested, n_draws=100_000, seed=0):
    return audit_release(tested, n_draws=n_draws, failure_probability=FALSE_ALARM, seed=seed)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_noisy_count_shows_four_fifths_of_its_epsilon(epsilon):
    found = found_in(noisy_count(epsilon), n_draws=30_000)
    assert 0.8 * epsilon <= found.epsilon_lower <= epsilon == found.epsilon


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_gaussian_release_shows_four_fifths_of_its_epsilon_through_mu(epsilon):
    found = found_in(gaussian_sum(epsilon, 1e-5))
    assert 0.8 * epsilon <= found.epsilon_lower <= epsilon


@pytest.mark.more
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_all_of_it_with_other_seeds_and_all_draws(epsilon, seed):
    for tested in (noisy_count(epsilon), gaussian_sum(epsilon, 1e-5)):
        found = found_in(tested, seed=seed)
        assert 0.8 * epsilon <= found.epsilon_lower <= epsilon


def test_a_polynomial_and_a_group_size_show_part_of_theirs():
    for tested, part in ((noisy_polynomial(2.0), 0.8), (group_size(8.0, 1e-5), 0.4)):
        found = found_in(tested, n_draws=20_000)
        assert part * tested.epsilon <= found.epsilon_lower <= tested.epsilon


def test_without_a_seed_the_draws_differ_and_with_one_they_do_not():
    tested = gaussian_sum(1.0, 1e-5)
    fresh = [audit_release(tested, n_draws=1000, failure_probability=0.5).counts for _ in range(2)]
    assert fresh[0] != fresh[1]
    assert found_in(tested, 1000) == found_in(tested, 1000)


def test_half_the_noise_on_counts_is_found(monkeypatch):
    monkeypatch.setattr(release, "discrete_laplace", lambda epsilon, below: discrete_laplace(2 * epsilon, below))
    assert not found_in(noisy_count(1.0), n_draws=5000).passed


def test_half_the_noise_on_polynomials_is_found(monkeypatch):
    monkeypatch.setattr(functional, "discrete_laplace", lambda epsilon, below: discrete_laplace(2 * epsilon, below))
    assert not found_in(noisy_polynomial(2.0), n_draws=5000).passed


def test_half_the_noise_on_a_sum_is_found(monkeypatch):
    def halved(bounded, noise_std, *, accounted_multipliers, **options):
        return add_gaussian_noise(bounded, noise_std / 2, accounted_multipliers=accounted_multipliers / 2, **options)

    monkeypatch.setattr(two_worlds, "add_gaussian_noise", halved)
    assert not found_in(gaussian_sum(1.0, 1e-5)).passed


def test_a_tenth_too_little_noise_on_a_sum_is_found(monkeypatch):
    def less(bounded, noise_std, *, accounted_multipliers, **options):
        return add_gaussian_noise(
            bounded, 0.9 * noise_std, accounted_multipliers=0.9 * accounted_multipliers, **options
        )

    monkeypatch.setattr(two_worlds, "add_gaussian_noise", less)
    assert not found_in(gaussian_sum(4.0, 1e-5)).passed


def test_a_record_that_is_counted_twice_is_found():
    honest = noisy_count(1.0)

    def twice(with_record, n_draws, generators):
        return honest.draw(with_record, n_draws, generators) + with_record

    assert not found_in(replace(honest, draw=twice), n_draws=5000).passed


def test_a_sum_that_moves_by_more_than_its_sensitivity_is_found():
    honest = gaussian_sum(1.0, 1e-5)

    def further(with_record, n_draws, generators):
        return honest.draw(with_record, n_draws, generators) + with_record * 0.5 * two_worlds._SENSITIVITY

    assert not found_in(replace(honest, draw=further)).passed


def test_many_coordinates_are_many_draws_of_one():
    """Their noise is uncorrelated with its neighbours', and has the same deviation in either world."""
    multiplier = two_worlds.noise_multiplier_for(
        two_worlds.PrivacyBudget(epsilon=1.0, delta=1e-5), sample_rate=1.0, n_steps=1
    )
    for world in (False, True):
        draws = gaussian_sum(1.0, 1e-5).draw(world, 100_000, Generators.of(7)) - world * two_worlds._SENSITIVITY
        assert np.std(draws) == pytest.approx(multiplier * two_worlds._SENSITIVITY, rel=0.02)
        assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 0.02
