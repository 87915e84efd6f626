"""Limits: refused before anything is spent, with what is left and what would fit."""

import math

import pytest
from dp_accounting import rdp

from fairdp._checks import DataError, InputError, ParameterError
from fairdp.ledger.book import Ledger
from fairdp.ledger.costs import Cost, SearchRelease, epsilon_of, renyi_divergence
from fairdp.ledger.entries import Limit
from fairdp.ledger.limits import allowed_divergence, worst_divergence
from ledger_cases import DELTA, claim, fit_cost, people, pure, steps


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


def test_a_budget_refuses_before_spending_and_says_what_is_left_and_fits(ledger):
    ledger.spend(claim(ledger, pure(1.0), people(*range(20))), budget=2.5)
    ledger.spend(claim(ledger, pure(0.75), people(*range(20))), budget=2.5)
    with pytest.raises(DataError) as refused:
        ledger.spend(claim(ledger, pure(1.0), people(*range(20))), budget=2.5)
    assert "limit of 2.5 on table 'loans'" in str(refused.value)
    assert "1.75 is spent: 0.75 is left; use epsilon 0.75 or less" in str(refused.value)
    assert len(ledger.entries()) == 2
    # What would fit, fits: to the last bit of the sum.
    ledger.spend(claim(ledger, pure(0.75), people(*range(20))), budget=2.5)


def test_ten_tenths_fit_into_one(ledger):
    for _ in range(10):
        ledger.spend(claim(ledger, pure(0.1), None), budget=1.0)
    with pytest.raises(DataError, match="0 is left; use other records"):
        ledger.spend(claim(ledger, pure(0.1), None), budget=1.0)


def test_another_name_does_not_hide_the_records(ledger):
    ledger.spend(claim(ledger, pure(1.0), people(*range(20))))
    with pytest.raises(DataError, match=r"1 is spent on some of its records, under any name: 0\.5 is left"):
        ledger.spend(claim(ledger, pure(1.0), people(*range(19, 40)), table="others"), budget=1.5)
    ledger.spend(claim(ledger, pure(1.0), people(*range(20, 40)), table="others"), budget=1.5)


def test_other_records_do_not_hide_the_name(ledger):
    ledger.spend(claim(ledger, pure(1.0), people(*range(20))))
    with pytest.raises(DataError, match=r"1 is spent: 0\.5 is left"):
        ledger.spend(claim(ledger, pure(1.0), people(*range(20, 40))), budget=1.5)


def test_a_standing_limit_holds_until_another_is_set_and_also_for_its_records_elsewhere(ledger):
    ledger.set_limit(Limit(table="loans", epsilon=1.5))
    ledger.spend(claim(ledger, pure(1.0), people(*range(20))))
    with pytest.raises(DataError, match=r"limit of 1.5 on table 'loans'"):
        ledger.spend(claim(ledger, pure(1.0), people(*range(20))), budget=100.0)
    with pytest.raises(DataError, match=r"limit of 1.5 on table 'loans'"):
        ledger.spend(claim(ledger, pure(1.0), people(*range(20)), table="copy"))
    ledger.spend(claim(ledger, pure(1.0), people(*range(30, 40)), table="elsewhere"))
    ledger.set_limit(Limit(table="loans", epsilon=2.0))
    ledger.spend(claim(ledger, pure(1.0), people(*range(20))))


def test_a_limit_on_delta_is_kept_too(ledger):
    ledger.set_limit(Limit(table="loans", epsilon=50.0, delta=1.5e-5))
    cost = fit_cost(steps(0.01, 2.0, 100))
    ledger.spend(claim(ledger, cost, None))
    with pytest.raises(DataError, match="5e-06 is left"):
        ledger.spend(claim(ledger, cost, None))


def test_a_renyi_filter_lets_more_through_than_the_sum_and_never_more_than_its_divergence(ledger):
    limit = Limit(table="loans", epsilon=3.0, delta=1e-4, order=8)
    ledger.set_limit(limit)
    cost = fit_cost(steps(0.01, 1.84, 2000), delta=1e-6)
    each = worst_divergence(cost, 8)
    n_entries = math.floor(allowed_divergence(limit) / each)
    for _ in range(n_entries):
        ledger.spend(claim(ledger, cost, None))
    with pytest.raises(DataError, match=r"by a Renyi filter at order 8.* is left"):
        ledger.spend(claim(ledger, cost, None))
    assert n_entries * cost.epsilon > limit.epsilon
    # dp-accounting's own conversion of as many divergences at this one order.
    epsilon, _ = rdp.compute_epsilon([8], [n_entries * each], 1e-4)
    beyond, _ = rdp.compute_epsilon([8], [(n_entries + 1) * each], 1e-4)
    assert epsilon <= limit.epsilon < beyond


def test_divergences_are_those_of_dp_accounting():
    mechanism = steps(0.02, 1.5, 700, counts_std=40.0, surveys_multiplier=9.0)
    account = rdp.RdpAccountant([8])
    account.compose(mechanism.event)
    assert renyi_divergence(mechanism, 8) == pytest.approx(account._rdp[0], rel=1e-6)


def test_a_search_has_the_divergence_that_its_epsilon_comes_from():
    search = SearchRelease(trials=(steps(0.01, 6.0, 2000),), expected_trials=4.0, counts_std=40.0)
    cost = Cost(epsilon=epsilon_of(search, DELTA), delta=DELTA, by_group={"all": (search,)})
    assert cost.epsilon <= rdp.compute_epsilon([8], [renyi_divergence(search, 8)], DELTA)[0]
    assert renyi_divergence(search, 8) > renyi_divergence(steps(0.01, 6.0, 2000), 8)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (Limit(table="t", epsilon=0.0), "epsilon must be positive"),
        (Limit(table="t", epsilon=math.inf), "epsilon must be finite"),
        (Limit(table="t", epsilon=1.0, delta=2.0), "delta must be in"),
        (Limit(table="t", epsilon=1.0, order=8), "needs delta"),
        (Limit(table="t", epsilon=1.0, delta=1e-5, order=7000), "order must be one of"),
        (Limit(table="t", epsilon=1.0, delta=1e-5, order=2), "too small for order=2"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(ledger, limit, said):
    with pytest.raises(ParameterError, match=said):
        ledger.set_limit(limit)
    assert ledger.limits() == {}


def test_a_budget_must_be_positive(ledger):
    with pytest.raises(InputError, match="budget must be positive"):
        ledger.spend(claim(ledger, pure(1.0), None), budget=-1.0)


def test_a_release_without_noise_passes_no_limit(ledger):
    clean = Cost(epsilon=math.inf, delta=DELTA, by_group={"all": (steps(0.1, 0.0, 10),)})
    ledger.set_limit(Limit(table="loans", epsilon=3.0, delta=1e-4, order=8))
    with pytest.raises(DataError, match="epsilon inf would pass"):
        ledger.spend(claim(ledger, clean, None))
    ledger.spend(claim(ledger, clean, None, table="other"))
