"""Cost of the best of a random number of trials: by hand, beside another accountant, and in the limit."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import dp_event, rdp

from fairdp.accounting.mechanisms import RDP_ORDERS, LaplaceRelease, SampledGaussian, epsilon_spent
from fairdp.accounting.selection import (
    Selection,
    TrialSpend,
    draw_trials,
    gamma_of,
    largest_within,
    merged,
    pure_divergence,
    sampled_gaussian_divergence,
    selected_epsilon,
)
from statistical import assert_rate_at_most

TRAINING = SampledGaussian(sample_rate=0.01, noise_multiplier=2.0, n_steps=2000)
OTHER = SampledGaussian(sample_rate=0.3, noise_multiplier=40.0, n_steps=400)
DELTA = 1e-5


def spent(*mechanisms, held_out=0.0, expected_trials=6.0, delta=DELTA):
    trials = [TrialSpend(mechanism=own, held_out_epsilon=held_out) for own in mechanisms]
    return selected_epsilon(trials, delta, expected_trials=expected_trials)


@pytest.mark.parametrize("mechanism", [TRAINING, OTHER])
@pytest.mark.parametrize("expected_trials", [1.5, 6.0, 100.0])
def test_it_is_what_dp_accounting_says_of_repeat_and_select(mechanism, expected_trials):
    account = rdp.RdpAccountant(RDP_ORDERS)
    account.compose(dp_event.RepeatAndSelectDpEvent(mechanism.event, expected_trials, 0.0))
    assert spent(mechanism, expected_trials=expected_trials) == pytest.approx(account.get_epsilon(DELTA), rel=1e-6)


def test_the_formula_by_hand():
    """One Gaussian release of σ = 5 for everybody: ε(λ) = λ / 50, two trials on average."""
    gaussian = SampledGaussian(sample_rate=1.0, noise_multiplier=5.0, n_steps=1)
    gamma = gamma_of(2.0)
    extra = min((1 - 1 / order) * order / 50 + math.log(1 / gamma) / order for order in RDP_ORDERS)
    epsilons = [
        order / 50
        + extra
        + math.log(2) / (order - 1)
        + math.log1p(-1 / order)
        - (math.log(DELTA) + math.log(order)) / (order - 1)
        for order in RDP_ORDERS
    ]
    assert spent(gaussian, expected_trials=2.0) == pytest.approx(min(epsilons), rel=1e-6)


def test_one_trial_spends_less_than_the_choice_and_more_trials_cost_little():
    alone = epsilon_spent(TRAINING, DELTA, accountant="rdp")
    costs = [spent(TRAINING, expected_trials=n) for n in (1.01, 2, 8, 64, 512)]
    assert alone < costs[0]
    assert costs == sorted(costs)
    assert costs[-1] < 2.4 * alone


def test_every_candidate_counts():
    together = spent(TRAINING, OTHER)
    assert together >= max(spent(TRAINING), spent(OTHER))
    assert together < spent(TRAINING) + spent(OTHER)


def test_a_held_out_record_pays_twice_what_it_is_counted_with():
    assert spent(OTHER, held_out=0.7) == pytest.approx(1.4)
    assert spent(OTHER, held_out=0.01) == spent(OTHER)
    # Counts of training records are none of its business.
    counted = SampledGaussian(sample_rate=0.3, noise_multiplier=40.0, n_steps=400, counts_epsilon=0.1)
    assert spent(counted, held_out=0.7) == pytest.approx(1.4)
    assert spent(counted) > spent(OTHER)


def test_sizes_that_all_trials_share_are_paid_once():
    """By hand: the divergences of the choice plus λ / (2 σ²); in every trial they would be paid about twice."""
    sizes = 20.0
    once = Selection(expected_trials=4.0, by_group={"f": (TrialSpend(mechanism=OTHER),)}, counts_std=sizes)
    free = Selection(expected_trials=4.0, by_group={"f": (TrialSpend(mechanism=OTHER),)})
    in_each = replace(OTHER, counts_std=sizes)
    costs = [choice.epsilon("f", DELTA) for choice in (free, once)]
    assert costs[0] < costs[1] < spent(in_each, expected_trials=4.0)
    # A held-out record pays nothing for them.
    held = replace(once, by_group={"f": (TrialSpend(mechanism=OTHER, held_out_epsilon=2.0),)})
    assert held.epsilon("f", DELTA) == 4.0


def test_a_pure_release_costs_about_twice_its_epsilon():
    """The limit of the formula for large orders is 2 ε; a finite order and δ do no worse than that by much."""
    assert spent(LaplaceRelease(noise_multiplier=2.0)) <= 2 * 0.5 + 0.05


def test_no_noise_is_no_privacy():
    assert spent(SampledGaussian(sample_rate=0.1, noise_multiplier=0.0, n_steps=3)) == math.inf


@pytest.mark.parametrize("order", [2, 7, 64])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_divergence_of_randomised_response_by_definition(epsilon, order):
    p = np.exp(epsilon) / (1 + np.exp(epsilon))
    direct = np.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)) / (order - 1)
    assert pure_divergence(epsilon, order) == pytest.approx(direct)
    assert pure_divergence(epsilon, order) <= min(epsilon, order * epsilon**2 / 2)


@pytest.mark.parametrize("order", [2, 9, 40])
def test_the_divergence_of_a_sampled_gaussian_by_integration(order):
    """E over Q of (dP/dQ)^λ with Q = N(0, σ²), P the mixture with N(1, σ²); by a fine sum."""
    rate, sigma = 0.2, 2.0
    x = np.linspace(-60, 80, 400_001)
    log_q = -(x**2) / (2 * sigma**2) - np.log(sigma * np.sqrt(2 * np.pi))
    ratio = 1 - rate + rate * np.exp((2 * x - 1) / (2 * sigma**2))
    direct = np.log(np.sum(np.exp(log_q + order * np.log(ratio))) * (x[1] - x[0])) / (order - 1)
    assert sampled_gaussian_divergence(rate, sigma, 1, order) == pytest.approx(direct, rel=1e-6)
    assert sampled_gaussian_divergence(rate, sigma, 5, order) == pytest.approx(5 * direct, rel=1e-6)


def test_the_number_of_trials_follows_the_logarithmic_law():
    """Chance of one trial, (1 − γ) / ln(1/γ); 20,000 draws notice one that is .012 larger or smaller."""
    rng, n_draws, mean = np.random.default_rng(0), 20_000, 5.0
    gamma = gamma_of(mean)
    draws = np.array([draw_trials(mean, rng) for _ in range(n_draws)])
    one = (1 - gamma) / math.log(1 / gamma)
    assert_rate_at_most(int((draws == 1).sum()), n_draws, one)
    assert_rate_at_most(int((draws != 1).sum()), n_draws, 1 - one)
    with pytest.raises(AssertionError):
        assert_rate_at_most(int((draws == 1).sum()), n_draws, one - 0.03)
    assert draws.min() == 1
    assert draws.mean() == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize("expected_trials", [1.0, 0.5, math.inf, math.nan])
def test_other_numbers_of_trials_are_refused(expected_trials):
    with pytest.raises(ValueError, match="expected_trials must be above 1 and finite"):
        Selection(expected_trials=expected_trials, by_group={})


def test_plans_are_merged_by_group_and_each_counts_once():
    first = {"a": TrialSpend(mechanism=TRAINING), "b": TrialSpend(mechanism=OTHER)}
    second = {"a": TrialSpend(mechanism=TRAINING), "b": TrialSpend(mechanism=TRAINING)}
    found = merged([first, second])
    assert found["a"] == (first["a"],)
    assert found["b"] == (first["b"], second["b"])


def test_a_share_of_the_budget_is_nearly_used_up_and_never_passed():
    for power in (0.7, 1.0, 1.5):
        value = largest_within(lambda x, p=power: 3 * x**p, 1.0, start=5.0)
        assert 0.99 <= 3 * value**power <= 1
    assert largest_within(lambda x: x, 1.0, start=0.5) == 0.5


def test_a_share_just_above_the_budget_is_not_taken():
    assert 1.015 * largest_within(lambda x: 1.015 * x, 1.0, start=1.0) <= 1
