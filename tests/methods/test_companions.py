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


def test_counts_of_unequal_groups_are_compared_with_those_of_everybody():
    """A quarter of 40, half of 10 and none of 50, against 15 of 100: not against the mean of the three ratios."""
    companion = METHODS["dpsgd_f"].recipe(CONFIG, (400.0, 100.0, 500.0)).companion
    memory = companion.start()
    assert companion.clip_factors(memory).tolist() == [2.0, 2.0, 2.0]
    companion.learn(torch.tensor([30.0, 10.0, 5.0, 5.0, 50.0, 0.0]), memory)
    assert companion.clip_factors(memory).tolist() == pytest.approx([1 + 0.25 / 0.15, 1 + 0.5 / 0.15, 1.0])


@pytest.mark.parametrize(
    ("noisy", "expected"),
    [
        # Counts below zero are zero, each by itself: nobody of a is longer, everybody of b is; 9 of 27 in all.
        ([18.0, -4.0, -4.0, 9.0], [1.0, 4.0]),
        # None is longer, or none is there at all: every group is average.
        ([18.0, 0.0, 9.0, -1.0], [2.0, 2.0]),
        ([-1.0, -1.0, -2.0, 0.0], [2.0, 2.0]),
    ],
)
def test_counts_that_noise_has_moved_below_zero(noisy, expected):
    companion = METHODS["dpsgd_f"].recipe(CONFIG, (200.0, 100.0)).companion
    memory = companion.start()
    companion.learn(torch.tensor(noisy), memory)
    assert memory["factors"].tolist() == pytest.approx(expected)


def test_a_gradient_counts_in_its_group_as_shorter_or_as_longer_than_the_base_norm():
    """Which is ½; one of just that length is not longer."""
    companion = METHODS["dpsgd_f"].recipe(CONFIG, (200.0, 100.0, 50.0)).companion
    groups, norms = torch.tensor([0, 1, 1, 2]), torch.tensor([0.6, 0.5, 0.51, 0.9])
    rows = companion.contributions(Seen(torch.zeros(4), torch.zeros(4), groups, norms=norms), companion.start())
    assert rows.argmax(1).tolist() == [1, 2, 3, 5]
    assert rows.sum(1).tolist() == [1.0] * 4
    assert rows.shape[1] == companion.beside.size


@pytest.mark.parametrize("cap", [1.0, 0.25])
def test_importance_sampling_balances_groups_up_to_the_cap(cap):
    recipe: Recipe = METHODS["dp_is_sgd"].recipe(replace(CONFIG, max_sample_rate=cap), (100.0, 300.0))
    assert recipe.sample_rates == pytest.approx((min(cap, 0.4), 0.4 / 3))
    assert recipe.record_weights == pytest.approx([1 / 80, 1 / 80])


def test_importance_sampling_of_three_groups_by_hand():
    """A batch of 40 from groups of 20, 80 and 100: 40/3 of each, but of the first no more than 12."""
    recipe: Recipe = METHODS["dp_is_sgd"].recipe(replace(CONFIG, max_sample_rate=0.6), (20.0, 80.0, 100.0))
    assert recipe.sample_rates == pytest.approx((0.6, 1 / 6, 0.4 / 3))
    assert recipe.expected_batch_sizes == pytest.approx([12, 40 / 3, 40 / 3])
    assert recipe.group_weights == pytest.approx((0.3, 1 / 3, 1 / 3))
    assert recipe.record_weights == pytest.approx([1 / 40] * 3)
    assert (recipe.clip_norm, recipe.noise_allocation) == (0.5, "average")


def test_a_cap_that_leaves_one_record_of_the_smallest_group_is_taken_and_a_lower_one_is_not():
    def make(cap: float) -> Recipe:
        return METHODS["dp_is_sgd"].recipe(replace(CONFIG, max_sample_rate=cap), (20.0, 300.0))

    assert make(0.05).expected_batch_sizes[0] == 1.0
    with pytest.raises(ValueError, match=r"max_sample_rate.* use 0\.05 or more"):
        make(0.049)


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
