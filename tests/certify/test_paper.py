import math

import numpy as np
import pytest
from scipy import stats

from fairdp.paper import (
    head_noise,
    monte_carlo_error,
    monte_carlo_error_printed,
    proposition_3,
    remark_2_release,
    remark_2_scale_printed,
    theorem_2_corrected,
    theorem_2_printed,
)
from statistical import assert_plausible


@pytest.mark.parametrize(
    ("cells", "printed"),
    [
        ((5421, 10860), 4.37e-5),  # demographic parity, Adult's official test rows
        ((590, 3256), 3.16e-4),  # equal opportunity
        ((590, 3256, 4831, 7604), 3.7e-4),  # equalized odds
    ],
)
def test_the_printed_error_is_that_of_the_papers_table(cells, printed):
    assert monte_carlo_error_printed(cells, n_members=10) == pytest.approx(printed, rel=0.005)


def test_the_true_error_is_thousands_of_times_larger():
    assert monte_carlo_error(n_members=10) == pytest.approx(0.158, abs=5e-4)


def test_the_noise_of_the_head_at_the_papers_scale():
    # .005 · 1.98 / 2 · √(107.71⁻² + 217.9⁻²) = 5.1e-5: the argument of erf is then about 1.4e4, and erf is one.
    noise = head_noise(noise_multiplier=1.98, clip_norm=1.0, learning_rate=0.005, expected_batch_sizes=(107.71, 217.9))
    assert noise == pytest.approx(5.1e-5, rel=0.01)
    assert theorem_2_corrected(weight_bound=1.0, clip_norm=1.0, learning_rate=0.005, head_noise=noise) == 1.0


def test_the_printed_bound_is_smaller_than_the_corrected_one():
    settings = {"weight_bound": 1.0, "clip_norm": 1.0, "learning_rate": 1.0, "head_noise": 2.0}
    printed, corrected = theorem_2_printed(**settings, n_groups=2), theorem_2_corrected(**settings)
    assert printed == pytest.approx(math.erf(1.5 / (2 * math.sqrt(2))))
    assert corrected == pytest.approx(math.erf(2 / (2 * math.sqrt(2))))
    assert printed < corrected


def test_the_empirical_certificate_by_hand():
    # r = √(ln 40 / 2n): .13581 for 100 records, .06791 for 400; .3 + .06791 − (.2 − .13581) = .30372.
    assert proposition_3((0.2, 0.3), sizes=(100, 400)) == pytest.approx(0.30372, abs=1e-5)
    assert proposition_3((0.2, 0.3), sizes=(100, 400), monte_carlo=0.01) == pytest.approx(0.31372, abs=1e-5)
    # Adult's positives among women and men in training, without any gap: the radii alone.
    assert proposition_3((0.2, 0.2), sizes=(5330, 943)) == pytest.approx(2 * 0.0442, abs=1e-4)
    assert proposition_3((0.2, 0.26), sizes=(943, 5330)) - 0.06 == pytest.approx(0.063, abs=5e-4)


def test_a_training_set_learnt_by_heart_is_certified_and_unfair():
    """Why it is no guarantee: a model may treat the records it has seen alike and all others by their group."""
    seen, unseen = (0.3, 0.3), (0.0, 1.0)
    assert proposition_3(seen, sizes=(5000, 5000)) < 0.04 < unseen[1] - unseen[0]


def test_the_printed_release_hides_the_rates_altogether():
    """20,000 draws: Laplace of scale 10 by its absolute values, which are exponential; false-alarm rate 1e-6."""
    released = np.array(
        remark_2_release(
            [0.3] * 20_000, scales=[remark_2_scale_printed(epsilon=0.1)] * 20_000, rng=np.random.default_rng(0)
        )
    )
    assert_plausible(stats.kstest(abs(released - 0.3), "expon", args=(0, 10)).pvalue, "scale 10")
    # By hand: beyond the unit interval unless |X| < about a half, a chance of 5 %.
    assert np.mean((released < 0) | (released > 1)) > 0.9


def test_that_check_notices_a_scale_that_is_a_tenth_off():
    released = np.array(remark_2_release([0.3] * 20_000, scales=[10 / 1.1] * 20_000, rng=np.random.default_rng(0)))
    with pytest.raises(AssertionError):
        assert_plausible(stats.kstest(abs(released - 0.3), "expon", args=(0, 10)).pvalue, "scale 10")
