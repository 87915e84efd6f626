"""Steps that learn from private rows before an estimator does are noticed; others, and estimators alone, are not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from fairdp import SchemaEncoder
from fairdp.classifier import fitted_before
from reason_cases import APPLICANTS, applicants

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.arange(40) % 2


class Asks(ClassifierMixin, BaseEstimator):
    """A classifier that asks, while it is fitted, what was fitted before it."""

    def __init__(self, number=0):
        self.number = number

    def fit(self, X, y=None):
        self.classes_, self.before_ = np.array([0, 1]), fitted_before()
        self.coef_ = np.ones((1, X.shape[1]))
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


def before(*steps, X=X) -> tuple[str, ...]:
    return make_pipeline(*steps, Asks()).fit(X, Y[: len(X)])[-1].before_


def test_an_estimator_alone_has_nothing_before_it():
    assert Asks().fit(X, Y).before_ == ()
    # A pipeline that was fitted earlier, or is fitted elsewhere, is not before it.
    make_pipeline(StandardScaler(), Asks()).fit(X, Y)
    assert Asks().fit(X, Y).before_ == ()


def test_what_learns_from_rows_is_named_once_and_in_order():
    assert before(SimpleImputer(), StandardScaler(), StandardScaler()) == ("SimpleImputer", "StandardScaler")


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(np.abs),
        Normalizer(),
        PolynomialFeatures(2),
        SimpleImputer(strategy="constant", fill_value=0),
        "passthrough",
        None,
    ],
)
def test_what_learns_nothing_is_not_named(step):
    assert Pipeline([("step", step), ("model", Asks())]).fit(X, Y)[-1].before_ == ()


def test_categories_are_learnt_unless_they_are_declared():
    words = pd.DataFrame({"job": ["a", "b"] * 20})
    assert before(OneHotEncoder(sparse_output=False), X=words) == ("OneHotEncoder",)
    assert before(OneHotEncoder(categories=[["a", "b"]], sparse_output=False), X=words) == ()
    grouped = OneHotEncoder(categories=[["a", "b"]], max_categories=1, sparse_output=False)
    assert before(grouped, X=words) == ("OneHotEncoder",)


def test_a_missing_value_indicator_learns_which_columns_have_gaps():
    assert before(SimpleImputer(strategy="constant", fill_value=0, add_indicator=True)) == ("SimpleImputer",)


def test_a_declared_schema_is_no_learning():
    table = applicants(40)
    assert before(SchemaEncoder(APPLICANTS), X=table) == ()
    assert before(SchemaEncoder(APPLICANTS), PCA(2), X=table) == ("PCA",)


def test_steps_inside_other_steps_are_found():
    columns = ColumnTransformer(
        [("number", make_pipeline(SimpleImputer(), MinMaxScaler()), [0, 1]), ("rest", "passthrough", [2])]
    )
    assert before(columns) == ("SimpleImputer", "MinMaxScaler")
    assert before(ColumnTransformer([("one", "passthrough", [0])], remainder=StandardScaler())) == ("StandardScaler",)
    assert before(FeatureUnion([("a", PCA(2)), ("b", Normalizer())])) == ("PCA",)


def test_a_pipeline_in_a_pipeline_knows_both():
    inner = make_pipeline(PCA(2), Asks())
    assert make_pipeline(StandardScaler(), inner).fit(X, Y)[-1][-1].before_ == ("StandardScaler", "PCA")


def test_a_search_over_a_pipeline_and_a_search_in_one_are_seen_through():
    grid = {"asks__number": [0, 1]}
    search = GridSearchCV(make_pipeline(StandardScaler(), Asks()), grid, cv=2).fit(X, Y)
    assert search.best_estimator_[-1].before_ == ("StandardScaler",)
    inside = make_pipeline(StandardScaler(), GridSearchCV(Asks(), {"number": [0, 1]}, cv=2)).fit(X, Y)
    assert inside[-1].best_estimator_.before_ == ("StandardScaler",)


def test_cross_validation_is_seen_through():
    found = cross_validate(make_pipeline(StandardScaler(), Asks()), X, Y, cv=2, return_estimator=True)
    assert [model[-1].before_ for model in found["estimator"]] == [("StandardScaler",)] * 2


def test_only_steps_before_the_one_that_is_fitted_count():
    """An estimator that selects features comes before the scaler behind it."""
    selecting = SelectFromModel(Asks(), threshold=-np.inf)
    fitted = make_pipeline(Normalizer(), PCA(2), selecting, StandardScaler(), Asks()).fit(X, Y)
    assert fitted[2].estimator_.before_ == ("PCA",)
    assert fitted[-1].before_ == ("PCA", "SelectFromModel", "StandardScaler")
