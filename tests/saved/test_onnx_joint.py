"""Joint models as ONNX files: what they decide by and what they believe of the label are two outputs."""

from functools import cache

import numpy as np
import pytest
import torch

from classifier_cases import fitted, people
from cli_cases import SCHEMA
from cli_cases import people as table_of_people
from fairdp import FairDPClassifier, load_dataset
from fairdp.data.schema import TableSchema
from fairdp.data.tables import encode_table
from fairdp.saved.onnx import onnx_bytes
from onnx_cases import ROUNDING, Own, outputs_of

JOINT = {"method": "fairdp_frontier", "certify_fraction": 0.0, "random_state": 0}
# Prices, so that no score is a function of the probability.
VALUES = torch.tensor([-1.6, 0.4, 0.3, 2.3], dtype=torch.float64)


def priced(model: FairDPClassifier) -> FairDPClassifier:
    model.score_model_.cell_values = VALUES
    return model


def assert_decides_as(model: FairDPClassifier, content: bytes, X: np.ndarray) -> None:
    theirs, scores = outputs_of(content, X), model.decision_function(X)
    np.testing.assert_allclose(theirs["score"], scores, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(theirs["probability"], model.predict_proba(X)[:, 1], rtol=0, atol=ROUNDING)
    sure = np.abs(scores) > ROUNDING
    assert sure.mean() > 0.99
    np.testing.assert_array_equal(theirs["decision"][sure], model.predict(X)[sure])


@cache
def images(channels=1, size=16):
    rng = np.random.default_rng(0)
    pictures = rng.random((120, channels, size, size), dtype=np.float32)
    return pictures, rng.integers(0, 2, 120), rng.choice(["f", "m"], 120)


@cache
def table():
    """Numbers among the columns, so that rows have linear splines and bins."""
    schema = TableSchema.from_dict(SCHEMA | {"declared": True})
    data = encode_table(table_of_people(), schema)
    model = FairDPClassifier(**JOINT, epsilon=2.0, n_steps=20).fit_grouped(data, feature_schema=schema.to_dict())
    return priced(model), data.X, onnx_bytes(model)


def test_of_a_table_with_numbers_for_one_record_and_for_many():
    model, X, content = table()
    assert model.score_model_.extractor.numeric
    for records in (X, X[:1], X[:7]):
        assert_decides_as(model, content, records)


def test_the_probability_is_not_made_from_the_score():
    _, X, content = table()
    theirs = outputs_of(content, X)
    assert np.abs(theirs["probability"] - 1 / (1 + np.exp(-theirs["score"]))).max() > 0.05


def test_that_check_knows_other_prices():
    """The negative control of all comparisons here."""
    model, X, content = table()
    model.score_model_.cell_values = VALUES + 1e-4
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_decides_as(model, content, X)
    model.score_model_.cell_values = VALUES


@pytest.mark.more
@pytest.mark.parametrize("parameters", [{}, {"model": "mlp"}, {"module": Own}], ids=str)
def test_of_other_networks_and_of_code_that_sees_one_record_at_a_time(parameters):
    model = priced(fitted(**JOINT, **parameters))
    assert_decides_as(model, onnx_bytes(model), people()[0])


@pytest.mark.more
@pytest.mark.parametrize(
    ("channels", "parameters"), [(1, {}), (3, {}), (1, {"model": "cnn"})], ids=["grey", "colours", "cnn"]
)
def test_of_images(channels, parameters):
    data = images(channels)
    model = priced(fitted(data=data, **JOINT, **parameters))
    assert_decides_as(model, onnx_bytes(model), data[0])


@pytest.mark.more
@pytest.mark.needs_data("adult")
def test_of_all_test_records_of_adult():
    data = load_dataset("adult")
    model = FairDPClassifier(**JOINT).fit_grouped(data.train)
    assert_decides_as(model, onnx_bytes(model), data.test.X)
