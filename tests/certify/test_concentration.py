import numpy as np
import pytest

from fairdp.certify.arms import NoisyArm
from fairdp.certify.concentration import box_upper, clopper_pearson_upper, conv_upper, hoeffding_radius
from statistical import assert_rate_at_most


def noisy(rng, size, rate, epsilon):
    draws = rng.geometric(1 - np.exp(-epsilon), 4)
    positives = int(rng.binomial(size, rate))
    return NoisyArm(
        positive=positives + int(draws[0] - draws[1]),
        negative=size - positives + int(draws[2] - draws[3]),
        epsilon=epsilon,
        folds=1,
    )


def misses(bound, *, size, rate, epsilon=1.0, n_runs=1000):
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
    """1,000 runs notice a true rate of .16 against .1, at a false-alarm rate of 1e-6."""
    box = misses(lambda arm: box_upper(arm, noise_failure=0.01, rate_failure=0.08), size=size, rate=rate)
    conv = misses(lambda arm: conv_upper(arm, size_failure=0.02, rate_failure=0.08), size=size, rate=rate)
    assert_rate_at_most(*box, 0.1)
    assert_rate_at_most(*conv, 0.1)


def test_that_check_notices_the_shortcut_for_an_empty_cell():
    """Raising an impossible size to one looks harmless and is wrong (a rate of an empty cell is anything)."""
    from fairdp.certify.concentration import _largest_plausible

    def shortcut(arm):
        return _largest_plausible(max(arm.total - 2, 1), arm, 0.08)

    with pytest.raises(AssertionError):
        assert_rate_at_most(*misses(shortcut, size=0, rate=1.0, epsilon=4.0), 0.1)


def test_that_check_notices_a_bound_without_the_noise():
    def plain(arm):
        return clopper_pearson_upper(arm.positive, arm.negative, failure_probability=0.1)

    with pytest.raises(AssertionError):
        assert_rate_at_most(*misses(plain, size=40, rate=0.3, epsilon=0.3), 0.1)
