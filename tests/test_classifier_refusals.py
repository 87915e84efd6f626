"""The scikit-learn classifier: what it refuses, what it saves, what it reaches on real data."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from torch import nn

from classifier_cases import CERTIFIED, SHORT, auc_of, fitted, people, private_dataset_auc
from fairdp import FairDPClassifier, load_dataset
from fairdp._io import claimed
from fairdp.errors import SavedModelError
from fairdp.saved.verify import verify_folder

pytestmark = pytest.mark.usefixtures("rough_bounds")

PUBLIC = {"group_sizes": "public"}


class TestRefusals:
    @pytest.mark.parametrize(
        "parameters",
        [
            {"epsilon": 0.0},
            {"epsilon": -1},
            {"epsilon": float("nan")},
            {"delta": 0.0},
            {"delta": 0.01, **PUBLIC},
            {"sample_rate": 12.8},
            {"sample_rate": 0.001, **PUBLIC},
            {"method": "fair"},
            {"model": "tree"},
            {"model": "cnn"},
            {"n_steps": 0},
            {"n_steps": 2.5},
            {"n_members": 0},
            {"clip_norm": 0.0},
            {"clip_norm": math.inf},
            {"weight_bound": -1.0},
            {"learning_rate": 0.0},
            {"learning_rate": ()},
            {"hidden": ()},
            {"hidden": (0,)},
            {"activation": "sine"},
            {"optimizer": "lion"},
            {"schedule": "cosine"},
            {"momentum": 1.0},
            {"noise_allocation": "none"},
            {"group_sizes": "private"},
            {"group_sizes": {"f": 0, "m": 1}},
            {"group_sizes": {"f": 1}, "groups": ("f", "m")},
            {"groups": ("f", "f")},
            {"groups": ("f", "x")},
            {"group_optimizers": True, "noise_allocation": "average"},
            {"group_optimizers": True, "method": "dpsgd"},
            {"group_weights": {"f": 1, "m": 1}, "method": "dp_is_sgd"},
            {"group_weights": {"f": 0, "m": 1}},
            {"group_weights": "f=1"},
            {"group_weights": {"f": 1}},
            {"group_optimizers": 1},
            {"bias": False, "method": "fairdp_frontier"},
            {"bias": False, "method": "fairfm"},
            {"bias": None},
            {"max_physical_batch_size": 0},
        ],
        ids=str,
    )
    def test_a_wrong_parameter_is_named_with_its_value_in_one_line(self, refuses, parameters):
        refuses(lambda: fitted(**parameters), *parameters)

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
            fitted(data=(X, y, sex), **PUBLIC, sample_rate=None)
        with pytest.raises(ValueError, match=r"^group 'x' has 5 records.*use sample_rate of at least 0\.2"):
            fitted(data=(X, y, sex), **PUBLIC, sample_rate=0.1)
        assert fitted(data=(X, y, sex), **PUBLIC, sample_rate=0.2).group_names_ == ("f", "m", "x")
        # Four of the five are expected to be trained on when a fifth is held out.
        with pytest.raises(ValueError, match=r"^group 'x' .*use sample_rate of at least 0\.25"):
            fitted(data=(X, y, sex), **PUBLIC, sample_rate=0.2, **CERTIFIED)
        assert fitted(data=(X, y, sex), **PUBLIC, sample_rate=0.25, **CERTIFIED).group_names_ == ("f", "m", "x")
        # Counted with noise, it is planned with as many as noise alone might show, and no run ends for it.
        assert min(fitted(data=(X, y, sex), sample_rate=None).privacy_.planned_sizes.values()) > 39

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
        [
            {},
            {"certify_fraction": 0.0},
            {"model": "logistic"},
            {"hidden": (8, 4)},
            {"epsilon": math.inf},
            {"certify_metrics": ("demographic_parity",), "require_tau": 0.3, "n_looks": 2},
            {"predictor": "gibbs"},
            {"predictor": "smoothed"},
            {"predictor": "smoothed", "bias": False, "group_weights": {"m": 2, "f": 1}, "group_optimizers": True},
        ],
        ids=str,
    )
    def test_a_saved_model_gives_the_same_scores_and_the_same_record(self, tmp_path, parameters):
        model = fitted(**{**CERTIFIED, **parameters})
        model.save(tmp_path / "model")
        loaded = FairDPClassifier.load(tmp_path / "model")
        X = people()[0]
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert loaded.privacy_ == model.privacy_
        assert loaded.certificate_ == model.certificate_
        assert loaded.certificate_statement() == model.certificate_statement()
        assert loaded.predictor_ == model.predictor_
        assert loaded.group_names_ == model.group_names_
        expected = {**model.get_params(), "random_state": None}
        assert loaded.get_params() == expected
        assert all(check.passed for check in verify_folder(tmp_path / "model"))

    def test_a_model_is_saved_over_another_only_if_that_is_said_and_by_one_at_a_time(self, tmp_path):
        first, second = fitted(), fitted(epsilon=1.0)
        first.save(tmp_path / "model")
        before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
        refusal = r"model' holds a model already; choose another folder, or add overwrite to replace it\.$"
        with pytest.raises(SavedModelError, match=refusal):
            second.save(tmp_path / "model")
        with (
            claimed(tmp_path / "model"),
            pytest.raises(SavedModelError, match=r"another command is writing to .*model'; wait for its end"),
        ):
            second.save(tmp_path / "model", overwrite=True)
        assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before
        assert [path.name for path in tmp_path.iterdir()] == ["model"]
        second.save(tmp_path / "model", overwrite=True)
        assert FairDPClassifier.load(tmp_path / "model").privacy_ == second.privacy_

    def test_text_labels_survive(self, tmp_path):
        X, y, a = people()
        model = fitted(data=(X, np.where(y == 1, "yes", "no"), a))
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(FairDPClassifier.load(tmp_path / "model").predict(X), model.predict(X))

    def test_names_of_features_survive_so_that_swapped_columns_are_refused(self, tmp_path):
        X, y, a = people()
        frame = pd.DataFrame(X, columns=["age", "income", "since"])
        fitted(data=(frame, y, a)).save(tmp_path / "model")
        loaded = FairDPClassifier.load(tmp_path / "model")
        assert loaded.predict(frame).shape == (600,)
        with pytest.raises(ValueError, match="feature names should match"):
            loaded.predict(frame[["income", "age", "since"]])

    def test_models_without_names_of_features_have_none(self, tmp_path):
        fitted().save(tmp_path / "arrays")
        loaded = FairDPClassifier.load(tmp_path / "arrays")
        assert (loaded.n_features_in_, hasattr(loaded, "feature_names_in_")) == (3, False)

    def test_the_seed_is_not_saved(self, tmp_path):
        """Whoever knows the seed can subtract the noise."""
        fitted(random_state=987654321, **CERTIFIED).save(tmp_path / "model")
        for path in (tmp_path / "model").iterdir():
            assert b"987654321" not in path.read_bytes()

    def test_an_own_module_is_needed_again(self, tmp_path):
        def build():
            return nn.Sequential(nn.Linear(3, 4), nn.Tanh())

        model = fitted(module=build)
        model.save(tmp_path / "model")
        with pytest.raises(ValueError, match="was trained with your own module; pass its builder as module="):
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

    @pytest.mark.more
    @pytest.mark.needs_data("credit")
    def test_credit_at_epsilon_one(self):
        assert private_dataset_auc("credit") >= 0.74

    @pytest.mark.more
    @pytest.mark.needs_data("utkface")
    def test_faces_at_epsilon_one(self):
        assert private_dataset_auc("utkface", n_steps=100) >= 0.74

    @pytest.mark.more
    @pytest.mark.needs_data("adult")
    def test_average_noise_learns_no_less_than_noise_per_group(self):
        """Less noise at the same epsilon: over two seeds the mean AUC must not fall behind by more than 0.01."""
        data = load_dataset("adult")
        means = {}
        for kind in ("average", "per_group"):
            settings = {"epsilon": 0.5, "n_steps": 75, "noise_allocation": kind, "certify_fraction": 0.0}
            models = [FairDPClassifier(**settings, random_state=seed).fit_grouped(data.train) for seed in range(2)]
            means[kind] = np.mean([auc_of(model, data.test.X, data.test.y) for model in models])
        assert means["average"] >= means["per_group"] - 0.01


def test_missing_values_and_words_get_a_remedy_that_is_private():
    """scikit-learn advises an imputer, which would read the private rows."""
    X, y, sex = people()
    broken = X.copy()
    broken[3, 1] = np.nan
    words = np.full(X.shape, "x", dtype=object)
    for records, line in (
        (broken, "Input X contains NaN; fill missing values"),
        (words, "declare what the columns may hold"),
    ):
        with pytest.raises(ValueError, match=line) as refusal:
            FairDPClassifier(**SHORT).fit(records, y, sensitive_features=sex)
        assert "\n" not in str(refusal.value)
        assert "imputer" not in str(refusal.value)


def test_a_parameter_that_does_not_exist_is_refused_in_the_name_of_the_classifier():
    with pytest.raises(TypeError, match=r"^FairDPClassifier\.__init__\(\) got an unexpected keyword argument 'looks'"):
        FairDPClassifier(looks=2)
