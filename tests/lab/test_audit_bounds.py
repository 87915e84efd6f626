"""Lower bounds on epsilon: by hand, by brute force, and wrong no more often than they say."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from fairdp.accounting.mechanisms import SampledGaussian, epsilon_spent
from fairdp_lab.audit.attack import right_guesses
from fairdp_lab.audit.bounds import (
    EventCounts,
    epsilon_from_events,
    epsilon_from_guesses,
    epsilon_of_mu,
    mu_from_events,
    one_run_p_value,
)
from statistical import assert_rate_at_most

BETA = 0.05
N_RUNS = 2000


def counts(with_record: int, without: int, n_draws: int = 1000) -> EventCounts:
    return EventCounts(with_record=with_record, draws_with=n_draws, without_record=without, draws_without=n_draws)


def test_rates_are_the_exact_binomial_ones():
    above, below = counts(730, 270).rates(BETA)
    assert above == pytest.approx(stats.binomtest(730, 1000).proportion_ci(1 - BETA).low)
    assert below == pytest.approx(stats.binomtest(270, 1000).proportion_ci(1 - BETA).high)
    assert counts(0, 1000).rates(BETA) == (0.0, 1.0)


def test_epsilon_from_events_is_the_larger_of_both_directions():
    above, below = counts(990, 500).rates(BETA)
    # The event itself says ln(.98 / .53); that it did not happen says ln(.47 / .02).
    expected = math.log((1 - below - 1e-3) / (1 - above))
    assert expected > math.log((above - 1e-3) / below)
    assert epsilon_from_events(counts(990, 500), delta=1e-3, failure_probability=BETA) == pytest.approx(expected)


def test_no_evidence_is_no_bound():
    assert epsilon_from_events(counts(500, 500), delta=0.0, failure_probability=BETA) == 0.0
    assert epsilon_from_events(counts(3, 0), delta=0.1, failure_probability=BETA) == 0.0
    assert mu_from_events(counts(500, 500), failure_probability=BETA) == 0.0
    assert epsilon_from_guesses(canaries=9, guesses=0, right=0, delta=0.0, failure_probability=BETA) == 0.0


def test_mu_is_twice_the_quantile_of_the_share_of_right_answers():
    share = stats.binomtest(1400, 2000).proportion_ci(1 - 2 * BETA).low
    assert mu_from_events(counts(700, 300), failure_probability=BETA) == pytest.approx(2 * stats.norm.ppf(share))
    with pytest.raises(ValueError, match="as many draws"):
        mu_from_events(
            EventCounts(with_record=1, draws_with=2, without_record=1, draws_without=3), failure_probability=BETA
        )


@pytest.mark.parametrize("mu", [0.1, 0.27, 1.0, 3.0])
def test_epsilon_of_mu_agrees_with_the_accountant_and_with_its_formula(mu):
    epsilon = epsilon_of_mu(mu, 1e-5)
    spent = epsilon_spent(SampledGaussian(sample_rate=1.0, noise_multiplier=1 / mu, n_steps=1), 1e-5)
    # PLD rounds up, on a grid.
    assert epsilon <= spent <= epsilon + 2e-3
    delta = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(1e-5, rel=1e-4)


def test_a_mu_that_delta_alone_covers_spends_nothing():
    assert epsilon_of_mu(0.0, 1e-5) == epsilon_of_mu(1e-6, 1e-5) == 0.0


def test_the_chance_of_guesses_at_pure_epsilon_is_that_of_randomised_response():
    """By brute force over all answers of a mechanism that tells every coin with probability e^ε / (1 + e^ε)."""
    n_coins, truth = 8, 1 / (1 + math.exp(-1.0))
    chances = [
        math.prod(truth if right else 1 - truth for right in answers) for answers in product((0, 1), repeat=n_coins)
    ]
    n_right = [sum(answers) for answers in product((0, 1), repeat=n_coins)]
    for right in range(n_coins + 1):
        expected = sum(chance for chance, n in zip(chances, n_right, strict=True) if n >= right)
        found = one_run_p_value(canaries=n_coins, guesses=n_coins, right=right, epsilon=1.0, delta=0.0)
        assert found == pytest.approx(expected)


def test_the_part_of_delta_is_the_largest_mean_of_the_chances_just_below():
    law = stats.binom(20, 1 / (1 + math.exp(-0.5)))
    slack = max(sum(law.pmf(17 - k) for k in range(1, i + 1)) / i for i in range(1, 18))
    expected = law.sf(16) + 2 * 30 * 1e-3 * slack
    assert one_run_p_value(canaries=30, guesses=20, right=17, epsilon=0.5, delta=1e-3) == pytest.approx(expected)
    with pytest.raises(ValueError, match="right ≤ guesses"):
        one_run_p_value(canaries=30, guesses=20, right=21, epsilon=0.5, delta=1e-3)


@pytest.mark.parametrize("right", [12, 15, 18, 20])
def test_no_known_mechanism_is_right_more_often_than_the_bound(right):
    """One that tells everything with probability δ, and one that fails at each coin by itself."""
    delta, truth = 0.01, 1 / (1 + math.exp(-0.7))
    bound = one_run_p_value(canaries=20, guesses=20, right=right, epsilon=0.7, delta=delta)
    assert delta + (1 - delta) * stats.binom.sf(right - 1, 20, truth) <= bound
    assert stats.binom.sf(right - 1, 20, delta + (1 - delta) * truth) <= bound


def test_the_bound_of_one_run_solves_for_its_failure_probability():
    known = {"canaries": 500, "guesses": 200, "right": 180, "delta": 1e-8}
    epsilon = epsilon_from_guesses(**known, failure_probability=1e-3)
    assert one_run_p_value(**known, epsilon=epsilon) <= 1e-3 < one_run_p_value(**known, epsilon=epsilon + 1e-5)
    assert one_run_p_value(**known, epsilon=1.0) < one_run_p_value(**known, epsilon=1.5)


def test_where_delta_leaves_nothing_to_say_nothing_is_said():
    assert epsilon_from_guesses(canaries=1000, guesses=1000, right=1000, delta=1e-3, failure_probability=BETA) == 0.0


def test_guesses_name_the_highest_scores_in_and_the_lowest_out():
    scores, included = np.array([5.0, 1.0, 4.0, 2.0, 3.0]), np.array([True, False, True, True, False])
    assert [right_guesses(scores, included, n) for n in (1, 2, 4, 5)] == [1, 2, 3, 4]


def misses_of_events(bound, truth: float) -> int:
    """Frequency with which a bound exceeds the ε of randomised response, which it should not."""
    rng = np.random.default_rng(0)
    rate = 1 / (1 + math.exp(-truth))
    seen = zip(rng.binomial(1000, rate, N_RUNS), rng.binomial(1000, 1 - rate, N_RUNS), strict=True)
    return sum(bound(counts(int(a), int(b))) > truth for a, b in seen)


def test_bounds_from_events_pass_epsilon_no_more_often_than_they_say():
    misses = misses_of_events(lambda c: epsilon_from_events(c, delta=0.0, failure_probability=BETA), 1.0)
    assert_rate_at_most(misses, N_RUNS, BETA)


def test_that_check_notices_an_estimate_without_a_margin():
    plain = misses_of_events(lambda c: math.log(c.with_record / c.without_record), 1.0)
    with pytest.raises(AssertionError):
        assert_rate_at_most(plain, N_RUNS, BETA)


def misses_of_mu(failure_probability: float) -> int:
    rng, mu = np.random.default_rng(1), 0.3
    seen = zip(rng.binomial(1000, ndtr(mu / 2), N_RUNS), rng.binomial(1000, ndtr(-mu / 2), N_RUNS), strict=True)
    return sum(mu_from_events(counts(int(a), int(b)), failure_probability=failure_probability) > mu for a, b in seen)


def test_bounds_on_mu_pass_it_no_more_often_than_they_say():
    assert_rate_at_most(misses_of_mu(BETA), N_RUNS, BETA)
    # Negative control: a bound that may be wrong twice as often is noticed.
    with pytest.raises(AssertionError):
        assert_rate_at_most(misses_of_mu(2 * BETA), N_RUNS, BETA)


def guesses_above(truth: float, limit: float, *, failure_probability: float = BETA) -> int:
    """Of runs whose every answer is right with probability e^ε / (1 + e^ε): how often the bound passes a limit."""
    right = np.random.default_rng(2).binomial(100, 1 / (1 + math.exp(-truth)), N_RUNS)
    known = {"canaries": 200, "guesses": 100, "delta": 0.0, "failure_probability": failure_probability}
    bounds = {int(v): epsilon_from_guesses(**known, right=int(v)) for v in np.unique(right)}
    return sum(bounds[int(v)] > limit for v in right)


def test_bounds_from_one_run_pass_epsilon_no_more_often_than_they_say():
    assert_rate_at_most(guesses_above(1.0, 1.0), N_RUNS, BETA)
    # The negative control, and that the bound says something.
    with pytest.raises(AssertionError):
        assert_rate_at_most(guesses_above(1.3, 1.0), N_RUNS, BETA)


@pytest.mark.parametrize("n_guesses", [10, 60])
def test_scores_that_know_nothing_give_a_bound_no_more_often_than_it_says(n_guesses):
    rng = np.random.default_rng(3)

    def above_zero(knowledge: float) -> int:
        found = 0
        for _ in range(N_RUNS):
            included = rng.random(60) < 0.5
            right = right_guesses(rng.normal(size=60) + knowledge * included, included, n_guesses)
            known = {"canaries": 60, "guesses": n_guesses, "right": right}
            found += epsilon_from_guesses(**known, delta=1e-8, failure_probability=BETA) > 0
        return found

    assert_rate_at_most(above_zero(0.0), N_RUNS, BETA)
    # Negative control: scores that have seen a little.
    with pytest.raises(AssertionError):
        assert_rate_at_most(above_zero(0.5), N_RUNS, BETA)
