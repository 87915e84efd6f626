"""What methods make of their released numbers, and whom they sample, by hand."""

from dataclasses import replace

import pytest
import torch

from fairdp.accounting.recipe import Recipe
from fairdp.config.training import TrainConfig
from fairdp.methods import METHODS
from fairdp.training.companion import Seen

CONFIG = TrainConfig(sample_rate=0.2, n_steps=25, clip_norm=0.5, learning_rates=(0.3,), max_gap=0.01)


def test_counts_set_the_clip_norms():
    """C₀ (1 + (m_k / b_k) / (Σ m / Σ b)) by hand: a third of group a, all of b and none of c are longer."""
    companion = METHODS["dpsgd_f"].recipe(CONFIG, (30.0, 30.0, 30.0)).companion
    memory = companion.start()
    companion.learn(torch.tensor([20.0, 10.0, 0.0, 30.0, 30.0, 0.0]), memory)
    assert memory["factors"].tolist() == pytest.approx([1.75, 3.25, 1.0])
    companion.learn(torch.tensor([-1.0, -2.0, 0.0, 30.0, 30.0, 0.0]), memory)
    assert memory["factors"][0] == 2.0


@pytest.mark.parametrize("cap", [1.0, 0.25])
def test_importance_sampling_balances_groups_up_to_the_cap(cap):
    recipe: Recipe = METHODS["dp_is_sgd"].recipe(replace(CONFIG, max_sample_rate=cap), (100.0, 300.0))
    assert recipe.sample_rates == pytest.approx((min(cap, 0.4), 0.4 / 3))
    assert recipe.record_weights == pytest.approx([1 / 80, 1 / 80])


def test_the_adversary_finds_what_decisions_tell_of_the_group():
    """At the optimum w_j[s] = P(s | j) / √P(s); ψ is then the exponential Rényi information plus one minus one."""
    companion = METHODS["dp_fermi"].recipe(CONFIG, (50.0, 50.0)).companion
    groups = torch.tensor([0, 0, 1, 1])
    seen = Seen(torch.tensor([20.0, 20.0, -20.0, -20.0]), torch.zeros(4), groups)
    memory = companion.start()
    for _ in range(2000):
        companion.learn(companion.contributions(seen, memory).mean(0), memory)
    assert torch.allclose(memory["W"], torch.tensor([[0.0, 2**0.5], [2**0.5, 0.0]]), atol=1e-2)


def test_multipliers_rise_where_the_gap_is_too_large_and_pull_the_groups_together():
    companion = METHODS["raco_dp"].recipe(CONFIG, (50.0, 50.0)).companion
    memory = companion.start()
    companion.learn(torch.tensor([5.0, 5.0, 9.0, 1.0]), memory)
    assert memory["multipliers"][0, 1] == pytest.approx(companion.dual_rate * (0.5 - 0.1 - 0.01))
    assert memory["multipliers"][1, 0] == 0.0
    assert memory["pulls"][0] > 0 > memory["pulls"][1]
