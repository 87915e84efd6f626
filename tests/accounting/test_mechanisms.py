import math
import warnings
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from fairdp.accounting.calibration import _round_up, _solve, noise_multiplier_for
from fairdp.accounting.mechanisms import PrivacyBudget, SampledGaussian, epsilon_spent

DELTA = 1e-5


def spent(q: float, sigma: float, steps: int, delta: float = DELTA, accountant: str = "pld") -> float:
    mechanism = SampledGaussian(sample_rate=q, noise_multiplier=sigma, n_steps=steps)
    return epsilon_spent(mechanism, delta, accountant=accountant)


def analytic_gaussian_epsilon(sigma: float, delta: float) -> float:
    """ε of one Gaussian release: Balle and Wang (2018), Theorem 8, solved for ε."""

    def excess(epsilon: float) -> float:
        above = norm.cdf(1 / (2 * sigma) - epsilon * sigma)
        below = norm.cdf(-1 / (2 * sigma) - epsilon * sigma)
        return above - math.exp(epsilon) * below - delta

    return brentq(excess, 0.0, 60.0)


def test_the_numbers_of_the_paper():
    assert spent(0.01, 1.98, 2000) == pytest.approx(0.914, abs=0.005)
    assert spent(0.01, 1.98, 2000, accountant="rdp") == pytest.approx(1.001, abs=0.005)


@pytest.mark.parametrize("sigma", [1.0, 2.0, 4.0])
def test_one_release_of_everybody_is_the_analytic_gaussian_mechanism(sigma):
    exact = analytic_gaussian_epsilon(sigma, DELTA)
    assert exact - 1e-9 <= spent(1.0, sigma, 1) <= exact + 1e-3


def test_that_check_notices_noise_half_a_percent_off():
    assert not spent(1.0, 2.01, 1) >= analytic_gaussian_epsilon(2.0, DELTA) - 1e-9


def test_t_releases_of_everybody_are_one_with_less_noise():
    assert spent(1.0, 8.0, 16) == pytest.approx(spent(1.0, 2.0, 1), rel=2e-3)


@pytest.mark.parametrize(("q", "sigma", "steps"), [(0.01, 1.98, 2000), (0.05, 1.5, 300)])
def test_two_accountants_of_others_agree(q, sigma, steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus.accountants import PRVAccountant, RDPAccountant

        rdp, prv = RDPAccountant(), PRVAccountant()
        rdp.history = prv.history = [(sigma, q, steps)]
        theirs_rdp, theirs_prv = rdp.get_epsilon(DELTA), prv.get_epsilon(DELTA, eps_error=0.01)
    # Ours uses whole orders only, so it may lie a little above; never below.
    assert theirs_rdp * (1 - 1e-3) <= spent(q, sigma, steps, accountant="rdp") <= theirs_rdp * 1.02
    assert spent(q, sigma, steps) == pytest.approx(theirs_prv, abs=0.02)


def test_pld_is_never_looser_than_rdp_here():
    for q, sigma, steps in [(0.01, 1.0, 500), (0.1, 2.0, 100), (0.01, 2.0, 2000)]:
        assert spent(q, sigma, steps) < spent(q, sigma, steps, accountant="rdp")


@settings(max_examples=12, deadline=None)
@given(
    q=st.floats(0.001, 0.5), sigma=st.floats(0.6, 5.0), steps=st.integers(1, 3000), exponent=st.floats(-8.0, -3.0)
)  # fmt: skip
def test_epsilon_moves_with_rate_noise_steps_and_delta_as_it_must(q, sigma, steps, exponent):
    delta = 10**exponent
    base = spent(q, sigma, steps, delta, "rdp")
    slack = 1e-9
    assert spent(min(1.0, 1.3 * q), sigma, steps, delta, "rdp") >= base - slack
    assert spent(q, 1.2 * sigma, steps, delta, "rdp") <= base + slack
    assert spent(q, sigma, 2 * steps, delta, "rdp") >= base - slack
    assert spent(q, sigma, steps, 10 * delta, "rdp") <= base + slack


def test_pld_is_monotone_along_a_line_of_each():
    for line in (
        [spent(q, 2.0, 200) for q in (0.1, 0.05)],
        [spent(0.05, sigma, 200) for sigma in (2.0, 3.0)],
        [spent(0.05, 2.0, steps) for steps in (200, 100)],
        [spent(0.05, 2.0, 200, delta) for delta in (1e-6, 1e-5)],
    ):
        assert all(more > less for more, less in pairwise(line))


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize(("q", "steps"), [(0.01, 2000), (0.1, 200), (1.0, 1)])
def test_the_noise_for_a_budget_spends_nearly_all_of_it_and_never_more(epsilon, q, steps):
    budget = PrivacyBudget(epsilon=epsilon, delta=DELTA)
    multiplier = noise_multiplier_for(budget, sample_rate=q, n_steps=steps)
    assert 0.999 * epsilon <= spent(q, multiplier, steps) <= epsilon


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 30.0])
def test_unusual_budgets_are_met_too(epsilon):
    budget = PrivacyBudget(epsilon=epsilon, delta=DELTA)
    multiplier = noise_multiplier_for(budget, sample_rate=0.05, n_steps=100, accountant="rdp")
    assert 0.999 * epsilon <= spent(0.05, multiplier, 100, accountant="rdp") <= epsilon


def test_noisy_counts_add_to_the_bill():
    steps = SampledGaussian(sample_rate=0.05, noise_multiplier=2.0, n_steps=50)
    counted = SampledGaussian(sample_rate=0.05, noise_multiplier=2.0, n_steps=50, counts_epsilon=0.25)
    for accountant in ("pld", "rdp"):
        bill = epsilon_spent(counted, DELTA, accountant=accountant) - epsilon_spent(steps, DELTA, accountant=accountant)
        assert bill == pytest.approx(0.25)


def test_the_recorded_event_says_the_same_to_dp_accounting():
    from dp_accounting import NeighboringRelation, pld

    mechanism = SampledGaussian(sample_rate=0.05, noise_multiplier=2.0, n_steps=50)
    accountant = pld.PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    assert accountant.compose(mechanism.event).get_epsilon(DELTA) == pytest.approx(epsilon_spent(mechanism, DELTA))
    counted = SampledGaussian(sample_rate=0.05, noise_multiplier=2.0, n_steps=50, counts_epsilon=0.25)
    accountant = pld.PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    # Basic composition, as we bill it, is never cheaper than composing the two losses.
    assert accountant.compose(counted.event).get_epsilon(DELTA) <= epsilon_spent(counted, DELTA) + 1e-6


def test_no_noise_is_no_privacy():
    assert spent(0.01, 0.0, 10) == math.inf
    assert noise_multiplier_for(PrivacyBudget(epsilon=math.inf, delta=DELTA), sample_rate=0.1, n_steps=5) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PrivacyBudget(epsilon=0.0, delta=DELTA), r"epsilon must be positive, got 0\.0"),
        (lambda: PrivacyBudget(epsilon=math.nan, delta=DELTA), "epsilon must be positive, got nan"),
        (lambda: PrivacyBudget(epsilon="1", delta=DELTA), "epsilon must be positive, got '1'"),
        (lambda: PrivacyBudget(epsilon=1.0, delta=1.0), r"delta must be in \(0, 1\), got 1\.0"),
        (lambda: PrivacyBudget(epsilon=1.0, delta=0.0), r"delta must be in \(0, 1\), got 0\.0"),
        (lambda: spent(128, 1.0, 10), r"sample_rate must be in \(0, 1\], got 128\. Did you pass a batch size\?"),
        (lambda: spent(0.1, 1.0, 0), "n_steps must be a whole number of at least 1, got 0"),
        (lambda: spent(0.1, 1.0, 10, accountant="prv"), "accountant must be one of pld, rdp; got 'prv'"),
        (lambda: spent(0.1, -1.0, 10), "noise_multiplier"),
        (lambda: spent(0.1, math.nan, 10), "noise_multiplier"),
        (lambda: spent(0.1, 1.0, 10, delta=2.0), "delta"),
        (
            lambda: SampledGaussian(sample_rate=0.1, noise_multiplier=1.0, n_steps=1, counts_epsilon=-1.0),
            "counts_epsilon",
        ),
        (lambda: _noise(accountant="prv"), "accountant must be one of pld, rdp; got 'prv'"),
        (lambda: _noise(n_steps=0), "n_steps must be a whole number of at least 1, got 0"),
        (lambda: _noise(sample_rate=128), r"sample_rate must be in \(0, 1\], got 128"),
    ],
)
def test_bad_inputs_are_named_in_one_line(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def _noise(**changes):
    values = {"sample_rate": 0.1, "n_steps": 10, "accountant": "rdp"} | changes
    return noise_multiplier_for(PrivacyBudget(epsilon=1.0, delta=DELTA), **values)


@pytest.mark.parametrize("multiplier", [0.1234561, 0.9999994, 1.2345601, 54.32101, 1e-3, 7.0])
def test_multipliers_are_rounded_up(multiplier):
    assert multiplier <= _round_up(multiplier) * (1 + 1e-12) <= multiplier * (1 + 1.1e-5)


def test_a_start_that_spends_too_much_is_not_taken():
    """By a thousandth only, which is within the tolerance on the other side."""
    assert _solve(lambda multiplier: 1 / multiplier, 1.0, 0.9995) >= 1


def test_a_delta_of_one_record_is_refused():
    with pytest.raises(ValueError, match=r"delta must be below 1/n = 0\.001"):
        PrivacyBudget(epsilon=1.0, delta=1e-3).check_for(1000)
    PrivacyBudget(epsilon=1.0, delta=9e-4).check_for(1000)


def test_an_epsilon_that_promises_nothing_is_refused():
    with pytest.raises(ValueError, match="epsilon must be at most 100, got 101"):
        PrivacyBudget(epsilon=101.0, delta=1e-5)


@pytest.mark.parametrize(
    ("n_samples", "delta"),
    [(99_999, 1e-5), (100_000, 1e-6), (110_000, 9e-7), (250_000, 4e-7), (1e6, 1e-7), (3e8, 3e-10)],
)
def test_the_default_delta_is_lowered_where_it_would_not_be_below_one_over_n(n_samples, delta):
    adapted = PrivacyBudget(epsilon=1.0, delta=1e-5, adapts=True).for_records(n_samples, released=False)
    assert adapted == PrivacyBudget(epsilon=1.0, delta=delta)
    assert adapted.delta < 1 / n_samples


@pytest.mark.parametrize(
    ("budget", "released"),
    [
        (PrivacyBudget(epsilon=1.0, delta=2e-5), False),
        (PrivacyBudget(epsilon=1.0, delta=1e-5, adapts=True), True),
    ],
)
def test_a_delta_that_was_chosen_or_spent_is_refused_instead(budget, released):
    with pytest.raises(ValueError, match=r"delta must be below 1/n = 5e-06 .* Use 5e-07 or less"):
        budget.for_records(200_000, released=released)
