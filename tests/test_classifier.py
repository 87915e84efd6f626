"""The scikit-learn classifier: its contract, groups, predictions and chance."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator, check_estimators_overwrite_params

from classifier_cases import CERTIFIED, SHORT, auc_of, fitted, people, scores_of
from fairdp import METHODS, FairDPClassifier

pytestmark = pytest.mark.usefixtures("rough_bounds")

# One of each kind: steps, one closed form, another rule for each group. The others differ in their recipe alone.
KINDS = ("fairdp", "fairfm", "dp_postprocess")


class TestScikitLearn:
    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize(
        "method", [name if name in KINDS else pytest.param(name, marks=pytest.mark.more) for name in METHODS]
    )
    def test_every_estimator_check_passes(self, method):
        estimator = FairDPClassifier(method=method, n_steps=5, sample_rate=0.5)
        results = check_estimator(estimator, on_skip=None, on_fail=None)
        found = {result["check_name"]: (result["status"], result["exception"]) for result in results}
        failed = {name: why for name, (status, why) in found.items() if status not in ("passed", "skipped")}
        assert not failed
        assert {name for name, (status, _) in found.items() if status == "skipped"} <= {"check_array_api_input"}
        assert len(found) > 40

    @pytest.mark.filterwarnings("ignore")
    def test_those_checks_notice_a_fit_that_writes_to_its_parameters(self):
        class Careless(FairDPClassifier):
            def fit(self, X, y):
                super().fit(X, y)
                self.n_steps = 7
                return self

        with pytest.raises(AssertionError, match="n_steps"):
            check_estimators_overwrite_params("Careless", Careless(n_steps=5, sample_rate=0.5))

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
        model = fitted(**CERTIFIED)
        copy = pickle.loads(pickle.dumps(model))
        X = people()[0]
        np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
        assert copy.privacy_ == model.privacy_
        assert copy.certificate_ == model.certificate_

    @pytest.mark.filterwarnings("ignore")
    def test_it_works_in_a_grid_search(self):
        X, y, _ = people()
        grid = {"learning_rate": [0.01, 0.1]}
        search = GridSearchCV(FairDPClassifier(epsilon=math.inf, n_steps=5, sample_rate=0.5), grid, cv=2).fit(X, y)
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
        X = people()[0]
        first, again, other = (fitted(method=method, random_state=seed, **CERTIFIED) for seed in (3, 3, 4))
        np.testing.assert_array_equal(first.decision_function(X), again.decision_function(X))
        assert first.certificate_ == again.certificate_
        assert not np.array_equal(first.decision_function(X), other.decision_function(X))
        assert first.certificate_.counts != other.certificate_.counts

    def test_without_a_seed_every_fit_is_different_and_says_so(self):
        X = people()[0]
        free, freely, seeded = (fitted(random_state=seed, **CERTIFIED) for seed in (None, None, 0))
        assert not np.array_equal(free.decision_function(X), freely.decision_function(X))
        assert free.certificate_.counts != freely.certificate_.counts
        assert not free.privacy_.noise_seeded
        assert seeded.privacy_.noise_seeded
        assert "seed is secret" in seeded.privacy_statement()
        assert "seed is secret" not in free.privacy_statement()

    def test_global_generators_are_neither_used_nor_moved(self):
        import torch

        torch.manual_seed(1)
        first, following = scores_of(**CERTIFIED), torch.rand(3)
        torch.manual_seed(1)
        expected = torch.rand(3)
        assert torch.equal(following, expected)
        np.testing.assert_array_equal(first, scores_of(**CERTIFIED))

    def test_a_random_state_object_is_a_seed(self):
        first, again = (scores_of(random_state=np.random.RandomState(5)) for _ in range(2))
        np.testing.assert_array_equal(first, again)

    def test_the_physical_batch_size_does_not_change_the_result(self):
        np.testing.assert_allclose(scores_of(max_physical_batch_size=7), scores_of(), atol=1e-4)


@pytest.mark.parametrize("certify_fraction", [0.0, 0.2])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.more), pytest.param(2, marks=pytest.mark.more)])
def test_labels_that_are_coins_are_never_called_learnt(certify_fraction, seed):
    """Eight numbers become two thousand entries, which a model at ε = 5 fits to its training records all the same."""
    rng = np.random.default_rng(5 + seed)
    X, y, groups = rng.random((6000, 8)), rng.integers(2, size=6000), rng.integers(2, size=6000)
    settings = {**CERTIFIED, "certify_fraction": certify_fraction}
    model = FairDPClassifier(epsilon=5.0, random_state=seed, **settings).fit(X, y, sensitive_features=groups)
    assert model.verdict_.quality.learnt != "yes"
    assert model.verdict_.verdict != "good"
