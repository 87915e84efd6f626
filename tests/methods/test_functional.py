"""The functional mechanism: its polynomial, what one record can do to it, its noise, and its minimiser."""

from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import make_plan
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.methods.functional import (
    COEFFICIENT_STEP,
    FEATURE_STEP,
    PartScales,
    bounded_inputs,
    coefficients,
    fair_functional_head,
    features_of,
    head_of,
    l1_sensitivities,
    minimiser,
    noise_scales,
    noisy_coefficients,
    solve,
)
from fairdp.networks.model import ScoreModel, logistic
from fairdp.randomness import Generators
from fairdp.releases import watching
from functional_cases import matrix_of, records, source
from statistical import assert_plausible


def test_the_polynomial_of_no_records_is_zero():
    found = coefficients(features_of(np.zeros((0, 3))), np.zeros(0, int))
    assert found.size > 0
    assert not found.any()


@lru_cache
def largest_changes(n_features: int, n_active: int | None) -> PartScales:
    """Largest L1 norm of each part over single records: a grid, its scalings, random ones and the worst on paper."""
    rng = np.random.default_rng(0)
    grid = np.array(list(product((-1.0, 0.0, 0.3, 1.0), repeat=min(n_features, 5))))
    padded = np.pad(grid, ((0, 0), (0, n_features - grid.shape[1])))
    k = min(n_active or n_features, n_features)
    worst = np.where(np.arange(n_features) < k, 1 / np.sqrt(k), 0.0)
    dense = rng.normal(size=(2000, n_features)) * rng.choice([0.01, 1.0, 1e6], size=(2000, 1))
    sparse = dense * (rng.random(dense.shape) < 0.3)
    V = features_of(np.vstack([padded, 9 * padded, dense, sparse, worst, -worst, 50 * worst]), n_active=n_active)
    d = n_features + 1
    each = np.array([np.abs(coefficients(v[None], np.array([i % 2]))) for i, v in enumerate(V)])
    return PartScales(each[:, :d].sum(axis=1).max(), each[:, d:].sum(axis=1).max())


def assert_bounds(found: PartScales, promised: PartScales) -> None:
    """No record beyond the promise, and one that comes within a hundredth of it."""
    for change, limit in zip(found, promised, strict=True):
        assert change <= limit
        assert change >= 0.99 * limit


SHAPES = [(1, None), (3, None), (5, 2), (12, None), (41, 6), (41, None), (105, 12)]


@pytest.mark.parametrize(("n_features", "n_active"), SHAPES)
def test_no_record_exceeds_the_sensitivities_and_one_nearly_attains_them(n_features, n_active):
    assert_bounds(largest_changes(n_features, n_active), l1_sensitivities(n_features, n_active=n_active))


@pytest.mark.parametrize(("n_features", "n_active"), SHAPES)
def test_that_check_notices_wrong_bounds(n_features, n_active):
    found, true = largest_changes(n_features, n_active), l1_sensitivities(n_features, n_active=n_active)
    full_matrix = (2 * true.linear) ** 2 / 8
    without_bias = np.sqrt(min(n_active or n_features, n_features) / 2) / 2
    for wrong in (
        true._replace(quadratic=true.quadratic / 2),
        true._replace(quadratic=full_matrix),
        true._replace(linear=without_bias),
        true._replace(linear=2 * true.linear),
    ):
        with pytest.raises(AssertionError):
            assert_bounds(found, wrong)


def test_the_sensitivities_of_one_input_are_those_found_by_hand():
    """One input: v = (1, 1)/√2, so ‖v‖₁ = √2, and the triangle holds 1/16 three times."""
    assert l1_sensitivities(1) == pytest.approx((np.sqrt(2) / 2, 3 / 16), rel=1e-12)


def test_a_record_moves_the_sums_by_exactly_its_own_coefficients():
    """Sums on the lattice are exact, so that the order of summation cannot add to the sensitivity."""
    X, y = records(30_000, 7)
    V = features_of(X)
    whole, without, own = coefficients(V, y), coefficients(V[1:][::-1], y[1:][::-1]), coefficients(V[:1], y[:1])
    assert np.array_equal(whole - without, own)
    assert np.array_equal(V / FEATURE_STEP, np.round(V / FEATURE_STEP))


def test_that_check_notices_features_off_the_lattice():
    X, y = records(30_000, 7)
    V = bounded_inputs(X)
    assert not np.array_equal(coefficients(V, y) - coefficients(V[1:], y[1:]), coefficients(V[:1], y[:1]))


@pytest.mark.parametrize("n_active", [None, 2])
def test_inputs_are_only_scaled_down_and_keep_their_bounds(n_active):
    X = np.vstack([records(500, 6)[0] * 10, np.eye(6), np.zeros((1, 6)), 0.2 * np.eye(6)])
    inputs = bounded_inputs(X, n_active=n_active)
    assert np.linalg.norm(inputs, axis=1).max() <= 1 + 1e-12
    assert np.abs(inputs).sum(axis=1).max() <= np.sqrt(n_active or 6) + 1e-12
    assert np.array_equal(inputs[500:], X[500:])
    shrink = np.linalg.norm(inputs, axis=1, keepdims=True) / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    assert np.allclose(inputs, shrink * X)


def test_features_are_the_inputs_and_a_constant_up_to_the_lattice():
    X, _ = records(200, 4)
    exact = np.column_stack([bounded_inputs(X), np.ones(200)]) / np.sqrt(2)
    V = features_of(X)
    assert np.abs(V - exact).max() <= FEATURE_STEP * (1 + 1e-5)
    assert (np.abs(V) <= np.abs(exact)).all()


def test_the_coefficients_are_the_derivatives_of_the_logistic_loss_at_zero():
    X, y = records(50, 4)
    V = features_of(X)
    inputs, labels = torch.from_numpy(V), torch.from_numpy(y).double()

    def loss(w):
        scores = inputs @ w
        return torch.nn.functional.binary_cross_entropy_with_logits(scores, labels, reduction="sum")

    zero, coefs = torch.zeros(5, dtype=torch.float64), coefficients(V, y)
    gradient = torch.autograd.functional.jacobian(loss, zero).numpy()
    hessian = torch.autograd.functional.hessian(loss, zero).numpy()
    assert np.allclose(coefs[:5], gradient, rtol=0, atol=1e-12)
    assert np.allclose(2 * matrix_of(coefs, 5), hessian, rtol=0, atol=1e-12)


def test_rows_that_are_not_finite_contribute_nothing():
    X, y = records(40, 3)
    bad = np.array([[np.nan, 0, 0], [np.inf, 1, 1], [0, 0, -np.inf]])
    V = features_of(np.vstack([X, bad]))
    assert not V[40:].any()
    assert np.array_equal(coefficients(V, np.append(y, [1, 0, 1])), coefficients(features_of(X), y))


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize(("n_features", "n_active"), [(5, None), (41, 6)])
def test_no_record_costs_more_than_epsilon_and_one_nearly_costs_it(epsilon, n_features, n_active):
    """The loss of Laplace noise is the sum of change / scale over the coordinates."""
    change = largest_changes(n_features, n_active)
    scales = noise_scales(n_features, epsilon=epsilon, n_active=n_active)
    cost = change.linear / scales.linear + change.quadratic / scales.quadratic
    assert 0.99 * epsilon <= cost <= epsilon
    without_n_active = noise_scales(n_features, epsilon=epsilon)
    assert without_n_active.linear >= scales.linear


def noise_draws(scales: PartScales, n_releases: int = 3000) -> PartScales:
    """Noise on each part over many releases of the same coefficients with d = 3."""
    coefs, rand_below = coefficients(features_of(records(20, 2)[0]), np.ones(20, int)), source()
    noise = np.array(
        [noisy_coefficients(coefs, scales=scales, rand_below=rand_below) - coefs for _ in range(n_releases)]
    )
    return PartScales(noise[:, :3].ravel(), noise[:, 3:].ravel())


def assert_laplace(draws: np.ndarray, scale: float) -> None:
    """False-alarm rate 1e-6 each: the scale by Gamma, the shape by Kolmogorov and Smirnov.

    9,000 draws notice a scale that is 10 % off with a chance above 99.99 %.
    """
    total = np.abs(draws).sum() / scale
    tail = min(stats.gamma.cdf(total, draws.size), stats.gamma.sf(total, draws.size))
    assert_plausible(2 * tail, f"scale of {draws.size} draws against {scale:.4g}")
    assert_plausible(stats.kstest(draws, "laplace", args=(0, scale)).pvalue, "shape")


def test_each_part_has_laplace_noise_of_its_scale():
    scales = PartScales(2.4, 0.9)
    for draws, scale in zip(noise_draws(scales), scales, strict=True):
        assert_laplace(draws, scale)
        for wrong in (0.9 * scale, 1.1 * scale):
            with pytest.raises(AssertionError):
                assert_laplace(draws, wrong)


def test_that_check_notices_parts_that_swap_their_scales():
    draws = noise_draws(PartScales(0.9, 2.4), n_releases=300)
    with pytest.raises(AssertionError):
        assert_laplace(draws.linear, 2.4)


def test_noise_of_two_coordinates_and_of_two_releases_is_unrelated():
    draws = noise_draws(PartScales(1.0, 1.0)).quadratic.reshape(-1, 6)
    assert_plausible(stats.spearmanr(draws[:, 0], draws[:, 1]).pvalue, "two coordinates")
    assert_plausible(stats.spearmanr(draws[:-1].ravel(), draws[1:].ravel()).pvalue, "two releases")


def test_what_is_released_stays_on_the_lattice():
    """Noise off the lattice would tell in its last digits which record was there."""
    noisy = noise_draws(PartScales(0.37, 0.11), n_releases=20)
    steps = np.concatenate(noisy) / (FEATURE_STEP**2 / 8)
    assert np.array_equal(steps, np.round(steps))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan])
def test_an_epsilon_that_is_not_positive_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon must be positive"):
        noise_scales(3, epsilon=epsilon)


@pytest.mark.parametrize("n_active", [0, -2, 1.5])
def test_a_number_of_active_inputs_that_is_no_positive_integer_is_refused(n_active):
    with pytest.raises(ValueError, match="n_active must be a whole number"):
        features_of(np.zeros((2, 3)), n_active=n_active)


def test_values_between_points_of_the_lattice_are_not_released():
    """Noise on the lattice would show how far a value is from it, exactly."""
    between = COEFFICIENT_STEP * (np.arange(9) + np.linspace(0.05, 0.45, 9))
    noisy = noisy_coefficients(between, scales=PartScales(1.0, 1.0), rand_below=source())
    assert np.array_equal(noisy / COEFFICIENT_STEP, np.rint(noisy / COEFFICIENT_STEP))


SILENT = PartScales(0.0, 0.0)


def test_without_noise_the_minimiser_solves_the_quadratic():
    X, y = records(300, 5)
    coefs = coefficients(features_of(X), y)
    w = minimiser(noisy_coefficients(coefs, scales=SILENT, rand_below=source()), scales=SILENT)
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
    noisy = noisy_coefficients(coefficients(features_of(X), y), scales=scales, rand_below=source())
    matrix = matrix_of(noisy, 4)
    assert np.linalg.eigvalsh(matrix)[0] > 0
    expected = -0.5 * np.linalg.solve(matrix + 5 * np.sqrt(2) * 0.2 * np.eye(4), noisy[:4])
    assert np.allclose(minimiser(noisy, scales=scales), expected)


def test_no_noise_makes_the_weights_larger_than_the_ridge_permits():
    scales = PartScales(5.0, 5.0)
    coefs = coefficients(features_of(records(10, 20)[0]), np.ones(10, int))
    for purpose in map(str, range(20)):
        noisy = noisy_coefficients(coefs, scales=scales, rand_below=source(purpose))
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
