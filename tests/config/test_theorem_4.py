"""Theorem 4: its step sizes and bounds by hand, and the assumptions that they rest on."""

import math

import numpy as np
import pytest
import torch

from fairdp.config import theorem_4


def test_the_longest_gradient_by_hand():
    # 3² + 64 · ½² = 25; with 9 · 7/9 more from the sampling and 36 · ½²: 9 + 7 + 9 = 25.
    assert theorem_4.gradient_norm(clip_norm=3.0, noise_std=0.5, n_params=64) == 5
    assert theorem_4.gradient_norm(clip_norm=3.0, noise_std=0.5, n_params=36, sampling=7 / 9) == pytest.approx(5)


def test_shamir_and_zhangs_steps_by_hand():
    rates = [theorem_4.shamir_zhang_rate(step, diameter=10.0, gradient_norm=5.0) for step in (1, 4, 100)]
    assert rates == [2, 1, 0.2]


def test_the_printed_steps_by_hand():
    # K / √(t (C² + K σ² C² r)) with K = 2, t = 4, C = ½, σ = 3, r = 7: 2 / √(1 + 126).
    rate = theorem_4.printed_rate(4, n_groups=2, noise_multiplier=3.0, clip_norm=0.5, n_params=7)
    assert rate == pytest.approx(2 / math.sqrt(127))


def test_shamir_and_zhangs_bound_by_hand():
    # 2 Q G (2 + ln T) / √T with Q = 2, G = 5, T = 4, and (4 + 25) (2 + ln 4) / 2 with a first step of one.
    assert theorem_4.shamir_zhang_bound(4, diameter=2.0, gradient_norm=5.0) == pytest.approx(33.86294, abs=1e-5)
    bound = theorem_4.shamir_zhang_bound(4, diameter=2.0, gradient_norm=5.0, first_rate=1.0)
    assert bound == pytest.approx(49.10127, abs=1e-5)


def test_no_other_first_step_has_a_smaller_bound():
    numbers = {"diameter": 2.0, "gradient_norm": 5.0}
    least = theorem_4.shamir_zhang_bound(100, **numbers)
    rate = theorem_4.shamir_zhang_rate(1, **numbers)
    others = [theorem_4.shamir_zhang_bound(100, **numbers, first_rate=factor * rate) for factor in (0.5, 0.9, 1.1, 2)]
    assert min(others) > least


def test_the_printed_bound_by_hand():
    # σ C √r ln T / √(T K) with σ = 3, C = ½, r = 8, T = 4, K = 2: 1.5 ln 4.
    numbers = {"n_groups": 2, "clip_norm": 0.5, "n_params": 8}
    assert theorem_4.printed_bound(4, **numbers, noise_multiplier=3.0) == pytest.approx(2.07944, abs=1e-5)
    assert theorem_4.printed_bound(4, **numbers, noise_multiplier=0.0) == 0


def _worst_case(n_steps: int, first_rate: float, n_runs: int) -> float:
    """Mean excess of the last of so many projected steps on |x| over [−1, 1], whose slopes have a coin's noise."""
    rng = np.random.default_rng(0)
    x = np.ones(n_runs)
    for step in range(1, n_steps):
        slopes = np.sign(x) + rng.choice([-2.0, 2.0], n_runs)
        x = np.clip(x - first_rate / math.sqrt(step) * slopes, -1, 1)
    return float(np.abs(x).mean())


@pytest.mark.parametrize("factor", [0.1, 1.0, 10.0])
def test_the_bound_holds_on_a_risk_with_a_kink(factor):
    """Q = 2 and G² = 1 + 4."""
    rate = factor * 2 / math.sqrt(5)
    excess = _worst_case(100, rate, 4_000)
    bound = theorem_4.shamir_zhang_bound(100, diameter=2.0, gradient_norm=math.sqrt(5), first_rate=rate)
    assert 0.01 < excess <= bound


def test_no_gradient_of_a_linear_head_is_longer_than_the_lipschitz_constant():
    rng = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(500, 4, generator=rng), dim=1) * math.sqrt(3)
    heads = (30 * torch.randn(500, 5, generator=rng)).requires_grad_()
    scores = (heads[:, :4] * rows).sum(1) + heads[:, 4]
    labels = torch.randint(2, (500,), generator=rng).float()
    torch.nn.functional.binary_cross_entropy_with_logits(scores, labels, reduction="sum").backward()
    longest = float(heads.grad.norm(dim=1).max())
    assert theorem_4.lipschitz_constant(math.sqrt(3)) == pytest.approx(2)
    assert 1.99 < longest <= 2 + 1e-6
