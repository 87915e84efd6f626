"""The scikit-learn classifier: contract, privacy record, refusals, and what it reaches on real data."""

import functools
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from fairdp import METHODS, FairDPClassifier, load_dataset
from fairdp.metrics import area_under_roc

# One plan for nearly all tests: the search for its noise is cached.
SHORT = {"epsilon": 2.0, "n_steps": 20, "sample_rate": 0.2}
PRIVATE = [name for name, method in METHODS.items() if method.private]


@functools.cache
def people(n_samples=600, seed=0):
    """A learnable table: label by the first feature, groups of one third and two thirds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 3)).astype(np.float32)
    y = (X[:, 0] + 0.3 * rng.normal(size=n_samples) > 0).astype(int)
    return X, y, np.array(["f", "m", "m"] * (n_samples // 3))


def fitted(*, data=None, sex=None, **parameters):
    X, y, a = data or people()
    parameters = {**SHORT, "random_state": 0, **parameters}
    return FairDPClassifier(**parameters).fit(X, y, sensitive_features=a if sex is None else sex)


def scores_of(**changes):
    return fitted(**changes).decision_function(people()[0])


def auc_of(model, X, y):
    return area_under_roc(y, model.scores(X))[0]


def private_dataset_auc(name, **parameters):
    data = load_dataset(name)
    model = FairDPClassifier(epsilon=1.0, random_state=0, **parameters).fit_grouped(data.train)
    assert 0.95 <= model.privacy_.epsilon <= 1
    return auc_of(model, data.test.X, data.test.y)


class TestScikitLearn:
    @pytest.mark.parametrize("method", METHODS)
    def test_every_estimator_check_passes(self, method):
        estimator = FairDPClassifier(method=method, n_steps=5, sample_rate=0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = check_estimator(estimator, on_skip=None, on_fail=None)
        found = {result["check_name"]: (result["status"], result["exception"]) for result in results}
        failed = {name: why for name, (status, why) in found.items() if status not in ("passed", "skipped")}
        assert not failed
        assert {name for name, (status, _) in found.items() if status == "skipped"} <= {"check_array_api_input"}
        assert len(found) > 40

    def test_those_checks_notice_a_fit_that_writes_to_its_parameters(self):
        class Careless(FairDPClassifier):
            def fit(self, X, y):
                super().fit(X, y)
                self.n_steps = 7
                return self

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = check_estimator(Careless(n_steps=5, sample_rate=0.5), on_skip=None, on_fail=None)
        assert any(result["status"] == "failed" for result in results)

    def test_parameters_survive_clone_and_set_params(self):
        parameters = {"method": "dpsgd", "epsilon": 3.0, "hidden": (8, 4), "learning_rate": (0.1, 0.01), "n_steps": 7}
        model = FairDPClassifier(**parameters)
        copy = clone(model)
        assert copy.get_params() == model.get_params()
        assert FairDPClassifier().set_params(**model.get_params()).get_params() == model.get_params()
        assert all(copy.get_params()[name] == value for name, value in parameters.items())

    def test_fit_leaves_the_parameters_alone(self):
        model = FairDPClassifier(**SHORT)
        before = dict(model.get_params())
        model.fit(*people()[:2], sensitive_features=people()[2])
        assert model.get_params() == before

    def test_a_fitted_model_can_be_pickled(self):
        model = fitted()
        copy = pickle.loads(pickle.dumps(model))
        X = people()[0]
        np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
        assert copy.privacy_ == model.privacy_

    def test_it_works_in_a_grid_search(self):
        X, y, _ = people()
        grid = {"learning_rate": [0.01, 0.1]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = GridSearchCV(FairDPClassifier(epsilon=math.inf, n_steps=5, sample_rate=0.5), grid, cv=2)
            search.fit(X, y)
        assert set(search.best_params_) == {"learning_rate"}

    def test_prediction_before_fit_is_refused(self):
        for call in ("predict", "predict_proba", "decision_function"):
            with pytest.raises(NotFittedError):
                getattr(FairDPClassifier(), call)(people()[0])
        with pytest.raises(NotFittedError):
            FairDPClassifier().privacy_statement()


class TestGroups:
    def test_every_container_of_groups_gives_the_same_model(self):
        sex = people()[2]
        kinds = [sex, list(sex), pd.Series(sex, index=range(7, 607)), pd.DataFrame({"sex": sex})]
        scores = [scores_of(sex=kind) for kind in kinds]
        for other in scores[1:]:
            np.testing.assert_array_equal(scores[0], other)

    def test_several_columns_are_intersections(self):
        sex = people()[2]
        region = np.repeat(["north", "south"], 300)
        model = fitted(sex=pd.DataFrame({"sex": sex, "region": region}))
        assert model.group_names_ == ("f & north", "f & south", "m & north", "m & south")
        assert set(model.privacy_.epsilon_by_group) == set(model.group_names_)

    def test_no_groups_is_one_group_and_a_warning(self):
        X, y, _ = people()
        with pytest.warns(UserWarning, match=r"^no sensitive_features given: all records are one group\.$"):
            model = FairDPClassifier(**SHORT).fit(X, y)
        assert model.group_names_ == ("all",)

    def test_the_groups_matter_in_training_and_are_not_needed_for_prediction(self):
        X, _, sex = people()
        by_sex, by_chance = fitted(), fitted(sex=np.roll(sex, 1))
        assert not np.array_equal(by_sex.decision_function(X), by_chance.decision_function(X))
        assert by_sex.predict(X).shape == (600,)


class TestPrediction:
    def test_labels_of_any_two_kinds_come_back(self):
        X, y, a = people()
        model = fitted(data=(X, np.where(y == 1, "yes", "no"), a))
        assert model.classes_.tolist() == ["no", "yes"]
        assert set(model.predict(X)) <= {"no", "yes"}
        np.testing.assert_array_equal(model.predict(X) == "yes", model.decision_function(X) >= 0)

    def test_probabilities_follow_the_scores(self):
        X = people()[0]
        model = fitted()
        probabilities = model.predict_proba(X)
        np.testing.assert_allclose(probabilities.sum(1), 1)
        np.testing.assert_allclose(
            np.log(probabilities[:, 1] / probabilities[:, 0]), model.decision_function(X), atol=1e-6
        )

    def test_extreme_scores_give_probabilities_without_overflow(self):
        model = fitted(epsilon=math.inf, weight_bound=math.inf)
        probabilities = model.predict_proba(np.array([[1e6, 0, 0], [-1e6, 0, 0]], dtype=np.float32))
        assert np.isfinite(probabilities).all()

    def test_something_is_learned_without_noise(self):
        X, y, _ = people()
        model = fitted(epsilon=math.inf, n_steps=200, learning_rate=0.05, weight_bound=10.0)
        assert auc_of(model, X, y) > 0.95
        # The labels of other records teach nothing: what is learned is learned from these.
        assert auc_of(fitted(data=(X, np.roll(y, 7), people()[2]), epsilon=math.inf), X, y) < 0.9


class TestRandomness:
    @pytest.mark.parametrize("method", METHODS)
    def test_same_seed_same_scores_other_seed_other_scores(self, method):
        first, again, other = (scores_of(method=method, random_state=seed) for seed in (3, 3, 4))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_without_a_seed_every_fit_is_different_and_says_so(self):
        assert not np.array_equal(scores_of(random_state=None), scores_of(random_state=None))
        assert not fitted(random_state=None).privacy_.noise_seeded
        assert fitted(random_state=0).privacy_.noise_seeded
        assert "seed is secret" in fitted(random_state=0).privacy_statement()
        assert "seed is secret" not in fitted(random_state=None).privacy_statement()

    def test_global_generators_are_neither_used_nor_moved(self):
        import torch

        torch.manual_seed(1)
        first, following = scores_of(), torch.rand(3)
        torch.manual_seed(1)
        expected = torch.rand(3)
        assert torch.equal(following, expected)
        np.testing.assert_array_equal(first, scores_of())

    def test_a_random_state_object_is_a_seed(self):
        first, again = (scores_of(random_state=np.random.RandomState(5)) for _ in range(2))
        np.testing.assert_array_equal(first, again)

    def test_the_physical_batch_size_does_not_change_the_result(self):
        np.testing.assert_allclose(scores_of(max_physical_batch_size=7), scores_of(), atol=1e-4)


class TestPrivacy:
    @pytest.mark.parametrize("method", PRIVATE)
    @pytest.mark.parametrize("epsilon", [0.5, 2.0])
    def test_the_budget_is_used_and_not_exceeded(self, method, epsilon):
        spent = fitted(method=method, epsilon=epsilon).privacy_
        assert 0.95 * epsilon <= spent.epsilon <= epsilon
        assert spent.epsilon == max(spent.epsilon_by_group.values())
        assert spent.delta == 1e-5
        assert spent.n_steps == 20

    def test_that_check_would_notice_a_lost_budget(self):
        """Half the noise spends far more than the interval above allows."""
        from fairdp.accounting import SampledGaussian, epsilon_spent

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
        per_group, average = (fitted(noise_allocation=kind).privacy_ for kind in ("per_group", "average"))
        assert per_group.epsilon_by_group["f"] == per_group.epsilon_by_group["m"]
        assert average.epsilon_by_group["m"] < 0.8 * average.epsilon_by_group["f"]
        assert average.noise_std < per_group.noise_std

    def test_private_group_sizes_are_noisy_and_paid_for(self):
        spent = fitted(group_sizes="private").privacy_
        assert spent.counts_epsilon == pytest.approx(0.05 * 2)
        assert 0.95 * 2 <= spent.epsilon <= 2
        assert spent.group_sizes == "private"
        assert "noisy counts" in fitted(group_sizes="private").privacy_statement()
        # noise_std = σ C √(Σ (α / (q n_k))²) shows the sizes that were planned with: not the real ones.
        real = spent.noise_multiplier * math.hypot(0.5 / (0.2 * 200), 0.5 / (0.2 * 400))
        assert not math.isclose(spent.noise_std, real, rel_tol=1e-6)

    def test_public_group_sizes_are_the_real_ones(self):
        spent = fitted().privacy_
        real = spent.noise_multiplier * math.hypot(0.5 / (0.2 * 200), 0.5 / (0.2 * 400))
        assert math.isclose(spent.noise_std, real, rel_tol=1e-9)

    def test_the_head_obeys_its_bound(self):
        norms = fitted(weight_bound=0.25).score_model_.heads.norm(dim=1)
        assert norms.max() <= 0.25 + 1e-5
        assert fitted(weight_bound=100.0).score_model_.heads.norm(dim=1).max() > 0.25

    def test_there_is_no_certificate_without_records_for_it(self):
        certificate = fitted().certificate_
        assert certificate["certified"] is False
        assert certificate["reason"]


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
            {"normalize_embedding": True},
            {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.5},
            {"optimizer": "adam_then_sgd"},
            {"schedule": "inverse_sqrt"},
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

    def test_unit_embeddings_bound_the_scores(self):
        """|⟨w, z⟩ + b| ≤ √2 ‖(w, b)‖ for a unit z; far records show it, and its absence without it."""
        far = 1e4 * people()[0]
        assert np.abs(fitted(normalize_embedding=True).decision_function(far)).max() <= math.sqrt(2) + 1e-5
        assert np.abs(fitted().decision_function(far)).max() > 10

    @pytest.mark.parametrize("normalize", [False, True])
    def test_records_with_a_dead_embedding_do_no_harm(self, normalize):
        """All-zero records through a ReLU layer without bias: the embedding is zero, its norm has no gradient."""
        X, y, a = people()
        X = np.where(np.arange(600)[:, None] % 2 == 0, 0, X)

        def build():
            layers = [nn.Linear(3, 4, bias=False), nn.ReLU()]
            return nn.Sequential(*layers)

        parameters = {"hidden": (4,), "normalize_embedding": True} if normalize else {"module": build}
        assert np.isfinite(fitted(data=(X, y, a), **parameters).decision_function(X)).all()

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
        assert model.model_config_.kind == "cnn"
        assert model.predict(images).shape == (120,)
        assert 0.95 * 2 <= model.privacy_.epsilon <= 2


class TestRefusals:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"epsilon": 0.0}, r"^epsilon must be positive, got 0\.0\."),
            ({"epsilon": -1}, r"^epsilon must be positive, got -1\."),
            ({"epsilon": float("nan")}, r"^epsilon must be positive, got nan\."),
            ({"delta": 0.0}, r"^delta must be in \(0, 1\), got 0\.0\.$"),
            ({"delta": 0.01}, r"^delta must be below 1/n = 0\.0017 for n = 600 records, got 0\.01\.$"),
            ({"sample_rate": 12.8}, r"^sample_rate must be in \(0, 1\], got 12\.8\. Did you pass a batch size\?$"),
            ({"sample_rate": 0.001}, r"^group 'f' has 200 records, fewer than one per batch at sample_rate=0\.001;"),
            ({"method": "fair"}, r"^method must be one of .*fairdp.*; got 'fair'\.$"),
            ({"model": "tree"}, r"^model must be one of auto, cnn, logistic, mlp; got 'tree'\.$"),
            ({"model": "cnn"}, r"(?s)^model.*cnn.*images"),
            ({"n_steps": 0}, r"^n_steps must be a whole number of at least 1, got 0\.$"),
            ({"n_steps": 2.5}, r"^n_steps must be a whole number of at least 1, got 2\.5\.$"),
            ({"n_members": 0}, r"^n_members must be a whole number of at least 1, got 0\.$"),
            ({"clip_norm": 0.0}, r"^clip_norm must be positive, got 0\.0\.$"),
            ({"clip_norm": math.inf}, r"clip_norm.*inf"),
            ({"weight_bound": -1.0}, r"^weight_bound must be positive, got -1\.0\.$"),
            ({"learning_rate": 0.0}, r"^learning_rate must be positive, got 0\.0\.$"),
            ({"learning_rate": ()}, r"^learning_rate must hold at least one value, got \(\)\.$"),
            ({"hidden": ()}, r"^hidden must name at least one layer size, got \(\)"),
            ({"hidden": (0,)}, r"^hidden must be a whole number of at least 1, got 0\.$"),
            ({"activation": "sine"}, r"^activation must be one of relu, tanh; got 'sine'\.$"),
            ({"optimizer": "lion"}, r"^optimizer must be one of adam, adam_then_sgd, sgd; got 'lion'\.$"),
            ({"schedule": "cosine"}, r"^schedule must be one of inverse_sqrt, piecewise; got 'cosine'\.$"),
            ({"momentum": 1.0}, r"^momentum must be in \[0, 1\), got 1\.0\.$"),
            ({"noise_allocation": "none"}, r"^noise_allocation must be one of average, per_group; got 'none'\.$"),
            ({"group_sizes": "secret"}, r"^group_sizes must be one of private, public; got 'secret'\.$"),
            (
                {"max_physical_batch_size": 0},
                r"^max_physical_batch_size must be a whole number of at least 1, got 0\.$",
            ),
        ],
    )
    def test_a_wrong_parameter_is_named_with_its_value_in_one_line(self, parameters, message):
        with pytest.raises(ValueError, match=message) as caught:
            fitted(**parameters)
        assert "\n" not in str(caught.value)

    def test_labels_must_be_of_two_kinds(self):
        X, y, a = people()
        with pytest.raises(ValueError, match="Only binary classification is supported"):
            fitted(data=(X, np.arange(600) % 3, a))
        with pytest.raises(ValueError, match="only one class is present"):
            fitted(data=(X, np.ones_like(y), a))

    def test_a_tiny_group_is_named_with_its_size(self):
        X, y, sex = people()
        sex = np.where(np.arange(600) < 5, "x", sex)
        with pytest.raises(ValueError, match=r"^group 'x' has 5 records, fewer than one batch \(16\); merge it"):
            fitted(data=(X, y, sex), sample_rate=None)
        with pytest.raises(ValueError, match=r"^group 'x' has 5 records.*use sample_rate of at least 0\.2"):
            fitted(data=(X, y, sex), sample_rate=0.1)
        assert fitted(data=(X, y, sex), sample_rate=0.2).group_names_ == ("f", "m", "x")

    def test_missing_groups_and_wrong_lengths(self):
        sex = people()[2].astype(object)
        with pytest.raises(ValueError, match="sensitive_features has no value for 1 records"):
            fitted(sex=np.where(np.arange(600) == 3, None, sex))
        with pytest.raises(ValueError, match="sensitive_features has 599 entries, but X has 600 records"):
            fitted(sex=sex[1:])

    def test_features_must_be_numbers_that_exist(self):
        X, y, a = people()
        with pytest.raises(ValueError, match="NaN"):
            fitted(data=(np.where(np.arange(600)[:, None] == 3, np.nan, X), y, a))
        with pytest.raises(ValueError, match="features"):
            fitted().predict(X[:, :2])

    def test_records_of_another_shape_are_refused(self):
        """Images of 9 × 9 fit through the layers made for 8 × 8: the answer would mean nothing."""
        images, y = np.random.default_rng(0).random((90, 1, 8, 8), dtype=np.float32), np.arange(90) % 2
        model = FairDPClassifier(**SHORT).fit(images, y, sensitive_features=np.arange(90) // 45)
        assert model.predict(images[:3]).shape == (3,)
        with pytest.raises(ValueError, match="shape"):
            model.predict(np.zeros((3, 1, 9, 9), dtype=np.float32))

    @pytest.mark.parametrize("shape", [(1, 3, 3), (2, 2, 2, 2)])
    def test_images_too_small_for_the_network_are_refused_in_words(self, shape):
        images, y = np.zeros((90, *shape), dtype=np.float32), np.arange(90) % 2
        with pytest.raises(ValueError, match="image"):
            FairDPClassifier(**SHORT, model="cnn").fit(images, y, sensitive_features=np.arange(90) // 45)


class TestSaving:
    @pytest.mark.parametrize(
        "parameters",
        [
            {"n_steps": np.int64(20)},
            {"epsilon": np.float32(2.0)},
            {"hidden": (np.int64(8),)},
            {"n_members": np.int64(3)},
        ],
        ids=str,
    )
    def test_numbers_of_numpy_are_numbers(self, tmp_path, parameters):
        """A grid search sets them."""
        fitted(**parameters).save(tmp_path / "model")
        assert FairDPClassifier.load(tmp_path / "model").get_params()[next(iter(parameters))]

    @pytest.mark.parametrize(
        "parameters",
        [{}, {"model": "logistic"}, {"hidden": (8, 4), "normalize_embedding": True}, {"epsilon": math.inf}],
        ids=str,
    )
    def test_a_saved_model_gives_the_same_scores_and_the_same_record(self, tmp_path, parameters):
        model = fitted(**parameters)
        model.save(tmp_path / "model")
        loaded = FairDPClassifier.load(tmp_path / "model")
        X = people()[0]
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert loaded.privacy_ == model.privacy_
        assert loaded.certificate_ == model.certificate_
        assert loaded.group_names_ == model.group_names_
        expected = {**model.get_params(), "random_state": None}
        assert loaded.get_params() == expected

    def test_text_labels_survive(self, tmp_path):
        X, y, a = people()
        model = fitted(data=(X, np.where(y == 1, "yes", "no"), a))
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(FairDPClassifier.load(tmp_path / "model").predict(X), model.predict(X))

    def test_the_seed_is_not_saved(self, tmp_path):
        """Whoever knows the seed can subtract the noise."""
        fitted(random_state=987654321).save(tmp_path / "model")
        for path in (tmp_path / "model").iterdir():
            assert b"987654321" not in path.read_bytes()

    def test_an_own_module_is_needed_again(self, tmp_path):
        def build():
            return nn.Sequential(nn.Linear(3, 4), nn.Tanh())

        model = fitted(module=build)
        model.save(tmp_path / "model")
        with pytest.raises(ValueError, match="was trained with an own module; pass its builder as module="):
            FairDPClassifier.load(tmp_path / "model")
        X = people()[0]
        loaded = FairDPClassifier.load(tmp_path / "model", module=build)
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))

    def test_only_a_fitted_model_can_be_saved(self, tmp_path):
        with pytest.raises(NotFittedError):
            FairDPClassifier().save(tmp_path / "model")
        assert not (tmp_path / "model").exists()


class TestRealData:
    @pytest.mark.needs_data("adult")
    def test_adult_at_epsilon_one(self):
        assert private_dataset_auc("adult") >= 0.78

    @pytest.mark.needs_data("credit")
    def test_credit_at_epsilon_one(self):
        assert private_dataset_auc("credit") >= 0.74

    @pytest.mark.slow
    @pytest.mark.needs_data("utkface")
    def test_faces_at_epsilon_one(self):
        assert private_dataset_auc("utkface") >= 0.74

    @pytest.mark.slow
    @pytest.mark.needs_data("adult")
    def test_average_noise_learns_no_less_than_noise_per_group(self):
        """Less noise at the same epsilon: over five seeds the mean AUC must not fall behind by more than 0.01."""
        data = load_dataset("adult")
        means = {}
        for kind in ("average", "per_group"):
            settings = {"epsilon": 0.5, "n_steps": 500, "noise_allocation": kind}
            models = [FairDPClassifier(**settings, random_state=seed).fit_grouped(data.train) for seed in range(5)]
            means[kind] = np.mean([auc_of(model, data.test.X, data.test.y) for model in models])
        assert means["average"] >= means["per_group"] - 0.01
