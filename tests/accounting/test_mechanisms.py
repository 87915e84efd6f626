"""Cost of releases: steps, counts, sizes, queries and the reading of a table, by hand and by other accountants."""

import math
import warnings
from dataclasses import replace
from itertools import pairwise

import dp_accounting
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, SelfComposedDpEvent, rdp
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from fairdp import config as noise
from fairdp.accounting.mechanisms import (
    RDP_ORDERS,
    SIZES_SHARE,
    LaplaceRelease,
    PrivacyBudget,
    Reading,
    SampledGaussian,
    _gaussian_loss,
    _round_up,
    _solve,
    epsilon_spent,
    joint_multiplier,
    noise_multiplier_for,
    privacy_loss,
    query_std,
    reading_epsilon,
    reading_for,
    sizes_loss,
    sizes_std,
    threshold_for,
    upper_tail,
)
from fairdp.accounting.plan import Plan, Query, Recipe, make_plan
from fairdp.accounting.selection import Selection, TrialSpend, divergence, selected_divergences
from fairdp.config import DEFAULTS, TrainConfig
from fairdp.methods import N_QUERIES, fairdp_frontier, needs_direction, queries_of
from fairdp.run.plan import default_n_steps

DELTA = 1e-5


def spent(q: float, sigma: float, steps: int, delta: float = DELTA, accountant: str = "pld") -> float:
    mechanism = SampledGaussian(sample_rate=q, noise_multiplier=sigma, n_steps=steps)
    return epsilon_spent(mechanism, delta, accountant=accountant)


@settings(max_examples=12, deadline=None)
@given(
    sigma=st.floats(0.4, 40.0),
    rate=st.one_of(st.just(1.0), st.floats(1e-4, 0.9999)),
    width=st.sampled_from([1e-4, 1e-3]),
)
def test_the_loss_found_on_the_whole_grid_at_once_is_that_of_the_library(sigma, rate, width):
    width = max(width, 1e-3 if sigma < 2 else width)
    library = pld.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=width)
    ours = _gaussian_loss(sigma, rate, width)
    for own, theirs in ((ours._pmf_remove, library._pmf_remove), (ours._pmf_add, library._pmf_add)):
        own, theirs = own.to_dense_pmf(), theirs.to_dense_pmf()
        assert (own.size, own._lower_loss) == (theirs.size, theirs._lower_loss)
        np.testing.assert_allclose(own._probs, theirs._probs, rtol=1e-9, atol=1e-18)
        np.testing.assert_allclose(own._infinity_mass, theirs._infinity_mass, rtol=1e-9)


def analytic_epsilon(sigma: float, delta: float = DELTA) -> float:
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
    exact = analytic_epsilon(sigma)
    assert exact - 1e-9 <= spent(1.0, sigma, 1) <= exact + 1e-3


def test_that_check_notices_noise_half_a_percent_off():
    assert not spent(1.0, 2.01, 1) >= analytic_epsilon(2.0) - 1e-9


def test_t_releases_of_everybody_are_one_with_less_noise():
    assert spent(1.0, 8.0, 16) == pytest.approx(spent(1.0, 2.0, 1), rel=2e-3)


@pytest.mark.parametrize("q", [0.05, 0.5, 1.0])
def test_a_second_step_costs_more_than_one(q):
    assert spent(q, 2.0, 2) > 1.2 * spent(q, 2.0, 1)


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


@pytest.mark.parametrize(("q", "sigma", "steps"), [(0.01, 1.0, 500), (0.1, 2.0, 100), (0.01, 2.0, 2000)])
def test_pld_states_less_than_moments(q, sigma, steps):
    assert spent(q, sigma, steps) < spent(q, sigma, steps, accountant="rdp")


def test_pld_is_monotone_along_a_line_of_each():
    for line in (
        [spent(q, 2.0, 200) for q in (0.1, 0.05)],
        [spent(0.05, sigma, 200) for sigma in (2.0, 3.0)],
        [spent(0.05, 2.0, steps) for steps in (200, 100)],
        [spent(0.05, 2.0, 200, delta) for delta in (1e-6, 1e-5)],
    ):
        assert all(more > less for more, less in pairwise(line))


@settings(max_examples=12, deadline=None)
@given(
    q=st.floats(0.001, 0.5), sigma=st.floats(0.6, 5.0), steps=st.integers(1, 3000), exponent=st.floats(-8.0, -3.0)
)  # fmt: skip
def test_moments_move_with_rate_noise_steps_and_delta_as_they_must(q, sigma, steps, exponent):
    delta, rounding = 10**exponent, 1e-9
    base = spent(q, sigma, steps, delta, "rdp")
    assert spent(min(1.0, 1.3 * q), sigma, steps, delta, "rdp") >= base - rounding
    assert spent(q, 1.2 * sigma, steps, delta, "rdp") <= base + rounding
    assert spent(q, sigma, 2 * steps, delta, "rdp") >= base - rounding
    assert spent(q, sigma, steps, 10 * delta, "rdp") <= base + rounding


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
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


BUDGET = PrivacyBudget(epsilon=1.0, delta=DELTA)


def test_the_noise_on_sizes_is_that_of_a_hundredth_of_the_privacy():
    assert analytic_epsilon(sizes_std(BUDGET) * math.sqrt(SIZES_SHARE)) == pytest.approx(1.0, rel=1e-5)
    assert sizes_std(BUDGET) == 37.3064
    assert sizes_std(PrivacyBudget(epsilon=math.inf, delta=DELTA)) == 0.0


def test_sizes_alone_cost_what_the_sum_over_whole_numbers_says():
    """By hand: δ(ε) = Σ max(0, p(x) − e^ε p(x − 1)) with p(x) ∝ exp(−x² / (2 σ²))."""
    sigma = 4.0
    x = np.arange(-80, 81)
    p = np.exp(-(x**2) / (2 * sigma**2))
    p /= p.sum()

    def delta(epsilon: float) -> float:
        return float(np.maximum(p[1:] - math.exp(epsilon) * p[:-1], 0).sum())

    exact = brentq(lambda epsilon: delta(epsilon) - DELTA, 0.0, 5.0)
    assert sizes_loss(sigma).get_epsilon_for_delta(DELTA) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("sigma", [4.0, 37.3064])
def test_one_release_of_everybody_and_the_sizes_are_one_gaussian_release(sigma):
    """Deviations of whole numbers and of all numbers agree far below a thousandth here."""
    both = SampledGaussian(sample_rate=1.0, noise_multiplier=4.0, n_steps=1, counts_std=sigma)
    exact = analytic_epsilon(joint_multiplier(4.0, sigma))
    assert epsilon_spent(both, DELTA) == pytest.approx(exact, abs=1e-3)
    # RDP of both is that of one Gaussian: order / 2 times the inverse variances.
    alone = SampledGaussian(sample_rate=1.0, noise_multiplier=joint_multiplier(4.0, sigma), n_steps=1)
    moments = [epsilon_spent(mechanism, DELTA, accountant="rdp") for mechanism in (both, alone)]
    assert moments[0] == pytest.approx(moments[1], rel=1e-9)


def test_the_recorded_event_with_sizes_says_the_same_to_dp_accounting():
    mechanism = SampledGaussian(sample_rate=0.05, noise_multiplier=2.0, n_steps=50, counts_std=19.9382)
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    theirs = accountant.compose(mechanism.event).get_epsilon(DELTA)
    assert theirs == pytest.approx(epsilon_spent(mechanism, DELTA), rel=1e-3)
    assert theirs > 1.001 * epsilon_spent(replace(mechanism, counts_std=0.0), DELTA)


@pytest.mark.parametrize(
    ("q", "steps", "accountant"),
    [(0.01, 2000, "pld"), (1.0, 1, "pld"), *((*c, "rdp") for c in [(0.01, 2000), (0.3, 400), (1.0, 1), (1e-4, 10)])],
)
def test_the_noise_for_a_budget_pays_for_the_sizes_too(q, steps, accountant):
    """And nearly nothing is left; without the sizes in the bill it would be exceeded (the negative control)."""
    std = sizes_std(BUDGET)
    settings = {"sample_rate": q, "n_steps": steps, "accountant": accountant}
    paid, free = (noise_multiplier_for(BUDGET, **settings, counts_std=own) for own in (std, 0.0))
    spent, over = (
        epsilon_spent(
            SampledGaussian(sample_rate=q, noise_multiplier=multiplier, n_steps=steps, counts_std=std),
            DELTA,
            accountant=accountant,
        )
        for multiplier in (paid, free)
    )
    assert 0.999 <= spent <= 1.0 < over
    assert paid > free


@pytest.mark.parametrize("allocation", ["average", "per_group"])
def test_every_group_stays_within_the_budget_with_the_sizes(allocation):
    recipe = Recipe(
        group_sizes=(100.0, 400.0),
        sample_rates=(0.1, 0.05),
        group_weights=(0.5, 0.5),
        clip_norm=1.0,
        noise_allocation=allocation,
    )
    std = sizes_std(BUDGET)
    plan = make_plan(recipe, BUDGET, n_steps=50, counts_epsilon=0.1, counts_std=std)
    assert {mechanism.counts_std for mechanism in plan.mechanisms} == {std}
    spent = [epsilon_spent(mechanism, DELTA) for mechanism in plan.mechanisms]
    assert 0.999 * 0.9 + 0.1 <= max(spent) <= 1.0
    unpaid = make_plan(recipe, BUDGET, n_steps=50, counts_epsilon=0.1)
    assert unpaid.noise_std < plan.noise_std


def event_epsilon(q: float, sigma: float, n_steps: int, delta: float) -> float:
    """An ε that holds for sure to be exceeded: by the event that some step's output is above a threshold.

    Its probabilities are those of independent steps, exact, and (Pr' − δ) / Pr is at most e^ε for every event.
    """
    thresholds = np.linspace(0, 1 + 12 * sigma, 4000)
    without = norm.sf(thresholds / sigma)
    with_record = (1 - q) * without + q * norm.sf((thresholds - 1) / sigma)
    one, other = (-np.expm1(n_steps * np.log1p(-chance)) for chance in (with_record, without))
    told = one > delta
    return float(np.log((one[told] - delta) / other[told]).max())


class TestTinyDelta:
    # Records sampled rarely with little noise: the loss is nearly always tiny and once large.
    MECHANISM = SampledGaussian(sample_rate=3e-5, noise_multiplier=0.7, n_steps=10_000)
    AT_LEAST = (3e-5, 0.7, 10_000)

    def test_pld_states_less_than_is_spent(self):
        """Why it is not used there: at 1e-12 it is 7 % below what one event proves."""
        assert epsilon_spent(self.MECHANISM, 1e-12, accountant="pld") < 0.95 * event_epsilon(*self.AT_LEAST, 1e-12)

    @pytest.mark.parametrize("delta", [1e-12, 1e-10, 1e-7])
    def test_what_is_stated_is_never_less(self, delta):
        for q, sigma, n_steps in (self.AT_LEAST, (3e-4, 0.7, 10_000), (3e-5, 0.6, 3_000), (1e-4, 0.5, 300)):
            stated = epsilon_spent(SampledGaussian(sample_rate=q, noise_multiplier=sigma, n_steps=n_steps), delta)
            assert stated >= (1 - 1e-4) * event_epsilon(q, sigma, n_steps, delta)

    def test_a_budget_is_solved_for_with_what_is_stated(self):
        tiny = PrivacyBudget(epsilon=1.0, delta=1e-11)
        multiplier = noise_multiplier_for(tiny, sample_rate=0.1, n_steps=50)
        assert multiplier == noise_multiplier_for(tiny, sample_rate=0.1, n_steps=50, accountant="rdp")
        mechanism = SampledGaussian(sample_rate=0.1, noise_multiplier=multiplier, n_steps=50)
        assert epsilon_spent(mechanism, 1e-11) == epsilon_spent(mechanism, 1e-11, accountant="rdp") <= 1.0

    def test_an_epsilon_that_moments_cannot_show_is_refused_in_one_line(self):
        with pytest.raises(ValueError, match=r"^epsilon=0\.01 is too small for the moments accountant at delta=1e-12;"):
            noise_multiplier_for(PrivacyBudget(epsilon=0.01, delta=1e-12), sample_rate=0.1, n_steps=50)


def test_a_pure_release_pays_for_its_counts_too():
    recipe = Recipe(
        group_sizes=(30.0, 60.0),
        sample_rates=(1.0, 1.0),
        group_weights=(1.0, 1.0),
        clip_norm=1.0,
        noise_allocation="laplace",
    )
    plan = make_plan(recipe, PrivacyBudget(epsilon=1.0, delta=1e-5), n_steps=1, counts_epsilon=0.25)
    assert [mechanism.noise_multiplier for mechanism in plan.mechanisms] == [pytest.approx(1 / 0.75)] * 2
    assert [epsilon_spent(mechanism, 1e-5) for mechanism in plan.mechanisms] == [pytest.approx(1.0)] * 2


@pytest.mark.more
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_bill_holds_whichever_default_rate_the_sizes_lead_to(epsilon):
    """A small group raises the default rate, so the steps may depend on sizes that one record has moved.

    Composition takes the steps as fixed. Here the worst of them is taken for every outcome of the count by itself, as
    if it was chosen to harm this record: δ(ε) = Σ_x p(x) max_j δ_j(ε − loss of x) over the steps j that may follow.
    """
    budget = PrivacyBudget(epsilon=epsilon, delta=DELTA)
    std, defaults = sizes_std(budget), DEFAULTS["mlp"]
    x = np.arange(-int(8 * std), int(8 * std) + 1)
    p = np.exp(-((x - 1) ** 2) / (2 * std**2))
    # Ascending, as the distribution wants to be asked; outcomes beyond, of a chance below 1e-14, are left out.
    asked = np.maximum(epsilon - (2 * x[::-1] - 1) / (2 * std**2), 0.0)
    worst = np.zeros(len(x))
    for rate in (0.01, 0.02, 0.05, 0.1, 0.2):
        steps = {"sample_rate": rate, "n_steps": default_n_steps(defaults, rate)}
        multiplier = noise_multiplier_for(budget, **steps, counts_std=std)
        loss = privacy_loss(SampledGaussian(**steps, noise_multiplier=multiplier))
        worst = np.maximum(worst, np.asarray(loss.get_delta_for_epsilon(asked))[::-1])
    assert float((p / p.sum()) @ worst) <= 1.005 * DELTA


BUDGET_READING = PrivacyBudget(epsilon=1.0, delta=1e-5)
READING = reading_for(BUDGET_READING, 15)
STEPS = SampledGaussian(sample_rate=0.02, noise_multiplier=2.0, n_steps=300)


def test_the_sensitivity_is_that_of_three_counts_in_every_column():
    assert READING.std / READING.multiplier == pytest.approx(math.sqrt(15 * (1 + 1 / 4 + 1 / 16)))


@pytest.mark.parametrize(("std", "least"), [(5.0, 9), (5.0, 27), (52.3, 276), (1.5, 4)])
def test_the_tail_of_discrete_noise_is_that_of_its_sum(std, least):
    terms = [math.exp(-(k**2) / (2 * std**2)) for k in range(-4000, 4001)]
    exact = sum(terms[4000 + least :]) / sum(terms)
    assert exact <= upper_tail(std, least) <= exact * (1 + 1e-6)


def test_the_threshold_keeps_its_share_of_delta_and_no_lower_one_does():
    assert READING.delta <= 0.1 * BUDGET_READING.delta
    assert replace(READING, threshold=READING.threshold - 1).delta > 0.1 * BUDGET_READING.delta
    # By hand: 15 values that ten people have, of which one is the record, against noise of deviation σ.
    by_hand = 15 * norm.sf((READING.threshold - noise.FEWEST - 0.5) / READING.std)
    assert READING.delta == pytest.approx(by_hand, rel=0.01)


def test_a_threshold_is_found_for_any_noise():
    for std in (0.3, 2.0, 500.0):
        found = threshold_for(std, 40, 1e-6)
        assert 40 * upper_tail(std, found - noise.FEWEST) <= 1e-6 < 40 * upper_tail(std, found - 1 - noise.FEWEST)


def test_pld_is_that_of_every_count_composed_by_hand():
    width = 1e-4
    steps = pld.from_gaussian_mechanism(2.0, sampling_prob=0.02, value_discretization_interval=width)
    loss = steps.self_compose(300)
    for factor in (1, 2, 4):
        for _ in range(15):
            one = pld.from_discrete_gaussian_mechanism(factor * READING.std, value_discretization_interval=width)
            loss = loss.compose(one)
    by_hand = loss.get_epsilon_for_delta(1e-5 - READING.delta)
    found = epsilon_spent(replace(STEPS, reading=READING), 1e-5, accountant="pld")
    # By hand each count is rounded up on the grid, 45 times.
    assert 0.99 * by_hand < found <= by_hand * (1 + 1e-6)
    # Nearly one Gaussian of the whole sensitivity.
    near = steps.self_compose(300).compose(
        pld.from_gaussian_mechanism(READING.multiplier, value_discretization_interval=width)
    )
    assert found == pytest.approx(near.get_epsilon_for_delta(1e-5 - READING.delta), rel=1e-3)
    assert found > epsilon_spent(STEPS, 1e-5, accountant="pld") * 1.01


def test_moments_are_those_of_one_gaussian_more_and_delta_is_paid():
    account = rdp.RdpAccountant(None, NeighboringRelation.ADD_OR_REMOVE_ONE)
    account.compose(SelfComposedDpEvent(PoissonSampledDpEvent(0.02, GaussianDpEvent(2.0)), 300))
    account.compose(GaussianDpEvent(READING.multiplier))
    by_hand = account.get_epsilon(1e-5 - READING.delta)
    assert epsilon_spent(replace(STEPS, reading=READING), 1e-5, accountant="rdp") == pytest.approx(by_hand, rel=0.01)


def test_a_delta_that_the_threshold_uses_up_leaves_no_epsilon():
    with_reading = replace(STEPS, reading=READING)
    for accountant in ("pld", "rdp"):
        assert math.isinf(epsilon_spent(with_reading, READING.delta * 0.99, accountant=accountant))
    assert math.isinf(reading_epsilon(READING, READING.delta * 0.99))


def test_noise_that_is_found_beside_a_reading_spends_the_budget():
    found = noise_multiplier_for(BUDGET_READING, sample_rate=0.02, n_steps=300, reading=READING)
    spent = epsilon_spent(replace(STEPS, noise_multiplier=found, reading=READING), BUDGET_READING.delta)
    assert 0.999 <= spent <= 1.0
    alone = noise_multiplier_for(BUDGET_READING, sample_rate=0.02, n_steps=300)
    # A tenth of the privacy: about a twentieth more noise.
    assert 1.03 < found / alone < 1.08


def test_a_pure_release_after_a_reading_is_the_sum():
    alone = reading_epsilon(READING, 1e-5)
    assert epsilon_spent(LaplaceRelease(noise_multiplier=2.0, reading=READING), 1e-5) == pytest.approx(0.5 + alone)
    gaussian = pld.from_gaussian_mechanism(READING.multiplier, value_discretization_interval=1e-4)
    assert alone == pytest.approx(gaussian.get_epsilon_for_delta(1e-5 - READING.delta), rel=1e-3)


def test_a_search_reads_once_for_all_trials():
    spend = TrialSpend(mechanism=STEPS, held_out_epsilon=0.9)
    plain = Selection(expected_trials=4.0, by_group={"f": (spend,)})
    read = replace(plain, reading=READING)
    assert plain.epsilon("f", 1e-5) < read.epsilon("f", 1e-5)
    assert read.epsilon("f", 1e-5) >= 2 * 0.9 + reading_epsilon(READING, 1e-5)
    held_out = Selection(
        expected_trials=4.0, by_group={"f": (TrialSpend(mechanism=STEPS, held_out_epsilon=5.0),)}, reading=READING
    )
    assert held_out.epsilon("f", 1e-5) == pytest.approx(10 + reading_epsilon(READING, 1e-5))
    # For a record that is trained on: one Gaussian release beside the choice, and a δ.
    trained = Selection(expected_trials=4.0, by_group={"f": (TrialSpend(mechanism=STEPS),)}, reading=READING)
    chosen = selected_divergences([STEPS], expected_trials=4.0)
    both = [value + order / (2 * READING.multiplier**2) for order, value in zip(RDP_ORDERS, chosen, strict=True)]
    by_hand = rdp.compute_epsilon(RDP_ORDERS, both, 1e-5 - READING.delta)[0]
    assert trained.epsilon("f", 1e-5) == pytest.approx(by_hand, rel=1e-9)
    assert math.isinf(trained.epsilon("f", 0.99 * READING.delta))
    # Within a trial it would be paid as often as there are trials; a threshold has no divergence.
    assert math.isinf(divergence(replace(STEPS, reading=READING), 8))


def test_an_infinite_budget_reads_nothing_with_noise():
    assert reading_for(PrivacyBudget(epsilon=math.inf, delta=1e-5), 3) is None


def test_fewer_columns_are_read_with_less_noise():
    assert reading_for(BUDGET_READING, 3).std < READING.std
    assert reading_for(BUDGET_READING, 3).multiplier == pytest.approx(READING.multiplier, rel=1e-4)


def test_a_reading_without_noise_is_refused():
    with pytest.raises(ValueError, match="std"):
        Reading(n_columns=3, std=0.0, threshold=20)


CONFIG = TrainConfig(sample_rate=1.0, n_steps=60, clip_norm=1.0, learning_rates=(0.3,), optimizer="sgd")
# Noise of three queries, one of which is made of two releases.
SURVEYS = (9.0, 12.0, 15.0, 15.0)


def mechanism(sample_rate: float, surveys: float = joint_multiplier(*SURVEYS)) -> SampledGaussian:
    sigma = 4.0 if sample_rate < 1 else 40.0
    return SampledGaussian(sample_rate=sample_rate, noise_multiplier=sigma, n_steps=50, surveys_multiplier=surveys)


def composed_by_others(sample_rate: float, surveys: tuple[float, ...]) -> float:
    """Each release on its own, step by step, by the accountant of dp-accounting."""
    account = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-4)
    steps = mechanism(sample_rate)
    gaussian = dp_accounting.GaussianDpEvent(steps.noise_multiplier)
    account.compose(dp_accounting.PoissonSampledDpEvent(sample_rate, gaussian), steps.n_steps)
    for sigma in surveys:
        account.compose(dp_accounting.GaussianDpEvent(sigma))
    return account.get_epsilon(DELTA)


@pytest.mark.parametrize("sample_rate", [1.0, 0.2])
def test_pld_is_that_of_composing_each_release(sample_rate):
    ours = epsilon_spent(mechanism(sample_rate), DELTA, accountant="pld")
    # Each grid rounds up, and many small ones more than one.
    assert ours == pytest.approx(composed_by_others(sample_rate, SURVEYS), rel=3e-3)


@pytest.mark.parametrize("sample_rate", [1.0, 0.2])
def test_that_check_notices_a_query_that_was_forgotten(sample_rate):
    ours = epsilon_spent(mechanism(sample_rate), DELTA, accountant="pld")
    for number in range(3):
        fewer = SURVEYS[:number] + SURVEYS[number + 1 :]
        assert ours > composed_by_others(sample_rate, fewer) * (1 + 6e-3)


def test_pld_by_hand_composes_distributions():
    steps = pld.from_gaussian_mechanism(4.0, sampling_prob=0.2, value_discretization_interval=1e-4).self_compose(50)
    for sigma in SURVEYS:
        steps = steps.compose(pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-4))
    ours = epsilon_spent(mechanism(0.2), DELTA, accountant="pld")
    assert ours == pytest.approx(steps.get_epsilon_for_delta(DELTA), rel=2e-3)


@pytest.mark.parametrize("sample_rate", [1.0, 0.2])
def test_moments_add_up(sample_rate):
    """Rényi divergences of the steps by dp-accounting, those of queries by hand: α / 2 σ² each."""
    steps = rdp.RdpAccountant(RDP_ORDERS, NeighboringRelation.ADD_OR_REMOVE_ONE)
    steps.compose(mechanism(sample_rate, surveys=0.0).event)
    added = [
        own + sum(order / (2 * sigma**2) for sigma in SURVEYS)
        for order, own in zip(RDP_ORDERS, steps._rdp, strict=True)
    ]
    expected, _ = rdp.compute_epsilon(RDP_ORDERS, added, DELTA)
    assert epsilon_spent(mechanism(sample_rate), DELTA, accountant="rdp") == pytest.approx(expected, rel=1e-9)
    without, _ = rdp.compute_epsilon(RDP_ORDERS, steps._rdp, DELTA)
    assert expected > 1.01 * without


def test_at_full_rate_everything_is_one_gaussian_mechanism():
    """50 steps of σ = 40 and the queries: 1/σ² = 50/1600 + 1/81 + 1/144 + 2/225."""
    sigma = (50 / 1600 + 1 / 81 + 1 / 144 + 2 / 225) ** -0.5
    spent = epsilon_spent(mechanism(1.0), DELTA)
    assert analytic_epsilon(sigma) - 1e-9 <= spent <= analytic_epsilon(sigma) + 1e-3
    # One percent less noise would show.
    assert analytic_epsilon(0.99 * sigma) > spent


def test_the_event_tells_of_queries():
    events = mechanism(0.2).event.events
    assert events[-1] == dp_accounting.GaussianDpEvent(joint_multiplier(*SURVEYS))
    assert isinstance(mechanism(0.2, surveys=0.0).event, dp_accounting.SelfComposedDpEvent)


@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_noise_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match="surveys_multiplier must be at least 0"):
        mechanism(0.2, surveys=value)


@pytest.mark.parametrize(("epsilon", "sample_rate", "n_steps"), [(0.2, 1.0, 100), (2.0, 0.1, 80)])
def test_the_noise_for_a_budget_pays_for_queries_first(epsilon, sample_rate, n_steps):
    budget = PrivacyBudget(epsilon=epsilon, delta=DELTA)
    surveys = query_std(budget, 0.15)
    settings = {"sample_rate": sample_rate, "n_steps": n_steps}
    sigma = noise_multiplier_for(budget, **settings, surveys_multiplier=surveys)
    spent = epsilon_spent(SampledGaussian(**settings, noise_multiplier=sigma, surveys_multiplier=surveys), DELTA)
    assert 0.999 * epsilon <= spent <= epsilon
    assert sigma > noise_multiplier_for(budget, **settings)


def test_a_share_of_the_privacy_by_hand():
    """All of it is σ_G(1, 1e-5) = 3.7306; a tenth, over 25 looks, √250 of that."""
    assert query_std(BUDGET, 0.1, 25) == pytest.approx(math.sqrt(250) * 3.73064, rel=1e-5)
    assert analytic_epsilon(query_std(BUDGET, 0.999)) == pytest.approx(1.0, abs=1e-3)
    # Looks together are one release with the whole share.
    assert joint_multiplier(*[query_std(BUDGET, 0.1, 25)] * 25) == pytest.approx(query_std(BUDGET, 0.1), rel=1e-5)
    assert query_std(PrivacyBudget(epsilon=math.inf, delta=DELTA), 0.1) == 0.0


def plan_of(parity: str, n_groups: int, sample_rate: float = 1.0, **more) -> Plan:
    config = replace(CONFIG, parity=parity, sample_rate=sample_rate, **more)
    sizes = tuple(400.0 * (group + 1) for group in range(n_groups))
    return make_plan(fairdp_frontier(config, sizes), BUDGET, n_steps=config.n_steps)


CASES = [
    ("demographic_parity", 1),
    ("demographic_parity", 2),
    ("equal_opportunity", 2),
    ("demographic_parity", 4),
    ("equalized_odds", 2),
]


@pytest.mark.parametrize(("parity", "n_groups", "sample_rate"), [*((*case, 1.0) for case in CASES), (*CASES[1], 0.1)])
def test_a_plan_spends_the_budget_and_no_more(parity, n_groups, sample_rate):
    plan = plan_of(parity, n_groups, sample_rate, query="frequencies", query_share=0.02)
    spent = [epsilon_spent(mechanism, DELTA) for mechanism in plan.mechanisms]
    assert 0.99 <= max(spent) <= 1.0
    # What is accounted is the noise of each release, so often as it is made.
    each = [std for query in plan.recipe.queries for std in [plan.query_stds[query.what]] * query.n_looks]
    for known in plan.mechanisms:
        assert known.surveys_multiplier == pytest.approx(joint_multiplier(*each))
    if sample_rate == 1:
        sigma = plan.noise_std / plan.recipe.sensitivities.max()
        inverse = plan.n_steps / sigma**2 + sum(std**-2 for std in each)
        assert analytic_epsilon(inverse**-0.5) <= 1.0


def test_queries_get_the_shares_that_they_are_given():
    plan = plan_of("equalized_odds", 3)
    whole = query_std(BUDGET, 0.9999999) ** -2
    for query in plan.recipe.queries:
        together = query.n_looks * plan.query_stds[query.what] ** -2
        assert together / whole == pytest.approx(query.share, rel=1e-4)


@pytest.mark.parametrize(("parity", "n_groups"), CASES)
def test_queries_leave_most_for_the_steps(parity, n_groups):
    asked = queries_of(replace(CONFIG, parity=parity, query="centre", query_share=0.03), n_groups)
    assert 0.04 <= sum(query.share for query in asked) <= 0.4


def test_a_recipe_without_queries_pays_for_none():
    recipe = replace(fairdp_frontier(CONFIG, (500.0, 500.0)), queries=())
    plan = make_plan(recipe, BUDGET, n_steps=60)
    assert plan.query_stds == {}
    assert {mechanism.surveys_multiplier for mechanism in plan.mechanisms} == {0.0}


def test_a_plan_names_the_queries_of_its_recipe():
    plan = plan_of("demographic_parity", 2)
    with pytest.raises(ValueError, match="query_stds must name"):
        replace(plan, query_stds={})


@pytest.mark.parametrize(("share", "n_looks"), [(0.0, 1), (1.5, 1), (0.1, 0)])
def test_a_query_without_a_share_or_a_look_is_refused(share, n_looks):
    with pytest.raises(ValueError, match="must be"):
        Query(what="cells", share=share, n_looks=n_looks)


def test_what_is_asked_by_notion_and_number_of_groups():
    def asked(n_groups: int, **options) -> dict[str, int]:
        return {query.what: query.n_looks for query in queries_of(replace(CONFIG, **options), n_groups)}

    plain = {"cells": 1, "ranking": 1, "frontier": 1}
    assert asked(1) == asked(2) == asked(2, parity="equal_opportunity") == plain
    assert (
        asked(3) == asked(2, parity="equalized_odds") == asked(2, positive_rate=0.3) == plain | {"direction": N_QUERIES}
    )
    assert asked(2, query="centre", query_share=0.03) == {"centre": 1} | plain
    assert not needs_direction(CONFIG, 2)
