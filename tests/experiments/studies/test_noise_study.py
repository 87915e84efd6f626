"""The study of where a step's noise goes."""

import pytest

from fairdp.experiments.studies import STUDIES
from fairdp.experiments.studies.noise import noise_of
from fairdp.experiments.studies.results import Run


def test_pooled_noise_is_the_smallest_and_equal_groups_make_no_difference():
    skewed, equal = noise_of((27_000, 3_000), 0.1), noise_of((3_750,) * 8, 0.1)
    assert min(skewed, key=skewed.get) == "pooled"
    assert skewed["balanced, one draw"] == pytest.approx(5 * skewed["pooled"], rel=1e-3)
    assert equal["balanced, one draw"] == pytest.approx(equal["pooled"], rel=1e-3)


def test_a_quick_run_has_a_row_for_every_kind_of_groups():
    findings = STUDIES["noise"].findings(Run(quick=True, seed=3, workers=1, say=lambda line: None))
    assert len(findings.figures["rows"]) == 6
