"""Models of tables that stay in a file: to the last bit those of the same rows in memory, which hardly grows."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from data.test_stored_rows import SCHEMA, frame
from fairdp import _io as _scratch
from fairdp import records
from fairdp import records as measuring
from fairdp.data import grouped, tables
from fairdp.data import grouped as splits
from fairdp.data import grouped as stored_rows
from fairdp.data.grouped import GroupedData, StoredRows, split_by_own_coin
from fairdp.fitting import fit_source
from fairdp.ledger.ledger import Ledger
from fairdp.records import Source, load_records
from fairdp.training import sums as surveys
from fairdp_lab.audit import replay as pairs
from fairdp_lab.audit.replay import ReplayReport
from fairdp_lab.audit.routes import fit_as_command, route_of

ONE = {"certify_metrics": ("demographic_parity",)}
SETTINGS = {"epsilon": 2.0, "n_steps": 6, "sample_rate": 0.2, "random_state": 0, **ONE}
CASES = {
    "default": {},
    "everybody in every step": {"sample_rate": 1.0},
    "equalized odds": {"parity": "equalized_odds"},
    "finer groups": {"method": "dp_is_sgd", "grouping": "attribute_and_label"},
    "dpsgd": {"method": "dpsgd"},
    "dpsgd, parts": {"method": "dpsgd", "max_physical_batch_size": 16, "hidden": (4,)},
    "heads": {"method": "fairdp", "n_members": 3},
    "group optimizers": {"method": "fairdp", "group_optimizers": True},
    "a model for each group": {"method": "dpsgd_smooth"},
    "closed form": {"method": "fairfm"},
    "post-processed": {"method": "dp_postprocess"},
}


@pytest.fixture
def source(tmp_path) -> Source:
    """Every kind of column and of cell, some rows twice, and groups of their own sizes."""
    rows = frame(1200)
    rows.iloc[40:60] = rows.iloc[20:40].to_numpy()
    rows.loc[100:400, "sex"] = "f"
    rows.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA.to_dict()))
    return source_of(tmp_path)


def source_of(folder: Path, cache: Path | None = None, name: str = "people.csv") -> Source:
    return Source(
        table=folder / name,
        dataset=None,
        label=None,
        positive=None,
        sensitive=(),
        schema=folder / "schema.yaml",
        test_fraction=0.2,
        cache=cache,
    )


def published(source: Source, out: Path, settings: dict, ledger: Path | None = None) -> dict[str, bytes]:
    """All files of a model but the one that says when it was made, and what else the command says."""
    report = fit_source(source, settings, out=out, ledger=ledger)
    said = json.dumps([report.n_train, report.n_certify, report.n_test, report.metrics, report.treated], default=str)
    files = {path.name: path.read_bytes() for path in out.iterdir()}
    named = {name: files[name] for name in ("model.safetensors", "certificate.json", "privacy.json")}
    return {**named, "report": said.encode()}


def in_small_parts(monkeypatch) -> None:
    """Stored whatever its size, named and counted in files, and gone through a few records at a time."""
    monkeypatch.setattr(tables, "MOST_IN_MEMORY", 0)
    monkeypatch.setattr(_scratch, "MOST_IN_MEMORY", 0)
    monkeypatch.setattr(splits, "_NAMES", 100)
    monkeypatch.setattr(splits, "_CHUNK", 2**16)


FIRST_TIER = ("default", "dpsgd, parts", "group optimizers")


@pytest.mark.parametrize("case", [pytest.param(c, marks=() if c in FIRST_TIER else pytest.mark.more) for c in CASES])
def test_the_model_is_the_same_however_the_table_is_kept(case, source, tmp_path, monkeypatch):
    settings = {**SETTINGS, **CASES[case]}
    if settings.get("method") == "fairfm":
        settings = {"epsilon": 2.0, "random_state": 0, "method": "fairfm"}
    expected = published(source, tmp_path / "memory", settings)
    assert len(expected) == 4
    in_small_parts(monkeypatch)
    assert published(source, tmp_path / "scratch", settings) == expected
    for name in ("cached", "again"):
        assert published(source_of(tmp_path, tmp_path / "cache"), tmp_path / name, settings) == expected


def _parts_read(monkeypatch) -> list[int]:
    """Number of rows that are inputs at once."""
    seen, original = [], stored_rows.inputs_of

    def counted(cells, widths):
        seen.append(len(cells[0]))
        return original(cells, widths)

    monkeypatch.setattr(stored_rows, "inputs_of", counted)
    return seen


def test_nothing_reads_more_rows_than_a_batch(source, tmp_path, monkeypatch):
    """A step takes a twentieth of them, and everything else so many as it is let."""
    in_small_parts(monkeypatch)
    monkeypatch.setattr(grouped, "MOST_BATCH", 128)
    monkeypatch.setattr(surveys, "_CHUNK", 128)
    seen = _parts_read(monkeypatch)
    published(source, tmp_path / "model", {**SETTINGS, "n_steps": 2, "sample_rate": 0.05})
    assert len(seen) > 30
    assert max(seen) <= 128
    # The check can fail: so does whoever asks for all of them.
    assert isinstance(load_records(source).train.X, StoredRows)
    assert len(load_records(source).train.inputs) == max(seen) > 800


def test_the_ledger_knows_the_same_records_however_the_table_is_kept(source, tmp_path, monkeypatch):
    settings = {**SETTINGS, "method": "dpsgd", "certify_fraction": 0.0}
    for name, kept in (("memory", None), ("scratch", None), ("cached", "cache"), ("again", "cache")):
        published(source_of(tmp_path, kept and tmp_path / kept), tmp_path / name, settings, tmp_path / "ledger.sqlite")
        in_small_parts(monkeypatch)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        entries = ledger.entries()
        assert ledger.check() == 4
    assert len({next(iter(entry.views.values())).digest for entry in entries}) == 1
    # Each equals all that were there before it.
    assert [entry.histories for entry in entries] == [((),), ((1,),), ((1, 2),), ((1, 2, 3),)]


@pytest.mark.parametrize("method", ["fairdp_frontier", "dpsgd"])
def test_removing_a_record_from_a_stored_file_changes_nothing_that_is_not_accounted(method, monkeypatch):
    in_small_parts(monkeypatch)
    report = replayed(method)
    assert [f"{v.route}, {v.neighbour}, {v.release}: {v.found}" for v in report.violations] == []
    assert report.neighbours == 4
    assert report.releases >= 20


def replayed(method: str) -> ReplayReport:
    """From a file, with some records that are added to it or removed from it."""
    route = route_of(method, "file", fit_as_command, quick=True)
    return pairs.replay_route(method, route, seed=1, kinds=("the same table", "typical f", "huge numbers"))


def test_that_replay_notices_rows_that_follow_from_others(monkeypatch):
    in_small_parts(monkeypatch)
    original = tables.encode_rows

    def ranked(rows, schema, **options):
        found = original(rows, schema, **options)
        found["0"] = len(found) % 2
        return found

    monkeypatch.setattr(tables, "encode_rows", ranked)
    assert replayed("dpsgd").violations


def bytes_for_each_row(folder: Path, work: Callable[[Source], object]) -> float:
    """Memory of Python and NumPy per additional row, from two sizes of a table."""
    peaks = []
    for n_rows in (4000, 12_000):
        # Of a text, some megabytes are read ahead.
        frame(n_rows).to_parquet(folder / "people.parquet")
        source = source_of(folder, name="people.parquet")
        tracemalloc.start()
        work(source)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return (peaks[1] - peaks[0]) / 8000


def prepared(source: Source) -> tuple[GroupedData, ...]:
    """All that is done before the first step, with its three parts held."""
    loaded = load_records(source, split_key=bytes(16))
    train, held_out = split_by_own_coin(loaded.train, seed=1, share=0.2)
    measuring.record_hashes(train)
    return loaded.test, train, held_out


def test_a_row_takes_few_bytes_of_memory(tmp_path, monkeypatch):
    """Dense it would take 4 bytes for each of 314 inputs, see the negative control, and some more for copies."""
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA.to_dict()))
    monkeypatch.setattr(grouped, "MOST_BATCH", 256)
    monkeypatch.setattr(tables, "encode_file", _in_batches(tables.encode_file, 500))
    monkeypatch.setattr(records, "encode_file", tables.encode_file)
    dense = bytes_for_each_row(tmp_path, prepared)
    in_small_parts(monkeypatch)
    monkeypatch.setattr(splits, "_NAMES", 1000)
    assert bytes_for_each_row(tmp_path, prepared) < 64
    assert dense > 4 * SCHEMA.n_features


def _in_batches(encode: Callable, n_rows: int) -> Callable:
    return lambda path, schema, **options: encode(path, schema, **{"rows": n_rows, **options})


def test_a_cache_needs_a_schema_and_a_table(run, tmp_path, source):
    for given in (["--dataset", "synthetic"], [source.table, "--label", "y", "--sensitive", "sex"]):
        result = run("fit", *given, "--cache", tmp_path / "cache", "--no-ledger")
        assert result.code == 2
        assert "--cache" in result.err
    assert not (tmp_path / "cache").exists()


def test_the_command_keeps_the_table(answer, tmp_path, source):
    settings = ["--epsilon", 2, "--n-steps", 2, "--sample-rate", 0.2, "--seed", 0, "--certify-fraction", 0]
    for name in ("one", "two"):
        given = [source.table, "--schema", source.schema, *settings]
        answer("fit", *given, "--cache", tmp_path / "cache", "--out", tmp_path / name)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def test_names_and_numbers_of_equal_records_do_not_depend_on_buckets(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.integers(4, size=(3000, 2)).astype(np.float32)
    data = GroupedData(X, rng.integers(2, size=3000), rng.integers(2, size=3000), ("a", "b"))
    expected = splits._chosen_by_own_coin(data, seed=5, share=0.3)
    assert 0.2 < expected.mean() < 0.4
    for n_names in (1000, 64):
        monkeypatch.setattr(splits, "_NAMES", n_names)
        np.testing.assert_array_equal(splits._chosen_by_own_coin(data, seed=5, share=0.3), expected)
    monkeypatch.setattr(splits, "_equals_together", lambda names: (slice(i, i + 64) for i in range(0, 3000, 64)))
    assert (splits._chosen_by_own_coin(data, seed=5, share=0.3) != expected).any()
