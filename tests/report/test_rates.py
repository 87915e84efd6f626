"""Rates of groups from released counts: intervals that hold as often as they say."""

from dataclasses import replace

import numpy as np
import pytest

from fairdp.certify.certificate import certify
from fairdp.certify.pairs import score_box_bound
from fairdp.certify.release import arms_of, release_counts
from fairdp.report.rates import group_rates_of
from statistical import assert_rate_at_most

SIZES, RATES = (120, 400), (0.1, 0.35)


def drawn_counts(rng: np.random.Generator):
    counts = np.zeros((2, 2, 2), dtype=int)
    for group, (size, rate) in enumerate(zip(SIZES, RATES, strict=True)):
        positive = rng.binomial(size, rate)
        # Labels do not matter to the rate of positive decisions: half of each.
        for decision, n in enumerate((size - positive, positive)):
            counts[group, :, decision] = n // 2, n - n // 2
    return release_counts(counts, epsilon=1.0, rand_below=lambda below: int(rng.integers(below)))


@pytest.fixture(scope="module")
def drawn():
    """Certificates that differ in their counts; their bounds are not looked at here, and take time."""
    rng = np.random.default_rng(0)
    own = {"epsilon": 1.0, "group_names": ("u", "v"), "expected_sizes": tuple(map(float, SIZES))}
    first = certify(drawn_counts(rng), **own, metrics=("demographic_parity",))
    return lambda n: [replace(first, counts=drawn_counts(rng).tolist()) for _ in range(n)]


@pytest.mark.more
def test_intervals_miss_a_rate_no_more_often_than_stated(drawn):
    """Three hundred draws notice a true miss rate of about 0.14 against 0.05."""
    missed = [
        any(not own.low <= rate <= own.high for own, rate in zip(group_rates_of(found), RATES, strict=True))
        for found in drawn(300)
    ]
    assert_rate_at_most(sum(missed), len(missed), 0.05)


def test_estimates_lie_in_intervals_that_say_something(drawn):
    for own in (rate for found in drawn(2) for rate in group_rates_of(found)):
        assert 0 <= own.low <= own.estimate <= own.high <= 1
        assert 0.01 < own.high - own.low < 0.45


def test_both_ends_of_every_interval_share_the_failure_probability(drawn):
    (found,) = drawn(1)
    first, _ = group_rates_of(found)
    share = found.registration.failure_probability / 4
    arm = arms_of(np.array(found.counts), "positive", (1.0, 1.0))[0]
    assert first.high == score_box_bound(arm, failure_probability=share)
    assert first.low == 1 - score_box_bound(arm.mirrored(), failure_probability=share)


def test_dilution_moves_rates_and_intervals_alike(drawn):
    (plain,) = drawn(1)
    diluted = plain.diluted(0.01)
    share, constant = diluted.dilution.share, diluted.dilution.constant
    for before, after in zip(group_rates_of(plain), group_rates_of(diluted), strict=True):
        for name in ("low", "high", "estimate"):
            expected = (1 - share) * getattr(before, name) + share * constant
            assert getattr(after, name) == pytest.approx(expected)
