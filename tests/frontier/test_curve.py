"""The frontier of a known law: sketches, events, ranking and figures, exact without noise and covered with it."""

from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog
from sklearn.metrics import roc_auc_score

from fairdp.frontier.curve import (
    _EDGES,
    N_BINS,
    Events,
    Frontier,
    area_under_curve,
    changes_of,
    counts_of,
    covariance_of,
    exact_ranking,
    falling,
    line_prices,
    plain_values,
    prefix_root,
    sketch_of,
    spread_of,
    tilted,
    total_price,
    turning_points,
)
from statistical import assert_normal, assert_plausible, assert_rate_at_most

LINE = tuple(0.6 * np.sign(u) * abs(u) ** 1.7 for u in np.linspace(-1, 1, 65))
RAY = tuple(np.linspace(0, 1, 33))


@dataclass(frozen=True)
class People:
    """Records from a law: P of the cells given the inputs, and a cell drawn from it."""

    chances: np.ndarray
    cells: np.ndarray

    @classmethod
    def draw(cls, n_records: int, n_groups: int, seed: int, shares: tuple[float, ...] | None = None) -> "People":
        rng = np.random.default_rng(seed)
        heads = np.random.default_rng(0).normal(size=(5, 2 * n_groups))
        scores = 0.8 * rng.normal(size=(n_records, 5)) @ heads
        if shares is not None:
            scores += np.log(np.repeat(shares, 2))
        chances = np.exp(scores)
        chances /= chances.sum(1, keepdims=True)
        cells = (rng.random((n_records, 1)) > chances.cumsum(1)).sum(1).clip(max=2 * n_groups - 1)
        return cls(chances, cells)

    @property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.cells, minlength=self.chances.shape[1]).astype(float)

    def decisions(self, values: np.ndarray) -> np.ndarray:
        return self.chances @ values >= 0

    def frontier(
        self,
        parity: str = "demographic_parity",
        *,
        prices: tuple[float, ...] = (-1.0, 1.0),
        positions: tuple[float, ...] = LINE,
        std: float = 0.0,
        cells_std: float = 0.0,
        rng: np.random.Generator | None = None,
        cost_ratio: float = 1.0,
        shift: float = 0.0,
        **more,
    ) -> Frontier:
        """The releases of a run about these people, with noise of these deviations."""
        n_cells, events = self.chances.shape[1], Events(parity, self.chances.shape[1] // 2)
        rng = rng or np.random.default_rng(0)
        sizes = self.sizes + cells_std * rng.standard_normal(n_cells)
        values = self.chances @ (plain_values(n_cells, cost_ratio) + shift)
        pulls = self.chances @ events.pulls(np.array(prices), np.maximum(sizes, 1.0))
        sketch = sketch_of(changes_of(values, pulls, self.cells, n_cells, np.array(positions)))
        ranking = exact_ranking(self.chances[:, 1::2].sum(1), self.cells % 2)
        return Frontier(
            parity=parity,
            cost_ratio=cost_ratio,
            cell_sizes=tuple(sizes),
            cells_std=cells_std,
            prices=prices,
            shift=shift,
            positions=positions,
            sketch=tuple(map(tuple, sketch + std * rng.standard_normal(sketch.shape))),
            sketch_std=std,
            looked=more.get("looked", ()),
            ranking=tuple(map(tuple, ranking + std * rng.standard_normal(ranking.shape))),
            ranking_std=std,
        )


def rates_of(people: People, events: Events, positive: np.ndarray) -> np.ndarray:
    counts = np.bincount(people.cells[positive], minlength=len(people.sizes))
    return events.members @ counts / events.sizes(people.sizes)


CASES = {
    "two groups": (2, "demographic_parity", (-1.0, 1.0), LINE, 0.0),
    "a ratio": (2, "demographic_parity", (-1.25, 1.0), LINE, 0.0),
    "opportunity": (2, "equal_opportunity", (-1.0, 1.0), LINE, 0.0),
    "three groups": (3, "demographic_parity", (-0.1, 0.04, 0.06), RAY, 0.0),
    "odds": (2, "equalized_odds", (-0.05, 0.05, 0.08, -0.08), RAY, 0.0),
    "a rate of everybody": (3, "demographic_parity", (-0.1, 0.04, 0.06), RAY, 0.1),
}


@pytest.mark.parametrize(("case", "cost_ratio"), [*((case, 1.0) for case in CASES), ("two groups", 3.0), ("odds", 3.0)])
def test_with_next_to_no_noise_every_figure_is_the_exact_one(case, cost_ratio):
    n_groups, parity, prices, positions, shift = CASES[case]
    people = People.draw(100_000, n_groups, seed=1)
    noise = {"std": 0.01, "cells_std": 0.01, "shift": shift, "cost_ratio": cost_ratio}
    frontier = people.frontier(parity, prices=prices, positions=positions, **noise)
    events, labels = Events(parity, n_groups), people.cells % 2
    for index, position in enumerate(positions):
        # The deployed rule at this position, by its own route.
        positive = people.decisions(frontier.values_at(position))
        rates = rates_of(people, events, positive)
        gaps = [np.ptp(rates[events.bands == band]) for band in np.unique(events.bands)]
        ratios = [rates[events.bands == b].min() / rates[events.bands == b].max() for b in np.unique(events.bands)]
        # That the difference along a line only falls is true of the law, and of its records but for sampling.
        assert frontier.gaps[0][index] == pytest.approx(max(gaps), abs=3e-3 if frontier.is_line else 5e-4)
        assert frontier.ratios[0][index] == pytest.approx(min(ratios), abs=5e-3)
        assert frontier.accuracy[0][index] == pytest.approx((positive == labels).mean(), abs=1e-5)
        assert frontier.positive_rates[index] == pytest.approx(positive.mean(), abs=1e-5)
    assert frontier.measurable.all()
    assert frontier.total_prices == pytest.approx(np.abs(positions) * sum(p for p in prices if p > 0))
    assert frontier.positions[frontier.origin] == 0
    # The law gives the figures something to tell apart.
    assert np.ptp(frontier.gaps[0]) > 0.02
    assert np.ptp(frontier.accuracy[0]) > 0.002


def test_that_check_notices_another_position():
    """One place further along, decisions are others: the check above would see it."""
    people = People.draw(100_000, 2, seed=1)
    frontier = people.frontier(std=0.01)
    positive = people.decisions(frontier.values_at(LINE[41]))
    assert (
        abs(frontier.positive_rates[40] - positive.mean()) > 1e-4
        or abs(frontier.gaps[0][40] - np.ptp(rates_of(people, frontier.events, positive))) > 2e-3
    )


@cache
def deviations(n_runs: int = 400) -> dict[str, np.ndarray]:
    """Distance of the figures at one position from those of the records, in units of their errors; one per sketch.

    The sketch is as in a run at ε = 1 on 8,000 people; positions are drawn, because errors along one sketch go
    together.
    """
    people, rng = People.draw(8000, 2, seed=3), np.random.default_rng(4)
    found: dict[str, list[float]] = {"rates": [], "gaps": [], "ratios": []}
    for _ in range(n_runs):
        frontier = people.frontier(std=12.0, cells_std=37.0, rng=rng)
        index = int(rng.integers(len(LINE)))
        rates = rates_of(people, frontier.events, people.decisions(frontier.values_at(LINE[index])))
        low, high = sorted(rates)
        seen = {"rates": (rates[0], *(row[0] for row in frontier.rates))}
        seen |= {"gaps": (high - low, *frontier.gaps), "ratios": (low / high, *frontier.ratios)}
        for figure, (truth, values, errors) in seen.items():
            found[figure].append((values[index] - truth) / errors[index])
    return {figure: np.array(values) for figure, values in found.items()}


def misses(figure: str, *, factor: float = 1.0) -> tuple[int, int]:
    """Frequency of figures further off than 1.96 of their errors."""
    found = deviations()[figure]
    return int((np.abs(found) > 1.96 * factor).sum()), len(found)


@pytest.mark.parametrize("figure", ["rates", "gaps", "ratios"])
def test_standard_errors_cover(figure):
    """400 sketches notice errors that are a third too small."""
    assert_rate_at_most(*misses(figure), limit=0.05)


@pytest.mark.parametrize("figure", ["rates", "gaps", "ratios"])
def test_that_check_notices_errors_of_half_the_size(figure):
    with pytest.raises(AssertionError):
        assert_rate_at_most(*misses(figure, factor=0.5), limit=0.05)


@cache
def deviations_by_sizes(n_runs: int = 300) -> np.ndarray:
    """The same for the rate of a group of which little but its size is uncertain."""
    people, rng, found = People.draw(4000, 2, seed=3), np.random.default_rng(8), []
    for _ in range(n_runs):
        frontier = people.frontier(std=0.5, cells_std=60.0, rng=rng)
        index = int(rng.integers(len(LINE)))
        rates = rates_of(people, frontier.events, people.decisions(frontier.values_at(LINE[index])))
        found.append((frontier.rates[0][0, index] - rates[0]) / frontier.rates[1][0, index])
    return np.abs(found)


def test_that_holds_where_sizes_are_less_certain_than_decisions():
    found = deviations_by_sizes()
    assert_rate_at_most(int((found > 1.96).sum()), len(found), limit=0.05)
    with pytest.raises(AssertionError):
        assert_rate_at_most(int((found > 0.98).sum()), len(found), limit=0.05)


@cache
def deviations_of_many(n_runs: int = 300) -> np.ndarray:
    """The same for the largest gap of four groups, all of which can be seen."""
    prices, positions, rng = (-0.1, -0.03, 0.03, 0.1), RAY, np.random.default_rng(7)
    people, found = People.draw(30_000, 4, seed=3), []
    exact = people.frontier(prices=prices, positions=positions)
    for _ in range(n_runs):
        noisy = np.array(exact.sketch) + 15.0 * rng.standard_normal((8, len(positions)))
        frontier = replace(exact, sketch=tuple(map(tuple, noisy)), sketch_std=15.0)
        assert frontier.measurable.all()
        index = int(rng.integers(len(positions)))
        rates = rates_of(people, exact.events, people.decisions(exact.values_at(positions[index])))
        found.append((frontier.gaps[0][index] - np.ptp(rates)) / frontier.gaps[1][index])
    return np.array(found)


def test_that_holds_for_the_largest_gap_of_many_groups():
    found = np.abs(deviations_of_many())
    assert_rate_at_most(int((found > 1.96).sum()), len(found), limit=0.05)
    with pytest.raises(AssertionError):
        assert_rate_at_most(int((found > 0.98).sum()), len(found), limit=0.05)


@cache
def accuracy_deviations(n_runs: int = 400) -> np.ndarray:
    """The same for the accuracy of the law, of which the records are a sample: few of them, and little noise."""
    everybody, rng, found, index = People.draw(200_000, 2, seed=5), np.random.default_rng(6), [], 40
    # Prices refer to the sizes of cells: those of the law, so that the rule stays the same.
    fixed = everybody.frontier()
    truth = (everybody.decisions(fixed.values_at(LINE[index])) == everybody.cells % 2).mean()
    taken = fixed.events.pulls(np.array(fixed.prices), fixed.sizes)
    for run in range(n_runs):
        people = People.draw(1000, 2, seed=100 + run)
        values, pulls = people.chances @ plain_values(4, 1.0), people.chances @ taken
        sketch = sketch_of(changes_of(values, pulls, people.cells, 4, np.array(LINE)))
        noisy = tuple(map(tuple, sketch + 0.5 * rng.standard_normal(sketch.shape)))
        frontier = replace(fixed, cell_sizes=tuple(people.sizes), sketch=noisy, sketch_std=0.5)
        value, error = (row[index] for row in frontier.accuracy)
        found.append((value - truth) / error)
    return np.array(found)


def accuracy_misses(*, factor: float = 1.0) -> tuple[int, int]:
    return int((np.abs(accuracy_deviations()) > 1.96 * factor).sum()), len(accuracy_deviations())


def test_the_error_of_accuracy_covers_sampling_too():
    assert_rate_at_most(*accuracy_misses(), limit=0.05)


def test_that_check_notices_half_that_error():
    with pytest.raises(AssertionError):
        assert_rate_at_most(*accuracy_misses(factor=0.5), limit=0.05)


def test_the_last_looks_make_the_end_of_the_ray_more_certain():
    people = People.draw(8000, 3, seed=7)
    prices, index = CASES["three groups"][2], int(np.argmin(np.abs(np.array(RAY) - 1)))
    plain = people.frontier(prices=prices, positions=RAY, std=12.0)
    exact = rates_of(people, plain.events, people.decisions(plain.values_at(RAY[index])))
    looked = people.frontier(prices=prices, positions=RAY, std=12.0, looked=tuple((r, 0.001) for r in exact))
    assert (looked.rates[1][:, index] < 0.5 * plain.rates[1][:, index]).all()
    assert looked.rates[0][:, index] == pytest.approx(exact, abs=0.005)
    # Far from it they say nothing.
    assert looked.rates[1][:, 0] == pytest.approx(plain.rates[1][:, 0], rel=0.1)


@pytest.mark.parametrize("prices", [(-1.0, 1.0), (-1.25, 1.0), (1.0, -2.0)])
def test_along_a_line_the_weighted_sum_only_falls(prices):
    people, rng = People.draw(3000, 2, seed=8), np.random.default_rng(0)
    for _ in range(20):
        frontier = people.frontier(std=25.0, rng=rng, prices=prices)
        assert frontier.is_line
        fallen = np.array(prices) @ frontier.compared
        assert fallen == pytest.approx(frontier.difference())
        assert (np.diff(fallen) <= 1e-12).all()
        # Noise alone would not do that.
        assert (np.diff(np.array(prices) @ frontier.rates[0]) > 0).any()


def test_falling_by_hand():
    assert falling(np.array([3.0, 1.0, 2.0, 0.0])).tolist() == [3.0, 1.5, 1.5, 0.0]


def test_groups_that_cannot_be_seen_are_not_compared():
    people = People.draw(20_000, 3, seed=9, shares=(1.0, 1.0, 0.002))
    assert people.sizes[4:].sum() < 150
    frontier = people.frontier(prices=CASES["three groups"][2], positions=RAY, std=12.0, cells_std=37.0)
    assert frontier.measurable.tolist() == [True, True, False]
    rates, index = frontier.rates[0], frontier.origin
    assert frontier.gaps[0][index] == pytest.approx(abs(rates[0, index] - rates[1, index]))


def test_in_each_band_two_events_are_compared_at_least():
    """Of two tiny groups and a large one, the less uncertain tiny one is kept beside the large one."""
    people = People.draw(20_000, 3, seed=9, shares=(1.0, 0.002, 0.001))
    frontier = people.frontier(prices=CASES["three groups"][2], positions=RAY, std=12.0, cells_std=37.0)
    errors = np.median(frontier.rates[1], axis=1)
    assert (errors > 0.03).tolist() == [False, True, True]
    assert frontier.measurable.sum() == 2
    assert frontier.measurable[np.argsort(errors)[:2]].all()
    odds = people.frontier("equalized_odds", prices=(0.0,) * 6, positions=RAY, std=12.0, cells_std=37.0)
    assert [odds.measurable[odds.events.bands == band].sum() >= 2 for band in (0, 1)] == [True, True]


def test_noise_alone_spreads_many_rates_and_is_not_called_a_gap():
    """Groups of one rate, seen through noise: their raw spread is mostly noise, the estimate is less."""
    people, rng = People.draw(6000, 4, seed=11), np.random.default_rng(1)
    blind = replace(people, cells=2 * (np.arange(6000) % 4) + people.cells % 2)
    found = []
    for _ in range(20):
        frontier = blind.frontier(prices=(0.0,) * 4, positions=RAY, std=12.0, rng=rng)
        found.append([frontier.gaps[0][0], np.ptp(frontier.rates[0][:, 0])])
    estimated, raw = np.mean(found, axis=0)
    assert estimated < 0.8 * raw


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
def test_without_any_noise_nothing_is_divided_by_zero(parity):
    """ε = ∞ is a debugging mode: warnings are errors here."""
    n_events = 3 if parity == "demographic_parity" else 6
    frontier = People.draw(3000, 3, seed=0).frontier(parity, prices=(0.0,) * n_events, positions=RAY)
    for figure in (*frontier.gaps, *frontier.ratios, *frontier.accuracy, frontier.auc):
        assert np.isfinite(figure).all()


def test_one_group_has_no_gap():
    people = People.draw(2000, 1, seed=0)
    frontier = people.frontier(prices=(0.0,), positions=(0.0,), std=5.0)
    assert (frontier.gaps[0].tolist(), frontier.origin, frontier.is_line) == ([0.0], 0, False)
    assert frontier.accuracy[0][0] == pytest.approx(
        (people.decisions(plain_values(2, 1.0)) == people.cells).mean(), abs=0.03
    )


def test_figures_between_positions_are_interpolated():
    frontier = People.draw(500, 2, seed=0).frontier()
    row = np.arange(65.0)
    assert frontier.at(row, (LINE[3] + LINE[4]) / 2) == pytest.approx(3.5)
    assert frontier.at(row, 0.0) == 32.0


def test_the_spread_of_many_rates_by_hand():
    """The variance of the three is .04; .00045 of it is noise."""
    rates, errors = np.array([[0.3], [0.5], [0.7]]), np.full((3, 1), 0.0003**0.5)
    value, error = spread_of(rates, errors, ratio=False)
    real = (0.08 - 3 * 0.0003) / 2
    drawn = 0.4 * (real / (real + 0.0003)) ** 0.5
    assert value == pytest.approx([drawn])
    assert error == pytest.approx([np.hypot(0.0006**0.5, (0.4 - drawn) / 2)])
    assert spread_of(rates[:2], errors[:2], ratio=False)[1] == pytest.approx([0.0006**0.5])


@dataclass(frozen=True)
class TwoBands:
    """The interface of a frontier for `Frontier._spread`: two bands of two events, at one position."""

    rates: tuple[np.ndarray, np.ndarray]
    events = Events("equalized_odds", 2)
    measurable = np.ones(4, dtype=bool)

    @property
    def compared(self) -> np.ndarray:
        return self.rates[0]


def test_a_band_of_which_less_is_known_adds_to_the_doubt():
    """Gaps of .05 and .04, to .003 · √2 and .03 · √2: the second may well be the larger one."""
    rates = np.array([[0.10], [0.15], [0.50], [0.54]])
    seen = TwoBands((rates, np.array([[0.003], [0.003], [0.03], [0.03]])))
    gap, doubt = Frontier._spread(seen, ratio=False)
    assert gap == pytest.approx([0.05])
    assert doubt == pytest.approx([0.04 + 0.03 * 2**0.5 - 0.05])
    clear = TwoBands((rates, np.full((4, 1), 0.003)))
    assert Frontier._spread(clear, ratio=False)[1] == pytest.approx([0.003 * 2**0.5])


N_CELLS = 4
# As runs have them: both sides of none, closer together near it.
SKETCHED = np.array([0.6 * np.sign(u) * abs(u) ** 1.7 for u in np.linspace(-1, 1, 65)])


def decisions(values, pulls, positions):
    """Shape (n_records, n_positions)."""
    return values[:, None] - positions * pulls[:, None] >= 0


def counted(values, pulls, cells, positions):
    positive = decisions(values, pulls, positions)
    return np.array([positive[cells == cell].sum(0) for cell in range(N_CELLS)])


def table(n_records: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    values, pulls = rng.normal(size=n_records), 4 * rng.normal(size=n_records)
    return values, pulls, rng.integers(N_CELLS, size=n_records)


def without(record: int, *arrays):
    return [np.delete(array, record) for array in arrays]


@pytest.mark.parametrize("positions", [SKETCHED, np.linspace(0, 1, 33), np.array([0.0]), np.array([-1.0, 2.0])])
def test_counts_are_those_of_deciding_at_every_position(positions):
    values, pulls, cells = table(500)
    sketch = sketch_of(changes_of(values, pulls, cells, N_CELLS, positions))
    assert sketch.shape == (N_CELLS, len(positions))
    assert np.allclose(counts_of(sketch), counted(values, pulls, cells, positions), atol=1e-8)


# Small whole numbers over powers of two: arithmetic is exact, and there are many ties.
WHOLE = st.integers(-3, 3).map(float)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(WHOLE, WHOLE, st.integers(0, N_CELLS - 1)), min_size=1, max_size=12),
    st.sets(st.sampled_from([-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 3.0]), min_size=1),
)
def test_ties_zero_pulls_and_records_that_never_turn_are_counted_exactly(records, positions):
    values, pulls, cells = (np.array(column) for column in zip(*records, strict=True))
    places = np.array(sorted(positions))
    found = counts_of(sketch_of(changes_of(values, pulls, cells, N_CELLS, places)))
    assert np.allclose(found, counted(values, pulls, cells, places), atol=1e-8)


def test_turning_points_by_hand():
    """At a tie the decision is positive: it is lost only beyond it, and won at it."""
    cases = [  # value, pull, place, decision at the first position
        (1.0, 1.0, 3, True),  # zero at 1, between the last two
        (0.0, 1.0, 2, True),  # zero exactly at the second position: lost at the third
        (0.0, -1.0, 1, False),  # won at it
        (0.5, 1.0, 3, True),  # tie at the third: lost at the fourth
        (-1.0, 1.0, 1, True),  # zero at the first position itself
        (-1.5, 1.0, 4, False),  # beyond it before: never turns
        (2.0, 1.0, 4, True),  # tie at the last: stays
        (2.1, 1.0, 4, True),
        (-2.0, -1.0, 3, False),  # won at the last
        (-2.1, -1.0, 4, False),
        (1.0, -1.0, 4, True),  # a tie at the first, then ever better
        (0.0, 0.0, 4, True),  # nothing pulls: zero is positive
        (-1.0, 0.0, 4, False),
        (1.0, 0.0, 4, True),
    ]
    values, pulls, places, start = (np.array(column) for column in zip(*cases, strict=True))
    found, first = turning_points(values, pulls, np.array([-1.0, 0.0, 0.5, 2.0]))
    assert found.tolist() == places.tolist()
    assert first.tolist() == start.tolist()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_tie_at_the_first_position_survives_rounding(sign):
    """A value that is rounded onto the first position is lost, or won, right after it, wherever division puts it."""
    rng = np.random.default_rng(1)
    firsts, pulls = rng.uniform(0.1, 1, 400), sign * rng.uniform(0.1, 3, 400)
    values = firsts * pulls
    if sign < 0:
        values = np.nextafter(values, -np.inf)
    misplaced = (values / pulls < firsts) if sign > 0 else (values / pulls <= firsts)
    assert misplaced.any()
    for value, pull, first in zip(values, pulls, firsts, strict=True):
        positions = np.array([first, first + 0.5, first + 1.0])
        one = np.zeros(1, np.int64)
        found = counts_of(sketch_of(changes_of(np.array([value]), np.array([pull]), one, 1, positions)))
        assert found[0].round(8).tolist() == decisions(np.array([value]), np.array([pull]), positions)[0].tolist()


def test_the_root_squared_adds_up():
    root, _ = prefix_root(20)
    assert np.allclose(root @ root, np.tril(np.ones((20, 20))))
    assert root[:3, 0].tolist() == [1.0, 0.5, 0.375]


@pytest.mark.parametrize("positions", [SKETCHED, np.linspace(0, 1.0, 33), np.array([0.0])])
def test_removing_any_record_moves_the_sketch_by_at_most_one(positions):
    values, pulls, cells = table(80, seed=2)
    whole = sketch_of(changes_of(values, pulls, cells, N_CELLS, positions))
    moves = [
        np.linalg.norm(whole - sketch_of(changes_of(*without(record, values, pulls, cells), N_CELLS, positions)))
        for record in range(80)
    ]
    assert max(moves) <= 1 + 1e-9
    assert max(moves) >= 0.7


def largest_move(n_points: int, sensitivity: float) -> float:
    """Of a record of every kind: never turning, lost at each place, won at each place; for sums over a sensitivity."""
    positions = np.arange(n_points, dtype=float)
    zeros = np.concatenate([[-1.0, n_points], positions[:-1] + 0.5])
    values, pulls = np.concatenate([zeros, -zeros]), np.repeat([1.0, -1.0], len(zeros))
    rescaled = prefix_root(n_points)[1] / sensitivity
    moves = [
        np.linalg.norm(sketch_of(changes_of(values[[i]], pulls[[i]], np.zeros(1, np.int64), N_CELLS, positions)))
        for i in range(len(values))
    ]
    return max(moves) * rescaled


@pytest.mark.parametrize("n_points", [1, 2, 3, 33, 65])
def test_the_sensitivity_is_attained_and_never_exceeded(n_points):
    assert largest_move(n_points, prefix_root(n_points)[1]) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("n_points", [33, 65])
def test_that_check_notices_the_bound_of_a_single_column(n_points):
    """A record that is lost leaves at one place and was there at the first: one column alone is too little."""
    root, _ = prefix_root(n_points)
    assert largest_move(n_points, np.linalg.norm(root, axis=0).max()) > 1.05


def whitened(covariance: np.ndarray, std: float) -> np.ndarray:
    """Noise on the sums as it arrives at the counts, in units of a covariance; shape (n_draws, n_positions)."""
    noise = std * np.random.default_rng(3).standard_normal((4000, len(covariance)))
    return np.linalg.solve(np.linalg.cholesky(covariance), counts_of(noise).T).T


def assert_white(draws: np.ndarray) -> None:
    assert_normal(draws, 1.0)
    for left, right in pairwise(draws.T):
        assert_normal(left, 1.0)
        assert_plausible(stats.pearsonr(left, right).pvalue, "two positions")


def test_the_covariance_is_that_of_the_counts():
    """36 000 draws notice a deviation 4 % off; 17 tests in all, each with its own false alarm."""
    assert_white(whitened(covariance_of(9, 2.5), 2.5))


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_that_check_notices_a_wrong_scale(factor):
    with pytest.raises(AssertionError, match="scale"):
        assert_white(whitened(covariance_of(9, 2.5), 2.5 * factor))


def test_that_check_notices_that_counts_move_together():
    with pytest.raises(AssertionError, match="two positions"):
        assert_white(whitened(np.diag(np.diag(covariance_of(9, 2.5))), 2.5))


NOTIONS = ("demographic_parity", "equal_opportunity", "equalized_odds")


def test_members_by_hand():
    """Cell 2 a + y: of two groups, cells are (0, 0), (0, 1), (1, 0), (1, 1)."""
    expected = {
        "demographic_parity": [[1, 1, 0, 0], [0, 0, 1, 1]],
        "equal_opportunity": [[0, 1, 0, 0], [0, 0, 0, 1]],
        "equalized_odds": [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]],
    }
    for parity, members in expected.items():
        assert Events(parity, 2).members.tolist() == members


def test_an_unknown_notion_has_no_events():
    with pytest.raises(KeyError):
        _ = Events("magic", 2).members


def test_bands_and_groups_by_hand():
    parity, odds = Events("demographic_parity", 3), Events("equalized_odds", 3)
    assert (parity.bands.tolist(), parity.groups.tolist()) == ([0, 0, 0], [0, 1, 2])
    assert (odds.bands.tolist(), odds.groups.tolist()) == ([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])


def test_sizes_are_at_least_one():
    cells = np.array([10.0, 20.0, -3.0, 0.5])
    assert Events("demographic_parity", 2).sizes(cells).tolist() == [30.0, 1.0]
    assert Events("equal_opportunity", 2).sizes(cells).tolist() == [20.0, 1.0]


def test_pulls_by_hand():
    """Of 100 records, 40 are in the first group: a price of .2 takes .2 / .4 from each of its cells."""
    cells = np.array([30.0, 10.0, 40.0, 20.0])
    pulls = Events("demographic_parity", 2).pulls(np.array([-0.2, 0.2]), cells)
    assert pulls.tolist() == pytest.approx([-0.5, -0.5, 1 / 3, 1 / 3])
    pulls = Events("equal_opportunity", 2).pulls(np.array([-0.2, 0.2]), cells)
    assert pulls.tolist() == pytest.approx([0.0, -2.0, 0.0, 1.0])


@pytest.mark.parametrize("parity", NOTIONS)
@pytest.mark.parametrize("n_groups", [2, 3])
def test_what_prices_take_in_all_is_the_sum_of_prices_times_rates(parity, n_groups):
    """The Lagrangian of any decisions: the mean of what is taken from positive ones is Σ ν_e r_e."""
    rng, events = np.random.default_rng(0), Events(parity, n_groups)
    cells = rng.integers(2 * n_groups, size=500)
    positive = rng.random(500) < 0.4
    sizes = np.bincount(cells, minlength=2 * n_groups).astype(float)
    prices = rng.normal(size=len(events.members))
    taken = events.pulls(prices, sizes)[cells[positive]].sum() / 500
    rates = events.members @ np.bincount(cells[positive], minlength=2 * n_groups) / events.sizes(sizes)
    assert taken == pytest.approx(prices @ rates)
    # Shares of other sizes would not do.
    assert events.pulls(prices, sizes[::-1])[cells[positive]].sum() / 500 != pytest.approx(prices @ rates)


def test_what_a_positive_decision_is_worth():
    assert plain_values(4, 1.0).tolist() == [-1.0, 1.0, -1.0, 1.0]
    assert plain_values(2, 3.5).tolist() == [-1.0, 3.5]


def test_what_is_paid_is_the_sum_of_positive_prices():
    assert total_price(np.array([0.3, -0.5, 0.2])) == pytest.approx(0.5)
    assert total_price(np.zeros(3)) == 0.0


def test_prices_for_a_ratio_by_hand():
    assert tilted(np.array([-0.2, -0.1, 0.3]), 0.5).tolist() == pytest.approx([-0.4, -0.2, 0.3])
    assert tilted(np.array([-0.2, 0.2]), 0.0).tolist() == [-0.2, 0.2]
    # Fewer positive labels in the second group, then in the first.
    assert line_prices(np.array([10.0, 10.0, 30.0, 10.0]), 0.8).tolist() == [1.0, -1.25]
    assert line_prices(np.array([30.0, 10.0, 10.0, 10.0]), 0.8).tolist() == [-1.25, 1.0]
    assert line_prices(np.array([10.0, 10.0, 30.0, 10.0]), 0.0).tolist() == [-1.0, 1.0]


class Law:
    """People of whom two groups' chances are known, the second one's labels being positive more often."""

    def __init__(self, seed: int, n_people: int = 300) -> None:
        rng = np.random.default_rng(seed)
        scores = rng.normal(size=(n_people, 4)) + np.array([1.0, -0.5, 0.0, 0.5])
        self.chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        self.sizes, self.worth = self.chances.sum(0), self.chances @ plain_values(4, 1.0)
        self.weights = (Events("demographic_parity", 2).members @ self.chances.T).T
        self.weights /= self.weights.sum(0)

    def best(self, ratio: float) -> float:
        """Worth of the best decisions, chances of them included, with this ratio: a linear programme."""
        low, high = self.weights.T
        found = linprog(-self.worth, A_ub=[ratio * high - low], b_ub=[0.0], bounds=(0, 1))
        return -float(found.fun)

    def with_prices(self, prices: np.ndarray, ratio: float) -> float:
        """Worth of the rule at the least multiple of these prices that has this ratio."""
        pulls = self.chances @ Events("demographic_parity", 2).pulls(prices, self.sizes)
        for multiple in np.linspace(0, 1, 4001):
            positive = self.worth >= multiple * pulls
            low, high = positive @ self.weights
            if low >= ratio * high:
                return float(self.worth[positive].sum())
        raise AssertionError("the ratio is never reached")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ratio", [0.8, 0.95])
def test_with_prices_for_a_ratio_no_rule_of_that_ratio_is_worth_more(seed, ratio):
    """But for the one person whom the best rule decides about by chance."""
    law = Law(seed)
    best = law.best(ratio)
    assert law.worth[law.worth >= 0].sum() > best + 1
    assert best - 1 < law.with_prices(line_prices(law.sizes, ratio), ratio) <= best + 1e-9


def test_that_check_notices_prices_that_add_up_to_zero():
    law = Law(0)
    assert law.with_prices(line_prices(law.sizes, 0.0), 0.8) < law.best(0.8) - 1


def draw(n_records: int, seed: int = 0, strength: float = 1.5):
    rng = np.random.default_rng(seed)
    logits = strength * rng.normal(size=n_records) - 1
    chances = 1 / (1 + np.exp(-logits))
    return chances, (rng.random(n_records) < chances).astype(np.int64)


def test_every_record_is_in_one_bin_of_its_label():
    counts = exact_ranking(np.array([0.0, 0.005, 0.0049, 0.5, 0.98, 1.0]), np.array([0, 0, 1, 1, 0, 1]))
    expected = np.zeros((2, N_BINS))
    expected[0, [0, 1, N_BINS - 1]] = 1
    expected[1, [0, 12, N_BINS - 1]] = 1
    assert counts.tolist() == expected.tolist()


def test_removing_any_record_moves_one_count_by_one():
    chances, labels = draw(40)
    whole = exact_ranking(chances, labels)
    for record in range(40):
        moved = whole - exact_ranking(np.delete(chances, record), np.delete(labels, record))
        assert sorted(moved.ravel())[-2:] == [0.0, 1.0]
        assert np.abs(moved).sum() == 1.0


@pytest.mark.parametrize("strength", [0.0, 0.5, 3.0])
def test_without_noise_the_area_is_that_of_the_binned_scores(strength):
    chances, labels = draw(3000, strength=strength)
    area = area_under_curve(exact_ranking(chances, labels), 0.0).value
    assert area == pytest.approx(roc_auc_score(labels, np.searchsorted(_EDGES, chances, side="right")), abs=1e-9)
    # Binning loses little.
    assert area == pytest.approx(roc_auc_score(labels, chances), abs=0.02)


def test_area_by_hand():
    """Two bins, 10 and 30 of label 0, 20 and 20 of label 1: ½·¼·½ + ½·¼ + ½·½·¾ = ⅝."""
    noisy = np.zeros((2, N_BINS))
    noisy[:, :2] = [[10, 30], [20, 20]]
    estimate = area_under_curve(noisy, 0.0)
    assert estimate.value == pytest.approx(0.5 * 0.125 + 0.5 * (0.25 + 0.375))
    # Only sampling is left: its bound on the variance, over the smaller label.
    assert estimate.error == pytest.approx(np.sqrt(0.375 * 0.625 / 40))


def misses_ranking(std: float, *, halved: bool = False, n_runs: int = 600) -> tuple[int, int]:
    """Frequency with which noise takes the area further than its error, without that of sampling, says at 95 %."""
    exact, rng = exact_ranking(*draw(4000)), np.random.default_rng(5)
    truth, missed = area_under_curve(exact, 0.0), 0
    for _ in range(n_runs):
        estimate = area_under_curve(exact + std * rng.standard_normal(exact.shape), std)
        error = np.sqrt(estimate.error**2 - truth.error**2) / (2 if halved else 1)
        missed += abs(estimate.value - truth.value) > 1.96 * error
    return missed, n_runs


@pytest.mark.parametrize("std", [5.0, 25.0])
def test_the_error_covers_the_noise(std):
    """600 runs notice errors that are a quarter too small."""
    assert_rate_at_most(*misses_ranking(std), limit=0.05)


def test_that_check_notices_errors_of_half_the_size_ranking():
    with pytest.raises(AssertionError):
        assert_rate_at_most(*misses_ranking(25.0, halved=True), limit=0.05)


def test_noise_alone_is_an_area_that_nobody_believes():
    noise = 30.0 * np.random.default_rng(0).standard_normal((2, N_BINS))
    estimate = area_under_curve(noise, 30.0)
    assert 0.0 <= estimate.value <= 1.0
    assert estimate.error > 0.3
