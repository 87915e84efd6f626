"""One more row in a file, with a code that is no number: everybody else is read, trained on and decided as before."""

import numpy as np
import pandas as pd
import pytest
import yaml

from fairdp.commands import predict
from fairdp.commands.fit import run_fit
from fairdp.commands.fit_task import FitTask
from fairdp.commands.predict import run_predict
from fairdp.commands.records import Source
from fairdp.data.schema import read_schema
from fairdp.data.tables import encode_file, encode_table, encoded_batches, read_table

SCHEMA = {
    "label": "y",
    "positive": "1",
    "negative": "0",
    "sensitive": [{"name": "region", "groups": ["01", "02", "rest"], "other": "rest"}],
    "columns": [
        {
            "name": "code",
            "type": "categorical",
            "categories": ["01", "02", "03", "04", "05", "other"],
            "other": "other",
        },
        {"name": "age", "type": "numeric", "low": 18, "high": 90, "missing": "indicator"},
    ],
}
ODD_ROW = "0A,,0A,1,p-odd\n"


def people(n_rows: int = 400) -> str:
    """The code says who is positive."""
    rng = np.random.default_rng(0)
    codes, ages, regions = rng.integers(1, 6, n_rows), rng.integers(18, 90, n_rows), rng.integers(1, 4, n_rows)
    rows = zip(codes, ages, regions, strict=True)
    lines = [f"0{c},{a},0{r},{int(c > 2)},{i:04d}\n" for i, (c, a, r) in enumerate(rows)]
    return "code,age,region,y,person\n" + "".join(lines)


@pytest.fixture
def schema_path(write):
    return write(yaml.safe_dump(SCHEMA), "schema.yaml")


@pytest.fixture
def files(write):
    """The people, and the same with one more, in front and behind."""
    header, rows = people().split("\n", 1)
    return (
        write(people(), "without.csv"),
        write(f"{header}\n{ODD_ROW}{rows}", "before.csv"),
        write(people() + ODD_ROW, "after.csv"),
    )


def assert_others_are_the_same(encode, without, before, after) -> None:
    expected, first, last = (encode(path) for path in (without, before, after))
    for name in ("X", "y", "groups"):
        np.testing.assert_array_equal(getattr(first, name)[1:], getattr(expected, name), strict=True)
        np.testing.assert_array_equal(getattr(last, name)[:-1], getattr(expected, name), strict=True)


def test_everybody_else_is_encoded_as_before(files, schema_path):
    schema = read_schema(schema_path)
    assert_others_are_the_same(lambda path: encode_file(path, schema), *files)
    assert_others_are_the_same(lambda path: encode_table(read_table(path), schema), *files)
    encoded = encode_file(files[2], schema)
    assert encoded.X[:, :6].sum(axis=0)[5] == 1
    assert encoded.X[-1].tolist() == [0, 0, 0, 0, 0, 1, 0.5, 1]
    assert encoded.group_names[encoded.groups[-1]] == "rest"
    parts = np.concatenate([batch.X for batch in encoded_batches(files[2], schema, rows=7)])
    np.testing.assert_array_equal(parts, encoded.X)


def by_columns(path, written=None) -> pd.DataFrame:
    """A column's type follows from all of its cells."""
    return pd.read_csv(path)


def test_that_check_notices_a_reader_that_types_columns(files, schema_path):
    schema = read_schema(schema_path)
    with pytest.raises(AssertionError):
        assert_others_are_the_same(lambda path: encode_table(by_columns(path), schema), *files)


@pytest.fixture
def model(files, schema_path, tmp_path):
    source = Source(
        table=files[0],
        dataset=None,
        label=None,
        positive=None,
        sensitive=(),
        schema=schema_path,
        test_fraction=0.1,
    )
    parameters = {"epsilon": 8.0, "n_steps": 60, "sample_rate": 0.3, "random_state": 0, "certify_fraction": 0.0}
    run_fit(FitTask(source=source, parameters=parameters, checkpoint=None, resume=False, out=tmp_path / "model"))
    return tmp_path / "model"


def decided(model, path, tmp_path) -> pd.DataFrame:
    run_predict(model, path, tmp_path / "decisions.csv", id_columns=["person"])
    return pd.read_csv(tmp_path / "decisions.csv")


def assert_decisions_are_the_same(model, files, tmp_path) -> None:
    expected, first, last = (decided(model, path, tmp_path) for path in files)
    assert set(expected["decision"]) == {0, 1}
    for found in (first[1:].reset_index(drop=True), last[:-1]):
        pd.testing.assert_series_equal(found["decision"], expected["decision"])
        # Sums over another number of rows may be rounded otherwise.
        np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-5, atol=1e-6)


def test_a_person_gets_the_same_decision_whoever_else_is_in_the_file(model, files, tmp_path, monkeypatch):
    assert_decisions_are_the_same(model, files, tmp_path)
    monkeypatch.setattr(predict, "table_batches", lambda path, written, rows: iter([by_columns(path, written)]))
    with pytest.raises(AssertionError):
        assert_decisions_are_the_same(model, files, tmp_path)
