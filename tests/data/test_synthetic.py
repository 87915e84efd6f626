"""The synthetic population's exact rates, against brute force, quadrature by another route and simulation."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from fairdp.data.synthetic import both_below, synthetic_population

FALSE_ALARM = 1e-6  # chance that correct code fails one test below
N_DRAWS = 400_000


def assert_rate_is(events: int, trials: int, rate: float) -> None:
    """Fail only if the count is that unlikely at this rate."""
    test = stats.binomtest(events, trials, rate)
    assert test.pvalue >= FALSE_ALARM, f"{events}/{trials} events, expected rate {rate}"


@pytest.fixture(scope="module")
def population():
    return synthetic_population(n_groups=3, n_features=4, bias=1.5, group_shares=(0.5, 0.3, 0.2))


@pytest.fixture(scope="module")
def records(population):
    return population.sample(N_DRAWS, np.random.default_rng(7))


RULE = np.array([1.0, -0.5, 0.3, 0.0]), -0.2


def cells(data, w, b):
    """Decisions, and the masks of the nine conditions that the exact rates speak of."""
    decisions = data.X @ w.astype(np.float32) + b >= 0
    for group in range(data.n_groups):
        inside = data.groups == group
        yield "selection", group, decisions[inside]
        yield "true_positive", group, decisions[inside & (data.y == 1)]
        yield "false_positive", group, decisions[inside & (data.y == 0)]


def assert_rates_hold(data, rates_of_kind) -> None:
    """Compare every cell of the simulation with the rates that a function of kind and group promises."""
    for kind, group, decided in cells(data, *RULE):
        assert_rate_is(int(decided.sum()), len(decided), rates_of_kind(kind)[group])


def test_rates_of_a_rule_agree_with_simulation(population, records):
    # Nine tests at 1e-6 each. The smallest cell has 14,000 records: an error of 0.026 is noticed in 9 runs of 10.
    rates = population.rates(*RULE)
    assert_rates_hold(records, lambda kind: getattr(rates, kind))


def test_that_check_notices_rates_without_the_label_correlation(population, records):
    rates = population.rates(*RULE)
    with pytest.raises(AssertionError):
        assert_rates_hold(records, lambda _: rates.selection)


def test_label_rates_and_group_shares_agree_with_simulation(population, records):
    for group, share in enumerate(population.group_shares):
        inside = records.groups == group
        assert_rate_is(int(inside.sum()), N_DRAWS, share)
        assert_rate_is(int(records.y[inside].sum()), int(inside.sum()), population.positive_rate(group))


def test_that_check_notices_another_bias(records):
    other = synthetic_population(n_groups=3, n_features=4, bias=1.4, group_shares=(0.5, 0.3, 0.2))
    inside = records.groups == 0
    with pytest.raises(AssertionError):
        assert_rate_is(int(records.y[inside].sum()), int(inside.sum()), other.positive_rate(0))


def test_given_the_inputs_the_label_does_not_depend_on_the_group(population, records):
    # Probability integral: y has rate Phi((x1 - c) / s) whatever the group, here in slices of x1.
    probability = stats.norm.cdf((records.X[:, 0] - population.threshold) / population.label_noise)
    for group in range(3):
        chosen = (records.groups == group) & (probability > 0.3) & (probability < 0.7)
        excess = records.y[chosen].sum() - probability[chosen].sum()
        deviation = math.sqrt((probability[chosen] * (1 - probability[chosen])).sum())
        assert abs(excess / deviation) < stats.norm.isf(FALSE_ALARM / 2)


def test_positive_rate_by_hand():
    # mu = (bias / 2) / sqrt 2 = 1 in the first group; s^2 + 1 = 4; (1 - c) / 2 = 0.25.
    population = synthetic_population(bias=2 * math.sqrt(2), threshold=0.5, label_noise=math.sqrt(3))
    assert population.positive_rate(0) == pytest.approx(stats.norm.cdf(0.25), abs=1e-15)
    assert population.positive_rate(1) == pytest.approx(stats.norm.cdf(-0.75), abs=1e-15)


def test_without_bias_every_group_has_the_same_rates():
    population = synthetic_population(n_groups=5, bias=0)
    rates = population.rates(np.arange(10.0), 0.3)
    for values in (rates.selection, rates.true_positive, rates.false_positive):
        assert np.ptp(values) == 0


def test_constant_rules():
    for b, rate in ((0.0, 1.0), (-1.0, 0.0)):
        rates = synthetic_population().rates(np.zeros(10), b)
        assert rates.selection.tolist() == rates.true_positive.tolist() == rates.false_positive.tolist() == [rate] * 2


def test_rates_mix_to_the_selection_rate(population):
    rates = population.rates(*RULE)
    positive = np.array([population.positive_rate(group) for group in range(3)])
    mixed = positive * rates.true_positive + (1 - positive) * rates.false_positive
    np.testing.assert_allclose(mixed, rates.selection, atol=1e-12)


def test_quadrant_probability_in_closed_form():
    # Sheppard (1899): Pr(U <= 0, V <= 0) = 1/4 + arcsin(rho) / (2 pi).
    for rho in (-0.99, -0.5, 0, 0.3, 0.99):
        assert both_below(0, 0, rho) == pytest.approx(0.25 + math.asin(rho) / (2 * math.pi), abs=1e-14)


@pytest.mark.parametrize("h", [-2.5, 0.4, 3])
@pytest.mark.parametrize("k", [-1, 0.4])
@pytest.mark.parametrize("rho", [-0.95, -0.2, 0.6, 0.95])
def test_bivariate_normal_against_integrating_out_one_variable(h, k, rho):
    def inner(u: float) -> float:
        return stats.norm.pdf(u) * stats.norm.cdf((k - rho * u) / math.sqrt(1 - rho**2))

    expected, _ = integrate.quad(inner, -12, h, points=[-2, 0, k / rho] if h > 0 else None, epsabs=1e-12, limit=200)
    assert both_below(h, k, rho) == pytest.approx(expected, abs=1e-10)


def test_default_shares_fall_from_the_first_group_to_the_last():
    assert synthetic_population().group_shares == pytest.approx((2 / 3, 1 / 3))
    assert synthetic_population(n_groups=4).group_shares == pytest.approx((0.4, 0.3, 0.2, 0.1))


def test_same_seed_same_records(population):
    first, again = (population.sample(50, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first.X, again.X)
    assert first.group_names == ("group 0", "group 1", "group 2")
    assert first.X.dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_groups": 1}, "n_groups must be at least 2, got 1"),
        ({"n_features": 1}, "must be at least 2"),
        ({"n_groups": 0}, "n_groups must be a whole number of at least 1"),
        ({"label_noise": 0}, "label_noise must be positive"),
        ({"bias": math.nan}, "bias must be finite"),
        ({"group_shares": (0.5, 0.6)}, "group_shares must be 2 positive numbers with sum 1"),
        ({"group_shares": (1.0,)}, "group_shares must be 2 positive numbers"),
    ],
)
def test_impossible_populations_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        synthetic_population(**arguments)


def test_impossible_questions_are_refused(population):
    with pytest.raises(ValueError, match=r"^group must be from 0 to 2, got 3\.$"):
        population.positive_rate(3)
    with pytest.raises(ValueError, match=r"^w must have shape \(4,\), got \(2,\)\.$"):
        population.rates(np.ones(2), 0)
