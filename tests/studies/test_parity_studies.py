"""Studies of targets: the records they name, the yardsticks beside them, and quick runs of each."""

import numpy as np
import pytest

from fairdp.metrics import decision_counts, fairness_metrics
from fairdp.studies import STUDIES
from fairdp.studies.fits import Population, control_at, load, mean_and_error
from fairdp.studies.noise import _noise
from fairdp.studies.reduction import Reduction, accuracy_at, reduce
from fairdp.studies.results import Run


def quick() -> Run:
    return Run(quick=True, seed=3, workers=1, say=lambda line: None)


@pytest.mark.needs_data("adult")
def test_another_split_has_the_same_records_in_parts_of_the_same_sizes():
    own, other = load(Population(dataset="adult")), load(Population(dataset="adult", split=2))
    assert abs(own.test.n_samples - other.test.n_samples) <= 4
    sums = [parts.train.X.sum(0) + parts.test.X.sum(0) for parts in (own, other)]
    np.testing.assert_allclose(*sums)
    assert not np.array_equal(own.train.X[:100], other.train.X[:100])


@pytest.mark.needs_data("adult")
def test_four_groups_are_the_two_told_apart_by_race():
    two, four = (load(Population(dataset="adult", by_race=own)) for own in (False, True))
    assert four.train.group_sizes.tolist() == [2129, 8642, 2616, 19174]
    assert np.array_equal(four.train.groups // 2, two.train.groups)
    assert four.train.group_names[1] == f"{two.train.group_names[0]}, white"


def test_a_population_with_more_bias_has_a_larger_gap_between_its_labels():
    gaps = []
    for bias in (0.5, 1.5):
        train = load(Population(dataset="synthetic", bias=bias, split=0)).train
        counts = decision_counts(train.y, train.y, train.groups, train.n_groups)
        gaps.append(fairness_metrics(counts)["demographic_parity_difference"])
    assert gaps[0] + 0.05 < gaps[1]


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


def test_a_control_is_read_at_the_rate_of_the_row():
    runs = [{"moved": [(0.1, 0.02, 0.8), (0.3, 0.06, 0.7)]}, {"moved": [(0.1, 0.04, 0.9), (0.3, 0.08, 0.8)]}]
    assert control_at(runs, 0.2) == {"gap": pytest.approx(0.05), "accuracy": pytest.approx(0.8)}


def test_means_and_their_errors():
    row = mean_and_error([{"accuracy": 0.7, "name": "x"}, {"accuracy": 0.9, "name": "x"}])
    assert row["mean"] == {"accuracy": pytest.approx(0.8)}
    assert row["standard_error"] == {"accuracy": pytest.approx(0.1)}


def test_pooled_noise_is_the_smallest_and_equal_groups_make_no_difference():
    skewed, equal = _noise((27_000, 3_000), 0.1), _noise((3_750,) * 8, 0.1)
    assert min(skewed, key=lambda name: skewed[name] if isinstance(skewed[name], float) else 1.0) == "pooled"
    assert skewed["balanced, one draw"] == pytest.approx(5 * skewed["pooled"], rel=1e-3)
    assert equal["balanced, one draw"] == pytest.approx(equal["pooled"], rel=1e-3)


@pytest.mark.parametrize("name", ["parity", "parity-faces", "parity-certified", "noise"])
def test_a_quick_run_has_rows_with_a_positive_rate_beside_every_gap(name):
    findings = STUDIES[name].findings(quick())
    assert findings.figures["rows"]
    if name != "noise":
        assert "positive rate" in findings.text or "positive_rate" in findings.text
        for row in findings.figures["rows"]:
            assert 0 <= row["mean"]["gap"] <= 1
            assert 0 <= row["mean"]["positive_rate"] <= 1
