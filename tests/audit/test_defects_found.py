"""Privacy defects that were mended, or that others have made: put back, replay finds each of them."""

from pathlib import Path

import pytest

from fairdp.audit.pairs import replay_route
from fairdp.audit.routes import route_of
from fairdp.audit.ways import fit_file
from privacy_defects import DEFECTS, FOUND_BY_TESTS


def found(report):
    return [f"{violation.release}: {violation.found}" for violation in report.violations]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_that_is_put_back_is_found(defect):
    texts = found(defect.put_back())
    assert any(defect.found in text for text in texts), texts


@pytest.mark.more
@pytest.mark.parametrize("defect", [defect for defect in DEFECTS if not defect.chosen], ids=lambda defect: defect.name)
def test_without_the_defect_nothing_is_found(defect):
    texts = found(defect.replayed())
    assert (["refused" in text for text in texts] == [True]) if defect.refused else not texts


def test_a_word_among_codes_leaves_all_others_as_they_are():
    route = route_of("dpsgd", "file", fit_file, quick=True)
    kinds = ("a word among codes", "a truth value among codes", "a missing code spelled out", "a code as a decimal")
    report = replay_route("dpsgd", route, seed=3, kinds=kinds)
    assert found(report) == []
    assert report.neighbours >= len(kinds)


@pytest.mark.parametrize("defect", FOUND_BY_TESTS)
def test_a_defect_that_replay_cannot_see_has_a_test_of_its_own(defect):
    path, name = FOUND_BY_TESTS[defect].split("::")
    assert f"def {name}(" in (Path(__file__).parents[2] / path).read_text()
