"""Releases of methods beside the gradient, against their definitions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import AuxiliaryMechanism, BatchView, Memory, Recipe, make_plan
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.model import ScoreModel, logistic
from fairdp.randomness import Generators
from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState

CONFIG = TrainConfig(sample_rate=0.2, n_steps=25, clip_norm=0.5, learning_rates=(0.3,), max_gap=0.01)


def test_counts_of_unequal_groups_are_compared_with_those_of_everybody():
    """A quarter of 40, half of 10 and none of 50, against 15 of 100: not against the mean of the three ratios."""
    auxiliary = METHODS["dpsgd_f"].recipe(CONFIG, (400.0, 100.0, 500.0)).auxiliary
    memory = auxiliary.start()
    assert auxiliary.clip_factors(memory).tolist() == [2.0, 2.0, 2.0]
    auxiliary.learn(torch.tensor([30.0, 10.0, 5.0, 5.0, 50.0, 0.0]), memory)
    assert auxiliary.clip_factors(memory).tolist() == pytest.approx([1 + 0.25 / 0.15, 1 + 0.5 / 0.15, 1.0])


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
    auxiliary = METHODS["dpsgd_f"].recipe(CONFIG, (200.0, 100.0)).auxiliary
    memory = auxiliary.start()
    auxiliary.learn(torch.tensor(noisy), memory)
    assert memory["factors"].tolist() == pytest.approx(expected)


def test_a_gradient_counts_in_its_group_as_shorter_or_as_longer_than_the_base_norm():
    """Which is ½; one of just that length is not longer."""
    auxiliary = METHODS["dpsgd_f"].recipe(CONFIG, (200.0, 100.0, 50.0)).auxiliary
    groups, norms = torch.tensor([0, 1, 1, 2]), torch.tensor([0.6, 0.5, 0.51, 0.9])
    rows = auxiliary.contributions(BatchView(torch.zeros(4), torch.zeros(4), groups, norms=norms), auxiliary.start())
    assert rows.argmax(1).tolist() == [1, 2, 3, 5]
    assert rows.sum(1).tolist() == [1.0] * 4
    assert rows.shape[1] == auxiliary.auxiliary_release.size


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


# A quarter and three quarters of the records, so that no group can stand for the other.
SIZES, SHARES = (10.0, 30.0), (0.25, 0.75)
WEIGHT, ASCENT, SCALE = 1.7, 0.05, 0.1
FERMI = TrainConfig(
    sample_rate=1.0,
    n_steps=3,
    clip_norm=100.0,
    learning_rates=(0.3,),
    optimizer="sgd",
    fairness_weight=WEIGHT,
)


def adversary() -> AuxiliaryMechanism:
    return METHODS["dp_fermi"].recipe(FERMI, SIZES).auxiliary


def people() -> BatchView:
    """Forty records whose decisions tell of the group."""
    rng = torch.Generator().manual_seed(0)
    groups = (torch.arange(40) >= 10).long()
    return BatchView(torch.randn(40, generator=rng) + 1.5 - 2.0 * groups, (torch.arange(40) % 2).float(), groups)


def some_W() -> Tensor:
    return torch.tensor([[0.3, -0.8], [1.1, 0.4]])


def psi(scores: Tensor, groups: Tensor, W: Tensor) -> Tensor:
    """ψ of every record, term by term."""
    rows = []
    for z, s in zip(scores, groups.tolist(), strict=True):
        p = torch.sigmoid(z)
        of_no, of_yes = (-W[j].square().sum() + 2 * W[j, s] / SHARES[s] ** 0.5 for j in (0, 1))
        rows.append((1 - p) * of_no + p * of_yes - 1)
    return torch.stack(rows)


@pytest.mark.parametrize("weight", [0.0, WEIGHT])
def test_the_score_gradient_is_that_of_the_loss_and_the_weighted_penalty(weight):
    seen, W = people(), some_W()
    z = seen.scores.clone().requires_grad_()
    loss = functional.binary_cross_entropy_with_logits(z, seen.labels, reduction="sum")
    (expected,) = torch.autograd.grad(loss + weight * psi(z, seen.groups, W).sum(), z)
    auxiliary = METHODS["dp_fermi"].recipe(replace(FERMI, fairness_weight=weight), SIZES).auxiliary
    torch.testing.assert_close(auxiliary.score_gradient(seen, {"W": W}), expected)


def test_a_record_contributes_a_tenth_of_its_gradient_by_W():
    seen, W = people(), some_W().requires_grad_()
    rows = [torch.autograd.grad(own, W, retain_graph=True)[0] for own in psi(seen.scores, seen.groups, W)]
    found = adversary().contributions(seen, {"W": W.detach()})
    torch.testing.assert_close(found, SCALE * torch.stack(rows).flatten(1))


def test_the_adversary_ascends_by_the_gradient():
    seen, W = people(), some_W().requires_grad_()
    before = psi(seen.scores, seen.groups, W).mean()
    (gradient,) = torch.autograd.grad(before, W)
    memory = {"W": W.detach()}
    adversary().learn(adversary().contributions(seen, memory).mean(0), memory)
    torch.testing.assert_close(memory["W"], W.detach() + ASCENT * gradient)
    assert psi(seen.scores, seen.groups, memory["W"]).mean() > before


def test_the_model_descends_what_the_adversary_ascends():
    seen, W = people(), some_W()
    pull = adversary().score_gradient(seen, {"W": W}) - (torch.sigmoid(seen.scores) - seen.labels)
    moved = psi(seen.scores - 0.1 * pull, seen.groups, W)
    assert moved.mean() < psi(seen.scores, seen.groups, W).mean() - 0.01


def test_at_its_best_the_adversary_knows_the_information_in_the_decisions():
    """The largest ψ is Σ P(j, s)² / (P(j) P(s)) − 1, here with counts (2, 8) of group a and (24, 6) of b."""
    scores = torch.full((40,), -30.0)
    scores[2:10], scores[34:] = 30.0, 30.0
    seen, memory, auxiliary = replace_scores(people(), scores), adversary().start(), adversary()
    assert not memory["W"].any()
    for _ in range(3000):
        auxiliary.learn(auxiliary.contributions(seen, memory).mean(0), memory)
    table = np.array([[2, 24], [8, 6]]) / 40
    information = (table**2 / np.outer(table.sum(1), table.sum(0))).sum() - 1
    assert float(psi(scores, seen.groups, memory["W"]).mean()) == pytest.approx(information, abs=1e-4)


def replace_scores(seen: BatchView, scores: Tensor) -> BatchView:
    return BatchView(scores, seen.labels, seen.groups)


def test_W_is_scaled_back_to_norm_five_and_left_alone_below():
    memory = {"W": torch.zeros(2, 2)}
    adversary().learn(SCALE / ASCENT * torch.tensor([30.0, 0.0, 0.0, -40.0]), memory)
    torch.testing.assert_close(memory["W"], torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
    adversary().learn(SCALE / ASCENT * torch.tensor([-3.0, 0.0, 4.5, 4.0]), memory)
    torch.testing.assert_close(memory["W"], torch.tensor([[0.0, 0.0], [4.5, 0.0]]), atol=1e-5, rtol=0)


def test_steps_without_noise_are_those_of_the_min_max_problem():
    """Everybody in every batch, nobody clipped: descent of loss + weight ψ on (w, b), ascent of ψ on W, at once."""
    seen, rng = people(), np.random.default_rng(0)
    X = rng.normal(size=(40, 2)).astype(np.float32)
    data = GroupedData(X, seen.labels.long().numpy(), seen.groups.numpy(), ("a", "b"))
    plan = make_plan(METHODS["dp_fermi"].recipe(FERMI, SIZES), PrivacyBudget(epsilon=np.inf, delta=1e-5), n_steps=3)
    state = TrainingState(ScoreModel(logistic(), (2,)), FlatOptimizer("sgd"), Generators.of(1).steps)
    head, W = state.model.params.clone().requires_grad_(), torch.zeros(2, 2, requires_grad=True)
    trainer = Trainer(state, data, plan, FERMI)
    for _ in range(3):
        trainer.step()
        scores = torch.from_numpy(X) @ head[:-1] + head[-1]
        penalty = psi(scores, seen.groups, W).mean()
        loss = functional.binary_cross_entropy_with_logits(scores, seen.labels) + WEIGHT * penalty
        (by_head,) = torch.autograd.grad(loss, head, retain_graph=True)
        (by_W,) = torch.autograd.grad(penalty, W)
        head = (head - 0.3 * by_head).detach().requires_grad_()
        W = (W + ASCENT * by_W).detach().requires_grad_()
    torch.testing.assert_close(state.model.params, head.detach())
    torch.testing.assert_close(state.memory["W"], W.detach())


RACO_SIZES = (20.0, 60.0)
# All records in every batch; the multipliers rise by 100 / 50 for a gap that is exceeded by one.
RACO = TrainConfig(sample_rate=1.0, n_steps=50, clip_norm=1.0, learning_rates=(0.3,), max_gap=0.01)
PARITIES = ("demographic_parity", "equal_opportunity", "equalized_odds")


def constraints(
    parity: str = "demographic_parity", sizes: tuple[float, ...] = RACO_SIZES, **changes: float
) -> AuxiliaryMechanism:
    return METHODS["raco_dp"].recipe(replace(RACO, parity=parity, **changes), sizes).auxiliary


def learned(auxiliary: AuxiliaryMechanism, *histograms: list[float]) -> Memory:
    memory = auxiliary.start()
    for histogram in histograms:
        auxiliary.learn(torch.tensor(histogram), memory)
    return memory


def eighty_people() -> BatchView:
    """Twenty and sixty records, scored higher in the small group and with more positives in the large one."""
    rng = torch.Generator().manual_seed(0)
    groups = (torch.arange(80) >= 20).long()
    labels = (torch.arange(80) % (5 - 2 * groups) == 0).float()
    return BatchView(torch.randn(80, generator=rng) + 1.0 - 1.5 * groups + labels, labels, groups)


def cells_to_compare(parity: str, seen: BatchView) -> list[list[torch.Tensor]]:
    """Who is in each cell, for every kind of rate that the parity is about."""
    of_label = {label: seen.labels == label for label in (0, 1)}
    kinds = {
        "demographic_parity": [torch.ones(len(seen.labels), dtype=torch.bool)],
        "equal_opportunity": [of_label[1]],
        "equalized_odds": [of_label[0], of_label[1]],
    }[parity]
    return [[kind & (seen.groups == group) for group in (0, 1)] for kind in kinds]


@pytest.mark.parametrize("parity", PARITIES)
def test_a_step_descends_the_lagrangian_of_its_multipliers(parity):
    """λ_ij = η (R_i − R_j − g)₊, and n ∂/∂z of L + Σ λ_ij (R_i − R_j), with R the mean chance of a cell."""
    seen, auxiliary = eighty_people(), constraints(parity)
    memory = learned(auxiliary, auxiliary.contributions(seen, {}).sum(0).tolist())
    z = seen.scores.clone().requires_grad_()
    lagrangian = functional.binary_cross_entropy_with_logits(z, seen.labels)
    for cells in cells_to_compare(parity, seen):
        rates = [torch.sigmoid(z)[cell].mean() for cell in cells]
        for i, j in ((0, 1), (1, 0)):
            multiplier = (2.0 * (rates[i] - rates[j] - 0.01)).clamp(min=0).detach()
            lagrangian = lagrangian + multiplier * (rates[i] - rates[j])
    (gradient,) = torch.autograd.grad(len(z) * lagrangian, z)
    torch.testing.assert_close(auxiliary.score_gradient(seen, memory), gradient, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(gradient, torch.sigmoid(seen.scores) - seen.labels, atol=1e-2)


@pytest.mark.parametrize(
    ("parity", "label", "expected"),
    [
        ("demographic_parity", 0.0, [0, 0, 0.25, 0.75]),
        ("equal_opportunity", 1.0, [0, 0, 0.25, 0.75]),
        ("equal_opportunity", 0.0, [0, 0, 0, 0]),
        # Groups of label 0 first, then those of label 1.
        ("equalized_odds", 0.0, [0, 0, 0.25, 0.75, 0, 0, 0, 0]),
        ("equalized_odds", 1.0, [0, 0, 0, 0, 0, 0, 0.25, 0.75]),
    ],
)
def test_a_record_adds_both_of_its_chances_to_its_cell(parity, label, expected):
    """Group b, z = ln 3, hence p = ¾."""
    seen = BatchView(torch.tensor([3.0]).log(), torch.tensor([label]), torch.tensor([1]))
    assert constraints(parity).contributions(seen, {})[0].tolist() == pytest.approx(expected)


def test_multipliers_and_pulls_by_hand():
    """Rates .4 and .2, then .2 and .3; η = 2, g = .01, shares ¼ and ¾."""
    first = learned(constraints(), [6.0, 4.0, 24.0, 6.0])
    assert first["multipliers"].tolist() == [pytest.approx([0, 0.38]), [0, 0]]
    assert first["pulls"].tolist() == pytest.approx([0.38 / 0.25, -0.38 / 0.75])
    then = learned(constraints(), [6.0, 4.0, 24.0, 6.0], [8.0, 2.0, 7.0, 3.0])
    assert then["multipliers"].tolist() == [pytest.approx([0, 0.16]), pytest.approx([0.18, 0])]
    assert then["pulls"].tolist() == pytest.approx([-0.02 / 0.25, 0.02 / 0.75], rel=1e-4)


def test_three_groups_by_hand():
    """Rates .5, .3 and .1 in groups of one, two and five eighths."""
    memory = learned(constraints(sizes=(10.0, 20.0, 50.0), max_gap=0.1), [5.0, 5.0, 7.0, 3.0, 9.0, 1.0])
    assert memory["multipliers"][0].tolist() == pytest.approx([0, 0.2, 0.6])
    assert memory["multipliers"][1].tolist() == pytest.approx([0, 0, 0.2])
    assert memory["pulls"].tolist() == pytest.approx([0.8 * 8, (0.2 - 0.2) * 4, -0.8 * 8 / 5], abs=1e-6)


def test_rates_of_different_labels_need_not_agree():
    """Groups a and b agree for either label, and the labels do not."""
    memory = learned(constraints("equalized_odds"), [9.0, 1.0, 27.0, 3.0, 1.0, 9.0, 3.0, 27.0])
    assert not memory["multipliers"].any()
    assert not memory["pulls"].any()


def test_a_multiplier_ends_at_ten():
    memory = learned(constraints(), *[[0.0, 10.0, 30.0, 0.0]] * 9)
    assert memory["multipliers"].tolist() == [[0, 10], [0, 0]]
    assert memory["pulls"].tolist() == pytest.approx([40.0, -10 / 0.75])


@pytest.mark.parametrize(
    ("histogram", "gap"),
    # Nobody counted: a rate of ½. Noise below zero or above the count: rates of 0 and 1.
    [([0.0, 0.0, 30.0, 0.0], 0.5), ([-1.0, 3.0, 30.0, 0.0], 1.0), ([5.0, 5.0, 30.0, -10.0], 0.5)],
)
def test_rates_of_odd_counts_by_hand(histogram, gap):
    memory = learned(constraints(), histogram)
    assert float(memory["multipliers"][0, 1]) == pytest.approx(2 * (gap - 0.01))


def test_a_smallest_ratio_allows_less_where_rates_are_small():
    """Of rates .4 and .2, a ratio of at least .8 allows a gap of .08."""
    memory = learned(constraints(max_gap=1.0, min_ratio=0.8), [6.0, 4.0, 24.0, 6.0])
    assert float(memory["multipliers"][0, 1]) == pytest.approx(2 * 0.12)


def test_shares_of_labels_are_those_of_all_histograms_so_far():
    """Batches of 40: positives of the groups are 5 and 20, then 3 and 20, hence 8 and 40 of 80."""
    auxiliary = constraints("equal_opportunity", sample_rate=0.5)
    memory = learned(auxiliary, [1.0, 4.0, 16.0, 4.0], [1.0, 2.0, 10.0, 10.0])
    # Rates .8 and .2, then ⅔ and ½.
    multiplier = 2 * (0.6 - 0.01) + 2 * (1 / 6 - 0.01)
    assert memory["pulls"].tolist() == pytest.approx([multiplier / 0.1, -multiplier / 0.5])


@pytest.mark.parametrize("parity", ["equal_opportunity", "equalized_odds"])
def test_a_label_is_at_least_a_twentieth_of_its_group(parity):
    """Counts near zero, or below it: shares of .0125 and .0375 instead."""
    histogram = [0.02, 0.08, 0.0, -0.1] * (1 if parity == "equal_opportunity" else 2)
    auxiliary = constraints(parity)
    memory = learned(auxiliary, histogram)
    n_kinds = auxiliary.auxiliary_release.size // 4
    expected = [float(memory["multipliers"][0, 1] - memory["multipliers"][1, 0]) * f for f in (80, -80 / 3)]
    assert memory["pulls"].tolist() == pytest.approx(expected * n_kinds)
