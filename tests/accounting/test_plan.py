import math
from dataclasses import replace

import numpy as np
import pytest

from fairdp.accounting.mechanisms import (
    PrivacyBudget,
    SampledGaussian,
    epsilon_spent,
    joint_multiplier,
    noise_multiplier_for,
)
from fairdp.accounting.plan import Recipe, Statistics, make_plan
from fairdp.config import TrainConfig
from fairdp.methods import METHODS

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-5)
ADULT = (10771.0, 21790.0)


def recipe(**changes) -> Recipe:
    values = {
        "group_sizes": (100.0, 400.0),
        "sample_rates": (0.1, 0.05),
        "group_weights": (0.5, 0.5),
        "clip_norm": 2.0,
        "noise_allocation": "average",
    }
    return Recipe(**values | changes)


def test_sensitivities_by_hand():
    # m = (.1 · 100, .05 · 400) = (10, 20); α/m = (.05, .025); C times that.
    assert recipe().expected_batch_sizes.tolist() == [10.0, 20.0]
    assert recipe().record_weights.tolist() == [0.05, 0.025]
    assert recipe().sensitivities.tolist() == [0.1, 0.05]


def test_average_noise_is_the_least_that_serves_every_group():
    plan = make_plan(recipe(), BUDGET, n_steps=50)
    needed = [noise_multiplier_for(BUDGET, sample_rate=q, n_steps=50) for q in (0.1, 0.05)]
    assert plan.noise_std == max(needed[0] * 0.1, needed[1] * 0.05)
    assert plan.noise_multipliers == pytest.approx([plan.noise_std / 0.1, plan.noise_std / 0.05])
    assert [m.sample_rate for m in plan.mechanisms] == [0.1, 0.05]


def test_per_group_noise_is_the_sum_of_independent_draws():
    """Brute force: one draw N(0, σ²C²) per group, times α_k / m_k, added up."""
    plan = make_plan(recipe(noise_allocation="per_group"), BUDGET, n_steps=50)
    sigma = plan.noise_multipliers[0]
    assert plan.noise_multipliers.tolist() == [sigma, sigma]
    assert sigma == noise_multiplier_for(BUDGET, sample_rate=0.1, n_steps=50)
    assert plan.noise_std == pytest.approx(math.hypot(sigma * 2.0 * 0.05, sigma * 2.0 * 0.025), rel=1e-12)
    rng = np.random.default_rng(0)
    draws = (rng.standard_normal((200_000, 2)) * sigma * 2.0) @ np.array([0.05, 0.025])
    assert draws.std() == pytest.approx(plan.noise_std, rel=0.01)


def test_looks_at_several_heads_cost_a_step_each_but_for_the_last():
    """As many more steps, at the noise that all of them need; a single head is there to be looked at."""
    for n_members, extra in ((3, 3), (1, 0)):
        plan = make_plan(recipe(n_members=n_members), BUDGET, n_steps=50, n_looks=4)
        longer = make_plan(recipe(n_members=n_members), BUDGET, n_steps=50 + extra)
        assert (plan.n_steps, plan.look_steps, plan.n_releases) == (50, extra, 50 + extra)
        assert (plan.mechanisms, plan.noise_std) == (longer.mechanisms, longer.noise_std)
    with pytest.raises(ValueError, match=r"^mechanisms must be accounted for n_steps=52\.$"):
        replace(plan, look_steps=2)


def test_the_exposure_of_each_adult_group_in_the_average():
    """σ_k = σ m_k √Σ m_j⁻², method.md 7 (h): 1.116 and 2.257 times σ = 1.98, so ε = .798 and .355 instead of .914."""
    m = 0.01 * np.array(ADULT)
    factors = m * math.sqrt(np.sum(m**-2.0))
    assert factors == pytest.approx([1.116, 2.257], abs=5e-4)
    steps = {"sample_rate": 0.01, "n_steps": 2000}
    spent = [epsilon_spent(SampledGaussian(noise_multiplier=1.98 * f, **steps), 1e-5) for f in factors]
    assert spent == pytest.approx([0.798, 0.355], abs=0.01)


@pytest.mark.parametrize("allocation", ["average", "per_group"])
def test_every_group_stays_within_the_budget_and_the_smallest_is_most_exposed(allocation):
    adult = recipe(group_sizes=ADULT, sample_rates=(0.01, 0.01), clip_norm=1.0, noise_allocation=allocation)
    plan = make_plan(adult, BUDGET, n_steps=200)
    spent = [epsilon_spent(m, BUDGET.delta) for m in plan.mechanisms]
    exposure = plan.noise_std / adult.sensitivities
    assert max(spent) <= BUDGET.epsilon
    assert max(spent) >= 0.998 * BUDGET.epsilon
    assert exposure[0] < exposure[1]
    assert (plan.noise_multipliers <= exposure * (1 + 1e-12)).all()
    if allocation == "average":
        assert spent[1] < 0.6 * spent[0]


def test_that_the_budget_check_notices_less_noise():
    plan = make_plan(recipe(), BUDGET, n_steps=50)
    weaker = replace(plan.mechanisms[0], noise_multiplier=0.99 * plan.mechanisms[0].noise_multiplier)
    assert epsilon_spent(weaker, BUDGET.delta) > BUDGET.epsilon


@pytest.mark.parametrize("allocation", ["average", "per_group", "none"])
def test_infinite_epsilon_means_no_noise(allocation):
    plan = make_plan(recipe(noise_allocation=allocation), replace(BUDGET, epsilon=math.inf), n_steps=5)
    assert plan.noise_std == 0
    assert not plan.noise_multipliers.any()
    assert all(math.isinf(epsilon_spent(m, 1e-5)) for m in plan.mechanisms)


def test_a_method_without_noise_never_looks_private():
    plan = make_plan(recipe(noise_allocation="none", clip_norm=math.inf), BUDGET, n_steps=5)
    assert plan.noise_std == 0
    assert math.isinf(epsilon_spent(plan.mechanisms[0], 1e-5))


def test_noisy_counts_are_paid_from_the_same_budget():
    plan = make_plan(recipe(), BUDGET, n_steps=50, counts_epsilon=0.1)
    assert plan.noise_std > make_plan(recipe(), BUDGET, n_steps=50).noise_std
    spent = max(epsilon_spent(m, BUDGET.delta) for m in plan.mechanisms)
    assert 0.998 <= spent <= 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clip_norm": 0.0}, r"clip_norm must be positive, got 0\.0"),
        ({"clip_norm": math.inf}, "noise_allocation='average' needs a finite clip_norm, got inf"),
        ({"sample_rates": (0.1, 12.0)}, r"sample_rate must be in \(0, 1\], got 12\.0"),
        ({"noise_allocation": "shared"}, "noise_allocation must be one of .*; got 'shared'"),
        ({"weight_bound": -1.0}, r"weight_bound must be positive, got -1\.0"),
        ({"n_members": 0}, "n_members must be a whole number of at least 1, got 0"),
        ({"group_sizes": (0.0, 400.0)}, "group_sizes"),
        ({"group_weights": (-0.5, 0.5)}, "group_weights"),
        ({"group_weights": (0.0, 1.0)}, "group_weights"),
        ({"group_sizes": (100.0, 200.0, 300.0)}, "group_sizes"),
    ],
)
def test_a_bad_recipe_is_refused_in_one_line(changes, message):
    with pytest.raises(ValueError, match=message) as error:
        recipe(**changes)
    assert "\n" not in str(error.value)


def test_a_plan_needs_steps_and_a_budget_beyond_the_counts():
    with pytest.raises(ValueError, match="n_steps must be a whole number of at least 1, got 0"):
        make_plan(recipe(), BUDGET, n_steps=0)
    with pytest.raises(ValueError, match="epsilon"):
        make_plan(recipe(), BUDGET, n_steps=5, counts_epsilon=1.0)


@pytest.mark.parametrize("name", ["dpsgd_f", "raco_dp"])
def test_statistics_get_their_share_of_a_steps_privacy(name):
    """Their part of the inverse variances; with the gradient's noise they make what is accounted."""
    config = TrainConfig(sample_rate=0.05, n_steps=50, clip_norm=1.0, learning_rates=(0.1,))
    made = METHODS[name].recipe(config, (300.0, 100.0))
    plan, needed = make_plan(made, BUDGET, n_steps=50), noise_multiplier_for(BUDGET, sample_rate=0.05, n_steps=50)
    assert plan.statistics_std**-2 == pytest.approx(made.statistics.share * needed**-2)
    together = [joint_multiplier(z, plan.statistics_std) for z in plan.gradient_multipliers]
    assert together == pytest.approx(plan.noise_multipliers.tolist())
    assert plan.statistics_multipliers.tolist() == [plan.statistics_std] * 2
    assert plan.noise_std == pytest.approx(float((plan.gradient_multipliers * made.sensitivities).max()))


def test_a_plan_that_accounts_for_something_else_is_refused():
    plan = make_plan(recipe(), BUDGET, n_steps=50)
    with pytest.raises(ValueError, match="accounted for n_steps=51"):
        replace(plan, n_steps=51)
    with pytest.raises(ValueError, match="accounted at the recipe's sample_rates"):
        replace(plan, recipe=recipe(sample_rates=(0.2, 0.05)))


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2.0])
def test_statistics_without_a_share_of_the_privacy_are_refused(share):
    """With none they would be planned, and released, without noise."""
    with pytest.raises(ValueError, match=r"share must be in \(0, 1\)"):
        Statistics(of="scores", size=2, share=share, what="counts")


def test_with_noisy_sizes_no_groups_epsilon_follows_from_them():
    """They are a release: at its own exposure a group would seem to spend least where its count tells most."""
    spent = set()
    for sizes in ((75.0, 120.0), (75.0, 150.0), (75.0, 180.0)):
        counted = recipe(group_sizes=sizes, sample_rates=(0.1, 0.1))
        plan = make_plan(counted, BUDGET, n_steps=20, counts_std=37.3064, noisy_sizes=True)
        spent.add(tuple(plan.noise_multipliers))
        assert plan.noise_std == pytest.approx(float((plan.noise_multipliers * counted.sensitivities).max()))
        own = make_plan(counted, BUDGET, n_steps=20, counts_std=37.3064).noise_multipliers
        assert own[1] > plan.noise_multipliers[1]
    assert len(spent) == 1
