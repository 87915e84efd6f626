"""The yardstick without privacy: fairlearn's reduction, and its frontier between runs."""

import numpy as np
import pytest

from fairdp.experiments.studies.reduction import Reduction, _with_hats, accuracy_at, reduce
from fairdp.experiments.sweeps.populations import Population


@pytest.mark.more
@pytest.mark.parametrize("features", ["raw", "ours"])
def test_the_reduction_trades_accuracy_for_the_gap(features):
    population, parity = Population(dataset="synthetic"), "demographic_parity"
    found = [
        reduce(
            Reduction(population=population, parity=parity, bound=bound, features=features), np.random.default_rng(0)
        )
        for bound in (0.02, 1.0)
    ]
    assert found[0]["gap"] < 0.05 < 0.15 < found[1]["gap"]
    assert found[0]["accuracy"] < found[1]["accuracy"]


def test_between_its_runs_the_frontier_is_a_line_and_worse_runs_do_not_lower_it():
    frontier = [
        {"gap": 0.0, "accuracy": 0.7},
        {"gap": 0.1, "accuracy": 0.8},
        {"gap": 0.2, "accuracy": 0.75},
    ]
    assert accuracy_at(frontier, 0.05) == pytest.approx(0.75)
    assert accuracy_at(frontier, 0.2) == pytest.approx(0.8)
    assert accuracy_at(frontier, -0.1) == pytest.approx(0.7)


def test_a_number_becomes_hats_and_a_root():
    """.3 lies half-way between the knots .2 and .4."""
    found = _with_hats(np.array([[1.0, 0.3]], dtype=np.float32), (1,))[0]
    expected = np.array([1.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.3**0.25])
    np.testing.assert_allclose(found, expected / np.sqrt(np.square(expected).sum() + 1), atol=1e-6)
