"""Noise, arms, pairs and released counts: bounds by hand, and missed no more often than stated."""

import math

import numpy as np
import pytest
from scipy.special import ndtri

from fairdp.certify.bounds import (
    NoisyBinomial,
    PairLevels,
    _accepted_values,
    arm_table,
    arms_of,
    bound_of,
    box_upper,
    clopper_pearson_upper,
    conv_upper,
    critical_values,
    difference,
    gap_bound,
    hoeffding_radius,
    laplace_sum,
    largest_critical,
    largest_rate,
    noise_quantile,
    noise_variance,
    pair_bound,
    release_counts,
    score_box_bound,
    side_of,
    transform,
    truth_rejected,
    upper_p_values,
)
from fairdp.certify.certificate import certify
from fairdp.randomness import keyed_below
from fairdp.releases import watching
from statistical import assert_rate_at_most


def test_one_draw_by_hand():
    # a = e⁻¹ = .36788: Pr(0) = (1 − a)/(1 + a) = .46212, Pr(±1) = .17000.
    law = laplace_sum(1.0, 1)
    assert law.probabilities[-law.first] == pytest.approx(0.46212, abs=1e-5)
    assert law.probabilities[1 - law.first] == pytest.approx(0.17000, abs=1e-5)
    assert law.probabilities.sum() + law.missing == pytest.approx(1, abs=1e-12)
    assert noise_variance(1.0) == pytest.approx(1.8413, abs=1e-4)


@pytest.mark.parametrize("n_noise_terms", [1, 2, 4])
def test_sums_have_the_right_variance_and_tails(n_noise_terms):
    law = laplace_sum(0.5, n_noise_terms)
    values = np.arange(law.first, law.last + 1)
    assert law.probabilities @ values**2 == pytest.approx(n_noise_terms * noise_variance(0.5), rel=1e-9)
    assert law.at_most(np.array([0]))[0] + law.at_least(np.array([1]))[0] == pytest.approx(1, abs=1e-10)
    assert law.at_most(np.array([law.last + 9]))[0] == pytest.approx(1, abs=1e-12)


def test_multiples_and_sums_by_brute_force():
    law = laplace_sum(2.0, 1)
    combined = law.times(3).plus(law.times(-2))
    rng = np.random.default_rng(0)
    draws = rng.geometric(1 - np.exp(-2), (2, 2, 200_000))
    x, y = draws[:, 0] - draws[:, 1]
    observed = np.mean(3 * x - 2 * y <= 1)
    assert combined.at_most(np.array([1]))[0] == pytest.approx(observed, abs=0.006)  # five standard errors


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("level", [0.1, 1e-4])
def test_a_quantile_is_the_smallest_that_holds(epsilon, level):
    law, t = laplace_sum(epsilon, 2), noise_quantile(epsilon, 2, level)
    assert law.at_least(np.array([t + 1]))[0] <= level
    assert t == 0 or law.at_least(np.array([t]))[0] > level


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_what_is_cut_off_is_kept_as_missing(epsilon):
    """The tails beyond the table, 2 a^(r+1) / (1 + a): every chance is raised by them, so that none is too small."""
    law = laplace_sum(epsilon, 1)
    a = np.exp(-epsilon)
    assert law.missing == pytest.approx(2 * a ** (law.last + 1) / (1 + a))
    assert 0 < law.missing < 1e-13
    assert laplace_sum(epsilon, 2).missing == pytest.approx(2 * law.missing)
    assert law.at_most(np.array([law.first - 5]))[0] == law.missing


def test_on_the_axis_only_one_score_counts():
    value = largest_critical(critical_values(0.05), np.array([0.0]), np.array([0.0]))[0]
    exact = -float(transform(np.array(ndtri(0.05))))
    assert exact <= value < exact + 0.02


def test_no_direction_is_missed_too_often():
    """400,000 draws: the chance is at most .05 in every direction, and hardly less."""
    scores = transform(np.random.default_rng(0).standard_normal((2, 400_000)))
    for angle in np.linspace(0, math.pi / 2, 7):
        limit = largest_critical(critical_values(0.05), np.array([angle]), np.array([angle]))[0]
        missed = np.mean(math.cos(angle) * scores[0] + math.sin(angle) * scores[1] <= -limit)
        assert 0.047 < missed < 0.0518  # five standard errors above .05


def test_the_largest_over_a_range_is_that_of_its_parts():
    table = critical_values(0.1)
    low, high = np.array([0.1, 0.7]), np.array([0.9, 0.71])
    dense = [largest_critical(table, *(np.linspace(a, b, 2001),) * 2).max() for a, b in zip(low, high, strict=True)]
    assert (largest_critical(table, low, high) >= np.array(dense) - 1e-12).all()
    assert largest_critical(table, low, high) == pytest.approx(dense, abs=1e-3)


def noisy(rng, size, rate, epsilon):
    draws = rng.geometric(1 - np.exp(-epsilon), 4)
    positives = int(rng.binomial(size, rate))
    return NoisyBinomial(
        positive=positives + int(draws[0] - draws[1]),
        negative=size - positives + int(draws[2] - draws[3]),
        epsilon=epsilon,
        n_noise_terms=1,
    )


def misses(bound, *, size, rate, epsilon=1.0, n_runs=500):
    rng = np.random.default_rng([size, int(100 * rate)])
    return sum(bound(noisy(rng, size, rate, epsilon)) < rate for _ in range(n_runs)), n_runs


def test_bounds_by_hand():
    # √(ln 20 / 200) = .12239; all ten failures: 1 − .05^(1/10) = .25887.
    assert hoeffding_radius(100, failure_probability=0.05) == pytest.approx(0.12239, abs=1e-5)
    assert clopper_pearson_upper(0, 10, failure_probability=0.05) == pytest.approx(0.25887, abs=1e-5)
    assert clopper_pearson_upper(10, 0, failure_probability=0.05) == 1.0
    assert hoeffding_radius(0, failure_probability=0.05) == np.inf


@pytest.mark.parametrize(("size", "rate"), [(0, 1.0), (3, 0.5), (40, 0.02), (200, 0.3)])
def test_bounds_fail_no_more_often_than_they_say(size, rate):
    """500 runs notice a true rate of .2 against .1 with a chance of 95 %, at a false-alarm rate of 1e-6."""
    box = misses(lambda arm: box_upper(arm, noise_failure=0.01, rate_failure=0.08), size=size, rate=rate)
    conv = misses(lambda arm: conv_upper(arm, size_failure=0.02, rate_failure=0.08), size=size, rate=rate)
    assert_rate_at_most(*box, 0.1)
    assert_rate_at_most(*conv, 0.1)


def test_that_check_notices_the_shortcut_for_an_empty_cell():
    """Raising an impossible size to one looks harmless and is wrong (a rate of an empty cell is anything)."""
    from fairdp.certify.bounds import _largest_plausible

    def shortcut(arm):
        return _largest_plausible(max(arm.total - 2, 1), arm, 0.08)

    with pytest.raises(AssertionError):
        assert_rate_at_most(*misses(shortcut, size=0, rate=1.0, epsilon=4.0), 0.1)


def test_that_check_notices_a_bound_without_the_noise():
    def plain(arm):
        return clopper_pearson_upper(arm.positive, arm.negative, failure_probability=0.1)

    with pytest.raises(AssertionError):
        assert_rate_at_most(*misses(plain, size=40, rate=0.3, epsilon=0.1), 0.1)


EXACT = np.full((2, 2, 2), 100)


def test_every_cell_has_noise_of_its_own():
    """Of scale 20 and 50: eight equal draws have a chance below 1e-10."""
    seen = []
    with watching(lambda release: seen.append(release) or release.noisy):
        noisy = release_counts(EXACT, epsilon=(0.05, 0.02), rand_below=keyed_below(bytes(32), "noise"))
    noise = noisy - EXACT
    assert all(len(set(cells.ravel().tolist())) > 2 for cells in noise)
    (release,) = seen
    assert release.scale.tolist() == [[[20.0] * 2] * 2, [[50.0] * 2] * 2]
    assert np.array_equal(release.exact, EXACT)
    assert np.array_equal(release.noisy, noisy)


def test_arms_know_the_noise_in_their_counts():
    """A group adds up the cells of its two labels, each with a draw of noise; a label alone has one."""
    counts = np.arange(8).reshape(2, 2, 2)
    assert [(a.positive, a.negative, a.n_noise_terms) for a in arms_of(counts, "positive", (1.0, 2.0))] == [
        (4, 2, 2),
        (12, 10, 2),
    ]
    assert [(a.positive, a.n_noise_terms, a.epsilon) for a in arms_of(counts, "true_positive", (1.0, 2.0))] == [
        (3, 1, 1.0),
        (7, 1, 2.0),
    ]
    assert [a.positive for a in arms_of(counts, "false_positive", (1.0, 2.0))] == [1, 5]


def test_a_certificate_states_the_largest_epsilon():
    made = certify(
        EXACT,
        epsilon=(0.5, 2.0),
        metrics=("demographic_parity",),
        group_names=("a", "b"),
        expected_sizes=(400.0, 400.0),
    )
    assert made.epsilon == 2.0


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


def noisy_arm(rng, size, rate, epsilon, n_noise_terms):
    draws = rng.geometric(1 - np.exp(-epsilon), (4, n_noise_terms)).sum(1)
    positives = int(rng.binomial(size, rate))
    return NoisyBinomial(
        positive=positives + int(draws[0] - draws[1]),
        negative=size - positives + int(draws[2] - draws[3]),
        epsilon=epsilon,
        n_noise_terms=n_noise_terms,
    )


def typical(size, rate, epsilon, n_noise_terms):
    positives = round(size * rate)
    return NoisyBinomial(positive=positives, negative=size - positives, epsilon=epsilon, n_noise_terms=n_noise_terms)


def test_a_p_value_by_brute_force():
    arm = NoisyBinomial(positive=3, negative=18, epsilon=1.0, n_noise_terms=1)
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
    ("sizes", "rates", "epsilon", "n_noise_terms", "slack"),
    [
        ((2154, 4358), (0.08, 0.13), 1.0, 2, 0.0175),
        ((236, 1332), (0.16, 0.20), 1.0, 1, 0.0576),
        ((1918, 3026), (0.012, 0.021), 1.0, 1, 0.0086),
        ((2154, 4358), (0.08, 0.13), 0.5, 2, 0.0179),
        ((236, 1332), (0.16, 0.20), 4.0, 1, 0.0575),
    ],
)
def test_widths_are_those_of_the_construction(sizes, rates, epsilon, n_noise_terms, slack):
    """A third of 5 % at typical counts; an independent prototype gave these widths, with a finer grid of sizes."""
    low, high = (typical(n, p, epsilon, n_noise_terms) for n, p in zip(sizes, rates, strict=True))
    gap = high.positive / high.total - low.positive / low.total
    difference_bound, _ = pair_bound(high, low, failure_probability=0.05 / 3)
    assert difference_bound - gap == pytest.approx(slack, rel=0.025)


def test_more_people_or_more_epsilon_never_widen_much():
    widths = [
        pair_bound(typical(n, 0.2, e, 1), typical(n, 0.1, e, 1), failure_probability=0.05)[0]
        for n, e in [(200, 0.5), (200, 1.0), (800, 1.0), (3200, 1.0)]
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.13


def test_a_small_ratio_bound_by_the_same_prototype():
    high, low = typical(4358, 0.13, 1.0, 2), typical(2154, 0.12, 1.0, 2)
    assert 1 / pair_bound(high, low, failure_probability=0.05)[1] == pytest.approx(0.811, abs=0.003)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_truth_is_rejected_no_more_often_than_stated(setting):
    """400 draws at 20 % notice a true rate of .31, at a false-alarm rate of 1e-6."""
    low_size, high_size, low_rate, high_rate, epsilon, n_noise_terms = setting
    rng = np.random.default_rng(7)
    rejected = 0
    for _ in range(400):
        high, low = (
            noisy_arm(rng, high_size, high_rate, epsilon, n_noise_terms),
            noisy_arm(rng, low_size, low_rate, epsilon, n_noise_terms),
        )
        rejected += truth_rejected(high, low, (high_rate, low_rate), (high_size, low_size), failure_probability=0.2)
    assert_rate_at_most(rejected, 400, 0.2)


def test_that_check_notices_arms_that_hide_their_noise():
    """Counts with epsilon .1 that are certified as if it were 4."""
    rng, rejected = np.random.default_rng(7), 0
    for _ in range(400):
        arms = [noisy_arm(rng, 236, 0.2, 0.1, 1) for _ in range(2)]
        claimed = [NoisyBinomial(positive=a.positive, negative=a.negative, epsilon=4.0, n_noise_terms=1) for a in arms]
        rejected += truth_rejected(*claimed, (0.2, 0.2), (236, 236), failure_probability=0.2)
    with pytest.raises(AssertionError):
        assert_rate_at_most(rejected, 400, 0.2)


def test_no_evidence_is_no_bound():
    nothing, some = NoisyBinomial(positive=-30, negative=-30, epsilon=1.0, n_noise_terms=1), typical(500, 0.2, 1.0, 1)
    assert pair_bound(nothing, some, failure_probability=0.05) == (1.0, np.inf)
    empty = NoisyBinomial(positive=0, negative=0, epsilon=1.0, n_noise_terms=1)
    assert pair_bound(empty, some, failure_probability=0.05)[0] > 0.8
    assert score_box_bound(empty, failure_probability=0.05) == pytest.approx(1.0, abs=0.01)


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
    arms = [noisy_arm(rng, size, rate, epsilon, 1) for _ in range(400)]
    values = np.array([box_p_value(arm, rate, size, 0.2) for arm in arms])
    assert_rate_at_most(int(np.sum(values < 0.99 * 0.2)), 400, 0.2)
    kept = [index for index in np.argsort(values) if values[index] >= 0.99 * 0.2]
    assert all(score_box_bound(arms[index], failure_probability=0.2) >= rate - 1e-12 for index in kept[:2])


@pytest.mark.parametrize("claimed", ["point estimate", "hidden noise"])
def test_that_check_notices_a_small_arm_without_its_margin(claimed):
    rng, missed = np.random.default_rng(13), 0
    for arm in (noisy_arm(rng, 60, 0.3, 0.1, 1) for _ in range(400)):
        if claimed == "point estimate":
            missed += arm.positive / max(arm.total, 1) < 0.3
        else:
            bare = NoisyBinomial(positive=arm.positive, negative=arm.negative, epsilon=4.0, n_noise_terms=1)
            missed += box_p_value(bare, 0.3, 60, 0.2) < 0.99 * 0.2
    with pytest.raises(AssertionError):
        assert_rate_at_most(missed, 400, 0.2)


def test_the_bound_of_a_small_arm_is_missed_no_more_often_than_stated():
    """The bound itself, 30 draws of one setting: a coarse check, which notices .75 at a false-alarm rate of 1e-6."""
    rng = np.random.default_rng(17)
    bounds = [score_box_bound(noisy_arm(rng, 20, 0.3, 1.0, 1), failure_probability=0.2) for _ in range(30)]
    assert_rate_at_most(sum(bound < 0.3 for bound in bounds), 30, 0.2)
    # And it says something.
    assert np.mean(bounds) < 0.55


def test_small_arms_are_as_wide_as_the_box_and_narrower_than_the_pair():
    low, high = typical(118, 0.16, 0.1, 1), typical(666, 0.20, 0.1, 1)
    gap = high.positive / high.total - low.positive / low.total
    box, pair = (gap_bound([low, high], failure_probability=0.05 / 3, score_box=box).tau - gap for box in (True, False))
    assert box == pytest.approx(0.293, abs=0.003)
    assert box < pair


@pytest.mark.parametrize("n_noise_terms", [1, 2])
def test_sizes_allow_for_the_noise(n_noise_terms):
    """Both counts have noise: the size is off by a sum of twice as many draws."""
    low, high = NoisyBinomial(positive=300, negative=200, epsilon=0.5, n_noise_terms=n_noise_terms).sizes(0.005)
    law = laplace_sum(0.5, 2 * n_noise_terms)
    assert 500 - low == high - 500
    assert law.at_least(np.array([high - 500 + 1]))[0] <= 0.005 < law.at_least(np.array([high - 500]))[0]


def test_p_values_are_bounds_of_what_is_left_out():
    arm = NoisyBinomial(positive=0, negative=1000, epsilon=1.0, n_noise_terms=1)
    assert (upper_p_values(arm, np.array([0.3, 0.6, 0.9]), 1000, 1000) >= 1e-12).all()


@pytest.mark.parametrize("positive", [2, 9, 15])
def test_the_largest_rate_is_not_ruled_out_itself(positive):
    """Every rate above it is, at every size; with its own cell left out, some would not be."""
    arm = NoisyBinomial(positive=positive, negative=20 - positive, epsilon=2.0, n_noise_terms=1)
    sizes, guard = arm.sizes(0.01), 0.05
    top = largest_rate(arm, sizes, guard)
    above = np.unique(np.concatenate([top + np.array([1e-9, 1e-5, 1e-4]), np.linspace(top + 1e-3, 1.0, 50)]))
    for size in range(sizes[0], sizes[1] + 1):
        assert (upper_p_values(arm, above[above <= 1], size, size) < guard).all()


@pytest.mark.parametrize("failure_probability", [0.05, 0.01])
def test_levels_of_a_pair_add_up(failure_probability):
    levels = PairLevels.of(failure_probability)
    spent = 4 * levels.size + 2 * levels.guard + levels.combination
    assert spent == pytest.approx(failure_probability)
    assert min(levels.size, levels.guard, levels.combination) > 0


def test_counts_that_leave_nothing_claim_nothing():
    levels = PairLevels.of(0.05)
    arm = NoisyBinomial(positive=300, negative=700, epsilon=1.0, n_noise_terms=1)
    up, down = side_of(arm, levels), side_of(arm.mirrored(), levels)
    nothing = PairLevels(levels.size, 2.0, levels.combination)
    assert bound_of(up, down, nothing, difference) == 1.0
    assert bound_of(up, down, levels, difference) < 0.2


def test_two_small_arms_share_their_failure_probability():
    arms = [NoisyBinomial(positive=n, negative=30 - n, epsilon=1.0, n_noise_terms=1) for n in (8, 20)]
    high, low = (score_box_bound(arm, failure_probability=0.025) for arm in (arms[1], arms[0].mirrored()))
    assert gap_bound(arms, failure_probability=0.05, score_box=True).tau == pytest.approx(high - (1 - low))


def test_a_cell_is_ruled_out_only_if_all_of_it_is():
    """The p-value of a cell and a block of sizes is not below that of any rate and size in them."""
    arm = NoisyBinomial(positive=30, negative=90, epsilon=1.0, n_noise_terms=1)
    table = arm_table(arm, arm.sizes(0.005), 1e-4)
    blocks = [block for group in table.blocks for block in group]
    for cell in range(0, len(table.low), 7):
        inside = np.linspace(table.low[cell], table.high[cell], 5)
        middle = np.full(5, (table.low[cell] + table.high[cell]) / 2)
        for first, last in blocks[::6]:
            for size in (first, last):
                values = upper_p_values(arm, inside, size, size, statistic_of=middle)
                assert values.max() <= table.p_values[cell].max() * (1 + 1e-9)


def test_a_bound_is_the_far_corner_of_what_is_not_rejected():
    """Every accepted pair of cells counts with the largest difference in it, never with a smaller one."""
    levels = PairLevels.of(0.05)
    arms = [NoisyBinomial(positive=n, negative=1000 - n, epsilon=1.0, n_noise_terms=1) for n in (300, 200)]
    up, down = side_of(arms[0], levels), side_of(arms[1].mirrored(), levels)
    values = _accepted_values(up, down, levels, critical_values(levels.combination), difference)
    accepted = np.isfinite(values)
    assert np.array_equal(values[accepted], difference(up.high, down.high)[accepted])
    assert not accepted[-1, -1]
    # Whatever is not rejected at the point itself is in a cell that is not.
    kept = 0
    for high in np.linspace(0.27, 0.37, 14):
        for low in np.linspace(0.14, 0.22, 12):
            if not truth_rejected(arms[0], arms[1], (high, low), (1000, 1000), failure_probability=0.05):
                cells = [np.flatnonzero((t.low <= r) & (r <= t.high))[0] for t, r in ((up, high), (down, 1 - low))]
                assert accepted[cells[0], cells[1]]
                kept += 1
    assert 20 < kept < 160
