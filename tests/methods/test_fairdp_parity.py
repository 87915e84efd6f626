"""The method that holds a gap without refusing everybody."""

import numpy as np
import pytest
import torch

from fairdp import FairDPClassifier, load_dataset
from fairdp.accounting.words import MOST_CLIP_ROOM
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.metrics.rates import decision_counts, fairness_metrics, group_rates
from fairdp.networks.extractors import NormalizedInputs, keeps_records_apart
from fairdp.training.companion import Seen

CONFIG = TrainConfig(sample_rate=0.5, n_steps=10, clip_norm=1.0, learning_rates=(1.0,), max_gap=0.1)
LABELLED = ["equal_opportunity", "equalized_odds"]


def control_of(parity: str = "demographic_parity", sizes=(100.0, 300.0), **changes):
    from dataclasses import replace

    return METHODS["fairdp_parity"].recipe(replace(CONFIG, parity=parity, **changes), sizes).companion


def test_rates_follow_from_the_released_sums():
    """Of 50 and 150 expected records 30 % and 60 % are positive: ±1 adds up to −20 and 30."""
    control = control_of()
    memory = control.start()
    control.learn(torch.tensor([-20.0, 30.0]), memory)
    assert memory["rates"].numpy() / 0.2 == pytest.approx([0.3, 0.6])
    # The group below is pulled up, the one above down, by as much in all.
    assert memory["pulls"][0] < 0 < memory["pulls"][1]
    assert float((memory["pulls"] * torch.tensor([0.25, 0.75])).sum()) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("parity", LABELLED)
def test_sizes_of_cells_with_a_label_are_counted_beside(parity):
    control = control_of(parity)
    rows = control.contributions(
        Seen(torch.tensor([1.0, -1.0, 1.0]), torch.tensor([1.0, 1.0, 0.0]), torch.tensor([0, 1, 1])), control.start()
    )
    assert rows.norm(dim=1).tolist() == pytest.approx([1.0, 1.0, 1.0])
    memory, cells = control.start(), len(rows.T) // 2
    for _ in range(3):
        control.learn(torch.cat([torch.zeros(cells), torch.full((cells,), 40.0 / 2**0.5)]), memory)
    assert memory["shares"].numpy() == pytest.approx(np.full(cells, 0.2))


def test_equal_opportunity_pulls_on_people_with_the_positive_label_alone():
    control = control_of("equal_opportunity")
    memory = control.start()
    sizes, decided = torch.tensor([25.0, 75.0, 25.0, 75.0]), torch.tensor([-20.0, 60.0, -20.0, 60.0])
    control.learn(torch.cat([decided, sizes]) / 2**0.5, memory)
    assert not memory["pulls"][:2].any()
    assert memory["pulls"][2] < 0 < memory["pulls"][3]


def test_a_ratio_allows_a_gap_that_grows_with_the_rates():
    """Rates of .30 and .35 are within four fifths of each other, .02 and .07 are not."""
    for rates, pulled in (((0.30, 0.35), False), ((0.02, 0.07), True)):
        control = control_of(max_gap=1.0, min_ratio=0.8)
        memory = control.start()
        control.learn(torch.tensor([50.0, 150.0]) * (2 * torch.tensor(rates) - 1), memory)
        assert bool(memory["pulls"].abs().max() > 1e-9) == pulled


def test_a_stated_positive_rate_pulls_on_everybody_alike():
    control = control_of(positive_rate=0.2)
    memory = control.start()
    control.learn(torch.tensor([50.0, 150.0]) * (2 * 0.3 - 1), memory)
    assert memory["pulls"][0] == pytest.approx(float(memory["pulls"][1]))
    assert memory["pulls"][0] == pytest.approx(0.3 * 0.1 + 3.0 * 0.1)


def test_clipping_makes_room_for_pulls_on_small_cells():
    control = control_of("equalized_odds")
    memory = control.start()
    assert float(control.clip_factors(memory)) == 1.0
    memory["pulls"] = torch.tensor([0.0, 0.5, -3.0, 1.0], dtype=torch.float64)
    assert float(control.clip_factors(memory)) == pytest.approx(0.7 * 4)
    assert control_of().clip_factors(memory) is None


def test_rates_within_the_band_pull_nobody():
    control = control_of()
    memory = control.start()
    control.learn(torch.tensor([-20.0, -50.0]), memory)
    assert memory["pulls"].abs().max() < 1e-9


@pytest.mark.parametrize("pull", [1.5, -1.5])
def test_the_surrogate_is_a_logistic_loss_with_more_labels_of_one_kind(pull):
    control, z = control_of(), torch.tensor([0.3, -2.0], requires_grad=True)
    memory = control.start() | {"pulls": torch.tensor([pull, 0.0], dtype=torch.float64)}
    labels = torch.tensor([1.0, 0.0])
    loss = torch.nn.functional.binary_cross_entropy_with_logits(z, labels, reduction="sum")
    loss = loss + abs(pull) * torch.nn.functional.softplus(z if pull > 0 else -z).sum()
    (expected,) = torch.autograd.grad(loss, z)
    found = control.score_gradient(Seen(z.detach(), labels, torch.zeros(2, dtype=torch.long)), memory)
    assert torch.allclose(found, expected)


def gap_and_rate(model: FairDPClassifier, data: GroupedData, metric: str) -> tuple[float, float]:
    decisions = (model.scores(data.X) >= 0).astype(int)
    counts = decision_counts(data.y, decisions, data.groups, data.n_groups)
    return float(fairness_metrics(counts)[metric]), float(group_rates(counts).positive.mean())


@pytest.mark.parametrize(
    ("parity", "metric"),
    [
        ("demographic_parity", "demographic_parity_difference"),
        ("equal_opportunity", "equal_opportunity_difference"),
        ("equalized_odds", "equalized_odds_difference"),
    ],
)
def test_a_target_is_reached_without_collapse(parity, metric):
    """On the synthetic population, which no constant was chosen on."""
    train = load_dataset("synthetic").train
    free = FairDPClassifier(method="fairdp_parity", max_gap=1.0, certify_fraction=0.0, random_state=0)
    held = FairDPClassifier(method="fairdp_parity", parity=parity, max_gap=0.05, certify_fraction=0.0, random_state=0)
    (wide, rate), (gap, held_rate) = (gap_and_rate(m.fit_grouped(train), train, metric) for m in (free, held))
    assert wide > 0.1
    assert gap <= 0.05 + 0.03
    assert rate / 1.5 <= held_rate <= rate * 1.5


class TestInputs:
    def test_all_records_have_about_the_same_norm(self):
        X = torch.tensor([[0.1, 0.0], [30.0, 40.0]])
        norms = NormalizedInputs(2, ())(X).norm(dim=1)
        assert norms.tolist() == pytest.approx([0.1 / 1.01**0.5, 50 / 2501**0.5], rel=1e-5)

    def test_a_number_becomes_hats_and_a_root(self):
        """.3 lies half-way between the knots .2 and .4."""
        found = NormalizedInputs(2, (1,))(torch.tensor([[1.0, 0.3]]))[0]
        expected = torch.tensor([1.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.3**0.25])
        assert torch.allclose(found, expected / (expected.square().sum() + 1).sqrt(), atol=1e-6)

    def test_each_record_is_mapped_alone(self):
        X = torch.rand(50, 4, generator=torch.Generator().manual_seed(0))
        own = NormalizedInputs(4, (0, 2))
        assert torch.equal(own(X)[:3], own(X[:3]))
        assert keeps_records_apart(torch.nn.Sequential(torch.nn.Flatten(), own))

    def test_a_layer_with_another_forward_is_not_trusted(self):
        own = NormalizedInputs(4, (0, 2))
        own.forward = lambda X: X - X.mean(0)
        assert not keeps_records_apart(torch.nn.Sequential(torch.nn.Flatten(), own))

    @pytest.mark.needs_data("adult")
    def test_a_schema_says_which_inputs_are_numbers(self):
        data = load_dataset("adult_full")
        model = FairDPClassifier(method="fairdp_parity", n_steps=5, certify_fraction=0.0, random_state=0)
        model.fit_grouped(data.train, feature_schema=data.schema.to_dict())
        assert model.model_config_.numeric == (100, 101, 102, 103, 104)
        # 100 categories, five numbers as seven functions each, and the bias.
        assert len(model.score_model_.params) == 100 + 5 * 7 + 1


def test_the_clip_norm_grows_no_further_than_is_said():
    control = control_of("equal_opportunity")
    memory = control.start()
    memory["pulls"] = torch.full((4,), 1e6, dtype=torch.float64)
    assert float(control.clip_factors(memory)) == MOST_CLIP_ROOM
