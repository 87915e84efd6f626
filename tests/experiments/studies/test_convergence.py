"""Theorem 4 measured: the optimum is one, excess risks are of the last iterates, and noise follows the budget."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fairdp.accounting.mechanisms import SampledGaussian, epsilon_spent
from fairdp.data.grouped import GroupedData
from fairdp.experiments.studies import STUDIES, convergence
from fairdp.experiments.studies.convergence import bounds_of
from fairdp.experiments.studies.convex_head import ConvexHead, Descent, at_budget, convex_head, excess_risks
from fairdp.experiments.studies.results import Run, write_results

DESCENT = Descent(dataset="synthetic", weight_bound=1.0, sample_rate=0.02, looks=(10, 40, 160), noise_multiplier=5.0)


def three_people() -> ConvexHead:
    """Two in the first group and one in the second, who weighs as much as both."""
    X = np.array([[1.0], [2.0], [-1.0]], dtype=np.float32)
    return ConvexHead(GroupedData(X, np.array([1, 0, 1]), np.array([0, 0, 1]), ("a", "b")), 10.0)


def test_the_risk_by_hand():
    losses = [np.log1p(np.exp(-1.5)), np.log1p(np.exp(2.5)), np.log1p(np.exp(0.5))]
    expected = ((losses[0] + losses[1]) / 2 + losses[2]) / 2
    assert three_people().risk(np.array([1.0, 0.5])) == pytest.approx(expected)


def test_the_gradient_is_that_of_the_risk():
    problem, head = convex_head("synthetic", 1.0), np.linspace(-0.3, 0.4, 11)
    steps = 1e-6 * np.eye(11)
    slopes = [(problem.risk(head + step) - problem.risk(head - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(problem.gradient(head), slopes, atol=1e-8)


@pytest.mark.parametrize("bound", [0.5, 1.0, 20.0])
def test_no_head_in_the_ball_has_less_risk_than_the_optimum(bound):
    problem, rng = convex_head("synthetic", bound), np.random.default_rng(0)
    optimum = problem.optimum
    assert np.linalg.norm(optimum) <= bound * (1 + 1e-12)
    assert 0 <= problem.gap(optimum) + 1e-12 < 1e-5
    for _ in range(50):
        near = optimum + rng.normal(0, 0.05, 11)
        near *= min(1.0, bound / np.linalg.norm(near))
        assert problem.risk(near) >= problem.least_risk - problem.gap(optimum)


def test_the_gap_bounds_what_is_missing():
    problem = convex_head("synthetic", 1.0)
    head = 0.3 * problem.optimum
    assert problem.risk(head) - problem.least_risk <= problem.gap(head)
    assert problem.gap(head) > 0.05


def test_excess_risks_fall_at_fixed_noise_and_stay_below_the_bound():
    found = np.mean([excess_risks(DESCENT, np.random.default_rng(seed)) for seed in range(4)], axis=0)
    assert len(found) == len(DESCENT.looks)
    assert 0 < found[2] < found[0] / 2
    assert all(excess < bounds_of(DESCENT, steps)["bound"] for excess, steps in zip(found, DESCENT.looks, strict=True))


def test_a_look_is_the_last_iterate_of_a_shorter_run():
    """The steps do not depend on T, so one run at fixed noise has the excess risks of all."""
    short = replace(DESCENT, looks=DESCENT.looks[:2])
    rngs = [np.random.default_rng(3) for _ in range(2)]
    assert excess_risks(DESCENT, rngs[0])[:2] == excess_risks(short, rngs[1])


def test_the_noise_of_a_budget_is_just_enough_for_the_whole_run():
    found = at_budget(DESCENT, 0.5)

    def spent(n_steps: int) -> float:
        mechanism = SampledGaussian(sample_rate=0.02, noise_multiplier=found.noise_multiplier, n_steps=n_steps)
        return epsilon_spent(mechanism, delta=1e-5)

    assert found.epsilon == 0.5
    assert 0.49 < spent(160) <= 0.5 < spent(180)


def test_bounds_by_hand():
    """Q = 2, C = β and K = 2; the noise of the mean is σC/2 · √(1/m₁² + 1/m₂²)."""
    problem, found = convex_head("synthetic", 1.0), bounds_of(DESCENT, 100)
    sizes = 0.02 * problem.data.group_sizes
    longest = problem.lipschitz_constant
    noise = 5 * longest / 2 * np.sqrt((1 / sizes**2).sum())
    square = longest**2 * (1 + 0.98 / 4 * (1 / sizes).sum()) + 11 * noise**2
    first = 2 / np.sqrt(longest**2 + 11 * noise**2)
    assert found["bound"] == pytest.approx((4 / first + first * square) * (2 + np.log(100)) / 10)
    assert found["printed_bound"] == pytest.approx(5 * longest * np.sqrt(11) * np.log(100) / np.sqrt(200))


def test_a_quick_run_has_all_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(convergence, "QUICK", replace(convergence.QUICK, looks=(4, 8, 12), clip_steps=10))
    findings = STUDIES["convergence"].findings(Run(quick=True, seed=3, workers=1, say=lambda line: None))
    rows = findings.figures["rows"]
    assert [row["part"] for row in rows] == ["fixed noise"] * 3 + ["fixed epsilon"] * 2 + ["clip norm"] * 2
    assert {row["n_steps"] for row in rows if row["part"] == "clip norm"} == {10}
    small, large = (row["noise_multiplier"] for row in rows if row["part"] == "fixed epsilon")
    assert small < large
    assert len(findings.runs) == 2 * len(rows)
    record = {"study": "convergence", "shows": "", "command": "", "version": "", "seed": 3, "quick": True}
    paths = write_results({**record, **findings.figures}, findings, tmp_path)
    assert {path.suffix for path in paths} == {".json", ".md", ".csv", ".png", ".svg"}
    assert json.loads((tmp_path / "convergence.json").read_text(), parse_constant=pytest.fail)["rows"] == rows
