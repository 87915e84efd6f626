import math
from dataclasses import replace

import numpy as np
import pytest

from fairdp.accounting.mechanisms import PrivacyBudget, epsilon_spent
from fairdp.accounting.plan import make_plan
from fairdp.config.training import TrainConfig
from fairdp.methods import METHODS

CONFIG = TrainConfig(sample_rate=0.05, n_steps=40, clip_norm=2.0, learning_rates=(0.1,), weight_bound=0.5, n_members=4)
SIZES = (100.0, 300.0)
BUDGET = PrivacyBudget(epsilon=1.5, delta=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_a_private_method_has_finite_sensitivity_and_stays_within_the_budget(name):
    plan = make_plan(METHODS[name].recipe(CONFIG, SIZES), BUDGET, n_steps=40)
    spent = max(epsilon_spent(mechanism, BUDGET.delta) for mechanism in plan.mechanisms)
    if METHODS[name].private:
        assert np.isfinite(plan.recipe.sensitivities).all()
        assert (plan.noise_std >= plan.noise_multipliers * plan.recipe.sensitivities * (1 - 1e-9)).all()
        assert 0.99 * BUDGET.epsilon <= spent <= BUDGET.epsilon
    else:
        assert plan.noise_std == 0
        assert spent == math.inf


def test_dp_sgd_weights_every_record_alike():
    recipe = METHODS["dpsgd"].recipe(CONFIG, SIZES)
    # S / (q n) with q n = 20, whatever the group.
    assert recipe.record_weights == pytest.approx([1 / 20, 1 / 20])
    assert recipe.sensitivities == pytest.approx([0.1, 0.1])
    assert (recipe.weight_bound, recipe.n_members) == (math.inf, 1)


def test_fairdp_weights_every_group_alike():
    recipe = METHODS["fairdp"].recipe(CONFIG, SIZES)
    # ½ / m_k with m = (5, 15).
    assert recipe.record_weights == pytest.approx([1 / 10, 1 / 30])
    assert (recipe.weight_bound, recipe.n_members, recipe.noise_allocation) == (0.5, 4, "per_group")
    average = METHODS["fairdp"].recipe(replace(CONFIG, noise_allocation="average"), SIZES)
    assert average.noise_allocation == "average"


def test_clean_neither_clips_nor_adds_noise():
    recipe = METHODS["clean"].recipe(CONFIG, SIZES)
    assert (recipe.clip_norm, recipe.noise_allocation) == (math.inf, "none")
    # Otherwise it is DP-SGD, on the same batches.
    assert recipe == replace(METHODS["dpsgd"].recipe(CONFIG, SIZES), clip_norm=math.inf, noise_allocation="none")
    assert recipe.sample_rates == (0.05, 0.05)


def test_one_draw_on_the_average_is_never_more_noise_than_one_per_group():
    plans = [
        make_plan(METHODS["fairdp"].recipe(replace(CONFIG, noise_allocation=kind), SIZES), BUDGET, n_steps=40)
        for kind in ("average", "per_group")
    ]
    assert plans[0].noise_std < plans[1].noise_std


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_promises(name):
    assert METHODS[name].guarantee
    assert METHODS[name].paper
    assert METHODS[name].private == ("not private" not in METHODS[name].guarantee)
