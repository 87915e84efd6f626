"""Replay: nothing that one record changes is left unaccounted, from the file to the saved folder."""

import pytest

from fairdp import METHODS
from fairdp.accounting import reading as accounted
from fairdp.audit import pairs
from fairdp.audit.replay import replay
from fairdp.audit.routes import route_of, routes_of
from fairdp.audit.tables import base_table, write_schema
from fairdp.audit.ways import OwnForward, fit_file, layered
from fairdp.commands.audited_fit import fit_as_command
from fairdp.data.inference import infer_schema
from fairdp.data.tables import load_table
from fairdp.networks.backprop import Hooked, RecordByRecord, backprop_of
from fairdp.networks.extractors import cnn
from fairdp.networks.models import ScoreModel
from fairdp.run import reading

PRIVATE = [name for name, method in METHODS.items() if method.private]
FIRST_TIER = ("dpsgd", "fairdp_frontier", "fairdp_parity", "fairfm")


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


@pytest.mark.more
@pytest.mark.parametrize("method", [method for method in PRIVATE if method not in FIRST_TIER])
def test_no_method_lets_one_record_change_what_is_not_accounted(method):
    assert found(replay(method, seed=2, quick=True, fit=fit_as_command)) == []


# Each would change a category, a range, a group or the kind of a column that is read as it stands.
RARE = ("alone in its category", "huge numbers", "another script", "a group that counts as another")


@pytest.mark.parametrize("name", ["undeclared", "undeclared search"])
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

    monkeypatch.setattr(reading.PaidReader, "__call__", as_they_stand)
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


def test_the_same_seed_replays_the_same():
    assert replay("fairfm", seed=5, quick=True) == replay("fairfm", seed=5, quick=True)


def test_routes_take_the_networks_that_they_are_named_for():
    assert isinstance(backprop_of(ScoreModel(layered(), (1, 8))), Hooked)
    assert isinstance(backprop_of(ScoreModel(cnn((1, 8, 8)), (1, 8, 8))), Hooked)
    assert isinstance(backprop_of(ScoreModel(OwnForward(), (8,))), RecordByRecord)


def test_every_private_method_goes_every_way_that_it_knows():
    for method in PRIVATE:
        names = {route.name for route in routes_of(method, fit_file)}
        needed = {"file", "no certificate", "target", "arrays"}
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
