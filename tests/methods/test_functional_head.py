"""The functional mechanism: the minimiser of its noisy polynomial, and the head that is its mean over the groups."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import make_plan
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.methods.functional import (
    PartScales,
    bounded_inputs,
    coefficients,
    fair_functional_head,
    features_of,
    head_of,
    minimiser,
    noise_scales,
    release,
    solve,
)
from fairdp.networks.extractors import logistic
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.releases import watching
from functional_cases import matrix_of, records, source

SILENT = PartScales(0.0, 0.0)


def test_without_noise_the_minimiser_solves_the_quadratic():
    X, y = records(300, 5)
    coefs = coefficients(features_of(X), y)
    w = minimiser(release(coefs, scales=SILENT, rand_below=source()), scales=SILENT)
    assert np.allclose(coefs[:6] + 2 * matrix_of(coefs, 6) @ w, 0, atol=1e-9)


def test_without_noise_collinear_inputs_still_give_a_minimiser():
    """One-hot columns add up to the constant: the matrix is singular, and the shortest minimiser is taken."""
    rng = np.random.default_rng(0)
    X, y = np.eye(4)[rng.integers(4, size=200)], rng.integers(2, size=200)
    coefs = coefficients(features_of(X), y)
    w = minimiser(coefs, scales=SILENT)
    assert np.allclose(coefs[:5] + 2 * matrix_of(coefs, 5) @ w, 0, atol=1e-9)
    assert np.allclose(w, -0.5 * np.linalg.pinv(matrix_of(coefs, 5), rcond=1e-9) @ coefs[:5])


def test_with_noise_the_minimiser_is_that_of_the_convex_polynomial_with_the_ridge():
    scales = PartScales(0.3, 0.2)
    X, y = records(300, 3)
    noisy = release(coefficients(features_of(X), y), scales=scales, rand_below=source())
    matrix = matrix_of(noisy, 4)
    assert np.linalg.eigvalsh(matrix)[0] > 0
    expected = -0.5 * np.linalg.solve(matrix + 5 * np.sqrt(2) * 0.2 * np.eye(4), noisy[:4])
    assert np.allclose(minimiser(noisy, scales=scales), expected)


def test_no_noise_makes_the_weights_larger_than_the_ridge_permits():
    scales = PartScales(5.0, 5.0)
    coefs = coefficients(features_of(records(10, 20)[0]), np.ones(10, int))
    for purpose in map(str, range(20)):
        noisy = release(coefs, scales=scales, rand_below=source(purpose))
        assert np.linalg.eigvalsh(matrix_of(noisy, 21))[0] < -5 * np.sqrt(2) * 5
        largest = np.linalg.norm(noisy[:21]) / (2 * 5 * np.sqrt(2) * 5)
        assert np.linalg.norm(minimiser(noisy, scales=scales)) <= largest * (1 + 1e-9)


def test_negative_eigenvalues_are_set_to_zero_before_the_ridge_by_hand():
    """a₁ = (1, 1), A₂ = diag(−3, 2), ridge 1: w = −½ (1 / (0 + 1), 1 / (2 + 1))."""
    noisy = np.array([1.0, 1.0, -3.0, 0.0, 2.0])
    w = minimiser(noisy, scales=PartScales(0.4, 1 / (5 * np.sqrt(2))))
    assert w == pytest.approx([-1 / 2, -1 / 6])


def test_a_record_moves_its_groups_release_by_one_unit():
    """Whatever the size of its group, and of everybody: nothing is sampled."""
    config = TrainConfig(sample_rate=0.5, n_steps=1, clip_norm=3.0, learning_rates=(0.1,))
    for name in ("fairfm", "fairfm_smooth"):
        recipe = METHODS[name].recipe(config, (20.0, 60.0))
        assert recipe.sample_rates == (1.0, 1.0)
        assert recipe.sensitivities.tolist() == [1.0, 1.0]
        assert recipe.noise_allocation == "laplace"


def test_the_head_scores_inputs_as_the_minimiser_scores_features():
    X, _ = records(30, 4)
    w = np.random.default_rng(1).normal(size=5)
    weights, bias = head_of(w)
    exact = np.column_stack([bounded_inputs(X), np.ones(30)]) / np.sqrt(2)
    assert np.allclose(bounded_inputs(X) @ weights + bias, exact @ w)


def grouped(groups: np.ndarray, names: tuple[str, ...] = ("a", "b")) -> GroupedData:
    X, y = records(len(groups), 4)
    return GroupedData(X.astype(np.float32), y, groups, names)


def test_the_fair_head_is_the_mean_over_the_groups_however_large_they_are():
    data = grouped(np.repeat([0, 1], [900, 100]))
    alone = []
    for own in (data.groups == 0, data.groups == 1):
        group = GroupedData(data.X[own], data.y[own], np.zeros(own.sum(), int), ("alone",))
        alone.append(fair_functional_head(group, epsilon=np.inf, rand_below=source()))
    weights, bias = fair_functional_head(data, epsilon=np.inf, rand_below=source())
    assert np.allclose(weights, (alone[0][0] + alone[1][0]) / 2)
    assert bias == pytest.approx((alone[0][1] + alone[1][1]) / 2)


def test_the_same_key_gives_the_same_head_and_another_key_another():
    data = grouped(np.repeat([0, 1], [90, 10]))
    first, again, other = (fair_functional_head(data, epsilon=1.0, rand_below=source(p))[0] for p in ("x", "x", "y"))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


def test_a_group_without_records_gives_a_finite_head():
    data = grouped(np.zeros(50, int))
    for epsilon in (1.0, np.inf):
        weights, bias = fair_functional_head(data, epsilon=epsilon, rand_below=source())
        assert np.isfinite([*weights, bias]).all()


def test_a_run_takes_the_epsilon_that_is_accounted():
    """Whatever the budget says: with twice the accounted multiplier the noise has twice its scale."""
    data = GroupedData(np.random.default_rng(0).random((40, 2)), np.arange(40) % 2, np.arange(40) // 20, ("a", "b"))
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    config = TrainConfig(sample_rate=0.5, n_steps=1, clip_norm=1.0, learning_rates=(0.1,))
    plan = make_plan(METHODS["fairfm"].recipe(config, (20.0, 20.0)), budget, n_steps=1)
    noisier = replace(plan, mechanisms=tuple(replace(m, noise_multiplier=2.0) for m in plan.mechanisms))
    model = ScoreModel(logistic(n_active=2), (2,))
    for own, epsilon in ((plan, 1.0), (noisier, 0.5)):
        seen = []
        with watching(lambda released, seen=seen: seen.append(released.scale) or released.noisy):
            solve(model, data, own, Generators.of(0))
        expected = noise_scales(2, epsilon=epsilon, n_active=2)
        assert [(scale[0], scale[-1]) for scale in seen] == [pytest.approx(tuple(expected))] * 2


def test_the_deployed_head_is_the_closed_form():
    data = grouped(np.repeat([0, 1], [90, 30]))
    config = TrainConfig(sample_rate=0.5, n_steps=1, clip_norm=1.0, learning_rates=(0.1,))
    budget = PrivacyBudget(epsilon=np.inf, delta=1e-5)
    plan = make_plan(METHODS["fairfm"].recipe(config, (90.0, 30.0)), budget, n_steps=1)
    model = ScoreModel(logistic(n_active=3), (4,))
    solve(model, data, plan, Generators.of(0))
    weights, bias = fair_functional_head(data, epsilon=np.inf, rand_below=source(), n_active=3)
    scores = bounded_inputs(data.X, n_active=3) @ weights + bias
    assert model.scores(torch.from_numpy(data.X)).numpy() == pytest.approx(scores, abs=1e-4)
