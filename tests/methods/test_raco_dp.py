"""RaCO-DP against its Lagrangian: the histogram, the multipliers of every pair, and what they pull at whom."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from fairdp.config.training import TrainConfig
from fairdp.methods import METHODS
from fairdp.training.companion import Companion, Memory, Seen

SIZES = (20.0, 60.0)
# All records in every batch; the multipliers rise by 100 / 50 for a gap that is exceeded by one.
CONFIG = TrainConfig(sample_rate=1.0, n_steps=50, clip_norm=1.0, learning_rates=(0.3,), max_gap=0.01)
PARITIES = ("demographic_parity", "equal_opportunity", "equalized_odds")


def constraints(parity: str = "demographic_parity", sizes: tuple[float, ...] = SIZES, **changes: float) -> Companion:
    return METHODS["raco_dp"].recipe(replace(CONFIG, parity=parity, **changes), sizes).companion


def learned(companion: Companion, *histograms: list[float]) -> Memory:
    memory = companion.start()
    for histogram in histograms:
        companion.learn(torch.tensor(histogram), memory)
    return memory


def people() -> Seen:
    """Twenty and sixty records, scored higher in the small group and with more positives in the large one."""
    rng = torch.Generator().manual_seed(0)
    groups = (torch.arange(80) >= 20).long()
    labels = (torch.arange(80) % (5 - 2 * groups) == 0).float()
    return Seen(torch.randn(80, generator=rng) + 1.0 - 1.5 * groups + labels, labels, groups)


def cells_to_compare(parity: str, seen: Seen) -> list[list[torch.Tensor]]:
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
    seen, companion = people(), constraints(parity)
    memory = learned(companion, companion.contributions(seen, {}).sum(0).tolist())
    z = seen.scores.clone().requires_grad_()
    lagrangian = functional.binary_cross_entropy_with_logits(z, seen.labels)
    for cells in cells_to_compare(parity, seen):
        rates = [torch.sigmoid(z)[cell].mean() for cell in cells]
        for i, j in ((0, 1), (1, 0)):
            multiplier = (2.0 * (rates[i] - rates[j] - 0.01)).clamp(min=0).detach()
            lagrangian = lagrangian + multiplier * (rates[i] - rates[j])
    (gradient,) = torch.autograd.grad(len(z) * lagrangian, z)
    torch.testing.assert_close(companion.score_gradient(seen, memory), gradient, rtol=1e-4, atol=1e-5)
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
    seen = Seen(torch.tensor([3.0]).log(), torch.tensor([label]), torch.tensor([1]))
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
    companion = constraints("equal_opportunity", sample_rate=0.5)
    memory = learned(companion, [1.0, 4.0, 16.0, 4.0], [1.0, 2.0, 10.0, 10.0])
    # Rates .8 and .2, then ⅔ and ½.
    multiplier = 2 * (0.6 - 0.01) + 2 * (1 / 6 - 0.01)
    assert memory["pulls"].tolist() == pytest.approx([multiplier / 0.1, -multiplier / 0.5])


@pytest.mark.parametrize("parity", ["equal_opportunity", "equalized_odds"])
def test_a_label_is_at_least_a_twentieth_of_its_group(parity):
    """Counts near zero, or below it: shares of .0125 and .0375 instead."""
    histogram = [0.02, 0.08, 0.0, -0.1] * (1 if parity == "equal_opportunity" else 2)
    companion = constraints(parity)
    memory = learned(companion, histogram)
    n_kinds = companion.beside.size // 4
    expected = [float(memory["multipliers"][0, 1] - memory["multipliers"][1, 0]) * f for f in (80, -80 / 3)]
    assert memory["pulls"].tolist() == pytest.approx(expected * n_kinds)
