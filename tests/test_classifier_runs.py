"""The scikit-learn classifier: what a run spends, and the models it trains."""

import math

import numpy as np
import pytest
from torch import nn

from classifier_cases import CERTIFIED, PRIVATE, SHORT, fitted, people, scores_of
from fairdp import FairDPClassifier

pytestmark = pytest.mark.usefixtures("rough_bounds")


def noise_std(spent, sizes):
    """σ C √(Σ (α / (q n_k))²) for two groups of these sizes, with α = 1/2 and C = 1."""
    return spent.noise_multiplier * math.hypot(*(0.5 / (spent.sample_rate * size) for size in sizes))


class TestPrivacy:
    @pytest.mark.parametrize(("method", "epsilon"), [("dpsgd", 0.5), *((method, 2.0) for method in PRIVATE)])
    def test_the_budget_is_used_and_not_exceeded(self, method, epsilon):
        spent = fitted(method=method, epsilon=epsilon, **CERTIFIED).privacy_
        assert 0.95 * epsilon <= spent.epsilon <= epsilon
        assert spent.epsilon == max(spent.epsilon_by_group.values())
        # A record is trained on or certified on, so it spends the larger of the two: here they are the same.
        # Rounded down at most as `noise_of_any_processor` does.
        assert spent.certify_epsilons == pytest.approx(spent.epsilon_by_group, abs=1e-8, rel=0)
        assert spent.delta == 1e-5
        assert spent.n_steps == (1 if spent.noise_allocation == "laplace" else 20)

    def test_that_check_would_notice_a_lost_budget(self):
        """Half the noise spends far more than the interval above allows."""
        from fairdp.accounting.mechanisms import SampledGaussian, epsilon_spent

        noise = fitted().privacy_.noise_multiplier
        halved = SampledGaussian(sample_rate=0.2, noise_multiplier=noise / 2, n_steps=20)
        assert epsilon_spent(halved, 1e-5) > 2 * 1.05

    @pytest.mark.parametrize("parameters", [{"method": "clean"}, {"epsilon": math.inf}])
    def test_training_without_noise_is_labelled(self, parameters):
        model = fitted(**parameters)
        assert math.isinf(model.privacy_.epsilon)
        assert model.privacy_.noise_multiplier == 0
        assert model.privacy_statement().startswith("This model is NOT private")

    def test_average_noise_is_smaller_and_protects_the_large_group_more(self):
        kinds = ("per_group", "average")
        per_group, average = (fitted(noise_allocation=kind, group_sizes="public").privacy_ for kind in kinds)
        assert per_group.epsilon_by_group["f"] == per_group.epsilon_by_group["m"]
        assert average.epsilon_by_group["m"] < 0.8 * average.epsilon_by_group["f"]
        assert average.noise_std < per_group.noise_std

    def test_group_sizes_are_noisy_and_paid_for_unless_the_user_says_otherwise(self):
        model = fitted(**CERTIFIED)
        spent = model.privacy_
        assert spent.group_sizes == "noisy"
        assert spent.counts_std == pytest.approx(19.94, abs=0.01)
        assert 0.999 * 2 <= spent.epsilon <= 2
        assert "no exact count of the records is in what may be published" in model.privacy_statement()
        assert fitted(group_sizes="public").privacy_.noise_multiplier < spent.noise_multiplier
        # noise_std = σ C √(Σ (α / (q n_k))²) shows the sizes that were planned with: not the real ones.
        assert not math.isclose(spent.noise_std, noise_std(spent, (160, 320)), rel_tol=1e-6)

    @pytest.mark.parametrize("fraction", [0.0, 0.2])
    def test_public_group_sizes_are_the_real_ones(self, fraction):
        """Expected sizes after the coins: how many records were held out in truth is nobody's business."""
        spent = fitted(certify_fraction=fraction, group_sizes="public").privacy_
        sizes = ((1 - fraction) * 200, (1 - fraction) * 400)
        assert math.isclose(spent.noise_std, noise_std(spent, sizes), rel_tol=1e-9)

    def test_the_head_obeys_its_bound(self):
        norms = fitted(weight_bound=0.25).score_model_.heads.norm(dim=1)
        assert norms.max() <= 0.25 + 1e-5
        assert fitted(weight_bound=100.0).score_model_.heads.norm(dim=1).max() > 0.25

    def test_with_records_for_it_there_is_one(self):
        model = fitted(**CERTIFIED)
        assert model.certificate_["certified"] is True
        assert model.certificate_statement().startswith("With confidence 95 %")
        assert "was not trained on but counted with noise" in model.privacy_statement()
        assert model.n_train_ + model.n_certify_ == 600
        assert model.n_certify_ > 0


class TestModels:
    def test_a_module_of_the_users_own(self):
        def build():
            return nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 4), nn.Tanh())

        first, again = scores_of(module=build), scores_of(module=build)
        np.testing.assert_array_equal(first, again)
        assert fitted(module=build).score_model_.width == 4

    def test_a_convolution_over_columns(self):
        def build():
            return nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 2), nn.ReLU(), nn.Flatten())

        model = fitted(module=build)
        assert model.score_model_.width == 4
        assert 0.95 * 2 <= model.privacy_.epsilon <= 2

    def test_layers_that_mix_records_are_refused_by_name(self):
        with pytest.raises(
            ValueError, match=r"layer '1' \(BatchNorm1d\) mixes the records of a batch; use nn.GroupNorm"
        ):
            fitted(module=lambda: nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8)))

    @pytest.mark.parametrize(
        "parameters",
        [
            {"model": "logistic"},
            {"model": "mlp", "hidden": (8, 4), "activation": "tanh"},
            {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.5},
            {"optimizer": "adam_then_sgd"},
            {"optimizer": "adam_then_sgd", "adam_share": 0.3},
            {"schedule": "shamir_zhang"},
            {"schedule": "theorem_4_printed"},
            {"learning_rate": (0.1, 0.01, 0.001)},
            {"n_members": 1},
            {"sample_rate": 1.0},
        ],
        ids=str,
    )
    def test_every_option_trains_and_changes_the_result(self, parameters):
        scores = scores_of(**parameters)
        assert np.isfinite(scores).all()
        assert not np.array_equal(scores, scores_of())

    def test_records_with_a_dead_embedding_do_no_harm(self):
        """All-zero records through a ReLU layer without bias: the embedding is zero."""
        X, y, a = people()
        X = np.where(np.arange(600)[:, None] % 2 == 0, 0, X)

        def build():
            layers = [nn.Linear(3, 4, bias=False), nn.ReLU()]
            return nn.Sequential(*layers)

        assert np.isfinite(fitted(data=(X, y, a), module=build).decision_function(X)).all()

    def test_constant_records_train_to_finite_scores(self):
        X, y, a = people()
        assert np.isfinite(fitted(data=(np.zeros_like(X), y, a)).decision_function(X)).all()

    @pytest.mark.parametrize("channels", [1, 3])
    def test_images_get_the_convolutional_network(self, channels):
        rng = np.random.default_rng(0)
        images = rng.random((120, channels, 8, 8), dtype=np.float32)
        y = (images.mean((1, 2, 3)) > 0.5).astype(int)
        sex = np.tile(["f", "m"], 60)
        model = FairDPClassifier(**SHORT, random_state=0).fit(images, y, sensitive_features=sex)
        assert model.fitted_.model.kind == "cnn"
        assert model.predict(images).shape == (120,)
        assert 0.95 * 2 <= model.privacy_.epsilon <= 2
