"""The area under the curve from noisy counts, against scikit-learn and by simulation."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fairdp.frontier.ranking import _EDGES, N_BINS, area_under_curve, exact_ranking
from statistical import assert_rate_at_most


def draw(n_records: int, seed: int = 0, strength: float = 1.5):
    rng = np.random.default_rng(seed)
    logits = strength * rng.normal(size=n_records) - 1
    chances = 1 / (1 + np.exp(-logits))
    return chances, (rng.random(n_records) < chances).astype(np.int64)


def test_every_record_is_in_one_bin_of_its_label():
    counts = exact_ranking(np.array([0.0, 0.005, 0.0049, 0.5, 0.98, 1.0]), np.array([0, 0, 1, 1, 0, 1]))
    expected = np.zeros((2, N_BINS))
    expected[0, [0, 1, N_BINS - 1]] = 1
    expected[1, [0, 12, N_BINS - 1]] = 1
    assert counts.tolist() == expected.tolist()


def test_removing_any_record_moves_one_count_by_one():
    chances, labels = draw(40)
    whole = exact_ranking(chances, labels)
    for record in range(40):
        moved = whole - exact_ranking(np.delete(chances, record), np.delete(labels, record))
        assert sorted(moved.ravel())[-2:] == [0.0, 1.0]
        assert np.abs(moved).sum() == 1.0


@pytest.mark.parametrize("strength", [0.0, 0.5, 3.0])
def test_without_noise_the_area_is_that_of_the_binned_scores(strength):
    chances, labels = draw(3000, strength=strength)
    area = area_under_curve(exact_ranking(chances, labels), 0.0).value
    assert area == pytest.approx(roc_auc_score(labels, np.searchsorted(_EDGES, chances, side="right")), abs=1e-9)
    # Binning loses little.
    assert area == pytest.approx(roc_auc_score(labels, chances), abs=0.02)


def test_area_by_hand():
    """Two bins, 10 and 30 of label 0, 20 and 20 of label 1: ½·¼·½ + ½·¼ + ½·½·¾ = ⅝."""
    noisy = np.zeros((2, N_BINS))
    noisy[:, :2] = [[10, 30], [20, 20]]
    estimate = area_under_curve(noisy, 0.0)
    assert estimate.value == pytest.approx(0.5 * 0.125 + 0.5 * (0.25 + 0.375))
    # Only sampling is left: its bound on the variance, over the smaller label.
    assert estimate.error == pytest.approx(np.sqrt(0.375 * 0.625 / 40))


def misses(std: float, *, halved: bool = False, n_runs: int = 600) -> tuple[int, int]:
    """How often noise takes the area further than its error, without that of sampling, says at 95 %."""
    exact, rng = exact_ranking(*draw(4000)), np.random.default_rng(5)
    truth, missed = area_under_curve(exact, 0.0), 0
    for _ in range(n_runs):
        estimate = area_under_curve(exact + std * rng.standard_normal(exact.shape), std)
        error = np.sqrt(estimate.error**2 - truth.error**2) / (2 if halved else 1)
        missed += abs(estimate.value - truth.value) > 1.96 * error
    return missed, n_runs


@pytest.mark.parametrize("std", [5.0, 25.0])
def test_the_error_covers_the_noise(std):
    """600 runs notice errors that are a quarter too small."""
    assert_rate_at_most(*misses(std), limit=0.05)


def test_that_check_notices_errors_of_half_the_size():
    with pytest.raises(AssertionError):
        assert_rate_at_most(*misses(25.0, halved=True), limit=0.05)


def test_noise_alone_is_an_area_that_nobody_believes():
    noise = 30.0 * np.random.default_rng(0).standard_normal((2, N_BINS))
    estimate = area_under_curve(noise, 30.0)
    assert 0.0 <= estimate.value <= 1.0
    assert estimate.error > 0.3
