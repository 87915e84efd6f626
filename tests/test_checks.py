import math

import numpy as np
import pytest

from fairdp import errors as _checks

NOT_POSITIVE = (0, -1.0, math.nan, None, "3")


@pytest.mark.parametrize("check", [_checks.positive, _checks.finite_positive])
@pytest.mark.parametrize("value", NOT_POSITIVE)
def test_positive_names_parameter_and_value(check, value):
    with pytest.raises(ValueError, match=f"^clip_norm must be positive, got {value!r}\\.$"):
        check(weight_bound=1.0, clip_norm=value)


def test_positive_lets_infinity_pass_and_finite_positive_does_not():
    _checks.positive(clip_norm=math.inf, other=1e-300)
    with pytest.raises(ValueError, match=r"^clip_norm must be finite, got inf\.$"):
        _checks.finite_positive(clip_norm=math.inf)


@pytest.mark.parametrize("value", [0, -3, 1.5, True, math.nan, math.inf, "3", None])
def test_positive_integer_names_parameter_and_value(value):
    with pytest.raises(ValueError, match=f"^n_steps must be a whole number of at least 1, got {value!r}\\.$"):
        _checks.positive_integer(n_steps=value)


@pytest.mark.parametrize("value", [0, 1, -0.1, math.nan, "0.5"])
def test_unit_interval_is_open(value):
    with pytest.raises(ValueError, match=rf"^delta must be in \(0, 1\), got {value!r}\.$"):
        _checks.in_unit_interval(delta=value)


@pytest.mark.parametrize("value", [0, 1.01, 256, math.nan, None])
def test_sample_rate_asks_about_a_batch_size(value):
    with pytest.raises(ValueError, match=rf"^rate must be in \(0, 1\], got {value!r}\. Did you pass a batch size\?$"):
        _checks.sample_rate(rate=value)


def test_one_of_lists_the_choices():
    with pytest.raises(ValueError, match=r"^optimizer must be one of adam, sgd; got 'lbfgs'\.$"):
        _checks.one_of(("sgd", "adam"), optimizer="lbfgs")


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float64(3.0)])
def test_whole_numbers_of_any_kind_pass(value):
    _checks.positive_integer(n_steps=value)


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_real_numbers_of_any_kind_pass(kind):
    _checks.positive(a=kind(0.5), b=np.int64(2))
    _checks.finite_positive(a=kind(0.5))
    _checks.in_unit_interval(a=kind(0.5))
    _checks.sample_rate(a=kind(1.0))
