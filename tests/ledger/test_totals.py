"""Totals: what a ledger adds up equals what dp-accounting composes by hand."""

from itertools import product

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant

from fairdp.accounting.mechanisms import LaplaceRelease, SampledGaussian
from fairdp.ledger.book import Ledger
from fairdp.ledger.composition import composed, worst_loss
from fairdp.ledger.costs import Cost, PureRelease, SearchRelease, epsilon_of
from fairdp.ledger.totals import record_total, table_total
from ledger_cases import DELTA, claim, fit_cost, people, pure, steps

A, B, C = steps(0.01, 1.84, 2000), steps(0.02, 2.5, 800), steps(0.05, 3.0, 300)


def by_hand(*releases: SampledGaussian | float, delta: float) -> float:
    """ε of some releases, each with everybody's record in it; a number is that of discrete Laplace noise."""
    account = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for release in releases:
        pure = dp_accounting.dp_event.DiscreteLaplaceDpEvent
        account.compose(release.event if isinstance(release, SampledGaussian) else pure(release, 1))
    return account.get_epsilon(delta)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


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
    monkeypatch.setattr("fairdp.ledger.composition._MOST_COMBINATIONS", 1)
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
    assert cost.ways == (few,)
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
