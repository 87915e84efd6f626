"""FairSmooth by hand: a model of every group from the same start, gradients at moved parameters, and their mean."""

import math

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import Plan, make_plan
from fairdp.certify.gaussian import smoothing_bound
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.methods.group_models import smoothing_notes, train_group_models
from fairdp.networks.extractors import mlp
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.training.state import FlatOptimizer, TrainingState
from score_models import naive_gradients

SIZES = (10.0, 20.0, 50.0)
# Everybody in every batch; two steps, so that velocity and step number matter.
CONFIG = TrainConfig(
    sample_rate=1.0,
    n_steps=2,
    clip_norm=0.01,
    learning_rates=(0.5, 0.3),
    optimizer="sgd",
    momentum=0.5,
    parameter_noise=0.2,
)


def data() -> GroupedData:
    """Groups in no order, each with a slope of its own."""
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(80, 3)).astype(np.float32), rng.permutation(np.repeat([0, 1, 2], [10, 20, 50]))
    return GroupedData(X, (X[np.arange(80), groups] > 0).astype(np.int64), groups, ("a", "b", "c"))


def plan() -> Plan:
    recipe = METHODS["fairsmooth"].recipe(CONFIG, SIZES)
    return make_plan(recipe, PrivacyBudget(epsilon=1.0, delta=1e-5), n_steps=CONFIG.n_steps)


def start() -> TrainingState:
    torch.manual_seed(0)
    return TrainingState(ScoreModel(mlp(3, (4,)), (3,)), FlatOptimizer("sgd", 0.5), Generators.of(1).steps)


def naive_models() -> list[torch.Tensor]:
    """Each group alone: plain gradients of its members, not clipped, at parameters with noise of deviation .2."""
    people, twin, models = data(), start(), []
    chain = twin.chain
    for group in range(3):
        own = torch.from_numpy(people.groups == group)
        X, y = torch.from_numpy(people.X)[own], torch.from_numpy(people.y)[own].float()
        params, velocity = start().model.params, 0.0
        for rate in CONFIG.learning_rates:
            rng = np.random.default_rng(chain.step().seed("parameters"))
            noise = 0.2 * torch.from_numpy(rng.standard_normal(len(params))).float()
            twin.model.params.copy_(params + noise)
            velocity = 0.5 * velocity + naive_gradients(twin.model, X, y).mean(0)
            params = params - rate * velocity
        models.append(params)
    return models


def test_every_group_has_a_model_of_its_own_and_they_weigh_alike():
    models, state, seen = naive_models(), start(), []
    distances = train_group_models(state, data(), plan(), CONFIG, lambda now: seen.append(now.step) or False)
    average = (models[0] + models[1] + models[2]) / 3
    torch.testing.assert_close(state.model.params, average, rtol=1e-4, atol=1e-5)
    assert distances == pytest.approx([float((average - own).norm()) for own in models], rel=1e-3)
    assert len({round(distance, 3) for distance in distances}) == 3
    assert seen == [1, 2] * 3


def test_the_bound_of_each_group_follows_from_its_own_distance():
    """2 Φ(d / 2s) − 1 = erf(d / (2 √2 s)) with s = .2."""
    (bounds,) = smoothing_notes((0.0, 0.1, 0.4), plan()).values()
    assert bounds == pytest.approx([0.0, math.erf(0.25 / math.sqrt(2)), math.erf(1 / math.sqrt(2))])


@pytest.mark.parametrize(("distance", "smoothing"), [(0.3, 0.2), (1.5, 0.7)])
def test_the_bound_is_the_total_variation_of_the_two_gaussians(distance, smoothing):
    """Half of ∫ |density − shifted density|, on a grid along the line through both centres."""
    x, step = np.linspace(-12, 12, 200_001, retstep=True)
    near, far = (np.exp(-((x - shift) ** 2) / (2 * smoothing**2)) for shift in (0.0, distance))
    total = 0.5 * np.abs(near - far).sum() * step / (smoothing * math.sqrt(2 * math.pi))
    assert smoothing_bound(distance, smoothing=smoothing) == pytest.approx(total, abs=1e-4)


def test_the_recipe_is_that_of_training_without_privacy_on_moved_parameters():
    recipe = METHODS["fairsmooth"].recipe(CONFIG, SIZES)
    assert (recipe.clip_norm, recipe.noise_allocation) == (math.inf, "none")
    assert (recipe.parameter_noise, recipe.group_models) == (0.2, True)
    assert METHODS["dpsgd_smooth"].recipe(CONFIG, SIZES) == METHODS["dpsgd"].recipe(CONFIG, SIZES)
