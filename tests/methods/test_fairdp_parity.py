"""The earlier method: what it makes of counted decisions, and that it holds a gap without refusing everybody."""

from dataclasses import replace

import pytest
import torch

from fairdp import FairDPClassifier, load_dataset
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.metrics.rates import decision_counts, fairness_metrics, group_rates
from fairdp.training.companion import Seen

CONFIG = TrainConfig(sample_rate=0.5, n_steps=10, clip_norm=1.0, learning_rates=(1.0,), max_gap=0.1)


def control_of(parity: str = "demographic_parity", sizes=(100.0, 300.0), **changes):
    return METHODS["fairdp_parity"].recipe(replace(CONFIG, parity=parity, **changes), sizes).companion


def counts(rates, sizes=(50.0, 150.0)) -> torch.Tensor:
    """Negative and positive decisions of cells of these sizes with these rates."""
    return torch.tensor([[size * (1 - rate), size * rate] for rate, size in zip(rates, sizes, strict=True)]).flatten()


@pytest.mark.parametrize(
    ("parity", "expected"),
    [
        ("demographic_parity", [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
        # Cells of the positive label; whoever has the negative one is in the last.
        ("equal_opportunity", [[0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1]]),
        (
            "equalized_odds",
            [[0, 0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 1, 0, 0, 0, 0]],
        ),
    ],
)
def test_a_record_is_in_one_count(parity, expected):
    control = control_of(parity)
    seen = Seen(torch.tensor([1.0, -1.0, 0.0]), torch.tensor([1.0, 1.0, 0.0]), torch.tensor([0, 1, 1]))
    rows = control.contributions(seen, control.start())
    assert rows.tolist() == expected
    assert rows.shape[1] == control.beside.size


def test_groups_are_pulled_together_by_as_much_in_all():
    control = control_of()
    memory = control.start()
    control.learn(counts((0.3, 0.6)), memory)
    # Steps of 200 over the length of the run, for a gap of .2 too much.
    assert memory["multipliers"][1, 0] == pytest.approx(20 * 0.2)
    assert memory["pulls"][0] < 0 < memory["pulls"][1]
    assert float((memory["pulls"] * torch.tensor([0.25, 0.75])).sum()) == pytest.approx(0.0, abs=1e-6)


def test_the_steps_fall_to_zero():
    control = control_of()
    memory = control.start()
    raised = []
    for _ in range(10):
        before = float(memory["multipliers"][1, 0])
        control.learn(counts((0.30, 0.41)), memory)
        raised.append(float(memory["multipliers"][1, 0]) - before)
    assert raised == pytest.approx([20 * (1 - step / 10) * 0.01 for step in range(10)], abs=1e-4)


def test_rates_within_the_gap_pull_nobody():
    control = control_of()
    memory = control.start()
    control.learn(counts((0.30, 0.35)), memory)
    assert not memory["pulls"].any()


def test_equal_opportunity_pulls_on_people_with_the_positive_label_alone():
    control = control_of("equal_opportunity")
    memory = control.start()
    control.learn(counts((0.1, 0.9, 0.5), (25.0, 75.0, 100.0)), memory)
    seen = Seen(torch.zeros(3), torch.tensor([1.0, 1.0, 0.0]), torch.tensor([0, 1, 1]))
    pulls = control.constraints.pulls_on(seen, memory)
    assert pulls[0] < 0 < pulls[1]
    assert not pulls[2]


def test_a_ratio_allows_a_gap_that_grows_with_the_rates():
    """Rates of .30 and .35 are within four fifths of each other, .02 and .07 are not."""
    for rates, pulled in (((0.30, 0.35), False), ((0.02, 0.07), True)):
        control = control_of(max_gap=1.0, min_ratio=0.8)
        memory = control.start()
        control.learn(counts(rates), memory)
        assert bool(memory["pulls"].any()) == pulled


@pytest.mark.parametrize("parity", ["demographic_parity", "equal_opportunity", "equalized_odds"])
def test_a_stated_positive_rate_pulls_on_everybody_alike(parity):
    """Thirty of a hundred of everybody, whatever their cell: steps of 200 over the length of the run."""
    control = control_of(parity, positive_rate=0.2)
    memory = control.start()
    n_cells = control.beside.size // 2
    control.learn(counts((0.3,) * n_cells, (200.0 / n_cells,) * n_cells), memory)
    assert not memory["pulls"].any()
    assert float(memory["rate_pull"]) == pytest.approx(20 * 0.1)


def test_the_pull_on_everybody_has_an_end():
    """At a score of zero a positive pull c adds c/2 to the gradient."""
    control = control_of(positive_rate=0.2)
    memory = control.start()
    for _ in range(5):
        control.learn(counts((1.0, 1.0)), memory)
    assert float(memory["rate_pull"]) == 3.5
    assert gradient(control, memory, torch.zeros(2), torch.zeros(2), [0, 1]).tolist() == [0.5 + 3.5 / 2] * 2


def gradient(control, memory, scores, labels, groups) -> torch.Tensor:
    return control.score_gradient(Seen(scores, labels, torch.tensor(groups)), memory)


@pytest.mark.parametrize("pull", [1.5, -1.5])
def test_the_surrogate_is_a_logistic_loss_with_more_labels_of_one_kind(pull):
    control, z = control_of(), torch.tensor([0.3, -2.0], requires_grad=True)
    memory = control.start() | {"pulls": torch.tensor([pull, 0.0])}
    labels = torch.tensor([1.0, 0.0])
    loss = torch.nn.functional.binary_cross_entropy_with_logits(z, labels, reduction="sum")
    loss = loss + abs(pull) * torch.nn.functional.softplus(z if pull > 0 else -z).sum()
    (expected,) = torch.autograd.grad(loss, z)
    assert torch.allclose(gradient(control, memory, z.detach(), labels, [0, 0]), expected)


def test_pulls_that_are_too_large_are_scaled_alike():
    control, scores = control_of(), torch.zeros(2)
    found = []
    for pulls in ([-7.0, 1.0], [-3.5, 0.5]):
        memory = control.start() | {"pulls": torch.tensor(pulls)}
        found.append(gradient(control, memory, scores, torch.zeros(2), [0, 1]))
    assert torch.allclose(*found)


def gap_and_rate(model: FairDPClassifier, data: GroupedData, metric: str) -> tuple[float, float]:
    decisions = (model.scores(data.X) >= 0).astype(int)
    decided = decision_counts(data.y, decisions, data.groups, data.n_groups)
    return float(fairness_metrics(decided)[metric]), float(group_rates(decided).positive.mean())


@pytest.mark.parametrize("parity", ["demographic_parity", "equal_opportunity", "equalized_odds"])
def test_a_target_is_reached_without_collapse(parity):
    """On the synthetic population."""
    train, metric = load_dataset("synthetic").train, f"{parity}_difference"
    free = FairDPClassifier(method="fairdp_parity", max_gap=1.0, certify_fraction=0.0, random_state=0)
    held = FairDPClassifier(method="fairdp_parity", parity=parity, max_gap=0.05, certify_fraction=0.0, random_state=0)
    (wide, rate), (gap, held_rate) = (gap_and_rate(m.fit_grouped(train), train, metric) for m in (free, held))
    assert wide > 0.1
    assert gap <= 0.05 + 0.03
    assert rate / 1.5 <= held_rate <= rate * 1.5
