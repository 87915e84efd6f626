import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fairdp.randomness import Generators, StepKeys, Stream
from fairdp.training import noise as sampling
from fairdp.training.noise import PoissonSampler, bernoulli_positions, blocks_of
from statistical import assert_binomial, assert_plausible

DRAWS = 4000
GROUPS = np.repeat([0, 1, 2], [60, 30, 10])
RATES = (0.05, 0.2, 0.1)


def batches(sampler, n_draws: int = DRAWS) -> list[np.ndarray]:
    chain = Generators.of(0).steps
    return [np.concatenate(sampler.draw(chain.step())) for _ in range(n_draws)]


def inclusions(drawn: list[np.ndarray], n_samples: int = 100) -> np.ndarray:
    return np.bincount(np.concatenate(drawn), minlength=n_samples)


@pytest.mark.parametrize("rates", [RATES, (0.1, 0.1, 0.1)])
def test_every_record_is_drawn_at_the_rate_of_its_group(rates):
    counts = inclusions(batches(PoissonSampler.of_groups(GROUPS, rates)))
    for group, rate in enumerate(rates):
        assert_binomial(counts[group == GROUPS], DRAWS, rate)


@pytest.mark.parametrize("rates", [RATES, (0.1, 0.1, 0.1)])
def test_the_size_of_each_groups_batch_is_binomial(rates):
    drawn = batches(PoissonSampler.of_groups(GROUPS, rates))
    for group, rate in enumerate(rates):
        sizes = np.array([(GROUPS[batch] == group).sum() for batch in drawn])
        assert_binomial(sizes, int((group == GROUPS).sum()), rate)


def test_two_records_are_drawn_independently():
    drawn = np.zeros((DRAWS, 100), bool)
    for row, batch in zip(drawn, batches(PoissonSampler.of_groups(GROUPS, (0.3, 0.2, 0.1))), strict=True):
        row[batch] = True
    for a, b in [(0, 1), (0, 99), (50, 70)]:
        table = np.array([[np.sum((drawn[:, a] == i) & (drawn[:, b] == j)) for j in (0, 1)] for i in (0, 1)])
        assert_plausible(stats.chi2_contingency(table).pvalue, f"records {a} and {b}")


class FixedSize:
    """A shortcut common in public code: a batch of fixed size, with the rate of an accountant for coins."""

    def draw(self, keys: StepKeys) -> list[np.ndarray]:
        return [np.random.default_rng(keys.seed("batch")).choice(100, 10, replace=False)]


def test_that_check_notices_batches_of_fixed_size():
    sizes = np.array([len(batch) for batch in batches(FixedSize())])
    with pytest.raises(AssertionError, match="dispersion"):
        assert_binomial(sizes, 100, 0.1)


def test_that_check_notices_a_rate_that_is_off_by_a_tenth():
    counts = inclusions(batches(PoissonSampler.of_groups(GROUPS, (0.11,) * 3)))
    with pytest.raises(AssertionError):
        assert_binomial(counts, DRAWS, 0.1)


def test_no_record_is_drawn_twice_and_empty_batches_happen():
    drawn = batches(PoissonSampler.of_groups(GROUPS, RATES), 500)
    assert all(len(set(batch.tolist())) == len(batch) for batch in drawn)
    small = batches(PoissonSampler.of_groups(np.zeros(20, int), (0.01,)), 500)
    assert any(len(batch) == 0 for batch in small)
    assert any(len(batch) > 0 for batch in small)


def test_rate_one_takes_every_record():
    (batch,) = batches(PoissonSampler.of_groups(GROUPS, (1.0, 1.0, 1.0)), 1)
    assert batch.tolist() == list(range(100))


def test_the_same_keys_give_the_same_batch():
    sampler = PoissonSampler.of_groups(GROUPS, RATES)
    first, second, other = (np.concatenate(sampler.draw(Generators.of(seed).steps.step())) for seed in (5, 5, 6))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_the_gaps_are_the_same_with_and_without_doubt(monkeypatch):
    """With an error bound of a whole gap every gap is in doubt, and computed with as many digits as it takes."""
    fast = [bernoulli_positions(3000, rate, Stream(bytes(32))) for rate in (0.01, 0.5, 0.999)]
    monkeypatch.setattr(sampling, "_GAP_ERROR", 1.0)
    for rate, expected in zip((0.01, 0.5, 0.999), fast, strict=True):
        found = bernoulli_positions(150, rate, Stream(bytes(32)))
        assert np.array_equal(found, expected[expected < 150])


@pytest.mark.parametrize("word", [0, 1, 2**39, 2**64 - 1])
def test_words_at_the_ends_give_gaps_too(word):
    gaps = sampling._gaps(np.full(3, word, np.uint64), 0.1, -1 / math.log1p(-0.1), Stream(bytes(32)))
    assert (gaps >= 0).all()
    assert gaps.max() < 2000


def test_one_more_record_at_the_end_leaves_the_batches_of_the_others():
    """The coins of one record do not depend on who else is there, so that neighbours can be compared step by step."""
    sizes, rates = (600.0, 400.0), (0.4, 0.25)
    groups = np.random.default_rng(0).integers(2, size=1001)
    for planned_batch in (300.0, 5000.0):
        chains = Generators.of(0).steps, Generators.of(0).steps
        whole, fewer = (
            PoissonSampler.of_groups(groups[:n], rates, blocks=blocks_of(n, sum(sizes), planned_batch))
            for n in (1001, 1000)
        )
        for _ in range(100):
            with_it, without = (
                np.concatenate(sampler.draw(chain.step()))
                for sampler, chain in zip((whole, fewer), chains, strict=True)
            )
            assert np.array_equal(with_it[with_it < 1000], without)


@pytest.mark.parametrize(
    ("n", "planned", "batch"), [(1000, 1000.0, 10.0), (10**6, 1e6, 1e5), (7, 1e6, 1e6), (900, 9.0, 9e9)]
)
def test_blocks_cover_all_records_once_whatever_was_planned(n, planned, batch):
    blocks = blocks_of(n, planned, batch)
    assert np.array_equal(np.concatenate([np.arange(n)[block] for block in blocks]), np.arange(n))
    assert 1 <= len(blocks) <= 64
    assert len(blocks) == len(blocks_of(2 * n, planned, batch))


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_a_block_may_be_empty(rate):
    """Planned sizes are noisy: more blocks may be planned than there are records for."""
    assert len(bernoulli_positions(0, rate, Stream(bytes(32)))) == 0
    sampler = PoissonSampler.of_groups(np.zeros(3, int), (rate,), blocks=blocks_of(3, 1e5, 1e5))
    drawn = sampler.draw(Generators.of(0).steps.step())
    assert len(drawn) == len(sampler.blocks) > 1
    assert sum(map(len, drawn)) <= 3


def test_records_of_other_blocks_have_other_coins():
    sampler = PoissonSampler.of_groups(np.zeros(2000, int), (0.5,), blocks=(slice(0, 1000), slice(1000, 2000)))
    first, second = sampler.draw(Generators.of(0).steps.step())
    assert not np.array_equal(first, second - 1000)
    counts = np.array([len(block) for block in (first, second)])
    assert_binomial(counts, 1000, 0.5)


def test_nobody_is_kept_more_often_than_is_accounted():
    """In exact arithmetic: the chance of being drawn and kept is at most the rate, and hardly below it."""
    rates = np.random.default_rng(0).random(2000)
    sampler = PoissonSampler.of_groups(np.arange(2000), tuple(rates.tolist()))
    for limit, rate in zip(sampler.keep_limits.tolist(), rates.tolist(), strict=True):
        chance = Fraction(sampler.largest_rate) * Fraction(limit, 2**53)
        assert Fraction(rate) * (1 - Fraction(1, 2**32)) <= chance <= Fraction(rate)


class Coins:
    """Keys whose coins of thinning are known."""

    def __init__(self, coin: int) -> None:
        self.coin = coin

    def stream(self, purpose: str):
        return self if purpose.startswith("keep") else Stream(bytes(32))

    def words(self, n_words: int) -> np.ndarray:
        return np.full(n_words, self.coin << 11, dtype=np.uint64)


def test_a_coin_at_the_limit_is_not_below_it():
    sampler = PoissonSampler.of_groups(np.array([0, 1]), (1.0, 0.5))
    limit = int(sampler.keep_limits[1])
    assert [block.tolist() for block in sampler.draw(Coins(limit))] == [[0]]
    assert [block.tolist() for block in sampler.draw(Coins(limit - 1))] == [[0, 1]]


def test_records_of_other_blocks_are_thinned_by_other_coins():
    blocks = (slice(0, 500), slice(500, 1000))
    sampler = PoissonSampler.of_groups(np.ones(1000, int), (1.0, 0.5), blocks=blocks)
    first, second = sampler.draw(Generators.of(0).steps.step())
    assert not np.array_equal(first, second - 500)


def test_edges_of_blocks_follow_the_plan_alone():
    """If they followed the exact number of records, one more of them would move others to another stream."""
    edges = [[block.start for block in blocks_of(n, 5000.0, 9000.0)] for n in (4999, 5000, 5001, 6000)]
    assert edges == [[0, 1250, 2500, 3750]] * 4


def test_a_block_goes_on_when_its_first_words_run_out():
    class Short(Stream):
        """First words that are all near the largest one, so that every record is drawn."""

        first = True

        def words(self, n_words: int) -> np.ndarray:
            words = np.full(n_words, 2**64 - 2**50, dtype=np.uint64) if self.first else super().words(n_words)
            self.first = False
            return words

    drawn = bernoulli_positions(3000, 0.1, Short(bytes(32)))
    n_first = int(300 + 5 * math.sqrt(300)) + 8
    assert np.array_equal(drawn[:n_first], np.arange(n_first))
    assert_binomial(np.array([len(drawn) - n_first]), 3000 - n_first, 0.1)


# At this rate the gap is three below 27/64 and two above it, exactly.
EDGE = 27 * 2**58


def test_a_gap_in_doubt_is_settled_by_further_bits():
    words = np.array([EDGE, EDGE - 1, EDGE + 5, EDGE - 5], dtype=np.uint64)
    assert sampling._gaps(words, 0.25, -1 / math.log1p(-0.25), Stream(bytes(32))).tolist() == [2, 3, 2, 3]


def test_gaps_near_a_whole_number_on_either_side_are_in_doubt(monkeypatch):
    """Within the stated error, and no others: 2²⁰ words away is less than it, 2⁴⁰ words away is more."""
    settled = []
    monkeypatch.setattr(sampling, "_exact_gap", lambda word, rate, more: settled.append(word) or 0)
    near, far = (EDGE - 2**20, EDGE + 2**20), (EDGE - 2**40, EDGE + 2**40)
    sampling._gaps(np.array([*near, *far], dtype=np.uint64), 0.25, -1 / math.log1p(-0.25), Stream(bytes(32)))
    assert settled == list(near)


@pytest.mark.parametrize("word", [0, 1, 2**39])
def test_the_smallest_words_are_in_doubt(word, monkeypatch):
    """They fix too little of a logarithm, even where the gap that they give is no whole number."""
    settled = []
    monkeypatch.setattr(sampling, "_exact_gap", lambda word, rate, more: settled.append(word) or 0)
    sampling._gaps(np.array([word, 2**63 + 1], dtype=np.uint64), 0.1, -1 / math.log1p(-0.1), Stream(bytes(32)))
    assert settled == [word]


def test_a_block_draws_its_own_records():
    blocks = (slice(0, 300), slice(300, 1000))
    for rates in ((0.5,), (0.5, 0.2)):
        sampler = PoissonSampler.of_groups(np.arange(1000) % len(rates), rates, blocks=blocks)
        first, second = sampler.draw(Generators.of(0).steps.step())
        assert first.max() < 300 <= second.min()
        assert second.max() < 1000


def test_a_gap_in_doubt_moves_no_other():
    stream = Stream(bytes(32))
    sampling._gaps(np.array([EDGE], dtype=np.uint64), 0.25, -1 / math.log1p(-0.25), stream)
    assert np.array_equal(stream.words(3), Stream(bytes(32)).words(3))
