"""The parts of a run: generators, planning sizes, checks of groups, starting models."""

import math

import numpy as np
import pytest
import torch

from fairdp.config.defaults import check_groups
from fairdp.config.model import ModelConfig
from fairdp.networks.building import build_model
from fairdp.randomness import Generators
from fairdp.run.checkpoint import Progress, resumed_checkpoint
from fairdp.run.hold_out import noisy_sizes
from statistical import assert_plausible

SIZES = np.array([100, 200])


def test_a_seed_gives_independent_streams_that_can_be_repeated():
    first, again = Generators.of(3), Generators.of(3)
    draws = [g.random(4).tolist() for g in (first.sampling, first.noise, first.start)]
    assert draws == [g.random(4).tolist() for g in (again.sampling, again.noise, again.start)]
    assert len({tuple(draw) for draw in draws}) == 3
    below = [[g.below("look 1")(1000) for _ in range(2)] for g in (first, again)]
    assert below[0] == below[1]
    keys = [first.key("a"), first.key("b")]
    assert keys == [again.key("a"), again.key("b")]
    assert len({*keys, Generators.of(4).key("a")}) == 3
    assert first.seeded


def test_without_a_seed_the_operating_system_is_asked():
    first, again = Generators.of(None), Generators.of(None)
    assert not first.seeded
    assert first.noise.random() != again.noise.random()
    assert first.sampling.random() != again.sampling.random()
    assert first.run_key != again.run_key
    assert len(first.run_key) == 32


def test_public_sizes_are_exact_and_free():
    never = pytest.fail
    assert noisy_sizes(SIZES, private=False, epsilon=1.0, count_noise=never) == ((100.0, 200.0), 0.0)
    assert noisy_sizes(SIZES, private=True, epsilon=math.inf, count_noise=never) == ((100.0, 200.0), 0.0)


def test_private_sizes_are_noisy_at_their_price():
    """Twenty times the noise of epsilon one; false-alarm rate 1e-6 on the mean magnitude of 600 sizes."""
    from scipy import stats

    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(300):
        planned, cost = noisy_sizes(SIZES, private=True, epsilon=4.0, count_noise=lambda n: int(rng.integers(n)))
        assert cost == pytest.approx(0.2)
        sizes.append(planned)
    errors = np.abs(np.array(sizes) - [100, 200])
    # |X| + 1/2 is nearly exponential with mean 1 / 0.2; no size is near enough to one to be raised to it.
    total = float((errors + 0.5).sum() * 0.2)
    assert_plausible(2 * min(stats.gamma.cdf(total, 600), stats.gamma.sf(total, 600)), "size of the count noise")
    doubled = float((2 * errors + 0.5).sum() * 0.2)
    assert stats.gamma.sf(doubled, 600) < 1e-6


def test_private_sizes_stay_at_least_one():
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes, _ = noisy_sizes(np.array([1, 1]), private=True, epsilon=0.5, count_noise=lambda n: int(rng.integers(n)))
        assert min(sizes) >= 1


@pytest.mark.parametrize(
    ("sizes", "rate", "message"),
    [
        ((0, 50), None, r"names 2 groups, but group 0 \('f'\) has no training record; leave it out or merge it"),
        ((50, 15), None, r"^group 'm' has 15 records, fewer than one batch \(16\); merge it with another group"),
        ((50, 9), 0.1, r"^group 'm' has 9 records, fewer than one per batch at sample_rate=0\.1; .* at least 0\.11"),
    ],
)
def test_groups_too_small_to_train_on_are_refused(sizes, rate, message):
    with pytest.raises(ValueError, match=message):
        check_groups(("f", "m"), sizes, rate)


@pytest.mark.parametrize(("sizes", "rate"), [((16, 50), None), ((10, 50), 0.1), ((1, 1), 1.0)])
def test_groups_just_large_enough_are_accepted(sizes, rate):
    check_groups(("f", "m"), sizes, rate)


def test_one_group_may_be_small():
    check_groups(("all",), (5,), None)


@pytest.mark.parametrize(("kind", "shape"), [("logistic", (3,)), ("mlp", (3,)), ("cnn", (1, 8, 8)), ("mlp", (1, 4, 4))])
def test_a_start_depends_on_its_generator_only(kind, shape):
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    first, again, other = (
        build_model(ModelConfig(kind=kind), shape, None, np.random.default_rng(seed)).params for seed in (1, 1, 2)
    )
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_resuming_needs_a_checkpoint(tmp_path):
    assert resumed_checkpoint(Progress()) is None
    assert resumed_checkpoint(Progress(checkpoint=tmp_path / "c")) is None
    with pytest.raises(ValueError, match=r"^resume needs a checkpoint file; give checkpoint as well\.$"):
        resumed_checkpoint(Progress(resume=True))
    with pytest.raises(ValueError, match=r"c' does not exist; leave out resume to start a new run\.$"):
        resumed_checkpoint(Progress(resume=True, checkpoint=tmp_path / "c"))
