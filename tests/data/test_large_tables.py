"""A model from a file that is read in batches, to the last bit that of the same rows in memory as a whole."""

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import yaml

from cli_cases import SCHEMA, people
from fairdp import records
from fairdp.classifier import FairDPClassifier
from fairdp.data import grouped as splits
from fairdp.data import tables
from fairdp.data.grouped import split_by_own_coin
from fairdp.data.schema import read_schema
from fairdp.fitting import fit_source
from fairdp.ledger.ledger import Ledger
from fairdp.records import Source, new_split_key

pytestmark = pytest.mark.usefixtures("rough_bounds")

SETTINGS = {"epsilon": 2.0, "n_steps": 20, "sample_rate": 0.2, "random_state": 0}


@pytest.fixture(params=["csv", "parquet"])
def source(request, tmp_path) -> Source:
    """Two hundred people, some of them equal, and their schema."""
    frame = people(200).round({"age": -1})
    path = tmp_path / f"people.{request.param}"
    frame.to_csv(path, index=False) if request.param == "csv" else frame.to_parquet(path)
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    return Source(
        table=path,
        dataset=None,
        label=None,
        positive=None,
        sensitive=(),
        schema=tmp_path / "schema.yaml",
        test_fraction=0.2,
    )


def fitted_from_file(source: Source, out) -> FairDPClassifier:
    fit_source(source, SETTINGS, out=out)
    return FairDPClassifier.load(out)


def fitted_from_memory(source: Source) -> FairDPClassifier:
    """The whole frame, the whole matrix, and parts that are copies."""
    schema = read_schema(source.schema)
    whole = tables.encode_table(tables.read_table(source.table), schema)
    key = int.from_bytes(new_split_key(SETTINGS["random_state"]), "little")
    train, _ = split_by_own_coin(whole, seed=key, share=source.test_fraction)
    return FairDPClassifier(**SETTINGS).fit_grouped(train, feature_schema=schema.to_dict())


def in_small_parts(monkeypatch, rows: int) -> None:
    """Read so many rows, and move and hash one record, at a time."""
    monkeypatch.setattr(tables, "encode_file", functools.partial(tables.encode_file, rows=rows))
    monkeypatch.setattr(splits, "_CHUNK", 1)


def assert_same_model(one: FairDPClassifier, other: FairDPClassifier) -> None:
    np.testing.assert_array_equal(one.score_model_.params.numpy(), other.score_model_.params.numpy(), strict=True)
    assert one.certificate_.counts == other.certificate_.counts
    assert one.privacy_.to_dict() == other.privacy_.to_dict()


@pytest.mark.parametrize("rows", [7, 50_000])
def test_a_model_from_batches_is_the_model_from_the_whole(source, tmp_path, monkeypatch, rows):
    expected = fitted_from_memory(source)
    in_small_parts(monkeypatch, rows)
    assert_same_model(fitted_from_file(source, tmp_path / "model"), expected)


def with_other_order(encode: Callable) -> Callable:
    """The first ten records backwards."""
    order = np.arange(200)
    order[:10] = order[9::-1]

    def encoded(path, schema, **options):
        return encode(path, schema, **options).take(order)

    return encoded


def with_another_part(data, *, seed, share):
    """Parts of the same records, some of which change sides."""
    return split_by_own_coin(data, seed=seed + 1, share=share)


def test_that_check_notices_another_order_and_another_split(source, tmp_path, monkeypatch):
    expected = fitted_from_memory(source)
    for module, name, broken in (
        (tables, "encode_file", with_other_order(tables.encode_file)),
        (records, "split_by_own_coin", with_another_part),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, broken)
            model = fitted_from_file(source, tmp_path / name)
        with pytest.raises(AssertionError):
            assert_same_model(model, expected)


def test_every_row_is_used_once(source, tmp_path, monkeypatch):
    in_small_parts(monkeypatch, 7)
    report = fit_source(source, SETTINGS, ledger=tmp_path / "ledger")
    assert report.n_train + report.n_certify + report.n_test == 200
    with Ledger(tmp_path / "ledger") as ledger:
        (entry,) = ledger.entries()
    assert {view.n_records for view in entry.views.values()} == {report.n_train + report.n_certify}


def test_records_that_others_hold_stay_as_they_are(source):
    """Records from `load_records` may be trained on again, as comparisons do; only `fairdp fit` lets them go."""
    loaded = records.load_records(source)
    assert not loaded.train.may_consume
    before = loaded.train.X.copy()
    FairDPClassifier(**SETTINGS).fit_grouped(loaded.train)
    np.testing.assert_array_equal(loaded.train.X, before)
    FairDPClassifier(**SETTINGS).fit_grouped(replace(loaded.train, may_consume=True))
    assert (before != loaded.train.X).any()
