"""Replay: nothing that one record changes is left unaccounted, and every defect that is put back is found."""

from pathlib import Path

import pytest

from fairdp import METHODS
from fairdp.accounting import mechanisms as accounted
from fairdp.data.infer import infer_schema
from fairdp.data.tables import load_table
from fairdp.networks.gradients import Hooked, RecordByRecord, backprop_of
from fairdp.networks.model import ScoreModel, cnn
from fairdp.run import fit as reading
from fairdp_lab.audit import replay as pairs
from fairdp_lab.audit.replay import replay, replay_route
from fairdp_lab.audit.routes import (
    OwnForward,
    base_table,
    fit_as_command,
    fit_file,
    layered,
    route_of,
    routes_of,
    write_schema,
)
from privacy_defects import DEFECTS, FOUND_BY_TESTS

PRIVATE = [name for name, method in METHODS.items() if method.private]
# The default, one with statistics, one in closed form; defects are put back into DP-SGD.
FIRST_TIER = ("fairdp_frontier", "raco_dp", "fairfm")


def found(report):
    return [f"{v.route}, {v.neighbour}, {v.release}: {v.found}" for v in report.violations]


@pytest.mark.parametrize("method", FIRST_TIER)
def test_one_record_changes_nothing_that_is_not_accounted(method):
    report = replay(method, seed=1, quick=True, fit=fit_as_command)
    assert found(report) == []
    # Each has five kinds of record, some of them removed too, and all files of the folder.
    assert report.neighbours >= 6
    assert report.files >= 5 * 4
    assert report.releases >= 20


def test_a_release_that_no_neighbour_moves_on_any_route_counts_as_a_violation(monkeypatch):
    """A replay whose neighbours stand still sees no violation in anything: it must not pass."""
    monkeypatch.setattr(pairs, "islice", lambda neighbours, n: iter(()))
    monkeypatch.setattr(pairs, "_QUICK", ("the same table",))
    assert found(replay("fairfm", seed=1, quick=True)) == [
        f"all, all, the audit: no neighbour moved any {part}" for part in ("look", "polynomial", "scores", "sizes")
    ]


def test_the_same_seed_replays_the_same():
    """In how many batches the one record is, among others, follows from the seed: another one replays otherwise."""
    route = route_of("dpsgd", "weights", fit_as_command, quick=True)
    first, again, other = (replay_route("dpsgd", route, seed=seed, quick=True) for seed in (5, 5, 6))
    assert first == again
    assert first != other


@pytest.mark.more
@pytest.mark.parametrize("method", [method for method in PRIVATE if method not in FIRST_TIER])
def test_no_method_lets_one_record_change_what_is_not_accounted(method):
    assert found(replay(method, seed=2, quick=True, fit=fit_as_command)) == []


# Each would change a category, a range, a group or the kind of a column that is read as it stands.
RARE = ("alone in its category", "huge numbers", "another script", "a group that counts as another")


@pytest.mark.parametrize("name", ["undeclared", pytest.param("undeclared search", marks=pytest.mark.more)])
def test_what_is_read_from_the_rows_is_paid_for(name):
    route = route_of("dpsgd", name, fit_as_command, quick=True)
    report = pairs.replay_route("dpsgd", route, seed=1, kinds=("the same table", "typical f", *RARE))
    assert found(report) == []
    assert (report.neighbours, report.refused) == (8, 0)
    assert report.files >= 8 * 5


def test_that_replay_notices_rows_that_are_read_as_they_stand(monkeypatch):
    def as_they_stand(reader, frame, label, sensitive, positive):
        reader.schema, notes = infer_schema(frame, label, sensitive, positive)
        reader.reading = reading.reading_for(reader.budget, frame.shape[1])
        return reader.schema, notes

    monkeypatch.setattr(reading.PrivateSchemaReader, "__call__", as_they_stand)
    route = route_of("dpsgd", "undeclared", fit_file, quick=True)
    # A value that a single row has is not proposed as a category, so that it moves nothing by itself.
    for kind in ("huge numbers", "a group that counts as another"):
        assert found(pairs.replay_route("dpsgd", route, seed=1, kinds=[kind])), kind


def test_that_replay_notices_a_reading_that_moves_further_than_is_accounted(monkeypatch):
    """As if kinds, sizes and distinct values were free: a record of which nothing is known moves all of them."""
    true = accounted.Reading.multiplier.fget
    free = property(lambda read: true(read) * accounted.moved_squared() ** 0.5)
    monkeypatch.setattr(accounted.Reading, "multiplier", free)
    route = route_of("dpsgd", "undeclared", fit_file, quick=True)
    report = pairs.replay_route("dpsgd", route, seed=1, kinds=["another script"])
    assert any("(reading): one record moves it by" in line for line in found(report))


@pytest.mark.parametrize("method", [name for name in METHODS if name not in PRIVATE])
def test_methods_that_promise_nothing_are_not_replayed(method):
    assert replay(method, seed=0).releases == 0


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="method must be one of"):
        replay("magic", seed=0)


def test_routes_take_the_networks_that_they_are_named_for():
    assert isinstance(backprop_of(ScoreModel(layered(), (1, 8))), Hooked)
    assert isinstance(backprop_of(ScoreModel(cnn((1, 8, 8)), (1, 8, 8))), Hooked)
    assert isinstance(backprop_of(ScoreModel(OwnForward(), (8,))), RecordByRecord)


def test_every_private_method_goes_every_way_that_it_knows():
    for method in PRIVATE:
        names = {route.name for route in routes_of(method, fit_file)}
        needed = {"file", "no certificate", "arrays"}
        if not METHODS[method].closed_form:
            needed |= {"logistic", "mlp", "parts", "weights", "layers", "images", "own forward", "own loop"}
        if METHODS[method].has_iterates:
            needed |= {"looks"}
        if METHODS[method].joint:
            needed |= {"equalized_odds", "positive rate", "costs", "arrays, two groups", "oriented gradients"}
        assert needed <= names, method


def test_the_table_meets_its_schema(tmp_path):
    table = base_table(0)
    table.write(tmp_path / "people.csv")
    write_schema(tmp_path / "schema.json")
    read = load_table(
        tmp_path / "people.csv", label="approved", sensitive=("sex",), schema_path=tmp_path / "schema.json"
    )
    assert read.data.n_samples == len(table.rows)
    assert set(read.data.groups.tolist()) == {0, 1, 2}


def defects_in_tiers():
    """Those that were mended, and one for each finding; the others are left to the second tier."""
    findings = set()
    for defect in DEFECTS:
        first = defect.mended or defect.found not in findings
        findings.add(defect.found)
        yield pytest.param(defect, id=defect.name, marks=[] if first else pytest.mark.more)


@pytest.mark.parametrize("defect", list(defects_in_tiers()))
def test_a_defect_that_is_put_back_is_found(defect):
    texts = found(defect.put_back())
    assert any(defect.found in text for text in texts), texts


# Of defects that show on the same route, one: without them it is the same replay.
HONEST = {(d.method, d.route, d.kinds, repr(d.settings), d.refused): d for d in DEFECTS if not d.chosen}


@pytest.mark.more
@pytest.mark.parametrize("defect", HONEST.values(), ids=lambda defect: defect.name)
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
