"""Totals, limits and series of certificates: composed by hand, and refused before anything is spent."""

import functools
import math
from itertools import product

import dp_accounting
import pytest
from dp_accounting import rdp
from dp_accounting.pld import PLDAccountant

from fairdp.accounting.mechanisms import LaplaceRelease, SampledGaussian
from fairdp.certify.certificate import share_of_alpha
from fairdp.errors import DataError, InputError, ParameterError
from fairdp.ledger.costs import Cost, PureRelease, SearchRelease, composed, epsilon_of, renyi_divergence, worst_loss
from fairdp.ledger.ledger import Ledger
from fairdp.ledger.store import ENDLESS, Limit, Series, allowed_divergence, record_total, table_total, worst_divergence
from ledger_cases import DELTA, claim, fit_cost, people, pure, steps


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


@pytest.fixture
def of_models(ledger):
    """With two models."""
    for first in (5000, 6000):
        ledger.spend(claim(ledger, pure(1.0), people(*range(first, first + 10))))
    return ledger


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


def certified(ledger: Ledger, month: int, of: int | None, model: str = "1") -> Series | None:
    records = people(*range(100 * month, 100 * month + 10))
    said = {"command": "certify", "model": model, "fresh": True, "of": of}
    return ledger.spend(claim(ledger, pure(0.1), records, **said)).series


def test_twelve_certificates_are_counted_and_there_is_no_thirteenth(of_models):
    numbers = [certified(of_models, month, 12).number for month in range(12)]
    assert numbers == list(range(1, 13))
    with pytest.raises(DataError, match="all 12 certificates of the series are made"):
        certified(of_models, 13, 12)
    # Those of another model are another series.
    assert certified(of_models, 14, 12, model="2") == Series(number=1, of=12)


def test_the_length_of_a_series_cannot_be_changed_on_the_way(of_models):
    certified(of_models, 1, 3)
    for other in (2, 12, ENDLESS):
        with pytest.raises(DataError, match="are a series of 3; repeat that of"):
            certified(of_models, 2, other)
    assert certified(of_models, 2, 3).number == 2


def test_a_certificate_by_itself_is_in_no_series(of_models):
    assert certified(of_models, 1, None) is None
    assert certified(of_models, 2, 3).number == 1
    with pytest.raises(ParameterError, match="of must be the number of certificates"):
        certified(of_models, 3, -1)


@pytest.mark.parametrize("of", [1, 2, 12])
def test_parts_of_alpha_are_one_together(of):
    assert math.fsum(share_of_alpha(k, of) for k in range(1, of + 1)) == pytest.approx(1.0)


def test_parts_of_a_series_without_end_are_less_than_one_together():
    parts = [share_of_alpha(k, ENDLESS) for k in range(1, 20_000)]
    assert 0.999 < math.fsum(parts) < 1.0


A, B, C = steps(0.01, 1.84, 2000), steps(0.02, 2.5, 800), steps(0.05, 3.0, 300)


@functools.cache
def by_hand(*releases: SampledGaussian | float, delta: float) -> float:
    """ε of some releases, each with everybody's record in it; a number is that of discrete Laplace noise."""
    account = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for release in releases:
        pure = dp_accounting.dp_event.DiscreteLaplaceDpEvent
        account.compose(release.event if isinstance(release, SampledGaussian) else pure(release, 1))
    return account.get_epsilon(delta)


def test_three_fits_and_a_certificate_of_overlapping_tables_cost_what_composition_says(ledger):
    # January; January and February; February alone under another name; and a certificate on records of all.
    january, february, other = range(100), range(100, 200), range(200, 300)
    ledger.spend(claim(ledger, fit_cost(A), people(*january)))
    ledger.spend(claim(ledger, fit_cost(B), people(*january, *february)))
    ledger.spend(claim(ledger, fit_cost(C), people(*february), table="february"))
    ledger.spend(claim(ledger, pure(0.5), people(*range(150, 180), *other), table="fresh", command="certify"))
    entries = ledger.entries()

    # A record of February is in the last three, one of January in the first two.
    worst = record_total(entries)
    expected = max(by_hand(B, C, 0.5, delta=2 * DELTA), by_hand(A, B, delta=2 * DELTA))
    assert worst.epsilon == pytest.approx(expected, abs=1e-6)
    assert worst.delta == pytest.approx(2 * DELTA)
    assert worst.epsilon_sum == pytest.approx(sum(entry.cost.epsilon for entry in entries[1:]))
    assert worst.epsilon < worst.epsilon_sum

    named = table_total(entries, "loans")
    assert named.epsilon == pytest.approx(by_hand(A, B, delta=2 * DELTA), abs=1e-6)


def test_a_retrain_charges_old_rows_twice_and_new_rows_once(ledger):
    ledger.spend(claim(ledger, pure(1.0), people(*range(50))))
    ledger.spend(claim(ledger, pure(0.25), people(*range(60))))
    ledger.spend(claim(ledger, pure(0.5), people(*range(50, 60))))
    histories = [entry.histories for entry in ledger.entries()]
    # Old rows: entries 1 and 2. New ones: 2, then 3.
    assert histories == [((),), ((1,),), ((2,),)]
    assert record_total(ledger.entries()).epsilon == pytest.approx(1.25)
    assert record_total(ledger.entries()[1:]).epsilon == pytest.approx(0.75)


def test_other_records_cost_nothing_together(ledger):
    ledger.spend(claim(ledger, fit_cost(A), people(*range(50))))
    ledger.spend(claim(ledger, fit_cost(A), people(*range(50, 100))))
    entries = ledger.entries()
    assert record_total(entries).epsilon == entries[0].cost.epsilon
    # By its name the table has spent both, whoever is in it.
    assert table_total(entries, "loans").epsilon == pytest.approx(by_hand(A, A, delta=2 * DELTA), abs=1e-6)


def test_a_record_that_is_trained_on_or_held_out_counts_with_the_worst_combination():
    pairs = [(A, 0.5), (B, 0.3), (C, 0.6)]
    total = composed([fit_cost(mechanism, held_out=epsilon) for mechanism, epsilon in pairs])
    assert total.epsilon == pytest.approx(max(by_hand(*way, delta=3 * DELTA) for way in product(*pairs)), abs=1e-6)


def test_many_entries_cost_at_least_any_combination_and_little_more(monkeypatch):
    pairs = [(A, 0.5), (B, 0.3), (C, 0.6)]
    monkeypatch.setattr("fairdp.ledger.costs._MOST_COMBINATIONS", 1)
    total = composed([fit_cost(mechanism, held_out=epsilon) for mechanism, epsilon in pairs])
    exact = max(by_hand(*way, delta=3 * DELTA) for way in product(*pairs))
    assert exact <= total.epsilon <= 1.06 * exact


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.45, 0.8, 1.5])
def test_the_curve_of_an_entry_lies_on_or_above_that_of_each_way(epsilon):
    loss = worst_loss(fit_cost(A, held_out=0.5), 1e-4)
    ways = [worst_loss(fit_cost(A), 1e-4), worst_loss(pure(0.5), 1e-4)]
    highest = max(way.get_delta_for_epsilon(epsilon) for way in ways)
    assert highest - 1e-12 <= loss.get_delta_for_epsilon(epsilon) <= highest * 1.001 + 1e-7


def test_groups_count_with_the_least_noise_of_any():
    few, many = steps(0.01, 1.84, 2000), steps(0.01, 3.0, 2000)
    cost = fit_cost(many, few)
    assert cost.mechanisms == (few,)
    assert composed([cost, cost]).epsilon == pytest.approx(by_hand(few, few, delta=2 * DELTA), abs=1e-6)


def test_a_search_and_pure_releases_are_bounded_by_what_they_state():
    search = SearchRelease(trials=(steps(0.01, 6.0, 2000),), expected_trials=4.0, counts_std=0.0)
    epsilon = epsilon_of(search, DELTA)
    searched = Cost(epsilon=epsilon, delta=DELTA, by_group={"all": (search,)})
    laplace = Cost(epsilon=0.5, delta=0.0, by_group={"all": (LaplaceRelease(noise_multiplier=2.0),)})
    total = composed([searched, laplace, fit_cost(A)])
    assert total.delta == pytest.approx(2 * DELTA)
    assert epsilon < total.epsilon <= total.epsilon_sum
    assert composed([laplace, laplace]).epsilon == pytest.approx(1.0)


def test_without_noise_or_below_what_pld_can_tell_the_sum_counts():
    clean = Cost(epsilon=float("inf"), delta=DELTA, by_group={"all": (steps(0.1, 0.0, 10),)})
    assert composed([clean, fit_cost(A)]).epsilon == float("inf")
    tiny = [fit_cost(A, delta=1e-12), fit_cost(B, delta=1e-12)]
    assert composed(tiny).epsilon == composed(tiny).epsilon_sum


def test_way_of_no_private_release_is_no_way(ledger):
    # A pure certificate costs the same at any δ.
    assert epsilon_of(PureRelease(epsilon=0.3), 0.0) == 0.3
    assert composed([]).epsilon == 0.0
