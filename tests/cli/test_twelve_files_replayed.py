"""The replay audit on each of twelve messy files: one odd row more or less changes nothing that is not accounted."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fairdp_lab.audit import replay as pairs
from fairdp_lab.audit.replay import Neighbour
from fairdp_lab.audit.routes import FOLDER, ByFile, Table, files_of, fit_as_command, route_of
from messy_tables import CHANGED, FILES, ODD, Write, people

N_ROWS = 240
TWELVE = {**FILES, **CHANGED}


@dataclass(frozen=True, kw_only=True)
class ByMessyFile(ByFile):
    """From a file that is written in a way of its own, by the schema that somebody gives for it."""

    write: Write
    schema_for: Callable[[Path], Path]

    def __call__(self, table, place, settings):
        path, out = self.write(place, list(table.rows)), place / FOLDER
        shown = self.fit(path, self.schema_for(path), out, settings)
        return {**files_of(out), **shown}


@pytest.fixture
def proposed(run, tmp_path):
    """A schema as the command proposes it from a file."""

    def call(table: Path, *options) -> Path:
        found = run("schema", table, "--label", "approved", "--sensitive", "sex", *options)
        assert found.code == 0, found.err
        (tmp_path / "schema.yaml").write_text(found.out, encoding="utf-8")
        return tmp_path / "schema.yaml"

    return call


def replayed(name, place, schema_for, *, seed=1):
    """A short run on a file, replayed with an odd row more, with it removed again, and with a typical one more."""
    write, rows = TWELVE[name][0], people(N_ROWS)
    way = ByMessyFile(fit=fit_as_command, write=write, schema_for=schema_for)
    route = replace(route_of("dpsgd", "file", fit_as_command, quick=True), way=way)
    audit = pairs._Route(method="dpsgd", route=route, seed=seed, place=place)
    audit.base = Table(rows=tuple(rows))
    odd = {**rows[0], **ODD, "person": "another"}
    with pairs.on_one_day():
        return audit.on(
            [
                Neighbour(name="the same table", row=None),
                Neighbour(name="an odd row", row=odd),
                Neighbour(name="a typical row", row={**rows[1], "person": "one more"}),
            ]
        )


@pytest.mark.more
@pytest.mark.parametrize("name", TWELVE)
def test_one_odd_row_more_or_less_changes_nothing_that_is_not_accounted(proposed, tmp_path, name):
    write, options = TWELVE[name]
    (tmp_path / "first").mkdir()
    schema = proposed(write(tmp_path / "first", people(N_ROWS)), *options)
    for seed in range(1, 8):
        report = replayed(name, tmp_path, lambda path: schema, seed=seed)
        assert [(violation.neighbour, violation.found) for violation in report.violations] == []
        # Itself, one row more twice, and one less.
        assert (report.neighbours, report.refused) == (4, 0)
        assert report.files >= 4 * 5
        if report.in_batches:
            return
    pytest.fail("no row was ever in a batch, so that nothing was tested")


@pytest.mark.more
@pytest.mark.parametrize("name", TWELVE)
def test_that_replay_notices_a_schema_that_is_read_from_the_rows(proposed, tmp_path, name):
    """Negative control: bounds and categories from the file at hand, the odd row among them."""
    report = replayed(name, tmp_path, lambda path: proposed(path, *TWELVE[name][1]))
    assert {violation.neighbour for violation in report.violations} >= {"added: an odd row"}
    assert not [violation for violation in report.violations if violation.neighbour == "the same table"]
