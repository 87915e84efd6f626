"""Studies of targets: the records they name, the yardsticks beside them, and quick runs of each."""

import numpy as np
import pytest

from fairdp.experiments.studies import STUDIES
from fairdp.experiments.studies.noise import _noise
from fairdp.experiments.studies.reduction import Reduction, accuracy_at, reduce
from fairdp.experiments.studies.results import Run
from fairdp.experiments.sweeps.populations import Population


def quick() -> Run:
    return Run(quick=True, seed=3, workers=1, say=lambda line: None)


@pytest.mark.more
def test_the_reduction_trades_accuracy_for_the_gap():
    found = [
        reduce(
            Reduction(
                population=Population(dataset="synthetic"), parity="demographic_parity", bound=bound, features="raw"
            ),
            np.random.default_rng(0),
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


def test_pooled_noise_is_the_smallest_and_equal_groups_make_no_difference():
    skewed, equal = _noise((27_000, 3_000), 0.1), _noise((3_750,) * 8, 0.1)
    assert min(skewed, key=lambda name: skewed[name] if isinstance(skewed[name], float) else 1.0) == "pooled"
    assert skewed["balanced, one draw"] == pytest.approx(5 * skewed["pooled"], rel=1e-3)
    assert equal["balanced, one draw"] == pytest.approx(equal["pooled"], rel=1e-3)


@pytest.mark.parametrize(
    "name",
    [*(pytest.param(name, marks=pytest.mark.more) for name in ("parity", "parity-faces")), "parity-certified", "noise"],
)
def test_a_quick_run_has_rows_with_a_positive_rate_beside_every_gap(name):
    findings = STUDIES[name].findings(quick())
    assert findings.figures["rows"]
    if name != "noise":
        assert "positive rate" in findings.text or "positive_rate" in findings.text
        for row in findings.figures["rows"]:
            assert 0 <= row["mean"]["gap"] <= 1
            assert 0 <= row["mean"]["positive_rate"] <= 1
