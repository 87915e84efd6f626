"""What surveys cost, by routes of others: dp-accounting's composition of each release, and the analytic mechanism."""

import math
from dataclasses import replace

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation, rdp
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.optimize import brentq
from scipy.stats import norm

from fairdp.accounting.calibration import noise_multiplier_for, survey_std
from fairdp.accounting.mechanisms import RDP_ORDERS, PrivacyBudget, SampledGaussian, epsilon_spent, joint_multiplier
from fairdp.accounting.plan import Plan, make_plan
from fairdp.accounting.recipe import Recipe, Survey
from fairdp.accounting.words import survey_in_words
from fairdp.config.training import TrainConfig
from fairdp.methods.fairdp_frontier import LOOKS, fairdp_frontier, needs_direction, surveys_of

DELTA = 1e-5
BUDGET = PrivacyBudget(epsilon=1.0, delta=DELTA)
CONFIG = TrainConfig(sample_rate=1.0, n_steps=60, clip_norm=1.0, learning_rates=(0.3,), optimizer="sgd")
# Noise of three surveys, one of which is made of two releases.
SURVEYS = (9.0, 12.0, 15.0, 15.0)


def mechanism(sample_rate: float, surveys: float = joint_multiplier(*SURVEYS)) -> SampledGaussian:
    sigma = 4.0 if sample_rate < 1 else 40.0
    return SampledGaussian(sample_rate=sample_rate, noise_multiplier=sigma, n_steps=50, surveys_multiplier=surveys)


def analytic_epsilon(sigma: float, delta: float = DELTA) -> float:
    """ε of one Gaussian release: Balle and Wang (2018), Theorem 8, solved for ε."""

    def excess(epsilon: float) -> float:
        above, below = norm.cdf(1 / (2 * sigma) - epsilon * sigma), norm.cdf(-1 / (2 * sigma) - epsilon * sigma)
        return above - math.exp(epsilon) * below - delta

    return brentq(excess, 0.0, 60.0)


def composed_by_others(sample_rate: float, surveys: tuple[float, ...]) -> float:
    """Each release on its own, step by step, by the accountant of dp-accounting."""
    account = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-4)
    steps = mechanism(sample_rate)
    gaussian = dp_accounting.GaussianDpEvent(steps.noise_multiplier)
    account.compose(dp_accounting.PoissonSampledDpEvent(sample_rate, gaussian), steps.n_steps)
    for sigma in surveys:
        account.compose(dp_accounting.GaussianDpEvent(sigma))
    return account.get_epsilon(DELTA)


@pytest.mark.parametrize("sample_rate", [1.0, 0.2])
def test_pld_is_that_of_composing_each_release(sample_rate):
    ours = epsilon_spent(mechanism(sample_rate), DELTA, accountant="pld")
    # Each grid rounds up, and many small ones more than one.
    assert ours == pytest.approx(composed_by_others(sample_rate, SURVEYS), rel=3e-3)


@pytest.mark.parametrize("sample_rate", [1.0, 0.2])
def test_that_check_notices_a_survey_that_was_forgotten(sample_rate):
    ours = epsilon_spent(mechanism(sample_rate), DELTA, accountant="pld")
    for number in range(3):
        fewer = SURVEYS[:number] + SURVEYS[number + 1 :]
        assert ours > composed_by_others(sample_rate, fewer) * (1 + 6e-3)


def test_pld_by_hand_composes_distributions():
    steps = pld.from_gaussian_mechanism(4.0, sampling_prob=0.2, value_discretization_interval=1e-4).self_compose(50)
    for sigma in SURVEYS:
        steps = steps.compose(pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-4))
    ours = epsilon_spent(mechanism(0.2), DELTA, accountant="pld")
    assert ours == pytest.approx(steps.get_epsilon_for_delta(DELTA), rel=2e-3)


@pytest.mark.parametrize("sample_rate", [1.0, 0.2])
def test_moments_add_up(sample_rate):
    """Rényi divergences of the steps by dp-accounting, those of surveys by hand: α / 2 σ² each."""
    steps = rdp.RdpAccountant(RDP_ORDERS, NeighboringRelation.ADD_OR_REMOVE_ONE)
    steps.compose(mechanism(sample_rate, surveys=0.0).event)
    added = [
        own + sum(order / (2 * sigma**2) for sigma in SURVEYS)
        for order, own in zip(RDP_ORDERS, steps._rdp, strict=True)
    ]
    expected, _ = rdp.compute_epsilon(RDP_ORDERS, added, DELTA)
    assert epsilon_spent(mechanism(sample_rate), DELTA, accountant="rdp") == pytest.approx(expected, rel=1e-9)
    without, _ = rdp.compute_epsilon(RDP_ORDERS, steps._rdp, DELTA)
    assert expected > 1.01 * without


def test_at_full_rate_everything_is_one_gaussian_mechanism():
    """50 steps of σ = 40 and the surveys: 1/σ² = 50/1600 + 1/81 + 1/144 + 2/225."""
    sigma = (50 / 1600 + 1 / 81 + 1 / 144 + 2 / 225) ** -0.5
    spent = epsilon_spent(mechanism(1.0), DELTA)
    assert analytic_epsilon(sigma) - 1e-9 <= spent <= analytic_epsilon(sigma) + 1e-3
    # One percent less noise would show.
    assert analytic_epsilon(0.99 * sigma) > spent


def test_the_event_tells_of_surveys():
    events = mechanism(0.2).event.events
    assert events[-1] == dp_accounting.GaussianDpEvent(joint_multiplier(*SURVEYS))
    assert isinstance(mechanism(0.2, surveys=0.0).event, dp_accounting.SelfComposedDpEvent)


@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_noise_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match="surveys_multiplier must be at least 0"):
        mechanism(0.2, surveys=value)


@pytest.mark.parametrize("epsilon", [0.2, 2.0])
@pytest.mark.parametrize(("sample_rate", "n_steps"), [(1.0, 100), (0.1, 80)])
def test_the_noise_for_a_budget_pays_for_surveys_first(epsilon, sample_rate, n_steps):
    budget = PrivacyBudget(epsilon=epsilon, delta=DELTA)
    surveys = survey_std(budget, 0.15)
    settings = {"sample_rate": sample_rate, "n_steps": n_steps}
    sigma = noise_multiplier_for(budget, **settings, surveys_multiplier=surveys)
    spent = epsilon_spent(SampledGaussian(**settings, noise_multiplier=sigma, surveys_multiplier=surveys), DELTA)
    assert 0.999 * epsilon <= spent <= epsilon
    assert sigma > noise_multiplier_for(budget, **settings)


def test_a_share_of_the_privacy_by_hand():
    """All of it is σ_G(1, 1e-5) = 3.7306; a tenth, over 25 looks, √250 of that."""
    assert survey_std(BUDGET, 0.1, 25) == pytest.approx(math.sqrt(250) * 3.73064, rel=1e-5)
    assert analytic_epsilon(survey_std(BUDGET, 0.999)) == pytest.approx(1.0, abs=1e-3)
    # Looks together are one release with the whole share.
    assert joint_multiplier(*[survey_std(BUDGET, 0.1, 25)] * 25) == pytest.approx(survey_std(BUDGET, 0.1), rel=1e-5)
    assert survey_std(PrivacyBudget(epsilon=math.inf, delta=DELTA), 0.1) == 0.0


def plan_of(parity: str, n_groups: int, sample_rate: float = 1.0, **more) -> Plan:
    config = replace(CONFIG, parity=parity, sample_rate=sample_rate, **more)
    sizes = tuple(400.0 * (group + 1) for group in range(n_groups))
    return make_plan(fairdp_frontier(config, sizes), BUDGET, n_steps=config.n_steps)


CASES = [
    ("demographic_parity", 1),
    ("demographic_parity", 2),
    ("equal_opportunity", 2),
    ("demographic_parity", 4),
    ("equalized_odds", 2),
]


@pytest.mark.parametrize(("parity", "n_groups"), CASES)
@pytest.mark.parametrize("sample_rate", [1.0, 0.1])
def test_a_plan_spends_the_budget_and_no_more(parity, n_groups, sample_rate):
    plan = plan_of(parity, n_groups, sample_rate, asks="frequencies", asks_share=0.02)
    spent = [epsilon_spent(mechanism, DELTA) for mechanism in plan.mechanisms]
    assert 0.99 <= max(spent) <= 1.0
    # What is accounted is the noise of each release, so often as it is made.
    each = [std for survey in plan.recipe.surveys for std in [plan.survey_stds[survey.what]] * survey.n_looks]
    for known in plan.mechanisms:
        assert known.surveys_multiplier == pytest.approx(joint_multiplier(*each))
    if sample_rate == 1:
        sigma = plan.noise_std / plan.recipe.sensitivities.max()
        inverse = plan.n_steps / sigma**2 + sum(std**-2 for std in each)
        assert analytic_epsilon(inverse**-0.5) <= 1.0


def test_surveys_get_the_shares_that_they_are_given():
    plan = plan_of("equalized_odds", 3)
    whole = survey_std(BUDGET, 0.9999999) ** -2
    for survey in plan.recipe.surveys:
        together = survey.n_looks * plan.survey_stds[survey.what] ** -2
        assert together / whole == pytest.approx(survey.share, rel=1e-4)


def test_a_plan_names_the_surveys_of_its_recipe():
    plan = plan_of("demographic_parity", 2)
    with pytest.raises(ValueError, match="survey_stds must name"):
        replace(plan, survey_stds={})


@pytest.mark.parametrize(("share", "n_looks"), [(0.0, 1), (1.5, 1), (0.1, 0)])
def test_a_survey_without_a_share_or_a_look_is_refused(share, n_looks):
    with pytest.raises(ValueError, match="must be"):
        Survey(what="cells", share=share, n_looks=n_looks)


def test_what_is_asked_by_notion_and_number_of_groups():
    def asked(n_groups: int, **options) -> dict[str, int]:
        return {survey.what: survey.n_looks for survey in surveys_of(replace(CONFIG, **options), n_groups)}

    plain = {"cells": 1, "ranking": 1, "frontier": 1}
    assert asked(1) == asked(2) == asked(2, parity="equal_opportunity") == plain
    assert asked(3) == asked(2, parity="equalized_odds") == asked(2, positive_rate=0.3) == plain | {"direction": LOOKS}
    assert asked(2, asks="centre", asks_share=0.03) == {"centre": 1} | plain
    assert not needs_direction(CONFIG, 2)


def test_shares_leave_most_for_the_steps():
    for parity, n_groups in CASES:
        asked = surveys_of(replace(CONFIG, parity=parity, asks="centre", asks_share=0.03), n_groups)
        assert 0.04 <= sum(survey.share for survey in asked) <= 0.4


def test_every_survey_has_words():
    for what in ("frequencies", "centre", "cells", "direction", "frontier", "ranking"):
        assert len(survey_in_words(what)) > 10


def test_without_surveys_nothing_changes():
    def without(recipe: Recipe) -> Recipe:
        return replace(recipe, surveys=())

    plan = make_plan(without(fairdp_frontier(CONFIG, (500.0, 500.0))), BUDGET, n_steps=60)
    assert plan.survey_stds == {}
    assert {m.surveys_multiplier for m in plan.mechanisms} == {0.0}
