"""What reading a table costs: against sums by hand, dp-accounting's own composition, and what verify recomputes."""

import math
from dataclasses import replace

import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, SelfComposedDpEvent, rdp
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import norm

from fairdp.accounting.calibration import noise_multiplier_for, reading_for
from fairdp.accounting.mechanisms import (
    LaplaceRelease,
    PrivacyBudget,
    SampledGaussian,
    epsilon_spent,
    reading_epsilon,
)
from fairdp.accounting.reading import Reading, threshold_for, upper_tail
from fairdp.accounting.selection import Selection, TrialSpend, divergence
from fairdp.config import reading as noise

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-5)
READING = reading_for(BUDGET, 15)
STEPS = SampledGaussian(sample_rate=0.02, noise_multiplier=2.0, n_steps=300)


def test_the_sensitivity_is_that_of_three_counts_in_every_column():
    assert READING.std / READING.multiplier == pytest.approx(math.sqrt(15 * (1 + 1 / 4 + 1 / 16)))


@pytest.mark.parametrize(("std", "least"), [(5.0, 9), (5.0, 27), (52.3, 276), (1.5, 4)])
def test_the_tail_of_discrete_noise_is_that_of_its_sum(std, least):
    terms = [math.exp(-(k**2) / (2 * std**2)) for k in range(-4000, 4001)]
    exact = sum(terms[4000 + least :]) / sum(terms)
    assert exact <= upper_tail(std, least) <= exact * (1 + 1e-6)


def test_the_threshold_keeps_its_share_of_delta_and_no_lower_one_does():
    assert READING.delta <= 0.1 * BUDGET.delta
    assert replace(READING, threshold=READING.threshold - 1).delta > 0.1 * BUDGET.delta
    # By hand: 15 values that ten people have, of which one is the record, against noise of deviation σ.
    by_hand = 15 * norm.sf((READING.threshold - noise.FEWEST - 0.5) / READING.std)
    assert READING.delta == pytest.approx(by_hand, rel=0.01)


def test_a_threshold_is_found_for_any_noise():
    for std in (0.3, 2.0, 500.0):
        found = threshold_for(std, 40, 1e-6)
        assert 40 * upper_tail(std, found - noise.FEWEST) <= 1e-6 < 40 * upper_tail(std, found - 1 - noise.FEWEST)


def test_pld_is_that_of_every_count_composed_by_hand():
    width = 1e-4
    steps = pld.from_gaussian_mechanism(2.0, sampling_prob=0.02, value_discretization_interval=width)
    loss = steps.self_compose(300)
    for factor in (1, 2, 4):
        for _ in range(15):
            one = pld.from_discrete_gaussian_mechanism(factor * READING.std, value_discretization_interval=width)
            loss = loss.compose(one)
    by_hand = loss.get_epsilon_for_delta(1e-5 - READING.delta)
    found = epsilon_spent(replace(STEPS, reading=READING), 1e-5, accountant="pld")
    # By hand each count is rounded up on the grid, 45 times.
    assert 0.99 * by_hand < found <= by_hand * (1 + 1e-6)
    # Nearly one Gaussian of the whole sensitivity.
    near = steps.self_compose(300).compose(
        pld.from_gaussian_mechanism(READING.multiplier, value_discretization_interval=width)
    )
    assert found == pytest.approx(near.get_epsilon_for_delta(1e-5 - READING.delta), rel=1e-3)
    assert found > epsilon_spent(STEPS, 1e-5, accountant="pld") * 1.01


def test_moments_are_those_of_one_gaussian_more_and_delta_is_paid():
    account = rdp.RdpAccountant(None, NeighboringRelation.ADD_OR_REMOVE_ONE)
    account.compose(SelfComposedDpEvent(PoissonSampledDpEvent(0.02, GaussianDpEvent(2.0)), 300))
    account.compose(GaussianDpEvent(READING.multiplier))
    by_hand = account.get_epsilon(1e-5 - READING.delta)
    assert epsilon_spent(replace(STEPS, reading=READING), 1e-5, accountant="rdp") == pytest.approx(by_hand, rel=0.01)


def test_a_delta_that_the_threshold_uses_up_leaves_no_epsilon():
    with_reading = replace(STEPS, reading=READING)
    for accountant in ("pld", "rdp"):
        assert math.isinf(epsilon_spent(with_reading, READING.delta * 0.99, accountant=accountant))
    assert math.isinf(reading_epsilon(READING, READING.delta * 0.99))


def test_noise_that_is_found_beside_a_reading_spends_the_budget():
    found = noise_multiplier_for(BUDGET, sample_rate=0.02, n_steps=300, reading=READING)
    spent = epsilon_spent(replace(STEPS, noise_multiplier=found, reading=READING), BUDGET.delta)
    assert 0.999 <= spent <= 1.0
    alone = noise_multiplier_for(BUDGET, sample_rate=0.02, n_steps=300)
    # A tenth of the privacy: about a twentieth more noise.
    assert 1.03 < found / alone < 1.08


def test_a_pure_release_after_a_reading_is_the_sum():
    alone = reading_epsilon(READING, 1e-5)
    assert epsilon_spent(LaplaceRelease(noise_multiplier=2.0, reading=READING), 1e-5) == pytest.approx(0.5 + alone)
    gaussian = pld.from_gaussian_mechanism(READING.multiplier, value_discretization_interval=1e-4)
    assert alone == pytest.approx(gaussian.get_epsilon_for_delta(1e-5 - READING.delta), rel=1e-3)


def test_a_search_reads_once_for_all_trials():
    spend = TrialSpend(mechanism=STEPS, held_out_epsilon=0.9)
    plain = Selection(expected_trials=4.0, by_group={"f": (spend,)})
    read = replace(plain, reading=READING)
    assert plain.epsilon("f", 1e-5) < read.epsilon("f", 1e-5)
    assert read.epsilon("f", 1e-5) >= 2 * 0.9 + reading_epsilon(READING, 1e-5)
    held_out = Selection(
        expected_trials=4.0, by_group={"f": (TrialSpend(mechanism=STEPS, held_out_epsilon=5.0),)}, reading=READING
    )
    assert held_out.epsilon("f", 1e-5) == pytest.approx(10 + reading_epsilon(READING, 1e-5))
    # Within a trial it would be paid as often as there are trials; a threshold has no divergence.
    assert math.isinf(divergence(replace(STEPS, reading=READING), 8))


def test_an_infinite_budget_reads_nothing_with_noise():
    assert reading_for(PrivacyBudget(epsilon=math.inf, delta=1e-5), 3) is None


def test_fewer_columns_are_read_with_less_noise():
    assert reading_for(BUDGET, 3).std < READING.std
    assert reading_for(BUDGET, 3).multiplier == pytest.approx(READING.multiplier, rel=1e-4)


def test_a_reading_without_noise_is_refused():
    with pytest.raises(ValueError, match="std"):
        Reading(n_columns=3, std=0.0, threshold=20)
