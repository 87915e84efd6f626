"""What the input layer asks: released once, with the planned noise, before the first step."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import Plan, make_plan
from fairdp.accounting.words import CENTRE, FREQUENCIES
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods.fairdp_frontier import fairdp_frontier
from fairdp.networks.extractors import mlp
from fairdp.networks.hat_rows import HatRows
from fairdp.networks.models import ScoreModel
from fairdp.networks.oriented_gradients import ImageRows
from fairdp.randomness import Generators
from fairdp.releases import watching
from fairdp.streams import Chain, Stream
from fairdp.training import surveys
from fairdp.training.loop import Trainer
from fairdp.training.state import FlatOptimizer, TrainingState
from fairdp.training.surveys import released, tell_input_layer
from statistical import assert_normal

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-5)
CONFIG = TrainConfig(
    sample_rate=1.0, n_steps=2, clip_norm=1.0, learning_rates=(0.3,), optimizer="sgd", asks=FREQUENCIES, asks_share=0.02
)


def plan_of(config: TrainConfig = CONFIG, budget: PrivacyBudget = BUDGET) -> Plan:
    return make_plan(fairdp_frontier(config, (60.0, 40.0)), budget, n_steps=config.n_steps)


def model(asks: str = FREQUENCIES) -> ScoreModel:
    if asks == CENTRE:
        return ScoreModel(ImageRows((1, 16, 16), norm=1.0), (1, 16, 16), n_cells=4)
    return ScoreModel(HatRows(4, {2: 0.0, 3: 0.5}, most_squares=8.0, norm=2.0), (4,), n_cells=4)


def records(shape: tuple[int, ...] = (4,), n_records: int = 100) -> torch.Tensor:
    return torch.rand(n_records, *shape, generator=torch.Generator().manual_seed(0))


def grouped(X: torch.Tensor) -> GroupedData:
    none = np.zeros(len(X), dtype=np.int64)
    return GroupedData(X.numpy(), none, none, ("a",))


def data(shape: tuple[int, ...] = (4,)) -> GroupedData:
    rng = np.random.default_rng(0)
    X = records(shape).numpy()
    return GroupedData(X, rng.integers(2, size=100), np.repeat([0, 1], [60, 40]), ("a", "b"))


@pytest.mark.parametrize("what", ["cells", "ranking", "frontier", FREQUENCIES])
def test_a_sum_leaves_with_the_noise_that_was_planned_for_it(what):
    """20 000 draws notice a deviation 5 % off."""
    plan, exact = plan_of(), torch.full((20_000,), 7.0, dtype=torch.float64)
    noise = released(exact, plan, what, Chain(bytes(32))).double().numpy() - 7.0
    assert_normal(noise, plan.survey_stds[what])
    for factor in (0.95, 1.05):
        with pytest.raises(AssertionError, match="scale"):
            assert_normal(noise, factor * plan.survey_stds[what])
    assert exact.eq(7.0).all()


def test_that_check_notices_the_noise_of_another_survey():
    plan = plan_of()
    noise = released(torch.zeros(20_000, dtype=torch.float64), plan, "cells", Chain(bytes(32))).numpy()
    with pytest.raises(AssertionError):
        assert_normal(noise, plan.survey_stds["frontier"])


def test_noise_below_what_the_plan_says_is_refused():
    """Whatever a sum claims: one record moves it by one, and the deviation is accounted for that."""
    plan = plan_of()
    bounded = surveys.BoundedSum(torch.zeros(3), np.full(2, 1.01))
    with pytest.raises(ValueError, match="below what is accounted"):
        surveys.add_gaussian_noise(
            bounded,
            plan.survey_stds["cells"],
            accounted_multipliers=np.full(2, plan.survey_stds["cells"]),
            stream=Stream(bytes(32)),
        )


def test_a_survey_that_was_not_planned_has_no_noise_to_leave_with():
    with pytest.raises(KeyError):
        released(torch.zeros(3), plan_of(), "direction", Chain(bytes(32)))


@pytest.mark.parametrize("asks", [FREQUENCIES, CENTRE])
def test_the_input_layer_is_told_the_noisy_sum(asks):
    known, X = model(asks), records((4,) if asks == FREQUENCIES else (1, 16, 16))
    plan, seen = plan_of(replace(CONFIG, asks=asks)), []
    with watching(lambda release: seen.append(release) or release.noisy):
        tell_input_layer(known, grouped(X), plan, Chain(bytes(32)))
    (release,) = seen
    assert (release.purpose, release.scale) == (asks, plan.survey_stds[asks])
    np.testing.assert_allclose(release.exact, known.extractor.answers(X).numpy(), rtol=1e-12)
    # From the noisy sum alone: another layer that is told it has the same numbers.
    other = model(asks).extractor
    noisy = torch.from_numpy(release.noisy).float()
    other.learn(noisy, n_records=100.0, deviation=plan.survey_stds[asks])
    for name, value in other.state_dict().items():
        assert torch.equal(value, known.extractor.state_dict()[name])
        assert not torch.equal(value, model(asks).extractor.state_dict()[name])
    # And they are what is saved: not a change of its own.
    assert not known.has_changed_itself()


def test_parts_do_not_matter(monkeypatch):
    sums = []
    for chunk in (8192, 7):
        monkeypatch.setattr(surveys, "_CHUNK", chunk)
        with watching(lambda release: sums.append(release.exact) or release.noisy):
            tell_input_layer(model(), grouped(records()), plan_of(), Chain(bytes(32)))
    np.testing.assert_allclose(*sums, rtol=1e-12)


@pytest.mark.parametrize("asks", [FREQUENCIES, CENTRE])
def test_removing_any_record_moves_the_sum_by_at_most_one(asks):
    X = records((4,) if asks == FREQUENCIES else (1, 16, 16), 30)
    X[0], X[1], X[2] = 1e30, float("nan"), float("inf")
    layer = model(asks).extractor
    whole = layer.answers(X)
    moves = [float((whole - layer.answers(X[torch.arange(30) != i])).norm()) for i in range(30)]
    assert whole.isfinite().all()
    assert 0.3 <= max(moves) <= 1 + 1e-6


def test_a_layer_that_asks_nothing_is_told_nothing():
    for known, plan in [
        (ScoreModel(mlp(4, (3,)), (4,), n_cells=4), plan_of()),
        (model(), plan_of(replace(CONFIG, asks="", asks_share=0.0))),
    ]:
        before = known.digest()
        with watching(lambda release: pytest.fail("something was released")):
            tell_input_layer(known, grouped(records()), plan, Chain(bytes(32)))
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
    known, exact = model(), model().extractor.answers(records())
    plan = plan_of(budget=PrivacyBudget(epsilon=float("inf"), delta=1e-5))
    assert plan.survey_stds[FREQUENCIES] == 0.0
    tell_input_layer(known, grouped(records()), plan, Chain(bytes(32)))
    other = model().extractor
    other.learn(exact.float(), n_records=100.0, deviation=0.0)
    assert torch.equal(other.weights, known.extractor.weights)
