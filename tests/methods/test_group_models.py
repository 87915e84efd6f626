"""FairSmooth by hand, and methods that average over draws of the parameters."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch

from classifier_cases import fitted, people
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import Plan, make_plan
from fairdp.certify.outlook import smoothing_bound
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.methods.functional import smoothing_notes, train_group_models
from fairdp.networks.model import ParameterSmoothing, ScoreModel, mlp
from fairdp.randomness import Generators
from fairdp.training.loop import FlatOptimizer, TrainingState
from score_models import naive_gradients

pytestmark = pytest.mark.usefixtures("rough_bounds")

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


SMOOTH = ["fairsmooth", "dpsgd_smooth", "fairfm_smooth"]


def smoothed_model(**smoothing) -> ScoreModel:
    torch.manual_seed(0)
    model = ScoreModel(mlp(3, (4,)), (3,))
    model.smoothing = ParameterSmoothing(**{"deviation": 0.3, "n_draws": 50, "seed": 1, **smoothing})
    return model


class TestSmoothing:
    def test_scores_are_the_logit_of_the_mean_chance_over_draws_of_the_parameters(self):
        model, X = smoothed_model(), torch.from_numpy(people()[0][:5])
        rng, chances = np.random.default_rng(1), []
        for _ in range(50):
            drawn = smoothed_model()
            drawn.smoothing = None
            drawn.params.add_(0.3 * torch.from_numpy(rng.standard_normal(len(drawn.params))).float())
            chances.append(torch.sigmoid(drawn.scores(X)))
        assert torch.allclose(torch.sigmoid(model.scores(X)), torch.stack(chances).mean(0), atol=1e-6)

    def test_parameters_are_put_back_exactly_and_draws_are_the_same_each_time(self):
        model, X = smoothed_model(), torch.from_numpy(people()[0])
        before = model.params.clone()
        first = model.scores(X)
        assert torch.equal(model.params, before)
        assert torch.equal(model.scores(X), first)

    def test_parameters_are_put_back_when_scoring_fails(self):
        model = smoothed_model()
        before = model.params.clone()
        with pytest.raises(RuntimeError):
            model.scores(torch.zeros(2, 7))
        assert torch.equal(model.params, before)

    def test_scores_far_from_zero_stay_finite(self):
        model = smoothed_model(deviation=1e-3)
        model.params.mul_(1000)
        assert model.scores(torch.from_numpy(people()[0])).isfinite().all()

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
    def test_a_copy_decides_as_the_original(self, copied):
        model, X = smoothed_model(), torch.from_numpy(people()[0])
        assert torch.equal(copied(model).scores(X), model.scores(X))

    @pytest.mark.parametrize("method", SMOOTH)
    def test_a_saved_model_decides_as_the_fitted_one(self, method, tmp_path):
        model = fitted(method=method)
        model.save(tmp_path / "model")
        X = people()[0]
        assert np.array_equal(type(model).load(tmp_path / "model").decision_function(X), model.decision_function(X))
        assert model.score_model_.smoothing.n_draws == 100

    @pytest.mark.parametrize("method", SMOOTH)
    def test_the_deployed_noise_is_the_users(self, method):
        smoothing = fitted(method=method, parameter_noise=0.25, n_draws=7).score_model_.smoothing
        assert (smoothing.deviation, smoothing.n_draws) == (0.25, 7)

    def test_smoothing_is_free_and_changes_decisions_little_by_little(self):
        plain, smooth = (fitted(method=name).score_model_.params for name in ("dpsgd", "dpsgd_smooth"))
        assert torch.equal(plain, smooth)
        X, gaps = people()[0], []
        for deviation in (1e-4, 0.3):
            smooth = fitted(method="dpsgd_smooth", parameter_noise=deviation).decision_function(X)
            gaps.append(np.abs(smooth - fitted(method="dpsgd").decision_function(X)).max())
        assert gaps[0] < 1e-3 < gaps[1]


class TestGroupModels:
    def test_the_average_is_no_model_of_one_group_and_the_bound_follows_from_the_distance(self):
        model = fitted(method="fairsmooth")
        bounds = model.notes_["overall_against_group_classifier"]
        assert len(bounds) == 2
        assert all(0 < bound <= 1 for bound in bounds)
        # Two models are equally far from their average.
        assert bounds[0] == pytest.approx(bounds[1], abs=1e-4)

    def test_one_group_alone_is_its_own_average(self):
        model = fitted(method="fairsmooth", sex=("all",) * 600)
        assert model.notes_["overall_against_group_classifier"] == [0.0]
