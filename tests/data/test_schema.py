"""The schema of a table: encoding, files and every refusal."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fairdp.data.schema import Binned, Categorical, Numeric, OtherThan, TableSchema, read_schema

SCHEMA = TableSchema(
    columns=(
        Numeric(name="age", low=0, high=100, missing="indicator"),
        Numeric(name="income", low=-1000, high=1000, transform="signed_log"),
        Categorical(name="job", categories=("a", "b", "?")),
        Binned(name="hours", edges=(20, 40)),
        OtherThan(name="country", value="US"),
    ),
    label="y",
    positive="yes",
    negative="no",
    sensitive=("sex", "race"),
    groups=(("Female", "Male"), ("Black", "White", "Other")),
)
FRAME = pd.DataFrame(
    {
        "age": [20.0, np.nan, 50.0],
        "income": [0.0, 1000.0, -5.0],
        "job": ["a", None, "b"],
        "hours": [10, 20, 60],
        "country": ["US", "Peru", "US"],
        "y": ["yes", "no", "yes"],
        "sex": ["Male", "Female", "Female"],
        "race": ["White", "Black", "Other"],
    }
)


def test_encode_by_hand():
    X = SCHEMA.encode(FRAME)
    assert X.dtype == np.float32
    assert X.shape == (3, SCHEMA.n_features) == (3, len(SCHEMA.feature_names)) == (3, 10)
    np.testing.assert_allclose(X[0], [0.2, 0, 0.5, 1, 0, 0, 1, 0, 0, 0])
    np.testing.assert_allclose(X[1], [0.5, 1, 1, 0, 0, 1, 0, 1, 0, 1])


def test_labels_and_groups_by_hand():
    assert SCHEMA.encode_labels(FRAME).tolist() == [1, 0, 1]
    codes, names = SCHEMA.encode_groups(FRAME)
    assert names[:3] == ("Female & Black", "Female & White", "Female & Other")
    assert len(names) == 6
    assert [names[code] for code in codes] == ["Male & White", "Female & Black", "Female & Other"]


def test_single_protected_column_names_groups_by_its_values():
    schema = TableSchema(**{**vars(SCHEMA), "sensitive": ("sex",), "groups": (("Female", "Male", "Divers"),)})
    codes, names = schema.encode_groups(FRAME)
    # A declared group without a record is allowed here.
    assert names == ("Female", "Male", "Divers")
    assert codes.tolist() == [1, 0, 0]


def rows(draw_size: int = 12):
    row = st.fixed_dictionaries(
        {
            "age": st.one_of(st.none(), st.floats(-1e6, 1e6)),
            "income": st.floats(-1e9, 1e9),
            "job": st.sampled_from(["a", "b", None]),
            "hours": st.integers(0, 100),
            "country": st.sampled_from(["US", "Peru", "?"]),
        }
    )
    return st.lists(row, min_size=1, max_size=draw_size)


def assert_rows_are_encoded_alone(encode, frame: pd.DataFrame, kept: list[int]) -> None:
    """Encoding some rows gives the same numbers as taking them from the encoded table."""
    np.testing.assert_array_equal(encode(frame.iloc[kept]), encode(frame)[kept])


@settings(max_examples=60, deadline=None)
@given(records=rows(), data=st.data())
def test_encoding_a_row_needs_no_other_row(records, data):
    frame = pd.DataFrame(records).astype({"age": float})
    kept = data.draw(st.lists(st.integers(0, len(frame) - 1), max_size=8))
    assert_rows_are_encoded_alone(SCHEMA.encode, frame, kept)


def test_a_year_is_a_number_beside_dates_too():
    schema = TableSchema(**{**vars(SCHEMA), "columns": (Numeric(name="when", low=0, high=30_000),)})
    assert_rows_are_encoded_alone(schema.encode, pd.DataFrame({"when": ["2020", "2020-01-05", "7.5"]}), [0, 2])


def test_that_check_notices_standardising_by_the_mean():
    def standardised(frame: pd.DataFrame):
        hours = frame["hours"].to_numpy(dtype=float)
        return hours - hours.mean()

    with pytest.raises(AssertionError):
        assert_rows_are_encoded_alone(standardised, FRAME, [0, 1])


def test_schema_survives_plain_values_json_and_yaml(tmp_path):
    assert TableSchema.from_dict(SCHEMA.to_dict()) == SCHEMA
    assert TableSchema.from_dict(json.loads(json.dumps(SCHEMA.to_dict()))) == SCHEMA
    for name, text in (("s.json", json.dumps(SCHEMA.to_dict())), ("s.yaml", yaml.safe_dump(SCHEMA.to_dict()))):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_schema(tmp_path / name) == SCHEMA
    undeclared = TableSchema(**{**vars(SCHEMA), "declared": False})
    assert TableSchema.from_dict(undeclared.to_dict()) == undeclared


WRITTEN_BY_HAND = """
label: y
positive: 1
negative: 0
sensitive:
  - {name: sex, groups: [1, 2]}
columns:
  - {name: born, type: numeric, low: 1970-01-01, high: 1970-01-11}
  - {name: job, type: categorical, categories: [a, "no"]}
  - {name: hours, type: binned, edges: [20, 40]}
"""


def test_a_file_written_by_hand(tmp_path):
    (tmp_path / "schema.yaml").write_text(WRITTEN_BY_HAND)
    schema = read_schema(tmp_path / "schema.yaml")
    assert schema.declared
    assert (schema.positive, schema.groups) == ("1", (("1", "2"),))
    assert schema.columns[0] == Numeric(name="born", low=0, high=10)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("label: y", "label: y\nlable: y", r"schema has the unknown key 'lable'; it may have label, positive"),
        ("label: y", "", r"schema lacks the key 'label'"),
        ("low: 1970-01-01, ", "", r"column 'born' lacks the key 'low'"),
        ("edges: [20, 40]", "edges: [20, 40], width: 3", r"column 'hours' has the unknown key 'width'"),
        ("edges: [20, 40]", "edges: 20", r"column 'hours': edges must be a list, got 20"),
        ("edges: [20, 40]", "edges: [a, b]", r"column 'hours': edges must be a number or a date, got 'a'"),
        ('"no"', "no", r"column 'job': categories was read as the truth value False; put it in quotes"),
        ('"no"', "[x]", r"column 'job': categories must be one word or number"),
        ("type: binned", "type: bins", r"every column needs a name and a type \(numeric, categorical"),
        ("- {name: sex, groups: [1, 2]}", "sex: [1, 2]", r"sensitive must be a list, got {'sex': \[1, 2\]}"),
        ("{name: sex, groups: [1, 2]}", "sex", r"each entry of sensitive must be a mapping"),
        ("groups: [1, 2]", "values: [1, 2]", r"each entry of sensitive has the unknown key 'values'"),
        ("groups: [1, 2]", "groups: [1, 1]", r"column 'sex' needs distinct categories"),
        ("name: sex", "name: job", r"column 'job' is named twice"),
        ("positive: 1", "positive: 0", r"positive and negative must differ"),
        ("label: y", 'label: y\ndeclared: "false"', r"declared must be true or false, without quotes, got 'false'\.$"),
        ("label: y", "label: y\ndeclared: 0", r"declared must be true or false, without quotes, got 0\.$"),
        ("label: y", "label: y\ndeclared:", r"declared must be true or false, without quotes, got None\.$"),
        ("label: y", "label: {", r"is neither YAML nor JSON: line \d+ cannot be read"),
        (WRITTEN_BY_HAND, "", r"schema is empty; write it again"),
        (WRITTEN_BY_HAND, "just words", r"schema must be a mapping of names to values, got str"),
    ],
)
def test_malformed_files_are_refused_in_one_line(tmp_path, old, new, message):
    path = tmp_path / "schema.yaml"
    path.write_text(WRITTEN_BY_HAND.replace(old, new))
    with pytest.raises(ValueError, match=message) as caught:
        read_schema(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("written", "declared"), [("true", True), ("false", False)])
def test_only_truth_values_say_whether_a_schema_is_declared(tmp_path, written, declared):
    (tmp_path / "schema.yaml").write_text(f"{WRITTEN_BY_HAND}declared: {written}\n")
    assert read_schema(tmp_path / "schema.yaml").declared is declared


def test_missing_schema_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"does not exist\.$"):
        read_schema(tmp_path / "none.yaml")


def test_columns_must_be_a_list_and_not_empty():
    with pytest.raises(ValueError, match="columns must be a list"):
        TableSchema.from_dict({**SCHEMA.to_dict(), "columns": "age"})
    with pytest.raises(ValueError, match="at least one input"):
        TableSchema.from_dict({**SCHEMA.to_dict(), "columns": []})


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME.drop(columns="hours"), r"^the table has no column 'hours'; it has age, income, job"),
        (FRAME.rename(columns={"hours": "Hours"}), r"^the table has no column 'hours'; did you mean 'Hours'\?$"),
    ],
)
def test_bad_inputs_are_refused(frame, message):
    with pytest.raises(ValueError, match=message):
        SCHEMA.encode(frame)


def test_missing_or_unknown_labels_and_groups_are_refused():
    with pytest.raises(
        ValueError, match=r"^column 'y' has 1 missing values, the first in row 2; a label is 'no' or 'yes'"
    ):
        SCHEMA.encode_labels(FRAME.assign(y=["yes", None, "no"]))
    with pytest.raises(ValueError, match=r"^column 'y' holds 'maybe' in row 2, which the schema does not declare"):
        SCHEMA.encode_labels(FRAME.assign(y=["yes", "maybe", "no"]))
    with pytest.raises(ValueError, match=r"^column 'sex' has 2 missing values, the first in row 1; .*'other: unknown'"):
        SCHEMA.encode_groups(FRAME.assign(sex=[None, "Male", None]))
    with pytest.raises(ValueError, match=r"^column 'race' holds 'Martian' in row 2, .*'other: unknown'"):
        SCHEMA.encode_groups(FRAME.assign(race=["White", "Martian", "White"]))
