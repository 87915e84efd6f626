"""Sums that leave a step or a query: what they hold, who computes which part, and the noise they leave with."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import Plan, make_plan
from fairdp.accounting.spent import CENTRE, FREQUENCIES
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.distributed import ALONE, process_group, shares
from fairdp.methods import METHODS, fairdp_frontier
from fairdp.networks.model import ScoreModel, mlp
from fairdp.networks.rows import ImageRows, SplineFeatures
from fairdp.randomness import Chain, Generators
from fairdp.releases import watching
from fairdp.training import sums as surveys
from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState
from fairdp.training.noise import BoundedSum, add_gaussian_noise
from fairdp.training.sums import Records, _pieces, calibrate_input_layer, released, summed_in_order
from process_group_cases import together
from statistical import assert_normal


class Frozen(nn.Module):
    """An own forward without anything to train: its embeddings would be the same at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.fixed = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X * self.fixed


def records(extractor: nn.Module) -> Records:
    X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    data = GroupedData(X, np.arange(8) % 2, np.arange(8) // 4, ("a", "b"))
    config = TrainConfig(sample_rate=0.5, n_steps=2, clip_norm=1.0, learning_rates=(0.1,))
    recipe = METHODS["dpsgd"].recipe(config, (4.0, 4.0))
    return Records(ScoreModel(extractor, (3,)), data, recipe, max_part=4)


def test_embeddings_of_a_module_that_mixes_records_are_not_kept():
    """Kept ones would be made many at a time, and a module of unknown layers sees one record at a time."""
    assert not records(Frozen()).is_embedded


def test_embeddings_are_kept_where_nothing_changes_them():
    assert records(nn.Sequential(nn.Flatten(), nn.Sigmoid())).is_embedded
    assert not records(nn.Sequential(nn.Linear(3, 2), nn.Sigmoid())).is_embedded


# Numbers of many sizes: added in another order they have other last digits.
BLOCKS = [[7, 7, 3], [], [5], [9, 9, 9, 9, 1], [2, 2], [8] * 11, []]


def part(block: int, number: int) -> torch.Tensor:
    rng = np.random.default_rng([block, number])
    return torch.from_numpy((rng.standard_normal(40) * 10.0 ** rng.integers(-8, 8, 40)).astype(np.float32))


def summed(rows=None) -> torch.Tensor:
    return torch.stack(summed_in_order(BLOCKS, part, n_numbers=40, processes=process_group(), rows=rows))


def by_hand(rows: list[int]) -> torch.Tensor:
    total = torch.zeros(max(rows) + 1, 40, dtype=torch.float64)
    for block, sizes in enumerate(BLOCKS):
        of_block = torch.zeros(40, dtype=torch.float64)
        for number in range(len(sizes)):
            of_block = of_block + part(block, number)
        total[rows[block]] = total[rows[block]] + of_block
    return total


@pytest.mark.parametrize("rows", [None, [0, 1, 2, 0, 1, 2, 0]])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8, 13, 40])
def test_a_sum_has_the_same_bits_for_any_number_of_workers(size, rows):
    first, *others = together(size, lambda: summed(rows))
    assert first.numpy().tobytes() == by_hand(rows or [0] * len(BLOCKS)).numpy().tobytes()
    assert all(not other.any() for other in others)


def test_another_order_would_have_other_bits():
    """Negative control: sums of shares, added up, are not the same number to its last digit."""
    parts = [part(block, number) for block, sizes in enumerate(BLOCKS) for number in range(len(sizes))]
    halves = [torch.stack(half).double().sum(0) for half in (parts[:12], parts[12:])]
    assert sum(halves).numpy().tobytes() != by_hand([0] * len(BLOCKS)).numpy().tobytes()


def test_each_part_is_computed_once_and_by_its_neighbours_worker():
    for size in (1, 2, 5, 8):
        pieces = _pieces(BLOCKS, size)
        ranks = [piece.rank for piece in pieces]
        assert ranks == sorted(ranks)
        found = [(piece.block, number) for piece in pieces for number in piece.parts]
        assert found == [(block, number) for block, sizes in enumerate(BLOCKS) for number in range(len(sizes))]


@pytest.mark.parametrize("n_workers", [2, 4, 8])
def test_eight_parts_are_shared_evenly(n_workers):
    assert np.bincount(shares([60] * 16, n_workers)).tolist() == [16 // n_workers] * n_workers


def test_without_records_nothing_is_added():
    [total] = summed_in_order([[], []], part, n_numbers=3, processes=ALONE)
    assert total.tolist() == [0, 0, 0]
    [[shared], *_] = together(3, lambda: summed_in_order([[]], part, n_numbers=3, processes=process_group()))
    assert shared.tolist() == [0, 0, 0]


def test_what_a_part_adds_is_left_as_it_is():
    """Whoever computes a part may keep what it returned."""
    kept = torch.ones(3, dtype=torch.float64)
    [total] = summed_in_order([[1, 1]], lambda block, number: kept, n_numbers=3, processes=ALONE)
    assert (total.tolist(), kept.tolist()) == ([2, 2, 2], [1, 1, 1])


BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-5)
CONFIG = TrainConfig(
    sample_rate=1.0,
    n_steps=2,
    clip_norm=1.0,
    learning_rates=(0.3,),
    optimizer="sgd",
    query=FREQUENCIES,
    query_share=0.02,
)


def plan_of(config: TrainConfig = CONFIG, budget: PrivacyBudget = BUDGET) -> Plan:
    return make_plan(fairdp_frontier(config, (60.0, 40.0)), budget, n_steps=config.n_steps)


def model(query: str = FREQUENCIES) -> ScoreModel:
    if query == CENTRE:
        return ScoreModel(ImageRows((1, 16, 16), norm=1.0), (1, 16, 16), n_cells=4)
    return ScoreModel(SplineFeatures(4, {2: 0.0, 3: 0.5}, most_squares=8.0, norm=2.0), (4,), n_cells=4)


def some_records(shape: tuple[int, ...] = (4,), n_records: int = 100) -> torch.Tensor:
    return torch.rand(n_records, *shape, generator=torch.Generator().manual_seed(0))


def grouped(X: torch.Tensor) -> GroupedData:
    none = np.zeros(len(X), dtype=np.int64)
    return GroupedData(X.numpy(), none, none, ("a",))


def data(shape: tuple[int, ...] = (4,)) -> GroupedData:
    rng = np.random.default_rng(0)
    X = some_records(shape).numpy()
    return GroupedData(X, rng.integers(2, size=100), np.repeat([0, 1], [60, 40]), ("a", "b"))


@pytest.mark.parametrize("what", ["cells", "ranking", "frontier", FREQUENCIES])
def test_a_sum_leaves_with_the_noise_that_was_planned_for_it(what):
    """20 000 draws notice a deviation 5 % off."""
    plan, exact = plan_of(), torch.full((20_000,), 7.0, dtype=torch.float64)
    noise = released(exact, plan, what, Chain(bytes(32))).double().numpy() - 7.0
    assert_normal(noise, plan.query_stds[what])
    for factor in (0.95, 1.05):
        with pytest.raises(AssertionError, match="scale"):
            assert_normal(noise, factor * plan.query_stds[what])
    assert exact.eq(7.0).all()


def test_that_check_notices_the_noise_of_another_query():
    plan = plan_of()
    noise = released(torch.zeros(20_000, dtype=torch.float64), plan, "cells", Chain(bytes(32))).numpy()
    with pytest.raises(AssertionError):
        assert_normal(noise, plan.query_stds["frontier"])


def test_a_query_that_one_record_moves_further_is_refused_at_the_noise_that_was_planned():
    """Whatever a sum claims: the deviation is accounted for a record that moves it by one."""
    std = plan_of().query_stds["cells"]

    def leave(moved: float) -> torch.Tensor:
        bounded = BoundedSum(torch.zeros(3), np.full(2, moved))
        stream = Chain(bytes(32)).step().stream("cells")
        return add_gaussian_noise(bounded, std, accounted_multipliers=np.full(2, std), stream=stream)

    assert leave(1.0).all()
    with pytest.raises(ValueError, match="below what is accounted"):
        leave(1.01)


def test_a_query_that_was_not_planned_has_no_noise_to_leave_with():
    with pytest.raises(KeyError):
        released(torch.zeros(3), plan_of(), "direction", Chain(bytes(32)))


@pytest.mark.parametrize("query", [FREQUENCIES, CENTRE])
def test_the_input_layer_is_told_the_noisy_sum(query):
    known, X = model(query), some_records((4,) if query == FREQUENCIES else (1, 16, 16))
    plan, seen = plan_of(replace(CONFIG, query=query)), []
    with watching(lambda release: seen.append(release) or release.noisy):
        calibrate_input_layer(known, grouped(X), plan, Chain(bytes(32)))
    (release,) = seen
    assert (release.purpose, release.scale) == (query, plan.query_stds[query])
    np.testing.assert_allclose(release.exact, known.extractor.answers(X).numpy(), rtol=1e-12)
    # From the noisy sum alone: another layer that is told it has the same numbers.
    other = model(query).extractor
    noisy = torch.from_numpy(release.noisy).float()
    other.learn(noisy, n_records=100.0, deviation=plan.query_stds[query])
    for name, value in other.state_dict().items():
        assert torch.equal(value, known.extractor.state_dict()[name])
        assert not torch.equal(value, model(query).extractor.state_dict()[name])
    # And they are what is saved: not a change of its own.
    assert not known.has_changed_itself()


def test_parts_do_not_matter(monkeypatch):
    sums = []
    for chunk in (8192, 7):
        monkeypatch.setattr(surveys, "_CHUNK", chunk)
        with watching(lambda release: sums.append(release.exact) or release.noisy):
            calibrate_input_layer(model(), grouped(some_records()), plan_of(), Chain(bytes(32)))
    np.testing.assert_allclose(*sums, rtol=1e-12)


@pytest.mark.parametrize("query", [FREQUENCIES, CENTRE])
def test_removing_any_record_moves_the_sum_by_at_most_one(query):
    X = some_records((4,) if query == FREQUENCIES else (1, 16, 16), 30)
    X[0], X[1], X[2] = 1e30, float("nan"), float("inf")
    layer = model(query).extractor
    whole = layer.answers(X)
    moves = [float((whole - layer.answers(X[torch.arange(30) != i])).norm()) for i in range(30)]
    assert whole.isfinite().all()
    assert 0.3 <= max(moves) <= 1 + 1e-6


def test_a_layer_that_asks_nothing_is_told_nothing():
    for known, plan in [
        (ScoreModel(mlp(4, (3,)), (4,), n_cells=4), plan_of()),
        (model(), plan_of(replace(CONFIG, query="", query_share=0.0))),
    ]:
        before = known.digest()
        with watching(lambda release: pytest.fail("something was released")):
            calibrate_input_layer(known, grouped(some_records()), plan, Chain(bytes(32)))
        assert known.digest() == before


def trainer(step: int = 0) -> Trainer:
    state = TrainingState(model(), FlatOptimizer("sgd"), Generators.of(1).steps, step=step)
    return Trainer(state, data(), plan_of(), CONFIG)


def test_a_run_asks_once_before_the_first_step_and_not_again_when_it_is_resumed():
    seen = []
    with watching(lambda release: seen.append(release.purpose) or release.noisy):
        started = trainer()
        started.step()
        assert seen == [FREQUENCIES, "gradient"]
        trainer(step=1)
    assert seen == [FREQUENCIES, "gradient"]


def test_rows_of_training_have_the_weights_that_were_told():
    """Rows are kept from the start on: made before the answer, they would have none."""
    started = trainer()
    fresh = started.state.model.extractor.sparse(torch.from_numpy(data().X)).matrix.toarray()
    np.testing.assert_array_equal(started.records.sparse.matrix.toarray(), fresh)


def test_without_noise_the_layer_is_told_the_exact_sum():
    known, exact = model(), model().extractor.answers(some_records())
    plan = plan_of(budget=PrivacyBudget(epsilon=float("inf"), delta=1e-5))
    assert plan.query_stds[FREQUENCIES] == 0.0
    calibrate_input_layer(known, grouped(some_records()), plan, Chain(bytes(32)))
    other = model().extractor
    other.learn(exact.float(), n_records=100.0, deviation=0.0)
    assert torch.equal(other.weights, known.extractor.weights)
