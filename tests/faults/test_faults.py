"""A sample of the campaign, and its committed results."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from faults import run
from faults.counts import Count
from faults.pairs import KIND, PAIRS, count_pairs
from faults.points import KINDS, count_points
from faults.real import TIMES
from faults.scenarios import CERTIFY, FIT_IN_STEPS, prepared
from faults.steady import remembering

GOOD = Count(kind="a", what="b", tried=2, failed=0, control="c", control_tried=2, control_failed=1)


def committed() -> dict:
    return json.loads((run.RESULTS / "faults.json").read_text(encoding="utf-8"))


def test_what_was_never_tried_or_would_not_be_noticed_is_not_good():
    assert GOOD.good
    for field, value in (("tried", 0), ("failed", 1), ("control_failed", 0)):
        assert not Count(**{**asdict(GOOD), field: value}).good


def test_parts_that_are_run_alone_leave_the_others_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    other = Count(**{**asdict(GOOD), "kind": "other", "failed": 1})
    run.write_results([GOOD, other], 1.0)
    assert not committed()["good"]
    better = Count(**{**asdict(other), "failed": 0})
    run.write_results([better], 2.0)
    found = committed()
    assert (found["good"], found["cpu_minutes"]) == (True, 3.0)
    assert found["counts"] == [asdict(GOOD), asdict(better)]
    assert "| other | b | 2 | 0 | c | 1 of 2 |" in (tmp_path / "faults.md").read_text()


def test_the_committed_results_are_good_and_have_every_kind():
    found = committed()
    counts = [Count(**row) for row in found["counts"]]
    assert all(count.good for count in counts)
    assert (found["good"], found["failed"], found["tried"]) == (True, 0, sum(count.tried for count in counts))
    assert {*KINDS, KIND} <= {count.kind for count in counts}
    assert all(count.tried >= TIMES for count in counts if "real" in count.kind)
    assert run.tables(counts, found["cpu_minutes"])[1] == (run.RESULTS / "faults.md").read_text(encoding="utf-8")


def test_the_page_has_the_numbers_of_the_committed_results():
    page = (run.RESULTS.parent / "docs" / "explanation" / "how-we-check.md").read_text(encoding="utf-8")
    counts = committed()["counts"]
    for kind in dict.fromkeys(count["kind"] for count in counts):
        tried, failed = (sum(count[name] for count in counts if count["kind"] == kind) for name in ("tried", "failed"))
        assert f"| {kind} | {tried:,} | {failed:,} |" in page


@pytest.fixture(scope="module")
def before(tmp_path_factory) -> Iterator[Path]:
    run.import_everything()
    with remembering():
        yield prepared(tmp_path_factory.mktemp("faults"))


@pytest.mark.more
def test_a_sample_of_kills_and_full_disks(before):
    counts = list(count_points(before, (FIT_IN_STEPS, CERTIFY), stride=11))
    assert [count for count in counts if not count.good] == []


@pytest.mark.more
def test_a_sample_of_interleavings(before):
    counts = [*count_pairs(before, PAIRS[1:2], stride=7), *count_pairs(before, PAIRS[3:4], stride=3)]
    assert [count for count in counts if not count.good] == []
