"""Cells, events and prices, by hand; and that a price is what is paid for a point of gap."""

import numpy as np
import pytest
from scipy.optimize import linprog

from fairdp.frontier.events import Events, line_prices, plain_values, tilted, total_price

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
