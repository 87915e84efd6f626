"""Sums over parts of blocks: the same bits, whoever computes which part."""

import numpy as np
import pytest
import torch

from fairdp.team import ALONE, shares, the_team
from fairdp.training.shared_sums import _pieces, summed_in_order
from team_cases import together

# Numbers of many sizes: added in another order they have other last digits.
BLOCKS = [[7, 7, 3], [], [5], [9, 9, 9, 9, 1], [2, 2], [8] * 11, []]


def part(block: int, number: int) -> torch.Tensor:
    rng = np.random.default_rng([block, number])
    return torch.from_numpy((rng.standard_normal(40) * 10.0 ** rng.integers(-8, 8, 40)).astype(np.float32))


def summed(rows=None) -> torch.Tensor:
    return torch.stack(summed_in_order(BLOCKS, part, n_numbers=40, team=the_team(), rows=rows))


def by_hand(rows: list[int]) -> torch.Tensor:
    total = torch.zeros(max(rows) + 1, 40, dtype=torch.float64)
    for block, sizes in enumerate(BLOCKS):
        of_block = torch.zeros(40, dtype=torch.float64)
        for number in range(len(sizes)):
            of_block = of_block + part(block, number)
        total[rows[block]] = total[rows[block]] + of_block
    return total


@pytest.mark.parametrize("rows", [None, [0, 1, 2, 0, 1, 2, 0]])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8, 13, 40])
def test_a_sum_has_the_same_bits_for_any_number_of_workers(size, rows):
    first, *others = together(size, lambda: summed(rows))
    assert first.numpy().tobytes() == by_hand(rows or [0] * len(BLOCKS)).numpy().tobytes()
    assert all(not other.any() for other in others)


def test_another_order_would_have_other_bits():
    """The twin: sums of shares, added up, are not the same number to its last digit."""
    parts = [part(block, number) for block, sizes in enumerate(BLOCKS) for number in range(len(sizes))]
    halves = [torch.stack(half).double().sum(0) for half in (parts[:12], parts[12:])]
    assert sum(halves).numpy().tobytes() != by_hand([0] * len(BLOCKS)).numpy().tobytes()


def test_each_part_is_computed_once_and_by_its_neighbours_worker():
    for size in (1, 2, 5, 8):
        pieces = _pieces(BLOCKS, size)
        ranks = [piece.rank for piece in pieces]
        assert ranks == sorted(ranks)
        found = [(piece.block, number) for piece in pieces for number in piece.parts]
        assert found == [(block, number) for block, sizes in enumerate(BLOCKS) for number in range(len(sizes))]


@pytest.mark.parametrize("n_workers", [2, 4, 8])
def test_eight_parts_are_shared_evenly(n_workers):
    assert np.bincount(shares([60] * 16, n_workers)).tolist() == [16 // n_workers] * n_workers


def test_without_records_nothing_is_added():
    [total] = summed_in_order([[], []], part, n_numbers=3, team=ALONE)
    assert total.tolist() == [0, 0, 0]
    [[shared], *_] = together(3, lambda: summed_in_order([[]], part, n_numbers=3, team=the_team()))
    assert shared.tolist() == [0, 0, 0]


def test_what_a_part_adds_is_left_as_it_is():
    """Whoever computes a part may keep what it returned."""
    kept = torch.ones(3, dtype=torch.float64)
    [total] = summed_in_order([[1, 1]], lambda block, number: kept, n_numbers=3, team=ALONE)
    assert (total.tolist(), kept.tolist()) == ([2, 2, 2], [1, 1, 1])
