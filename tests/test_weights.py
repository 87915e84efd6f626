"""Weights of records: a share of one record's contribution, never more than is accounted for."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from classifier_cases import SHORT, fitted, people
from fairdp import FairDPClassifier
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import make_plan
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData, shares_of
from fairdp.methods import METHODS
from fairdp.networks.model import ScoreModel, mlp
from fairdp.randomness import Generators
from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState
from step_cases import clipped_sum

ROUNDING = 1 + 1e-5
CONFIG = TrainConfig(sample_rate=0.5, n_steps=3, clip_norm=0.1, learning_rates=(0.05,), n_members=1)
GRADIENT_METHODS = [name for name, method in METHODS.items() if method.private and not method.closed_form]


def weighted(weights: np.ndarray) -> GroupedData:
    rng = np.random.default_rng(0)
    n_samples = len(weights)
    X = rng.standard_cauchy((n_samples, 3)).astype(np.float32)
    return GroupedData(X, rng.integers(2, size=n_samples), np.arange(n_samples) % 2, ("a", "b"), weights)


def released(data: GroupedData, kept: list[int], method: str = "dpsgd"):
    """The sum that one step would release of these records, and each group's sensitivity."""
    torch.manual_seed(0)
    recipe = METHODS[method].recipe(CONFIG, (6.0, 6.0))
    model = ScoreModel(mlp(3, (4,)), (3,), n_cells=recipe.n_cells)
    plan = make_plan(recipe, PrivacyBudget(epsilon=1.0, delta=1e-5), n_steps=3)
    state = TrainingState(model, FlatOptimizer("sgd", 0.0), Generators.of(0).steps)
    bounded = clipped_sum(Trainer(state, data, plan, CONFIG), torch.tensor(kept))
    return bounded.total, np.broadcast_to(bounded.sensitivities, 2)


def largest_move(data: GroupedData, method: str = "dpsgd") -> float:
    """The most that removing a record moves the sum, over its sensitivity."""
    everybody = list(range(data.n_samples))
    whole, sensitivities = released(data, everybody, method)
    moves = [
        float((whole - released(data, [i for i in everybody if i != gone], method)[0]).norm())
        / sensitivities[data.groups[gone]]
        for gone in everybody
    ]
    return max(moves)


@pytest.mark.parametrize("method", [name for name in GRADIENT_METHODS if not METHODS[name].smooths])
def test_no_weighted_record_moves_the_sum_by_more_than_its_sensitivity(method):
    assert largest_move(weighted(np.linspace(0, 1, 12)), method) <= ROUNDING


def test_that_check_notices_a_weight_above_one():
    data = weighted(np.ones(12))
    object.__setattr__(data, "weights", np.full(12, 1.5))
    assert largest_move(data) > ROUNDING


def test_a_weight_is_a_share_of_the_clipped_gradient():
    whole, half = weighted(np.ones(12)), weighted(np.full(12, 0.5))
    torch.testing.assert_close(released(half, [3])[0], released(whole, [3])[0] / 2)
    assert released(whole, [3])[0].norm() > 0
    assert released(replace(whole, weights=np.zeros(12)), [3])[0].norm() == 0


def test_weights_go_with_their_records():
    data = weighted(np.linspace(0, 1, 12))
    np.testing.assert_array_equal(data.take(np.array([5, 2])).weights, data.weights[[5, 2]])
    np.testing.assert_array_equal(data.by_label().weights, data.weights)


@pytest.mark.parametrize("weights", [np.full(12, 1.1), np.full(12, -0.1), np.full(12, np.nan), np.ones(11)])
def test_data_with_other_weights_are_refused(weights):
    with pytest.raises(ValueError, match="weights must hold a number from 0 to 1 for each record"):
        replace(weighted(np.ones(12)), weights=weights)


@pytest.mark.parametrize("method", GRADIENT_METHODS)
def test_every_method_heeds_weights(method):
    """Records of one label with hardly any weight leave a model that hardly knows it."""
    X, y, sex = people()
    settings = {**SHORT, "method": method, "epsilon": np.inf, "random_state": 0, "n_steps": 60}
    plain = FairDPClassifier(**settings).fit(X, y, sensitive_features=sex)
    weights = np.where(y == 1, 1.0, 0.01)
    heedful = FairDPClassifier(**settings).fit(X, y, sensitive_features=sex, sample_weight=weights)
    assert heedful.decision_function(X).mean() > plain.decision_function(X).mean()


def test_weights_are_relative_to_the_largest_that_is_allowed():
    X, y, sex = people()
    weights = np.random.default_rng(0).random(len(y))
    models = [
        FairDPClassifier(**SHORT, random_state=0, max_sample_weight=largest).fit(
            X, y, sensitive_features=sex, sample_weight=weights * largest
        )
        for largest in (1.0, 4.0)
    ]
    np.testing.assert_allclose(models[0].decision_function(X), models[1].decision_function(X), rtol=1e-5)
    assert models[0].privacy_.epsilon == models[1].privacy_.epsilon == fitted().privacy_.epsilon


@pytest.mark.parametrize(
    ("changes", "weights", "message"),
    [
        ({}, np.full(600, 2.0), r"from 0 to max_sample_weight=1, got 2; raise max_sample_weight"),
        ({}, np.full(600, -1.0), r"from 0 to max_sample_weight=1, got -1"),
        ({}, np.full(600, np.nan), r"got nan"),
        ({}, np.ones(5), r"shape \(600,\), one number for each record; got \(5,\)"),
        ({}, people()[1] * 1.0, "sample_weight leaves at most one class with any weight"),
        ({"max_sample_weight": 0}, np.ones(600), "max_sample_weight must be positive, got 0"),
        ({"max_sample_weight": np.inf}, np.ones(600), "max_sample_weight must be finite"),
        ({"method": "fairfm"}, np.ones(600), "method='fairfm' takes no sample_weight"),
    ],
)
def test_other_weights_are_refused_in_one_line(changes, weights, message):
    X, y, sex = people()
    with pytest.raises(ValueError, match=message) as refusal:
        FairDPClassifier(**{**SHORT, **changes}).fit(X, y, sensitive_features=sex, sample_weight=weights)
    assert "\n" not in str(refusal.value)


def test_another_keyword_is_refused_as_python_does_it():
    X, y, sex = people()
    with pytest.raises(TypeError, match="unexpected keyword argument 'sample_weights'"):
        FairDPClassifier(**SHORT).fit(X, y, sensitive_features=sex, sample_weights=np.ones(600))


def test_weights_are_divided_by_what_is_allowed_not_by_what_was_given():
    """The largest weight of a table is somebody's: nobody else's may depend on it."""
    assert shares_of([1, 2], 2, 4.0).tolist() == [0.25, 0.5]
    assert shares_of([1], 1, 4.0).tolist() == [0.25]
