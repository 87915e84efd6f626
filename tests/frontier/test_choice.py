"""Which rule is deployed: by hand on small frontiers of known rates."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fairdp.frontier.curve import Choice, Frontier, Target, choose, cost_of_rest, prefix_root

N = 1e6  # Records of each cell: their noise is next to none.


def sketch_of(counts: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """The released sums from which these counts follow."""
    root, sensitivity = prefix_root(counts.shape[1])
    return tuple(map(tuple, np.linalg.solve(root, counts.T).T / sensitivity))


def frontier(rates, positions, *, prices=None, std: float = 0.0, shift: float = 0.0, sizes: float = N) -> Frontier:
    """Rates of each group at each position, alike for both labels."""
    rates = np.asarray(rates, dtype=float)
    if prices is None:
        prices = (-1.0, 1.0) if positions[0] < 0 else np.linspace(-0.2, 0.2, len(rates))
    return Frontier(
        parity="demographic_parity",
        cost_ratio=1.0,
        cell_sizes=(sizes,) * (2 * len(rates)),
        cells_std=0.0,
        prices=tuple(prices),
        shift=shift,
        positions=tuple(positions),
        sketch=sketch_of(sizes * np.repeat(rates, 2, axis=0)),
        sketch_std=std,
        looked=(),
        ranking=((1.0,) * 19,) * 2,
        ranking_std=0.0,
    )


def target(max_gap: float = 1.0, min_ratio: float = 0.0, price: float = math.inf) -> Target:
    return Target(max_gap=max_gap, min_ratio=min_ratio, price=price)


# The first group's rate is .3; the second's falls from .7 to .1, .1 at a time.
POSITIONS = np.linspace(-0.3, 0.3, 7)
FALLING = frontier([[0.3] * 7, np.linspace(0.7, 0.1, 7)], POSITIONS)
# At the origin the gap is .1 = .4 − .3; towards larger prices it closes.


def test_the_frontier_is_what_it_is_meant_to_be():
    assert FALLING.gaps[0] == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.0, 0.1, 0.2], abs=1e-4)
    assert FALLING.origin == 3


def test_a_target_that_is_met_costs_nothing():
    assert choose(FALLING, target(0.15)) == Choice(position=0.0, price=0.0, is_blind=False)


@pytest.mark.parametrize(("gap", "position"), [(0.05, 0.05), (0.02, 0.08), (0.09, 0.01)])
def test_the_first_rule_within_the_target_is_found_between_two(gap, position):
    chosen = choose(FALLING, target(gap))
    assert chosen.position == pytest.approx(position, abs=1e-3)
    assert chosen.price == pytest.approx(position, abs=1e-3)
    assert not chosen.is_blind


def test_where_the_first_group_is_ahead_the_other_side_is_taken():
    mirrored = frontier([np.linspace(0.1, 0.7, 7), [0.3] * 7], POSITIONS)
    assert choose(mirrored, target(0.05)).position == pytest.approx(-0.05, abs=1e-3)
    assert choose(mirrored, target(0.05)).price == pytest.approx(0.05, abs=1e-3)


def test_a_target_out_of_reach_is_approached_as_far_as_it_goes():
    """Rates that stop at a gap of .05: the lowest point."""
    apart = frontier([[0.3] * 7, [0.7, 0.6, 0.5, 0.45, 0.4, 0.35, 0.35]], POSITIONS)
    assert choose(apart, target(0.01)).position >= 0.2 - 1e-9


@pytest.mark.parametrize("price", [0.0, 0.1, 0.15, 0.25])
def test_the_price_is_never_more_than_its_bound(price):
    slow = frontier([[0.3] * 7, np.linspace(0.9, 0.6, 7)], POSITIONS)
    chosen = choose(slow, target(0.0, price=price))
    assert chosen.price <= price + 1e-9
    # But as much as may be paid, by whole positions.
    assert chosen.price == pytest.approx(math.floor(round(10 * price, 6)) / 10)


def test_a_bound_on_the_price_counts_what_is_paid_for_all_groups():
    """Three groups at prices −.2, 0, .2: position 1 costs .2."""
    rates = np.array([[0.3] * 4, [0.4] * 4, [0.6, 0.55, 0.5, 0.45]])
    ray = frontier(rates, np.linspace(0, 1.5, 4))
    assert ray.total_prices == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert choose(ray, target(0.0, price=0.2)).position == pytest.approx(1.0)
    assert choose(ray, target(0.0, price=0.2)).price == pytest.approx(0.2)
    assert choose(ray, target(0.0)).position == pytest.approx(1.5)


def refusing(shift: float = 0.0) -> Frontier:
    """A gap that closes only because ever more people are refused: .5 of them at first, then .4, .3, .2."""
    rates = np.array([[0.4, 0.35, 0.28, 0.2], [0.6, 0.45, 0.32, 0.2]])
    return frontier(rates, np.linspace(0, 0.3, 4), prices=(-0.2, 0.2), shift=shift)


def test_two_thirds_of_the_positive_decisions_are_kept():
    chosen = choose(refusing(), target(0.0))
    # At .2 they are .3, less than ⅔ · .5.
    assert chosen.position == pytest.approx(0.1)
    assert refusing().at(refusing().positive_rates, chosen.position) >= 2 / 3 * 0.5


def test_unless_a_rate_of_everybody_was_asked_for():
    assert choose(refusing(shift=0.1), target(0.0)).position == pytest.approx(0.3)


def test_a_collapse_at_once_leaves_the_rule_without_a_target():
    rates = np.array([[0.4, 0.1, 0.1], [0.6, 0.1, 0.1]])
    assert choose(frontier(rates, [0.0, 0.1, 0.2], prices=(-0.2, 0.2)), target(0.0)).position == 0.0


def test_a_ratio_is_met_as_well():
    """.3 over a rate that falls from .4 by .1 for .1: at .025 it is .3 / .375."""
    chosen = choose(FALLING, target(min_ratio=0.8))
    assert choose(FALLING, target(min_ratio=0.7)).position == 0.0
    assert chosen.position == pytest.approx(0.025, abs=2e-4)
    assert FALLING.at(FALLING.ratios[0], chosen.position) >= 0.8 - 1e-3


def test_of_a_gap_and_a_ratio_the_further_one_counts():
    assert choose(FALLING, target(0.02, min_ratio=0.7)).position == pytest.approx(0.08, abs=2e-3)
    # A ratio of .9 is reached at .3 / .3333, the gap long before.
    assert choose(FALLING, target(0.09, min_ratio=0.9)).position == pytest.approx(0.0667, abs=2e-4)


@pytest.mark.parametrize(("std", "sizes"), [(0.0, N), (400.0, 1000.0)])
def test_what_cannot_be_seen_is_not_aimed_at(std, sizes):
    blurred = frontier([[0.3] * 7, np.linspace(0.7, 0.1, 7)], POSITIONS, std=std, sizes=sizes)
    chosen = choose(blurred, target(0.0))
    is_blind = blurred.gaps[1][blurred.origin] > 0.10
    assert chosen.is_blind == is_blind == (std > 0)
    assert (chosen.position == 0.0) == is_blind


def test_a_rule_is_chosen_half_an_error_inside_the_target():
    clear = frontier([[0.3] * 7, np.linspace(0.7, 0.1, 7)], POSITIONS, std=10.0, sizes=2000.0)
    error = clear.gaps[1][clear.origin]
    assert 0.005 < error < 0.03
    chosen = choose(clear, target(0.05)).position
    path = clear.at(clear.gaps[0] + 0.5 * clear.gaps[1], chosen)
    assert path == pytest.approx(0.05, abs=1e-6)
    assert clear.at(clear.gaps[0], chosen) < 0.05 - 0.4 * error


def test_what_noise_may_have_spread_is_not_chased():
    """An error of .05 to .1: of what is beyond .03, twice is taken from the gap before it is compared."""
    blurred = frontier([[0.3] * 7, np.linspace(0.7, 0.1, 7)], POSITIONS, std=33.0, sizes=1000.0)
    gap, error = (row[blurred.origin] for row in blurred.gaps)
    assert 0.05 < error < 0.10
    seems = gap + 0.5 * 0.03 - 2 * (error - 0.03)
    assert seems < 0.08 < gap
    assert choose(blurred, target(seems + 0.001)).position == 0.0
    assert choose(blurred, target(seems - 0.001)).position > 0.0


def test_noise_on_a_ratio_is_judged_on_the_scale_of_rates():
    """An error of .01 on rates of .05 is .2 on their ratio: little enough to be believed all the same."""
    rates = np.array([[0.04] * 7, np.linspace(0.08, 0.02, 7)])
    small = frontier(rates, POSITIONS, std=20.0, sizes=3000.0)
    assert small.ratios[1][small.origin] > 0.1
    assert small.gaps[1][small.origin] < 0.03
    chosen = choose(small, target(min_ratio=0.85)).position
    assert small.at(small.ratios[0], chosen) > 0.85


def test_a_rule_that_noise_brings_near_is_not_taken_before_the_lowest_one():
    """Gaps of .2, .04, .12, .06, .02: only the last two are within .07 to stay, and between them and .12 it is met."""
    dipping = frontier([[0.3] * 5, [0.5, 0.34, 0.42, 0.36, 0.32]], np.linspace(0, 1, 5), prices=(-0.2, 0.2))
    assert dipping.gaps[0] == pytest.approx([0.2, 0.04, 0.12, 0.06, 0.02], abs=1e-3)
    assert choose(dipping, target(0.07)).position == pytest.approx(0.5 + 0.25 * 0.05 / 0.06, abs=0.01)
    assert choose(dipping, target(0.25)).position == 0.0
    assert choose(dipping, target(0.01)).position == 1.0


def test_prices_that_were_found_are_left_only_where_the_sketch_is_surer():
    """Three groups: two standard errors inside the target; without looks, as on a line, half of one."""
    rates = np.array([[0.3] * 9, [0.32] * 9, np.linspace(0.5, 0.34, 9)])
    found = frontier(rates, np.linspace(0, 1, 9), std=4.0, sizes=3000.0)
    looked = replace(found, looked=tuple((float(rate), 1e-4) for rate in rates[:, -1]))
    near, far = choose(looked, target(0.1)).position, choose(found, target(0.1)).position
    assert near > far + 0.02
    assert looked.at(looked.gaps[0] + 2 * looked.gaps[1], near) == pytest.approx(0.1, abs=1e-3)


def test_what_the_rest_would_cost():
    """The gap falls by one for a price of one, from .1 on: ∫ λ dλ up to .1 is .005; the same on the other side."""
    mirrored = frontier([np.linspace(0.1, 0.7, 7), [0.3] * 7], POSITIONS)
    for some in (FALLING, mirrored):
        assert cost_of_rest(some, target(0.0, price=0.0)) == pytest.approx((0.1, 0.005), abs=1e-4)
        assert cost_of_rest(some, target(0.05, price=0.0)) == pytest.approx((0.05, 0.00125), abs=1e-4)
        # What is met already costs nothing more.
        assert cost_of_rest(some, target(0.05)) == pytest.approx((0.05, 0.0), abs=1e-4)
    raised = frontier([[0.3] * 7, np.linspace(0.7, 0.1, 7)], POSITIONS, prices=(-1.25, 1.0))
    assert cost_of_rest(raised, target(min_ratio=0.8, price=0.0)) == pytest.approx((0.025, 0.0003125), abs=1e-5)
    apart = frontier([[0.3] * 7, np.linspace(0.9, 0.6, 7)], POSITIONS)
    assert cost_of_rest(apart, target(0.05, price=0.0)) is None


def test_kinds_and_values_of_targets():
    assert (target(0.05).kind, target(0.05).value) == ("max_gap", 0.05)
    assert (target(1.0, 0.8).kind, target(1.0, 0.8).value) == ("min_ratio", 0.8)
