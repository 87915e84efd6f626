"""Calibration and medians from counts of scores: by hand, and with the stated coverage."""

import itertools
import math

import numpy as np
import pytest

from fairdp.certify import rates
from fairdp.certify.certificate import ScoreCounts, binned, release_scores
from fairdp.certify.rates import NoisySum, Rate, above_median, bin_limits, calibration_of, rate_of, upper_rate
from fairdp.parameters import SCORE_EDGES
from statistical import assert_rate_at_most

N_BINS = len(SCORE_EDGES) + 1


def scores_with(counts, epsilons=(1.0,)):
    plain = tuple(tuple(tuple(int(n) for n in row) for row in group) for group in counts)
    return ScoreCounts(epsilons=epsilons, edges=SCORE_EDGES, counts=plain)


def in_bins(**counts):
    """One label's counts, by the bin they are in: b3=10."""
    return [counts.get(f"b{place}", 0) for place in range(N_BINS)]


class TestBins:
    def test_every_record_is_in_the_bin_of_its_score(self):
        scores = np.array([0.0, 0.049, 0.05, 0.499, 0.5, 0.95, 1.0])
        counted = binned(scores, np.array([0, 1, 0, 0, 1, 1, 1]), np.zeros(7, dtype=int), 1)
        assert counted.shape == (1, 2, N_BINS)
        assert counted[0, 0].tolist() == in_bins(b0=1, b1=1, b5=1)
        assert counted[0, 1].tolist() == in_bins(b0=1, b6=1, b11=2)

    def test_a_score_that_is_no_number_is_one_record_in_one_bin(self):
        assert binned(np.array([np.nan]), np.array([1]), np.array([1]), 2).sum() == 1

    def test_bins_cover_all_chances(self):
        limits = bin_limits(scores_with([[in_bins(), in_bins()]]))
        assert (limits[0][0], limits[-1][1], len(limits)) == (0.0, 1.0, N_BINS)
        assert all(before[1] == after[0] for before, after in itertools.pairwise(limits))


class TestCalibration:
    SCORES = scores_with([[in_bins(b2=300, b7=40, b8=-3), in_bins(b2=100, b7=160, b8=1)]])

    def test_by_hand(self):
        (bins,) = calibration_of(self.SCORES)
        third, eighth, ninth = bins[2], bins[7], bins[8]
        assert (third.low, third.high, third.predicted, third.n) == (0.1, 0.2, pytest.approx(0.15), 400)
        assert third.observed.estimate == 0.25
        assert eighth.observed.estimate == 0.8
        assert not third.hidden
        # Four deviations of two draws at epsilon 1 are 7.7 people: here there are none but noise.
        assert ninth.hidden
        assert (ninth.n, ninth.observed.estimate, ninth.observed.low, ninth.observed.high) == (-2, 1.0, 0.0, 1.0)
        assert math.isnan(bins[0].observed.estimate)

    def test_all_bins_of_all_groups_share_the_failure_probability(self):
        both = scores_with(self.SCORES.counts * 2, (1.0, 1.0))
        part = 0.1 / (2 * N_BINS)
        expected = rate_of(NoisySum(100, (1.0,)), NoisySum(300, (1.0,)), failure_probability=part, estimate=0.25)
        assert calibration_of(both, failure_probability=0.1)[1][2].observed == expected

    def test_what_noise_hides_follows_from_its_epsilon(self):
        few = [[in_bins(b2=30), in_bins(b2=30)]] * 2
        clear, noisy = calibration_of(scores_with(few, (1.0, 0.1)))
        assert (clear[2].hidden, noisy[2].hidden) == (False, True)


class TestMedian:
    def test_by_hand(self):
        """Of 400 half are reached 100 into the 200 of the bin from .1 to .2: the median is .15."""
        scores = scores_with([[in_bins(b1=80, b2=100), in_bins(b4=20)], [in_bins(b1=20, b2=60), in_bins(b2=40, b9=80)]])
        scores = scores_with(scores.counts, (1.0, 1.0))
        median, shares = above_median(scores)
        assert median == pytest.approx(0.15)
        # Of the first group 20 + 50 of 200, of the second 80 + 50 of 200.
        assert [rate.estimate for rate in shares] == pytest.approx([0.35, 0.65])
        for rate in shares:
            assert 0 <= rate.low < rate.estimate < rate.high <= 1
        # The first group has 20 of 200 above the bin and 120 from it on.
        assert shares[0].low < 0.1
        assert shares[0].high > 0.6

    def test_the_interval_knows_every_draw_and_its_share_of_the_failure_probability(self):
        """By hand: two ends at each of eleven edges for two groups, and a draw for every label and bin."""
        scores = scores_with([[in_bins(b1=80, b2=100), in_bins(b4=20)], [in_bins(b1=20, b2=60), in_bins(b2=40, b9=80)]])
        found = above_median(scores_with(scores.counts, (1.0, 1.0)), failure_probability=0.1)[1][0]
        part = 0.1 / (2 * 11 * 2)
        upper, lower = NoisySum(120, (1.0,) * 20), NoisySum(80, (1.0,) * 4)
        assert found.high == upper_rate(upper, lower, failure_probability=part)
        upper, lower = NoisySum(20, (1.0,) * 18), NoisySum(180, (1.0,) * 6)
        assert found.low == 1 - upper_rate(lower, upper, failure_probability=part)

    def test_the_formula_from_noisy_counts(self):
        rng = np.random.default_rng(3)
        counts = rng.integers(-20, 200, size=(3, 2, N_BINS))
        median, shares = above_median(scores_with(counts, (0.5,) * 3))
        every = counts.sum((0, 1)).clip(min=0)
        edges = np.array([0.0, *SCORE_EDGES, 1.0])
        cumulated = np.concatenate([[0], every.cumsum()])
        assert median == pytest.approx(np.interp(every.sum() / 2, cumulated, edges))
        for rate, own in zip(shares, counts.sum(1).clip(min=0), strict=True):
            below = np.interp(median, edges, np.concatenate([[0], own.cumsum()]))
            assert rate.estimate == pytest.approx(1 - below / own.sum())

    def test_parts_are_taken_together(self):
        counts = [[in_bins(b1=80), in_bins(b4=20)], [in_bins(b1=20), in_bins(b9=80)], [in_bins(b2=50), in_bins(b8=50)]]
        scores = scores_with(counts, (1.0,) * 3)
        _, together = above_median(scores, parts=[(0, 2), (1,)])
        _, alone = above_median(scores)
        assert together[0].estimate == pytest.approx((alone[0].estimate + alone[2].estimate) / 2)
        assert together[1].estimate == alone[1].estimate

    def test_nothing_left_is_no_crash(self):
        median, shares = above_median(scores_with([[[-1] * N_BINS] * 2], (1.0,)))
        assert math.isnan(median)
        assert math.isnan(shares[0].estimate)
        assert (shares[0].low, shares[0].high) == (0.0, 1.0)

    @pytest.mark.parametrize("place", [0, N_BINS - 1])
    def test_a_median_in_an_outer_bin_has_an_open_end(self, place):
        rate = above_median(scores_with([[in_bins(**{f"b{place}": 400}), in_bins(b5=100)]]))[1][0]
        assert (rate.high == 1.0) == (place == 0)
        assert (rate.low == 0.0) == (place > 0)


def drawn(rng, n=400, epsilon=2.0):
    """Scores of two groups, calibrated, with noise: Beta(2, 4) and Beta(3, 2)."""
    scores = np.concatenate([rng.beta(2, 4, n), rng.beta(3, 2, n)])
    labels, groups = (rng.random(2 * n) < scores).astype(np.int64), np.repeat([0, 1], n)
    counts = binned(scores, labels, groups, 2)
    return release_scores(counts, epsilons=(epsilon,) * 2, rand_below=lambda below: int(rng.integers(below)))


@pytest.fixture(scope="module")
def population():
    """Many scores of both groups, whose shares stand for the truth."""
    rng = np.random.default_rng(99)
    return rng.beta(2, 4, 400_000), rng.beta(3, 2, 400_000)


@pytest.fixture(scope="module", params=[20, pytest.param(200, marks=pytest.mark.more)])
def medians(population, request):
    """Of so many releases, what is above the median, and the true shares."""
    rng = np.random.default_rng(4)
    found = [above_median(drawn(rng), failure_probability=0.1) for _ in range(request.param)]
    return [(shares, [float((scores > median).mean()) for scores in population]) for median, shares in found]


def medians_missed(medians, change):
    missed = [
        any(not low <= share <= high for share, (low, high) in zip(true, map(change, shares), strict=True))
        for shares, true in medians
    ]
    return sum(missed), len(missed)


def test_intervals_above_the_median_hold_as_often_as_stated(medians):
    """20 runs notice a true rate of .76 against .1, 200 runs one of .23; false-alarm rate 1e-6."""
    assert_rate_at_most(*medians_missed(medians, lambda rate: (rate.low, rate.high)), limit=0.1)


def test_that_check_notices_a_median_with_the_sampling_error_left_out(medians):
    def exact(rate):
        return rate.estimate - 0.01, rate.estimate + 0.01

    with pytest.raises(AssertionError):
        assert_rate_at_most(*medians_missed(medians, exact), limit=0.1)


def bins_missed(population, n_runs):
    rng, missed = np.random.default_rng(5), 0
    limits = bin_limits(drawn(rng))
    # Labels are drawn by their scores: the rate of a bin is the mean of its scores.
    true = [[float(scores[(low <= scores) & (scores < high)].mean()) for low, high in limits] for scores in population]
    for _ in range(n_runs):
        found = calibration_of(drawn(rng), failure_probability=0.05)
        missed += any(
            not own.observed.low <= rate <= own.observed.high
            for bins, rates in zip(found, true, strict=True)
            for own, rate in zip(bins, rates, strict=True)
        )
    return missed, n_runs


def test_that_check_of_bins_notices_intervals_about_the_wrong_label(population, monkeypatch):
    def turned(*_, estimate, **__):
        return Rate(estimate=estimate, low=0.9 - estimate, high=1.1 - estimate)

    monkeypatch.setattr(rates, "rate_of", turned)
    with pytest.raises(AssertionError):
        assert_rate_at_most(*bins_missed(population, 40), limit=0.05)


@pytest.mark.more
def test_all_bins_hold_together_as_often_as_stated(population):
    """Forty runs notice a true rate of .4 against .05; false-alarm rate 1e-6. The control misses each time."""
    assert_rate_at_most(*bins_missed(population, 40), limit=0.05)
