import numpy as np
import pytest

from fairdp.certify.arms import NoisyArm, upper_p_values
from fairdp.certify.gaps import gap_bound
from fairdp.certify.pairs import pair_bound, score_box_bound, truth_rejected
from statistical import assert_rate_at_most

SETTINGS = [
    # sizes of the low and the high arm, their rates, epsilon, folds
    (236, 1332, 0.16, 0.20, 1.0, 1),
    (2154, 4358, 0.08, 0.13, 1.0, 2),
    (0, 50, 0.5, 0.5, 1.0, 1),
    (3, 800, 1.0, 0.0, 0.5, 1),
    (20, 20, 0.0, 1.0, 1.0, 1),
    (118, 666, 0.02, 0.01, 0.1, 1),
    (40, 4000, 0.97, 0.9, 4.0, 1),
]


def noisy(rng, size, rate, epsilon, folds):
    draws = rng.geometric(1 - np.exp(-epsilon), (4, folds)).sum(1)
    positives = int(rng.binomial(size, rate))
    return NoisyArm(
        positive=positives + int(draws[0] - draws[1]),
        negative=size - positives + int(draws[2] - draws[3]),
        epsilon=epsilon,
        folds=folds,
    )


def typical(size, rate, epsilon, folds):
    positives = round(size * rate)
    return NoisyArm(positive=positives, negative=size - positives, epsilon=epsilon, folds=folds)


def test_a_p_value_by_brute_force():
    arm = NoisyArm(positive=3, negative=18, epsilon=1.0, folds=1)
    rate, size, rng = 0.3, 20, np.random.default_rng(0)
    draws = rng.geometric(1 - np.exp(-1), (4, 400_000))
    positives = rng.binomial(size, rate, 400_000)
    x, y = draws[0] - draws[1], draws[2] - draws[3]
    step = round(32 * rate)
    statistic = 32 * (positives + x) - step * (size + x + y)
    expected = np.mean(statistic <= 32 * arm.positive - step * arm.total)
    assert upper_p_values(arm, np.array([rate]), size, size)[0] == pytest.approx(expected, abs=0.004)


def test_p_values_fall_with_the_rate_and_grow_with_the_range_of_sizes():
    arm = typical(200, 0.2, 1.0, 1)
    rates = np.linspace(0.2, 0.2343, 9)  # no break of the statistic inside
    values = upper_p_values(arm, rates, 195, 205)
    assert (np.diff(values) <= 1e-12).all()
    assert (values >= upper_p_values(arm, rates, 200, 200)).all()


@pytest.mark.parametrize(
    ("sizes", "rates", "epsilon", "folds", "slack"),
    [
        ((2154, 4358), (0.08, 0.13), 1.0, 2, 0.0175),
        ((236, 1332), (0.16, 0.20), 1.0, 1, 0.0576),
        ((1918, 3026), (0.012, 0.021), 1.0, 1, 0.0086),
        ((2154, 4358), (0.08, 0.13), 0.5, 2, 0.0179),
        ((236, 1332), (0.16, 0.20), 4.0, 1, 0.0575),
    ],
)
def test_widths_are_those_of_the_construction(sizes, rates, epsilon, folds, slack):
    """A third of 5 % at typical counts; an independent prototype gave these widths, with a finer grid of sizes."""
    low, high = (typical(n, p, epsilon, folds) for n, p in zip(sizes, rates, strict=True))
    gap = high.positive / high.total - low.positive / low.total
    bound = pair_bound(high, low, failure_probability=0.05 / 3)
    assert bound.difference - gap == pytest.approx(slack, rel=0.025)


def test_a_small_ratio_bound_by_the_same_prototype():
    high, low = typical(4358, 0.13, 1.0, 2), typical(2154, 0.12, 1.0, 2)
    assert 1 / pair_bound(high, low, failure_probability=0.05).ratio == pytest.approx(0.811, abs=0.003)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_truth_is_rejected_no_more_often_than_stated(setting):
    """400 draws at 20 % notice a true rate of .31, at a false-alarm rate of 1e-6."""
    low_size, high_size, low_rate, high_rate, epsilon, folds = setting
    rng = np.random.default_rng(7)
    rejected = 0
    for _ in range(400):
        high, low = noisy(rng, high_size, high_rate, epsilon, folds), noisy(rng, low_size, low_rate, epsilon, folds)
        rejected += truth_rejected(high, low, (high_rate, low_rate), (high_size, low_size), failure_probability=0.2)
    assert_rate_at_most(rejected, 400, 0.2)


def test_that_check_notices_arms_that_hide_their_noise():
    """Counts with epsilon .1 that are certified as if it were 4."""
    rng, rejected = np.random.default_rng(7), 0
    for _ in range(400):
        arms = [noisy(rng, 236, 0.2, 0.1, 1) for _ in range(2)]
        claimed = [NoisyArm(positive=a.positive, negative=a.negative, epsilon=4.0, folds=1) for a in arms]
        rejected += truth_rejected(*claimed, (0.2, 0.2), (236, 236), failure_probability=0.2)
    with pytest.raises(AssertionError):
        assert_rate_at_most(rejected, 400, 0.2)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_a_truth_that_is_not_rejected_is_covered_by_the_bound(setting):
    """The check of cells, blocks of sizes and angles: it may not fail even once."""
    low_size, high_size, low_rate, high_rate, epsilon, folds = setting
    rng = np.random.default_rng(11)
    for _ in range(12):
        high, low = noisy(rng, high_size, high_rate, epsilon, folds), noisy(rng, low_size, low_rate, epsilon, folds)
        rates, sizes = (high_rate, low_rate), (high_size, low_size)
        if truth_rejected(high, low, rates, sizes, failure_probability=0.3):
            continue
        bound = pair_bound(high, low, failure_probability=0.3)
        assert bound.difference >= high_rate - low_rate - 1e-12
        assert low_rate == 0 or bound.ratio >= high_rate / low_rate - 1e-9


def test_no_evidence_is_no_bound():
    nothing, some = NoisyArm(positive=-30, negative=-30, epsilon=1.0, folds=1), typical(500, 0.2, 1.0, 1)
    bound = pair_bound(nothing, some, failure_probability=0.05)
    assert (bound.difference, bound.ratio) == (1.0, np.inf)
    empty = NoisyArm(positive=0, negative=0, epsilon=1.0, folds=1)
    assert pair_bound(empty, some, failure_probability=0.05).difference > 0.8
    assert score_box_bound(empty, failure_probability=0.05) == pytest.approx(1.0, abs=0.01)


def test_more_people_or_more_epsilon_never_widen_much():
    widths = [
        pair_bound(typical(n, 0.2, e, 1), typical(n, 0.1, e, 1), failure_probability=0.05).difference
        for n, e in [(200, 0.5), (200, 1.0), (800, 1.0), (3200, 1.0)]
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.13


# Size, rate and epsilon of small arms; an empty one may have any rate.
SMALL_ARMS = [
    *[(0, rate, epsilon) for rate in (0.3, 1.0) for epsilon in (0.1, 1.0)],
    *[(size, rate, epsilon) for size in (5, 60) for rate in (0.0, 0.3, 1.0) for epsilon in (0.1, 0.4, 1.0)],
]


def box_p_value(arm, rate, size, failure_probability):
    """The p-value of the truth, zero where its size is ruled out: below the level the box may miss it."""
    low, high = arm.sizes(0.005 * failure_probability) or (1, 0)
    return upper_p_values(arm, np.array([rate]), size, size)[0] if low <= size <= high else 0.0


@pytest.mark.parametrize("setting", SMALL_ARMS, ids=str)
def test_a_small_arm_is_missed_no_more_often_than_stated(setting):
    """400 draws at 20 %, false-alarm rate 1e-6; the draws nearest to a miss are looked at by the bound itself."""
    size, rate, epsilon = setting
    rng = np.random.default_rng(13)
    arms = [noisy(rng, size, rate, epsilon, 1) for _ in range(400)]
    values = np.array([box_p_value(arm, rate, size, 0.2) for arm in arms])
    assert_rate_at_most(int(np.sum(values < 0.99 * 0.2)), 400, 0.2)
    kept = [index for index in np.argsort(values) if values[index] >= 0.99 * 0.2]
    assert all(score_box_bound(arms[index], failure_probability=0.2) >= rate - 1e-12 for index in kept[:2])


@pytest.mark.parametrize("claimed", ["point estimate", "hidden noise"])
def test_that_check_notices_a_small_arm_without_its_margin(claimed):
    rng, missed = np.random.default_rng(13), 0
    for arm in (noisy(rng, 60, 0.3, 0.1, 1) for _ in range(400)):
        if claimed == "point estimate":
            missed += arm.positive / max(arm.total, 1) < 0.3
        else:
            bare = NoisyArm(positive=arm.positive, negative=arm.negative, epsilon=4.0, folds=1)
            missed += box_p_value(bare, 0.3, 60, 0.2) < 0.99 * 0.2
    with pytest.raises(AssertionError):
        assert_rate_at_most(missed, 400, 0.2)


def test_the_bound_of_a_small_arm_is_missed_no_more_often_than_stated():
    """The bound itself, 60 draws of one setting: a coarse check, which notices .6 at a false-alarm rate of 1e-6."""
    rng = np.random.default_rng(17)
    bounds = [score_box_bound(noisy(rng, 20, 0.3, 1.0, 1), failure_probability=0.2) for _ in range(60)]
    assert_rate_at_most(sum(bound < 0.3 for bound in bounds), 60, 0.2)
    # And it says something.
    assert np.mean(bounds) < 0.55


def test_small_arms_are_as_wide_as_the_box_and_narrower_than_the_pair():
    low, high = typical(118, 0.16, 0.1, 1), typical(666, 0.20, 0.1, 1)
    gap = high.positive / high.total - low.positive / low.total
    box, pair = (gap_bound([low, high], failure_probability=0.05 / 3, score_box=box).tau - gap for box in (True, False))
    assert box == pytest.approx(0.293, abs=0.003)
    assert box < pair
