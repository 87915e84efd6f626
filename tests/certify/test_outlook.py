"""Expected widths, and bounds under shift."""

import functools
import math

import numpy as np
import pytest

from fairdp.certify import outlook as shift
from fairdp.certify.bounds import GapBound, NoisyBinomial, gap_bound, noise_quantile
from fairdp.certify.outlook import (
    ShiftBound,
    bound_under_shift,
    expected_slack,
    expected_widths,
    fraction_for_width,
    largest_total,
    shift_slope,
    smallest_share,
)
from statistical import assert_rate_at_most

PLAN = {"group_sizes": (10_000, 20_000), "epsilon": 1.0, "confidence": 0.95, "positive_rate": 0.2, "label_rate": 0.25}
CERTIFIED = [
    # sizes, rates, epsilon, folds, and the slack of the certificate at typical counts, at 5 %
    ((1077, 2179), (0.08, 0.13), 1.0, 2, 0.0196),
    ((2154, 4358), (0.08, 0.13), 1.0, 2, 0.0138),
    ((3231, 6537), (0.08, 0.13), 1.0, 2, 0.0112),
    ((2154, 4358), (0.028, 0.076), 1.0, 2, 0.0097),
    ((118, 666), (0.16, 0.20), 1.0, 1, 0.0651),
    ((236, 1332), (0.16, 0.20), 1.0, 1, 0.0458),
    ((354, 1998), (0.16, 0.20), 1.0, 1, 0.0375),
    ((236, 1332), (0.5, 0.6), 1.0, 1, 0.0633),
    ((2154, 4358), (0.08, 0.13), 0.5, 2, 0.0141),
    ((118, 666), (0.16, 0.20), 0.5, 1, 0.0743),
    ((236, 1332), (0.16, 0.20), 0.5, 1, 0.0488),
    ((2154, 4358), (0.08, 0.13), 0.1, 2, 0.0220),
    ((236, 1332), (0.16, 0.20), 4.0, 1, 0.0458),
]


def slack(sizes, rates, epsilon, n_noise_terms):
    return expected_slack(
        sizes=sizes, rates=rates, epsilon=epsilon, failure_probability=0.05, n_noise_terms=n_noise_terms
    )


@pytest.mark.parametrize(("sizes", "rates", "epsilon", "n_noise_terms", "certified"), CERTIFIED)
def test_the_estimate_is_close_where_it_says_so(sizes, rates, epsilon, n_noise_terms, certified):
    assert slack(sizes, rates, epsilon, n_noise_terms) == pytest.approx(certified, rel=0.05)


def test_the_estimate_is_less_close_at_rates_near_zero():
    assert slack((1918, 3026), (0.012, 0.021), 1.0, 1) == pytest.approx(0.0069, rel=0.08)


def test_the_certificate_itself_is_that_wide():
    arms = [NoisyBinomial(positive=38, negative=198, epsilon=1.0, n_noise_terms=1)]
    arms += [NoisyBinomial(positive=266, negative=1066, epsilon=1.0, n_noise_terms=1)]
    width = gap_bound(arms, failure_probability=0.05).tau - (266 / 1332 - 38 / 236)
    assert slack((236, 1332), (0.16, 0.20), 1.0, 1) == pytest.approx(width, rel=0.05)


@pytest.mark.parametrize(("sizes", "certified"), [((236, 1332), 0.1261), ((118, 666), 0.2629)])
def test_the_estimate_is_too_small_where_it_says_so(sizes, certified):
    assert 0.72 * certified < slack(sizes, (0.16, 0.20), 0.1, 1) < 0.8 * certified


def test_the_slack_by_hand():
    # ν = 1.8413; .25/100 + ν/2/100² = .00259207, the same twice: 1.05 · 1.64485 · √.00518413 = .12435.
    assert slack((100, 100), (0.5, 0.5), 1.0, 1) == pytest.approx(0.12435, abs=1e-5)
    assert slack((100, 9000, 100), (0.5, 0.5, 0.5), 1.0, 1) == pytest.approx(0.12435, abs=1e-5)
    assert slack((1, 1), (0.5, 0.5), 1.0, 1) == 1.0
    assert slack((100, 100), (0.5, 0.5), 1.0, 1) < slack((100, 100), (0.5, 0.5), (1.0, 0.1), 1)


def test_widths_are_those_of_the_cells():
    widths = expected_widths(**PLAN, certify_fraction=0.2, metrics=("demographic_parity",))
    # Groups of 2,000 and 4,000 at the full 5 %: 1.05 · 1.64485 · √(.16 · (1/2000 + 1/4000)) = .01892, noise nearly nil;
    # skewness adds 1.64485² · .6 / 4000 = .00041.
    assert widths == {"demographic_parity": pytest.approx(0.01933, rel=0.005)}
    cells = expected_slack(
        sizes=(500, 1000), rates=(0.2, 0.2), epsilon=1.0, failure_probability=0.05 * 0.6, n_noise_terms=1
    )
    # The normal quantile at 3 % is 1.88079: 1.88079² · .6 / 1000.
    together = expected_widths(**PLAN, certify_fraction=0.2)["equal_opportunity"]
    assert together == pytest.approx(cells + 0.0021224, abs=1e-6)


def test_equalized_odds_is_as_wide_as_the_wider_of_its_two_rates():
    # Where positives are the many, the false-positive rates are the less certain ones.
    few, many = (
        expected_widths(**{**PLAN, "label_rate": rate}, certify_fraction=0.2, metrics=("equalized_odds",))
        for rate in (0.25, 0.75)
    )
    assert few["equalized_odds"] == pytest.approx(many["equalized_odds"])
    together = expected_widths(**{**PLAN, "label_rate": 0.75}, certify_fraction=0.2)
    assert together["equalized_odds"] > together["equal_opportunity"]


def test_the_fraction_is_the_smallest_that_is_enough():
    fraction = fraction_for_width(0.05, **PLAN)
    assert fraction == round(fraction, 3)
    assert max(expected_widths(**PLAN, certify_fraction=fraction).values()) <= 0.05
    assert max(expected_widths(**PLAN, certify_fraction=fraction - 0.001).values()) > 0.05


def test_the_fraction_by_hand():
    # Without noise .0795 of the records give 1.05 · 1.64485 · √(.16 · 1.5 / 795) = .03; the noise adds a little, and
    # skewness 1.64485² · .6 / (2 · 795) = .001, a thirtieth of the width, so that a fifteenth more are needed.
    fraction = fraction_for_width(0.03, **PLAN, metrics=("demographic_parity",))
    assert fraction == pytest.approx(0.0865, abs=0.0016)


def test_no_fraction_may_be_enough():
    assert fraction_for_width(0.005, **PLAN) is None
    assert fraction_for_width(1.0, **PLAN) == 0.001


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"certify_fraction": 1.5}, r"^certify_fraction must be in \(0, 1\), got 1\.5\.$"),
        ({"label_rate": 0.0}, r"^label_rate must be in \(0, 1\), got 0\.0\.$"),
        ({"metrics": ("parity",)}, r"^certify_metrics must be one of .*; got 'parity'\.$"),
        ({"epsilon": 0.0}, r"^epsilon must be positive, got 0\.0\.$"),
        ({"group_sizes": (10, 0)}, r"^sizes must be positive, got 0\.0\.$"),
    ],
)
def test_bad_input_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        expected_widths(**{**PLAN, "certify_fraction": 0.2, **changes})


def test_a_bad_width_is_named():
    with pytest.raises(ValueError, match=r"^width must be positive, got -1\.$"):
        fraction_for_width(-1, **PLAN)


def gap(joint, rates):
    """Largest difference of the groups' acceptance rates; Pr(group, label) and acceptance given both."""
    by_group = (joint * rates).sum(-1) / joint.sum(-1)
    return np.ptp(by_group, axis=-1)


def slopes(joints, rates):
    return np.array([shift_slope(abs(r[:, 1] - r[:, 0]), p.sum(1)) for p, r in zip(joints, rates, strict=True)])


def shifted_cases(n_cases, n_groups):
    """Populations of all kinds, what they turn into, and how far that is from them."""
    rng = np.random.default_rng(n_groups)
    flat = np.exp(rng.uniform(-3, 1, n_cases))[:, None] * np.ones(2 * n_groups)
    before, other = (rng.standard_gamma(flat) + 1e-9 for _ in range(2))
    before, other = (p / p.sum(1, keepdims=True) for p in (before, other))
    part = rng.uniform(0, 1, (n_cases, 1)) ** 3
    after = (1 - part) * before + part * other
    rates = rng.random((n_cases, n_groups, 2)).round(rng.integers(0, 3))
    shape = (n_cases, n_groups, 2)
    return before.reshape(shape), after.reshape(shape), rates, abs(after - before).sum(1) / 2


@pytest.mark.parametrize("n_groups", [2, 3])
def test_no_shift_of_that_size_does_worse(n_groups):
    before, after, rates, shifts = shifted_cases(15_000, n_groups)
    allowed = gap(before, rates) + shifts * slopes(before, rates)
    assert (gap(after, rates) <= allowed + 1e-9).all()


def test_that_check_notices_half_the_slope():
    before, after, rates, shifts = shifted_cases(15_000, 2)
    allowed = gap(before, rates) + shifts * slopes(before, rates) / 2
    assert (gap(after, rates) > allowed + 1e-9).any()


def test_the_bound_is_nearly_attained():
    # Shares of one half: new positives in the upper group, d = 1/2, and the last ones leave the lower, d = 1/2.
    rates = np.array([[0.5, 1.0], [0.0, 0.5]])
    before, after = np.array([[0.5, 0.0], [0.49, 0.01]]), np.array([[0.5, 0.01], [0.49, 0.0]])
    bound = ShiftBound(tau=gap(before, rates), slope=shift_slope(np.array([0.5, 0.5]), np.array([0.5, 0.5])))
    # By hand: .49 at first, then 1/2 + 1/2 · .01/.51; the bound says .49 + .01 · 2.
    assert bound.tau == pytest.approx(0.49)
    assert gap(after, rates) == pytest.approx(0.5 + 0.005 / 0.51)
    assert bound.at(0.01) == pytest.approx(0.51)
    assert bound.at(0.01) - gap(after, rates) < 0.02 * 0.01


def test_the_slope_by_hand():
    # .3/.5 = .6, .2/.1 = 2, .1/.4 = .25: the two largest add up to 2.6.
    assert shift_slope(np.array([0.3, 0.2, 0.1]), np.array([0.5, 0.1, 0.4])) == pytest.approx(2.6)
    assert shift_slope(np.array([0.3, 0.0]), np.array([0.5, 0.0])) == math.inf
    assert shift_slope(np.array([0.3]), np.array([1.0])) == 0.0


def test_no_shift_changes_nothing_and_a_bad_one_is_named():
    bound = ShiftBound(tau=0.1, slope=math.inf)
    assert (bound.at(0.0), bound.at(0.001)) == (0.1, 1.0)
    assert ShiftBound(tau=0.1, slope=2.0).at(0.05) == pytest.approx(0.2)
    with pytest.raises(ValueError, match=r"^shift must be in \[0, 1\], got 2\.$"):
        bound.at(2)


# The size of the sample and the share of a group.


def test_the_total_by_hand():
    # a = 1/2 and e^λ = 3/2: E e^{λX} = (1/4) / (1/4 · 2/3) = 3/2 and its logarithm's slope is 3 − 1/2. That λ is best
    # for 8 draws when ln(1/β) = 8 · (5/2 − 1) ln(3/2), and then t = 8 · 5/2.
    level = math.exp(-8 * 1.5 * math.log(1.5))
    assert largest_total(1000, epsilons=(math.log(2),) * 2, failure_probability=level) == 1020


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_total_is_a_little_above_the_exact_quantile(epsilon):
    exact = noise_quantile(epsilon, 8, 0.001)
    assert exact <= largest_total(0, epsilons=(epsilon, epsilon), failure_probability=0.001) <= 1.35 * exact + 1


def test_the_total_allows_for_the_noisiest_group():
    def reach(*epsilons):
        return largest_total(0, epsilons=epsilons, failure_probability=0.01)

    assert reach(1.0, 1.0) < reach(1.0, 0.1) < reach(0.1, 0.1)


def test_a_share_by_hand():
    # Without noise all 10 of 10: r^10 = .05; 3 of 3 or more of 1 cannot be, so nothing is claimed.
    settings = {"epsilon": 60.0, "failure_probability": 0.05}
    assert smallest_share(10, total=10, **settings) == pytest.approx(0.05**0.1, abs=1e-7)
    assert smallest_share(3, total=1, **settings) == 0.0
    assert smallest_share(0, total=100, **settings) == 0.0
    assert smallest_share(-5, total=-2, **settings) == 0.0


def test_a_share_of_a_million_records():
    # 1/3 − 2.326 · √(2/9 / 10⁶) = .33224, and the noise of a few records changes little.
    share = smallest_share(333_333, total=1_000_000, epsilon=1.0, failure_probability=0.01)
    assert share == pytest.approx(0.33224, abs=2e-5)


def laplace(rng, epsilon, n_draws, n_noise_terms):
    draws = rng.geometric(1 - np.exp(-epsilon), (2, n_draws, n_noise_terms)).sum(2)
    return draws[0] - draws[1]


def missed_shares(bound_of, *, size, share, epsilon, n_runs=500):
    """Frequency with which a bound on the first of two groups' share lies above the truth."""
    rng = np.random.default_rng([size, int(1000 * share)])
    first = rng.binomial(size, share, n_runs)
    noisy = first + laplace(rng, epsilon, n_runs, 4)
    totals = noisy + size - first + laplace(rng, epsilon, n_runs, 4)
    bound_of = functools.lru_cache(bound_of)
    return sum(bound_of(int(n), int(total)) > share for n, total in zip(noisy, totals, strict=True)), n_runs


@pytest.mark.parametrize(
    ("size", "share", "epsilon"),
    [(0, 0.5, 1.0), (5, 0.1, 0.5), (60, 0.9, 0.3), (3000, 0.3, 1.0)],
)
def test_shares_are_missed_no_more_often_than_stated(size, share, epsilon):
    """500 runs notice a true rate of .2 against .1 with a chance of 95 %, at a false-alarm rate of 1e-6."""

    def bound_of(noisy, noisy_total):
        total = largest_total(noisy_total, epsilons=(epsilon, epsilon), failure_probability=0.01)
        return smallest_share(noisy, total=total, epsilon=epsilon, failure_probability=0.09)

    assert_rate_at_most(*missed_shares(bound_of, size=size, share=share, epsilon=epsilon), 0.1)


def test_that_check_notices_a_share_without_a_margin_for_noise():
    def bound_of(noisy, noisy_total):
        return smallest_share(noisy, total=noisy_total, epsilon=60.0, failure_probability=0.1)

    with pytest.raises(AssertionError):
        assert_rate_at_most(*missed_shares(bound_of, size=60, share=0.5, epsilon=0.3), 0.1)


# The whole bound, on a small and a larger group.


def test_what_the_bounds_on_two_groups_and_the_total_spend_adds_up(monkeypatch):
    spent = []

    def replace_by(name, result):
        def spy(*_, failure_probability, **__):
            spent.append(failure_probability)
            return result

        monkeypatch.setattr(shift, name, spy)

    replace_by("gap_bound", GapBound(tau=0.1, ratio=0.5, pair=(0, 1)))
    replace_by("largest_total", 9)
    replace_by("smallest_share", 0.5)
    settings = {"failure_probability": LEVEL, "score_box_groups": False, "score_box_cells": True}
    bound_under_shift(np.ones((2, 2, 2), int), epsilon=1.0, **settings)
    assert len(spent) == 6
    assert sum(spent) == pytest.approx(LEVEL)


JOINT = np.array([[0.22, 0.08], [0.45, 0.25]])
RATES = np.array([[0.1, 0.5], [0.2, 0.8]])
# With little noise a bound has little to spare, and is made soon.
N_RECORDS, EPSILON, LEVEL = 900, 4.0, 0.05
# Positives leave the group of the lower rate, and negatives that of the higher.
MOVED = JOINT + np.array([[0.08, -0.08], [-0.1, 0.1]])


def certified(counts, score_box):
    settings = {"failure_probability": LEVEL, "score_box_groups": score_box, "score_box_cells": score_box}
    bound = bound_under_shift(counts, epsilon=EPSILON, **settings)
    assert bound.at(0.02) < 0.6  # it says something
    return bound


def observed(counts):
    """The line of the noisy counts themselves."""
    joint, rates = counts.sum(-1) / counts.sum(), counts[..., 1] / counts.sum(-1)
    return ShiftBound(tau=gap(joint, rates), slope=slopes([joint], [rates])[0])


def is_missed(bound):
    """True if the gap is above the bound after the shift, or the line anywhere below the true one."""
    true = ShiftBound(tau=gap(JOINT, RATES), slope=slopes([JOINT], [RATES])[0])
    moved_by = abs(MOVED - JOINT).sum() / 2
    return bound.at(moved_by) < gap(MOVED, RATES) or bound.tau < true.tau or bound.slope < true.slope


def missed_lines(bound_of, n_runs):
    rng = np.random.default_rng(3)
    chances = np.stack([JOINT * (1 - RATES), JOINT * RATES], axis=-1)
    samples = rng.multinomial(N_RECORDS, chances.ravel(), n_runs) + laplace(rng, EPSILON, n_runs * 8, 1).reshape(-1, 8)
    return sum(is_missed(bound_of(counts.reshape(2, 2, 2))) for counts in samples), n_runs


@pytest.mark.parametrize("n_runs", [8, pytest.param(25, marks=pytest.mark.more)])
@pytest.mark.parametrize("score_box", [False, True])
def test_the_whole_bound_is_missed_no_more_often_than_stated(score_box, n_runs):
    """At a false-alarm rate of 1e-6, 8 runs notice a true rate of .94, 25 one of .62; the parts have finer checks."""
    assert_rate_at_most(*missed_lines(lambda counts: certified(counts, score_box), n_runs), LEVEL)


def test_that_check_notices_a_line_without_a_margin():
    with pytest.raises(AssertionError):
        assert_rate_at_most(*missed_lines(observed, 8), LEVEL)


def test_a_group_that_may_be_empty_leaves_no_bound_under_shift():
    counts = np.array([[[1, 0], [-1, 2]], [[300, 30], [60, 40]]])
    settings = {"failure_probability": 0.05, "score_box_groups": True, "score_box_cells": True}
    bound = bound_under_shift(counts, epsilon=(1.0, 0.5), **settings)
    assert bound.slope == math.inf
    assert bound.at(0.01) == 1.0


def test_a_bad_level_is_named():
    with pytest.raises(ValueError, match=r"^failure_probability must be in \(0, 1\), got 5\.$"):
        bound_under_shift(
            np.ones((2, 2, 2), int), epsilon=1.0, failure_probability=5, score_box_groups=True, score_box_cells=True
        )
