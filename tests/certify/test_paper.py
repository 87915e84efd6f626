import math

import pytest

from fairdp.certify.paper import (
    head_noise,
    monte_carlo_error,
    monte_carlo_error_printed,
    theorem_2_corrected,
    theorem_2_printed,
)


@pytest.mark.parametrize(
    ("cells", "printed"),
    [
        ((5421, 10860), 4.37e-5),  # demographic parity, Adult's official test rows
        ((590, 3256), 3.16e-4),  # equal opportunity
        ((590, 3256, 4831, 7604), 3.7e-4),  # equalised odds
    ],
)
def test_the_printed_error_is_that_of_the_papers_table(cells, printed):
    assert monte_carlo_error_printed(cells, n_members=10) == pytest.approx(printed, rel=0.005)


def test_the_true_error_is_thousands_of_times_larger():
    assert monte_carlo_error(n_members=10) == pytest.approx(0.158, abs=5e-4)


def test_the_noise_of_the_head_at_the_papers_scale():
    # .005 · 1.98 / 2 · √(107.71⁻² + 217.9⁻²) = 5.1e-5: the argument of erf is then about 2e4, and erf is one.
    noise = head_noise(noise_multiplier=1.98, clip_norm=1.0, learning_rate=0.005, expected_batch_sizes=(107.71, 217.9))
    assert noise == pytest.approx(5.1e-5, rel=0.01)
    assert theorem_2_corrected(weight_bound=1.0, clip_norm=1.0, learning_rate=0.005, head_noise=noise) == 1.0


def test_the_printed_bound_is_smaller_than_the_corrected_one():
    settings = {"weight_bound": 1.0, "clip_norm": 1.0, "learning_rate": 1.0, "head_noise": 2.0}
    printed, corrected = theorem_2_printed(**settings, n_groups=2), theorem_2_corrected(**settings)
    assert printed == pytest.approx(math.erf(1.5 / (2 * math.sqrt(2))))
    assert corrected == pytest.approx(math.erf(2 / (2 * math.sqrt(2))))
    assert printed < corrected
