import numpy as np
import pytest
import torch
from scipy import stats

from fairdp.accounting.mechanisms import PrivacyBudget, noise_multiplier_for
from fairdp.accounting.plan import make_plan
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.randomness import Generators, Stream
from fairdp.releases import watching
from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState
from fairdp.training.noise import BoundedSum, add_gaussian_noise
from score_models import build
from statistical import assert_normal, assert_plausible

STD = 0.37
BUDGET = PrivacyBudget(epsilon=2.0, delta=1e-5, accountant="rdp")


def release(n: int, *, std: float = STD, seed: int = 0, accounted=(1.0, 0.5)) -> np.ndarray:
    bounded = BoundedSum(torch.zeros(n), np.array([0.1, 0.2]))
    stream = Generators.of(seed).steps.step().stream("noise")
    return add_gaussian_noise(bounded, std, accounted_multipliers=np.array(accounted), stream=stream).numpy()


def test_the_noise_is_normal_with_the_stated_deviation():
    assert_normal(release(20_000), STD)


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_that_check_notices_noise_five_percent_off(factor):
    with pytest.raises(AssertionError):
        assert_normal(release(20_000), STD * factor)


def test_each_coordinate_has_the_deviation_and_none_follows_another():
    chain, bounded, multipliers = Generators.of(0).steps, BoundedSum(torch.zeros(10), np.array([0.1])), np.ones(1)
    streams = [chain.step().stream("noise") for _ in range(3000)]
    releases = [add_gaussian_noise(bounded, STD, accounted_multipliers=multipliers, stream=s) for s in streams]
    draws = np.stack([noisy.numpy() for noisy in releases])
    for coordinate in draws.T:
        assert_normal(coordinate, STD)
    # Neighbouring coordinates and successive releases: a shared or repeated draw would correlate.
    assert_plausible(stats.pearsonr(draws[:, 0], draws[:, 1]).pvalue, "two coordinates")
    assert_plausible(stats.pearsonr(draws[:-1].ravel(), draws[1:].ravel()).pvalue, "two releases")


def test_the_sum_is_what_the_noise_is_added_to():
    bounded = BoundedSum(torch.full((20_000,), 5.0), np.array([0.1]))
    noisy = add_gaussian_noise(bounded, STD, accounted_multipliers=np.ones(1), stream=Stream(bytes(32)))
    assert_normal(noisy.numpy() - 5.0, STD)
    assert noisy.dtype == torch.float32
    assert bounded.total.eq(5.0).all()


def test_noise_below_what_is_accounted_is_refused():
    with pytest.raises(ValueError, match=r"noise_std=0\.099"):
        release(3, std=0.099, accounted=(1.0, 0.1))
    with pytest.raises(ValueError, match="below what is accounted"):
        release(3, std=0.0)
    release(3, std=0.1, accounted=(1.0, 0.5))  # exactly what is accounted is enough


def test_noise_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="noise_std"):
        release(3, std=np.nan)


def test_nothing_is_added_where_nothing_is_accounted():
    assert not release(5, std=0.0, accounted=(0.0, 0.0)).any()


def _zero_gradient_updates(allocation: str, n_steps: int) -> tuple[np.ndarray, float]:
    """Updates of SGD with rate one where the batches are empty of gradient, and the planned noise."""
    config = TrainConfig(
        sample_rate=0.2, n_steps=n_steps, clip_norm=2.0, learning_rates=(1.0,), optimizer="sgd",
        weight_bound=np.inf, n_members=1, noise_allocation=allocation,
    )  # fmt: skip
    plan = make_plan(METHODS["fairdp"].recipe(config, (40.0, 10.0)), BUDGET, n_steps=n_steps)
    data = GroupedData(np.full((50, 5), np.nan, np.float32), np.zeros(50, int), np.repeat([0, 1], [40, 10]), ("a", "b"))
    state = TrainingState(build("mlp relu"), FlatOptimizer("sgd"), Generators.of(1).steps)
    trainer = Trainer(state, data, plan, config)
    updates = []
    for _ in range(n_steps):
        before = state.model.params.clone()
        trainer.step()
        updates.append((state.model.params - before).numpy())
    return np.stack(updates), plan.noise_std


@pytest.mark.parametrize("allocation", ["per_group", "average"])
def test_a_step_without_gradient_moves_by_the_planned_noise(allocation):
    """Records without finite gradient: what is left of a step is its noise, s of the plan, on every coordinate."""
    updates, std = _zero_gradient_updates(allocation, 400)
    multiplier = noise_multiplier_for(BUDGET, sample_rate=0.2, n_steps=400, accountant="rdp")
    sensitivities = 2.0 / 2 / np.array([8.0, 2.0])
    expected = multiplier * (np.linalg.norm(sensitivities) if allocation == "per_group" else sensitivities.max())
    assert std == pytest.approx(expected, rel=1e-9)
    assert_normal(updates, std)
    with pytest.raises(AssertionError):
        assert_normal(updates, 0.95 * std)


def test_what_leaves_is_what_the_release_point_lets_out():
    """An audit sees the value before its noise and after it, and may hold it fixed."""
    seen, bounded = [], BoundedSum(torch.arange(5.0), np.array([0.1]))
    with watching(lambda release: seen.append(release) or np.full(5, 7.0)):
        left = add_gaussian_noise(bounded, STD, accounted_multipliers=np.ones(1), stream=Stream(bytes(32)))
    assert left.eq(7.0).all()
    (release,) = seen
    assert release.exact.tolist() == bounded.total.tolist()
    assert not np.array_equal(release.noisy, release.exact)
    assert (release.purpose, release.law, release.scale) == ("gradient", "gaussian", STD)
