import numpy as np
import pytest
from scipy import stats

from fairdp.training.sampling import PoissonSampler
from statistical import assert_binomial, assert_plausible

DRAWS = 4000
GROUPS = np.repeat([0, 1, 2], [60, 30, 10])
RATES = (0.05, 0.2, 0.1)


def batches(sampler, n_draws: int = DRAWS) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [sampler.draw(rng) for _ in range(n_draws)]


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
    """What public code often does instead: a batch of fixed size, with the rate of an accountant for coins."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return rng.choice(100, 10, replace=False)


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
    assert sorted(PoissonSampler.of_groups(GROUPS, (1.0, 1.0, 1.0)).draw(np.random.default_rng(0))) == list(range(100))


def test_the_same_generator_state_gives_the_same_batch():
    sampler = PoissonSampler.of_groups(GROUPS, RATES)
    first, second, other = (sampler.draw(np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
