from functools import lru_cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import BatchView, make_plan
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.gradients import Backprop, backprop_of
from fairdp.networks.layers import HeadTerm, WrittenTerm
from fairdp.networks.model import ScoreModel
from fairdp.randomness import Generators
from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState
from fairdp.training.noise import MARGIN, bounded_rows, clip_and_add
from score_models import build
from step_cases import clipped_sum as sum_of_step

CLIP = 0.7
ROUNDING = 1 + 1e-5  # of a single-precision sum over a dozen records whose weights differ by a factor of five
MODELS = ("no hidden layer", "mlp relu", "conv2d", "conv2d factored", "linear on sequences", "own parameter", "cnn")


def heavy_tailed(model: ScoreModel, n_records: int, seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_cauchy((n_records, *model.shape)).astype(np.float32))


@lru_cache
def route_of(model: ScoreModel) -> Backprop:
    return backprop_of(model)


def clipped_sum(model, X, y, weights, *, clip_norm=CLIP, members=None, n_members=1):
    """The released sum of a batch, with the heads of all members side by side."""
    total = torch.zeros(model.n_extractor_params + n_members * (model.width + 1))
    if len(X):
        passed = route_of(model).forward(X)
        terms = passed.backward(torch.sigmoid(passed.scores) - y, members)
        clip_and_add(terms, weights, clip_norm=clip_norm, total=total)
    return total


def largest_move(model, X, y, groups, weights, *, members_of, n_members=1, clip_norm=CLIP):
    """The largest change of the sum when one record is removed, over its group's sensitivity."""
    ratios = []
    options = {"clip_norm": clip_norm, "n_members": n_members}
    whole = clipped_sum(model, X, y, weights[groups], members=members_of(range(len(X))), **options)
    for gone in range(len(X)):
        kept = [i for i in range(len(X)) if i != gone]
        rest = clipped_sum(model, X[kept], y[kept], weights[groups[kept]], members=members_of(kept), **options)
        ratios.append(float((whole.double() - rest.double()).norm() / (CLIP * weights[groups[gone]])))
    return max(ratios)


def batch(name, seed, n_records=12):
    model = build(name)
    rng = np.random.default_rng(seed)
    X = heavy_tailed(model, n_records, seed)
    y = torch.from_numpy(rng.integers(2, size=n_records)).float()
    groups = torch.from_numpy(rng.integers(3, size=n_records))
    return model, X, y, groups, torch.tensor([0.1, 0.2, 0.5])


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=4, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_no_record_moves_the_sum_by_more_than_its_sensitivity(name, seed):
    assert largest_move(*batch(name, seed), members_of=lambda kept: None) <= ROUNDING


@settings(max_examples=6, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_the_same_holds_for_the_last_step_with_members(seed):
    own = np.random.default_rng(seed).integers(4, size=12)
    moved = largest_move(
        *batch("mlp relu", seed), n_members=4, members_of=lambda kept: torch.from_numpy(own[list(kept)])
    )
    assert moved <= ROUNDING


def test_that_check_notices_a_sum_without_clipping():
    with pytest.raises(AssertionError):
        assert largest_move(*batch("mlp relu", 0), members_of=lambda kept: None, clip_norm=np.inf) <= ROUNDING


def test_that_check_notices_a_contiguous_partition():
    """The paper's micro-batches: equal runs of the batch, so that one record's leaving shifts the others."""

    def contiguous(kept):
        return torch.arange(len(kept)) * 4 // len(kept)

    with pytest.raises(AssertionError):
        assert largest_move(*batch("mlp relu", 0), n_members=4, members_of=contiguous) <= ROUNDING


def test_a_record_of_large_gradient_stays_below_the_bound_itself():
    """Norms are single-precision estimates: C must bound them, not their average."""
    gradients = torch.from_numpy(np.random.default_rng(0).standard_cauchy((2000, 300)).astype(np.float32))
    for record in gradients:
        total = torch.zeros(300)
        clip_and_add([WrittenTerm(record[None], slice(0, 300))], torch.ones(1), clip_norm=1.0, total=total)
        assert float(total.double().norm()) <= 1.0


def test_a_small_gradient_is_left_alone():
    total = torch.zeros(2)
    clip_and_add([WrittenTerm(torch.tensor([[0.3, 0.4]]), slice(0, 2))], torch.ones(1), clip_norm=1.0, total=total)
    torch.testing.assert_close(total, torch.tensor([0.3, 0.4]), rtol=2e-5, atol=0)


def test_the_norm_is_that_of_all_layers_together():
    terms = [
        WrittenTerm(torch.tensor([[3.0]]), slice(0, 1)),
        HeadTerm(torch.zeros(1, 1), torch.tensor([4.0]), slice(1, 3)),
    ]
    total = torch.zeros(3)
    clip_and_add(terms, torch.tensor([2.0]), clip_norm=1.0, total=total)
    torch.testing.assert_close(total, torch.tensor([1.2, 0.0, 1.6]) * MARGIN, rtol=2e-5, atol=0)


@pytest.mark.parametrize(
    ("name", "bad"),
    # Where an activation saturates, a huge record has a finite gradient and counts.
    [(name, bad) for name in MODELS for bad in (np.nan, np.inf, -np.inf)] + [(name, 1e38) for name in MODELS[:2]],
)
@pytest.mark.parametrize("clip_norm", [CLIP, np.inf])
def test_a_record_without_finite_gradient_adds_nothing_and_changes_nobody(name, bad, clip_norm):
    model, X, y, groups, weights = batch(name, 3)
    X = X.clamp(-3, 3)
    X[4] = bad
    kept = [i for i in range(12) if i != 4]
    whole = clipped_sum(model, X, y, weights[groups], clip_norm=clip_norm)
    rest = clipped_sum(model, X[kept], y[kept], weights[groups[kept]], clip_norm=clip_norm)
    torch.testing.assert_close(whole, rest, rtol=1e-5, atol=1e-6)
    assert whole.isfinite().all()


def _trainer(max_physical_batch_size: int, n_records: int = 40) -> Trainer:
    rng = np.random.default_rng(0)
    groups = rng.integers(2, size=n_records)
    X = rng.standard_normal((n_records, 5)).astype(np.float32)
    data = GroupedData(X, rng.integers(2, size=n_records), groups, ("a", "b"))
    config = TrainConfig(
        sample_rate=0.5, n_steps=3, clip_norm=CLIP, learning_rates=(0.1,), n_members=3,
        max_physical_batch_size=max_physical_batch_size,
    )  # fmt: skip
    recipe = METHODS["fairdp"].recipe(config, (30.0, 10.0))
    plan = make_plan(recipe, PrivacyBudget(epsilon=np.inf, delta=1e-5), n_steps=3)
    state = TrainingState(build("mlp tanh"), FlatOptimizer("sgd"), Generators.of(1).steps)
    return Trainer(state, data, plan, config)


def test_the_normaliser_never_reads_the_batch():
    """A batch twice as long has a sum twice as large; dividing by its size would leave it as it was."""
    trainer = _trainer(4096)
    batch = torch.arange(10)
    once = sum_of_step(trainer, batch)
    twice = sum_of_step(trainer, batch.repeat(2))
    torch.testing.assert_close(twice.total, 2 * once.total, rtol=1e-5, atol=1e-7)
    halves = sum_of_step(trainer, batch[:5]).total + sum_of_step(trainer, batch[5:]).total
    torch.testing.assert_close(halves, once.total, rtol=1e-5, atol=1e-7)
    assert np.array_equal(once.sensitivities, twice.sensitivities)


def test_parts_are_summed_in_double_precision():
    assert sum_of_step(_trainer(7), torch.arange(40)).total.dtype == torch.float64


def test_no_row_of_statistics_is_longer_than_one():
    """Norms are rounded: one must bound the rows themselves, to the last digit."""
    rows = torch.from_numpy(np.random.default_rng(0).standard_cauchy((3000, 7)).astype(np.float32))
    for row in rows:
        assert float(bounded_rows(row[None], torch.ones(1)).norm()) <= 1.0


def test_rows_that_are_not_finite_add_nothing():
    rows = torch.tensor([[0.3, 0.4], [np.nan, 0.0], [np.inf, 1.0], [0.0, -np.inf], [0.1, 0.0]])
    total = bounded_rows(rows, torch.ones(5))
    torch.testing.assert_close(total, torch.tensor([0.4, 0.4], dtype=torch.float64), rtol=1e-6, atol=0)


def test_statistics_are_summed_in_double_precision():
    """A hundred thousand rows of a tenth: single precision is off by more than their last digit."""
    tenth = np.float32(0.1)
    total = bounded_rows(torch.full((100_000, 1), float(tenth)), torch.ones(100_000))
    assert float(total) == pytest.approx(100_000 * float(tenth), rel=1e-12)


def test_records_count_only_with_finite_norms():
    scores, codes = torch.zeros(3), torch.zeros(3, dtype=torch.long)
    seen = BatchView(scores, scores, codes, norms=torch.tensor([1.0, np.inf, np.nan]))
    assert seen.is_finite().tolist() == [True, False, False]
    assert BatchView(torch.tensor([0.0, np.nan]), scores[:2], codes[:2]).is_finite().tolist() == [True, False]


def test_weights_are_applied_to_what_clipping_leaves():
    """Half of a small gradient and half of what is left of a large one, never more."""
    total = torch.zeros(2)
    gradients = torch.tensor([[0.1, 0.0], [0.0, 50.0]])
    clip_and_add([WrittenTerm(gradients, slice(0, 2))], torch.full((2,), 0.5), clip_norm=1.0, total=total)
    torch.testing.assert_close(total, torch.tensor([0.05, 0.5 * MARGIN]), rtol=2e-5, atol=0)


def test_a_gradient_of_zero_adds_zero():
    """It has no direction: nought over nought would make a sum that is no number."""
    total = torch.zeros(2)
    clip_and_add([WrittenTerm(torch.zeros(1, 2), slice(0, 2))], torch.ones(1), clip_norm=1.0, total=total)
    assert total.tolist() == [0, 0]
