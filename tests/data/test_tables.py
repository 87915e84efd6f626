"""Tables in files, whole and broken."""

import pandas as pd
import pytest
import yaml

from fairdp.data.tables import load_table, read_table

CSV = "age,sex,y\n30,Male,no\n40,Female,yes\n50,Male,yes\n"
SCHEMA = {
    "label": "y",
    "positive": "yes",
    "negative": "no",
    "sensitive": [{"name": "sex", "groups": ["Female", "Male"]}],
    "columns": [{"name": "age", "type": "numeric", "low": 20, "high": 60}],
}


def test_csv_and_parquet_give_the_same_table(write, tmp_path):
    frame = read_table(write(CSV))
    assert frame.columns.tolist() == ["age", "sex", "y"]
    # As text: what a cell means is for the schema to say, not for the other cells.
    assert frame["age"].tolist() == ["30", "40", "50"]
    frame.to_parquet(tmp_path / "table.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "table.parquet"), frame)


def test_load_without_a_schema_says_that_it_read_one(write):
    header, rows = CSV.split("\n", 1)
    table = load_table(write(f"{header}\n{10 * rows}"), label="y", sensitive=["sex"])
    assert not table.schema.declared
    assert any("count as public" in note for note in table.notes)
    assert table.data.group_names == ("Female", "Male")
    assert table.data.groups.tolist() == 10 * [1, 0, 1]
    assert table.data.y.tolist() == 10 * [0, 1, 1]
    with pytest.raises(ValueError, match=r"can be an input: column 'age' is left out: no 10 rows share a value\.$"):
        load_table(write(CSV), label="y", sensitive=["sex"])


def test_load_with_a_declared_schema(write):
    schema_path = write(yaml.safe_dump(SCHEMA), "schema.yaml")
    table = load_table(write(CSV), label="y", sensitive=["sex"], schema_path=schema_path, positive="yes")
    assert table.schema.declared
    assert table.notes == ()
    assert table.data.X.ravel().tolist() == [0.25, 0.5, 0.75]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "age"}, r"^label is 'age', but the schema says 'y'; make them agree"),
        ({"sensitive": ["age"]}, r"^sensitive is age, but the schema says sex; make them agree"),
        ({"positive": "no"}, r"^positive is 'no', but the schema says 'yes'; make them agree"),
    ],
)
def test_arguments_that_contradict_the_schema_are_refused(write, arguments, message):
    schema_path = write(yaml.safe_dump(SCHEMA), "schema.yaml")
    with pytest.raises(ValueError, match=message):
        load_table(write(CSV), **{"label": "y", "sensitive": ["sex"], "schema_path": schema_path, **arguments})
