"""The estimator among scikit-learn's own: pipelines, searches, cross-validation, with metadata routing."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from classifier_cases import SHORT, people
from fairdp import FairDPClassifier, gap_scorer

pytestmark = pytest.mark.usefixtures("rough_bounds")


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def loans() -> tuple[pd.DataFrame, np.ndarray, pd.Series]:
    X, y, sex = people()
    frame = pd.DataFrame(X, columns=["income", "age", "debt"])
    frame["region"] = np.array(["north", "south", "west"])[np.arange(len(y)) % 3]
    return frame, y, pd.Series(sex, name="sex")


def classifier(**changes) -> FairDPClassifier:
    return FairDPClassifier(**{**SHORT, "random_state": 0, **changes})


def pipeline(model: FairDPClassifier) -> Pipeline:
    columns = ColumnTransformer(
        [
            ("number", MinMaxScaler(), ["income", "age", "debt"]),
            ("word", OneHotEncoder(sparse_output=False), ["region"]),
        ]
    )
    return Pipeline([("columns", columns), ("model", model)])


def test_a_grid_search_over_a_pipeline_routes_the_groups(routing):
    X, y, sex = loans()
    model = classifier().set_fit_request(sensitive_features=True, sample_weight=True)
    model.set_score_request(sensitive_features=True, sample_weight=False)
    search = GridSearchCV(
        pipeline(model),
        {"model__learning_rate": [0.01, 0.1], "model__method": ["dpsgd", "raco_dp"]},
        scoring=gap_scorer(0.3),
        cv=2,
    )
    search.fit(X, y, sensitive_features=sex, sample_weight=np.ones(len(y)))
    best = search.best_estimator_.named_steps["model"]
    assert best.group_names_ == ("f", "m")
    assert set(search.best_params_) == {"model__learning_rate", "model__method"}
    # By the score that was asked for: nothing above the gap wins against something within it.
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    assert search.predict(X).shape == y.shape


def test_the_scorer_asks_for_routing():
    with pytest.raises(ValueError, match=r"set_config\(enable_metadata_routing=True\)"):
        gap_scorer(0.1)


def test_the_scorer_refuses_a_percentage(routing):
    with pytest.raises(ValueError, match=r"max_gap must be in \[0, 1\]"):
        gap_scorer(5)
    with pytest.raises(ValueError, match="parity must be one of"):
        gap_scorer(0.1, parity="fairness")


def test_the_scorer_scores_what_the_model_decides(routing):
    X, y, sex = people()
    model = classifier().fit(X, y, sensitive_features=sex)
    decided = model.predict(X)
    gap = abs(decided[sex == "f"].mean() - decided[sex == "m"].mean())
    assert gap_scorer(1.0)(model, X, y, sensitive_features=sex) == pytest.approx((decided == y).mean())
    assert gap_scorer(0.0)(model, X, y, sensitive_features=sex) == pytest.approx(-gap)


def test_cross_validation_routes_groups_and_weights(routing):
    X, y, sex = loans()
    seen = []

    class Noting(FairDPClassifier):
        def fit_grouped(self, data, **options):
            seen.append((data.group_names, data.weights))
            return super().fit_grouped(data, **options)

    model = Noting(**SHORT, random_state=0).set_fit_request(sensitive_features=True, sample_weight=True)
    model.set_score_request(sensitive_features=True, sample_weight=True)
    weights = np.linspace(0, 1, len(y))
    found = cross_validate(
        pipeline(model), X, y, cv=3, params={"sensitive_features": sex, "sample_weight": weights}, error_score="raise"
    )
    assert len(found["test_score"]) == 3
    assert [names for names, _ in seen] == [("f", "m")] * 3
    assert all(len(shares) == 400 for _, shares in seen)


def test_the_older_form_with_the_name_of_the_step():
    X, y, sex = loans()
    fitted = pipeline(classifier()).fit(X, y, model__sensitive_features=sex, model__sample_weight=np.ones(len(y)))
    assert fitted.named_steps["model"].group_names_ == ("f", "m")


def test_output_of_frames_reaches_the_model():
    X, y, sex = loans()
    steps = pipeline(classifier()).set_output(transform="pandas")
    steps.fit(X, y, model__sensitive_features=sex)
    names = steps.named_steps["model"].feature_names_in_
    assert names[0] == "number__income"
    assert len(names) == 6


def test_a_group_that_is_not_routed_is_one_group_and_said_so():
    X, y, _ = people()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make_pipeline(MinMaxScaler(), classifier()).fit(X, y)
    assert any("all records are one group" in str(warning.message) for warning in caught)
