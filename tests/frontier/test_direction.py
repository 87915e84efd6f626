"""Prices by looks: what one look costs, that no more are taken than are paid for, and where they lead."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize

from fairdp.frontier.curve import (
    _AROUND,
    Events,
    _Ascent,
    _levelled,
    find_direction,
    last_looks,
    plain_values,
    pulled,
    response,
    stages_of,
    total_price,
)
from statistical import assert_rate_at_most

N_LOOKS = 100


def people(n_records: int = 6000, n_groups: int = 3, seed: int = 0):
    """P of the cells, and cells drawn from it."""
    rng = np.random.default_rng(seed)
    scores = 0.8 * rng.normal(size=(n_records, 4)) @ np.random.default_rng(1).normal(size=(4, 2 * n_groups))
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    cells = (rng.random((n_records, 1)) > chances.cumsum(1)).sum(1).clip(max=2 * n_groups - 1)
    return chances, cells


def direction_of(chances, cells, parity="demographic_parity", *, look=None, std=0.0, **options):
    events = Events(parity, chances.shape[1] // 2)
    sizes = np.bincount(cells, minlength=chances.shape[1]).astype(float)
    settings = {"gap": 0.02, "min_ratio": 0.0, "cost_ratio": 1.0, "most": np.inf, "positive_rate": None}
    settings |= {"n_looks": N_LOOKS, **options}
    return find_direction(chances, cells, events, sizes, look=look or (lambda exact: exact), std=std, **settings)


def rates_at(chances, cells, parity, prices, shift=0.0, cost_ratio=1.0):
    events = Events(parity, chances.shape[1] // 2)
    sizes = np.bincount(cells, minlength=chances.shape[1]).astype(float)
    worth = plain_values(chances.shape[1], cost_ratio) + shift - events.pulls(prices, sizes)
    positive = chances @ worth >= 0
    return events.members @ np.bincount(cells[positive], minlength=len(sizes)) / events.sizes(sizes), positive.mean()


def largest_gap(rates, n_groups):
    return max(np.ptp(band) for band in rates.reshape(-1, n_groups))


@pytest.mark.parametrize("n_looks", [*range(4, 40), 100, 1001])
def test_no_more_looks_are_planned_than_are_paid_for(n_looks):
    assert sum(stages_of(n_looks)) == n_looks
    assert min(stages_of(n_looks)) >= 1


def test_stages_by_hand():
    assert stages_of(100) == [25, 25, 50]
    with pytest.raises(ValueError, match="n_looks must be at least 4"):
        stages_of(3)


@pytest.mark.parametrize("n_looks", [4, 6, 14, 100])
def test_so_many_looks_are_taken(n_looks):
    taken = []
    direction_of(*people(300), look=lambda exact: taken.append(exact) or exact, n_looks=n_looks)
    assert len(taken) == n_looks


def test_the_error_of_the_last_looks_is_not_understated():
    """Of the last fifty, those after the first third: 34, counted as 33⅓."""
    assert last_looks(100) == pytest.approx(100 / 3)
    assert last_looks(100) <= 50 - int(50 / 3)
    assert last_looks(1) == 1.0


@pytest.mark.parametrize("parity", ["demographic_parity", "equal_opportunity", "equalized_odds"])
@pytest.mark.parametrize("aim", [{}, {"positive_rate": 0.4}, {"min_ratio": 0.9, "gap": 1.0}])
def test_removing_any_record_moves_a_look_by_at_most_one(parity, aim):
    """With everything that earlier looks gave out held fixed."""
    chances, cells = people(40)
    rng, first, noisy = np.random.default_rng(0), [], []

    def record(exact):
        first.append(exact)
        noisy.append(exact + 3 * rng.standard_normal(exact.shape))
        return noisy[-1]

    sizes = np.bincount(cells, minlength=6).astype(float)
    events = Events(parity, 3)
    options = {"gap": 0.02, "min_ratio": 0.0, "cost_ratio": 1.0, "most": 1.0, "positive_rate": None}
    options |= {"std": 3.0, "n_looks": 20, **aim}
    find_direction(chances, cells, events, sizes, look=record, **options)
    largest = 0.0
    for removed in range(40):
        told, seen = iter(noisy), []

        def replayed(exact, told=told, seen=seen):
            seen.append(exact)
            return next(told)

        rest = np.delete(chances, removed, 0), np.delete(cells, removed)
        find_direction(*rest, events, sizes, look=replayed, **options)
        moves = [np.linalg.norm(a - b) for a, b in zip(first, seen, strict=True)]
        largest = max(largest, *moves)
    assert largest == 1.0


def test_that_check_would_notice_groups_that_overlap():
    """Were parity and opportunity counted together, a record would move two numbers: 1.41."""
    both = np.vstack([Events("demographic_parity", 3).members, Events("equal_opportunity", 3).members])
    assert np.linalg.norm(both, axis=0).max() > 1.4
    for parity in ("demographic_parity", "equal_opportunity", "equalized_odds"):
        members = Events(parity, 3).members
        counted = np.vstack([members, 1 - members.max(0, keepdims=True)])
        assert np.linalg.norm(counted, axis=0).tolist() == [1.0] * 6


@pytest.mark.parametrize(
    ("parity", "n_groups"), [("demographic_parity", 3), ("equal_opportunity", 3), ("equalized_odds", 2)]
)
def test_without_noise_the_gap_is_closed(parity, n_groups):
    chances, cells = people(n_groups=n_groups)
    before = largest_gap(rates_at(chances, cells, parity, np.zeros(len(Events(parity, n_groups).members)))[0], n_groups)
    found = direction_of(chances, cells, parity, gap=0.03)
    rates, _ = rates_at(chances, cells, parity, found.prices)
    assert before > 0.15
    assert largest_gap(rates, n_groups) < 0.05
    assert found.rates == pytest.approx(rates, abs=0.02)
    assert found.errors.tolist() == [0.0] * len(rates)
    for band in found.prices.reshape(-1, n_groups):
        assert band.sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("parity", "n_groups"), [("demographic_parity", 3), ("equal_opportunity", 3), ("equalized_odds", 2)]
)
def test_without_noise_a_ratio_is_reached_and_the_rate_is_kept(parity, n_groups):
    """Prices of low rates are larger than those of high ones, by the ratio: see `tilted`."""
    chances, cells = people(n_groups=n_groups)
    plain, everybody = rates_at(chances, cells, parity, np.zeros(len(Events(parity, n_groups).members)))
    found = direction_of(chances, cells, parity, gap=1.0, min_ratio=0.9)
    rates, kept = rates_at(chances, cells, parity, found.prices)
    assert min(band.min() / band.max() for band in plain.reshape(-1, n_groups)) < 0.75
    assert min(band.min() / band.max() for band in rates.reshape(-1, n_groups)) > 0.86
    assert kept > 0.9 * everybody
    assert found.rates == pytest.approx(rates, abs=0.01)
    for band in found.prices.reshape(-1, n_groups):
        assert total_price(band) == pytest.approx(0.9 * total_price(-band), abs=1e-9)


def test_how_far_rates_may_be_apart_by_hand():
    """Of 100 in each group 20 and 40 are accepted, .3 of all: a ratio of .8 allows .06, of which .9 are aimed at."""
    events, sizes = Events("demographic_parity", 2), np.full(4, 50.0)
    bounds = {"most": np.inf, "std": 0.0, "n_looks": N_LOOKS}
    rates = np.array([0.2, 0.4])
    assert _Ascent(events, sizes, gap=1.0, min_ratio=0.8, **bounds).dead(rates) == pytest.approx([0.027, 0.027])
    assert _Ascent(events, sizes, gap=0.04, min_ratio=0.8, **bounds).dead(rates) == pytest.approx([0.018, 0.018])
    both = _Ascent(Events("equalized_odds", 2), sizes, gap=1.0, min_ratio=0.8, **bounds)
    # Each band has a mean of its own, and half of what it allows is aimed at.
    assert both.dead(np.array([0.1, 0.3, 0.5, 0.9])) == pytest.approx([0.01, 0.01, 0.035, 0.035])


def test_a_wide_target_is_met_by_no_prices():
    found = direction_of(*people(), gap=0.9)
    assert found.prices.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("most", [0.0, 0.02, 0.05])
def test_the_price_is_never_more_than_its_bound(most):
    found = direction_of(*people(), most=most)
    assert total_price(found.prices) <= most + 1e-9
    assert total_price(found.prices) >= 0.9 * most
    assert total_price(direction_of(*people()).prices) > 0.05


@pytest.mark.parametrize("positive_rate", [0.2, 0.6])
def test_a_rate_of_everybody_is_met(positive_rate):
    chances, cells = people()
    found = direction_of(chances, cells, positive_rate=positive_rate)
    rates, everybody = rates_at(chances, cells, "demographic_parity", found.prices, found.shift)
    assert everybody == pytest.approx(positive_rate, abs=0.02)
    assert largest_gap(rates, 3) < 0.05
    assert direction_of(chances, cells).shift == 0.0


def test_noise_as_in_a_run_still_closes_most_of_the_gap():
    chances, cells = people(20_000)
    rng = np.random.default_rng(2)
    found = direction_of(chances, cells, look=lambda exact: exact + 110 * rng.standard_normal(exact.shape), std=110.0)
    before, _ = rates_at(chances, cells, "demographic_parity", np.zeros(3))
    after, _ = rates_at(chances, cells, "demographic_parity", found.prices)
    assert np.ptp(after) < 0.4 * np.ptp(before)


@cache
def deviations(n_runs: int = 150) -> np.ndarray:
    """Distance of the rates of the last looks from those at the prices found, in errors as they are used.

    Looks were taken around these prices, not at them: half is added to the variance.
    """
    chances, cells = people(4000)
    rng, found = np.random.default_rng(5), []
    for run in range(n_runs):
        direction = direction_of(
            chances, cells, look=lambda exact: exact + 40 * rng.standard_normal(exact.shape), std=40.0
        )
        rates, _ = rates_at(chances, cells, "demographic_parity", direction.prices)
        off = (direction.rates - rates) / (math.sqrt(_AROUND) * direction.errors)
        found.append(off[run % 3])
    return np.abs(found)


def test_errors_of_the_last_looks_cover():
    """150 runs notice errors that are four tenths too small."""
    assert_rate_at_most(int((deviations() > 1.96).sum()), len(deviations()), limit=0.05)


def test_that_check_notices_errors_of_half_the_size():
    with pytest.raises(AssertionError):
        assert_rate_at_most(int((deviations() > 0.98).sum()), len(deviations()), limit=0.05)


def test_a_group_too_small_to_be_seen_is_not_pulled():
    chances, cells = people(4000)
    small = cells // 2 == 2
    kept = np.flatnonzero(~small | (np.cumsum(small) <= 30))
    found = direction_of(chances[kept], cells[kept], std=110.0)
    assert found.prices[2] == 0.0
    assert found.prices[0] == pytest.approx(-found.prices[1])
    assert found.prices[0] != 0.0


def test_what_is_pulled_by_hand():
    bands = np.array([0, 0, 0, 1, 1, 1])
    errors = np.array([0.01, 0.05, 0.06, 0.01, 0.2, 0.3])
    # The second band has only one that is seen: nothing to compare it with.
    assert pulled(errors, bands).tolist() == [True, True, False, False, False, False]


@pytest.mark.parametrize("seed", range(8))
def test_a_step_minimises_what_it_says(seed):
    """Against a general solver: the sum of squares over steps, and of absolute prices, subject to a sum of zero."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 6))
    aims, steps, dead = rng.normal(size=size), rng.uniform(0.2, 2, size), rng.uniform(0, 0.5, size)
    found = _levelled(aims, steps, dead)

    def objective(split):
        prices = split[:size] - split[size:]
        return ((prices - aims) ** 2 / (2 * steps)).sum() + dead @ split.reshape(2, -1).sum(0)

    balance = {"type": "eq", "fun": lambda split: split[:size].sum() - split[size:].sum()}
    solved = minimize(objective, np.zeros(2 * size), bounds=[(0, None)] * (2 * size), constraints=balance, tol=1e-12)
    best = solved.x[:size] - solved.x[size:]
    assert found == pytest.approx(best, abs=1e-4)
    assert found.sum() == pytest.approx(0.0, abs=1e-9)


def test_prices_within_the_dead_band_are_none():
    assert _levelled(np.array([0.1, -0.1]), np.ones(2), np.full(2, 0.2)).tolist() == [0.0, 0.0]


def test_what_prices_do_to_rates_by_hand():
    sizes = np.array([30.0, 10.0, 40.0, 20.0])
    assert response(Events("demographic_parity", 2), sizes) == pytest.approx(np.diag([1 / 0.4, 1 / 0.6]))
    assert response(Events("equal_opportunity", 2), sizes) == pytest.approx(np.diag([10.0, 5.0]))
    # Events are label 0 of either group, then label 1; those of one group share what they do.
    both = response(Events("equalized_odds", 2), sizes)
    assert both[0, 2] == pytest.approx(0.4 / 4 / (0.3 * 0.1))
    assert both[1, 1] == pytest.approx(1.1 * 0.6 / 4 / 0.4**2)
    assert both[0, 1] == both[0, 3] == 0.0
    assert both == pytest.approx(both.T)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [np.inf, 0.05])
def test_prices_of_both_labels_are_balanced_together(seed, most):
    """Against a general solver; the rounds are few, so that prices are near the best, and their value nearer."""
    rng = np.random.default_rng(seed)
    events, sizes = Events("equalized_odds", 2), rng.uniform(500, 5000, 4)
    state = _Ascent(events, sizes, gap=0.04, min_ratio=0.0, most=most, std=10.0, n_looks=N_LOOKS)
    start, rates = np.array([-0.02, 0.02, 0.01, -0.01]), rng.uniform(0.1, 0.5, 4)

    def objective(split):
        prices = split[:4] - split[4:]
        away = prices - start
        return away @ state.response @ away / 2 - rates @ prices + state.dead(rates) @ (split[:4] + split[4:])

    limits = [{"type": "eq", "fun": lambda split, band=band: (split[:4] - split[4:])[band].sum()} for band in BANDS]
    limits += [] if math.isinf(most) else [{"type": "ineq", "fun": lambda split: most - split.sum() / 2}]
    solved = minimize(objective, np.zeros(8), bounds=[(0, None)] * 8, constraints=limits, tol=1e-12)
    found = state.next_prices(start, rates, 1.0)
    value, best = objective(np.concatenate([found.clip(0), (-found).clip(0)])), objective(solved.x)
    none = objective(np.zeros(8))
    assert best - 1e-7 <= value <= best + 0.01 * (none - best)
    assert total_price(found) <= most + 1e-9
    assert [found[band].sum() for band in BANDS] == pytest.approx([0.0, 0.0], abs=1e-9)


BANDS = (slice(0, 2), slice(2, 4))
