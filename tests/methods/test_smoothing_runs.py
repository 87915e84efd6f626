"""Methods that average: over draws of the parameters, or over a model of each group."""

import copy
import pickle

import numpy as np
import pytest
import torch

from classifier_cases import fitted, people
from fairdp.networks.extractors import mlp
from fairdp.networks.models import ParameterSmoothing, ScoreModel

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
