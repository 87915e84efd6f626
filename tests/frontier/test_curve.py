"""The frontier of a known law: figures that are exact without noise, and standard errors that cover with it."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from fairdp.frontier.curve import Frontier, falling, spread_of
from fairdp.frontier.events import Events, plain_values
from fairdp.frontier.ranking import exact_ranking
from fairdp.frontier.sketch import exact_sketch
from statistical import assert_rate_at_most

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
        """What a run would release about these people, with noise of these deviations."""
        n_cells, events = self.chances.shape[1], Events(parity, self.chances.shape[1] // 2)
        rng = rng or np.random.default_rng(0)
        sizes = self.sizes + cells_std * rng.standard_normal(n_cells)
        values = self.chances @ (plain_values(n_cells, cost_ratio) + shift)
        pulls = self.chances @ events.pulls(np.array(prices), np.maximum(sizes, 1.0))
        sketch = exact_sketch(values, pulls, self.cells, n_cells, np.array(positions))
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


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("cost_ratio", [1.0, 3.0])
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
    """How far figures at one position are from those of the records, in units of their errors; one per sketch.

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
    """How often a figure is further off than 1.96 of its errors."""
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
        sketch = exact_sketch(values, pulls, people.cells, 4, np.array(LINE))
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
    """What `Frontier._spread` asks of a frontier: two bands of two events, at one position."""

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
