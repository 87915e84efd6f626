"""Whole certificates against a known truth, and bounds against truths that are not rejected."""

from dataclasses import replace

import numpy as np
import pytest

from fairdp_lab.studies import coverage as implication
from fairdp_lab.studies.coverage import (
    ARMS,
    NEGATIVE_CONTROL,
    Setting,
    check_implication,
    clopper_pearson_without_noise,
    synthetic_certificates,
    synthetic_truths,
)
from statistical import assert_rate_at_most

PROMISED = 0.05


@pytest.mark.parametrize(
    ("n_samples", "epsilon", "n_runs"),
    # With little noise a certificate has little to spare; one of 1,200 records is in test_certificate.py.
    [(30, 4.0, 8), pytest.param(400, 4.0, 20, marks=pytest.mark.more), (20_000, 4.0, 8)],
)
def test_certificates_are_wrong_no_more_often_than_stated(n_samples, epsilon, n_runs):
    """8 and 20 certificates notice a true rate of .94 and .68, at a false-alarm rate of 1e-6."""
    setting = Setting(n_groups=2, n_samples=n_samples, epsilon=epsilon, offset=0.6, n_runs=n_runs)
    result = synthetic_certificates(setting, np.random.default_rng(1))
    assert result.trials == n_runs
    assert_rate_at_most(result.violations, n_runs, PROMISED)


@pytest.mark.parametrize(
    "setting",
    [
        Setting(n_groups=2, n_samples=3_000, epsilon=0.5, offset=0.6, n_runs=300),
        Setting(n_groups=4, n_samples=3_000, epsilon=4.0, offset=1.8, n_runs=300),
        Setting(n_groups=16, n_samples=30_000, epsilon=1.0, offset=1.8, n_runs=150),
    ],
    ids=lambda setting: f"{setting.n_groups} groups",
)
def test_the_truth_of_all_metrics_is_kept_as_often_as_stated(setting):
    """A certificate can be wrong only where this fails; 300 draws notice a true rate of .17, 150 one of .24."""
    lost = synthetic_truths(setting, np.random.default_rng(2))
    assert_rate_at_most(lost, setting.n_runs, PROMISED)


def test_those_checks_notice_counts_that_hide_their_noise():
    violations = clopper_pearson_without_noise(replace(NEGATIVE_CONTROL, n_runs=300), np.random.default_rng(3))
    with pytest.raises(AssertionError):
        assert_rate_at_most(violations, 300, PROMISED)


@pytest.mark.parametrize("arms", ARMS, ids=lambda arms: "/".join(map(str, arms.sizes)))
def test_no_bound_misses_a_truth_that_is_not_rejected(arms):
    """At a level where four in ten truths may be rejected: bounds are as tight as they get."""
    result = check_implication((arms, 0.4, 4), np.random.default_rng(4))
    assert result["broken"] == 0


def test_that_check_notices_a_bound_without_a_margin(monkeypatch):
    def observed(arms, high, low, failure_probability):
        rates = [arms[i].positive / arms[i].total for i in (high, low)]
        return rates[0] - rates[1], rates[0] / rates[1]

    monkeypatch.setattr(implication, "_bounds", observed)
    assert check_implication((ARMS[0], 0.05, 50), np.random.default_rng(4))["broken"] > 5
