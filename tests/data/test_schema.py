"""The schema of a table: columns, encoding, files and every refusal."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml

from cli_cases import SCHEMA as PEOPLE
from fairdp._io import plain_yaml
from fairdp.data.cells import days_of, numbers_of
from fairdp.data.schema import Binned, Categorical, Numeric, OtherThan, TableSchema, read_schema
from fairdp.errors import DataError

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


def test_numeric_is_clipped_and_scaled_to_the_declared_bounds():
    column = Numeric(name="age", low=20, high=60)
    assert column.encode(pd.Series([0, 20, 30, 60, 99])).ravel().tolist() == [0, 0, 0.25, 1, 1]
    assert column.encode(pd.Series([-np.inf, np.inf])).ravel().tolist() == [0, 1]


def test_signed_log_by_hand():
    # log1p(99) = 2 log 10 and log1p(9) = log 10, so 9 is at 3/4 and -9 at 1/4 of [-99, 99].
    column = Numeric(name="money", low=-99, high=99, transform="signed_log")
    encoded = column.encode(pd.Series([-99, -9, 0, 9, 99])).ravel()
    np.testing.assert_allclose(encoded, [0, 0.25, 0.5, 0.75, 1], atol=1e-7)


def test_a_missing_number_is_the_middle_and_marked_or_refused_if_declared_so():
    values = pd.Series([2.0, np.nan], name="x")
    with pytest.raises(ValueError, match=r"^column 'x' has 1 missing values, the first in row 2; declare missing"):
        Numeric(name="x", low=0, high=2, missing="error").encode(values)
    assert Numeric(name="x", low=0, high=2).encode(values).tolist() == [[1], [0.5]]
    column = Numeric(name="x", low=0, high=2, missing="indicator")
    assert column.feature_names == ("x", "x=?")
    assert column.encode(values).tolist() == [[1, 0], [0.5, 1]]


def test_dates_count_in_days_as_text_and_as_dates():
    column = Numeric(name="d", low=0, high=10)
    texts = pd.Series(["1970-01-01", "1970-01-06", None])
    for values in (texts, pd.to_datetime(texts), pd.to_datetime(texts, utc=True)):
        assert column.encode(values.iloc[:2]).ravel().tolist() == [0, 0.5]
        assert np.isnan(numbers_of(values)[2])
    assert days_of(pd.Timestamp("1970-01-06")) == 5


def test_a_word_is_no_number_and_counts_as_missing():
    values = pd.Series([1, "old"], name="age")
    with pytest.raises(ValueError, match=r"^column 'age' holds 'old' in row 2, which is not a number; correct it\.$"):
        Numeric(name="age", low=0, high=1, missing="error").encode(values)
    column = Numeric(name="age", low=0, high=1, missing="indicator")
    cells, treated = column.read(values)
    assert [each.tolist() for each in cells] == [[1, 0.5], [False, True]]
    assert column.encode(values).tolist() == [[1, 0], [0.5, 1]]
    assert treated.counts == {"unreadable": 1}
    for column in (Numeric(name="age", low=0, high=1), Binned(name="age", edges=(0.5,))):
        assert column.read(values)[1] == treated


@pytest.mark.parametrize("n_words", [1, 5])
def test_words_are_missing_however_many_there_are(n_words):
    """The type of a column is declared: it does not follow the majority of its cells."""
    column = Numeric(name="x", low=0, high=1, missing="indicator")
    features = column.encode(pd.Series(["1", *["word"] * n_words], dtype=object))
    assert features.tolist() == [[1, 0], *[[0.5, 1]] * n_words]


@pytest.mark.parametrize("column", [Numeric(name="x", low=0, high=1), Categorical(name="x", categories=("a", "b"))])
def test_no_rows_have_no_features(column):
    assert column.encode(pd.Series([], dtype=float)).shape == (0, len(column.feature_names))


@pytest.mark.parametrize("dtype", [object, "string[pyarrow]"])
def test_declared_words_and_numbers_are_missing_in_their_column(dtype):
    values = pd.Series(["5", "-9", "-9.0", "unknown", "much", "", "11", "9999-12-31"], dtype=dtype)
    column = Numeric(name="x", low=0, high=10, missing="indicator", missing_words=("unknown", "-9", "9999-12-31"))
    (_, indicators), treated = column.read(values)
    assert indicators.tolist() == [0, 1, 1, 1, 1, 1, 0, 1]
    assert treated.counts == {"missing": 5, "unreadable": 1, "out_of_range": 1}
    words = Categorical(name="c", categories=("a", "rest", "?"), other="rest", missing_words=("-", "9"))
    (found,), treated = words.read(pd.Series(["a", "-", "9.0", "b", ""], dtype=dtype))
    assert found.tolist() == [1, 3, 3, 2, 3]
    assert treated.counts == {"missing": 3, "undeclared": 1}
    with pytest.raises(ValueError, match=r"^column 'c': 'a' is both a category and one of the missing words\.$"):
        Categorical(name="c", categories=("a",), missing_words=("a",))


def test_categorical_is_one_hot_whatever_type_the_reader_chose():
    column = Categorical(name="code", categories=("1", "2"))
    for values in ([1, 2, 1], [1.0, 2.0, 1.0], ["1", "2", "1"], [1, "2", 1.0]):
        assert column.encode(pd.Series(values)).tolist() == [[1, 0], [0, 1], [1, 0]]
    assert column.feature_names == ("code=1", "code=2")


def places(cells: list, *categories: str, other: str = "") -> list[int]:
    column = Categorical(name="code", categories=categories, other=other)
    return column.encode(pd.Series(cells, dtype=object)).argmax(axis=1).tolist()


def test_a_code_with_zeros_is_itself_and_only_otherwise_a_number():
    assert places(["01", "1", "1.0", 1, "001"], "1", "01") == [1, 0, 0, 0, 0]
    assert places(["01", "1.0", 1, True], "1", "True") == [0, 0, 0, 1]
    # The number 1 may be many codes.
    assert places(["01", "1", 1, "0A"], "01", "rest", other="rest") == [0, 1, 1, 1]


def test_declared_values_may_be_written_in_other_ways_too():
    assert places([1, "1", "1.0", "01"], "1.0", "2") == [0, 0, 0, 0]
    assert places([True, "TRUE", "true", False], "true", "false") == [0, 0, 0, 1]
    assert places(["1", "1.0"], "1.0", "1") == [1, 0]
    assert places([pd.Timestamp("2020-01-05"), "2020/1/5", "2020-01-05"], "2020-01-05 00:00:00", "x") == [0, 0, 0]


def test_a_word_for_missing_values_is_a_value_where_it_is_declared():
    assert places(["NA", "DE", "", None, "N/A"], "DE", "NA", "?") == [1, 0, 2, 2, 2]
    assert OtherThan(name="x", value="None").encode(pd.Series(["None", "some"])).ravel().tolist() == [0, 1]
    schema = TableSchema(
        columns=(OtherThan(name="x", value="1"),),
        label="y",
        positive="1",
        negative="NA",
        sensitive=("s",),
        groups=(("None", "?"),),
    )
    frame = pd.DataFrame({"x": ["1"] * 2, "y": ["1", "NA"], "s": ["?", "None"]})
    assert schema.encode_labels(frame).tolist() == [1, 0]
    assert schema.encode_groups(frame)[0].tolist() == [1, 0]
    # A protected column must be filled, even where "?" is one of its groups, unless it says what others count as.
    with pytest.raises(ValueError, match=r"^column 's' has 1 missing values, the first in row 1; .*'other: unknown'"):
        schema.encode_groups(frame.assign(s=["", "?"]))


def test_missing_category_is_the_question_mark_if_declared():
    values = pd.Series(["a", None, "?"], name="c")
    assert Categorical(name="c", categories=("?", "a")).encode(values).tolist() == [[0, 1], [1, 0], [1, 0]]
    rest = Categorical(name="c", categories=("a", "rest"), other="rest")
    assert rest.encode(values).tolist() == [[1, 0], [0, 1], [0, 1]]
    assert Categorical(name="c", categories=("a",)).encode(values).tolist() == [[1], [0], [0]]


def test_an_unknown_category_is_other_or_missing_or_none():
    values = pd.Series(["White", "Martian", None])
    for categories, other, expected in (
        (("White", "rest", "?"), "rest", [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        (("White", "?"), "", [[1, 0], [0, 1], [0, 1]]),
        (("White", "Black"), "", [[1, 0], [0, 0], [0, 0]]),
    ):
        column = Categorical(name="race", categories=categories, other=other)
        treated = column.read(values)[1]
        assert column.encode(values).tolist() == expected
        assert treated.counts == {"missing": 1, "undeclared": 1}


def test_lists_are_no_categories():
    with pytest.raises(ValueError, match=r"^column 'c' holds lists or objects"):
        Categorical(name="c", categories=("a",)).encode(pd.Series([["a"], ["b"]], name="c"))


def test_bins_by_hand():
    column = Binned(name="age", edges=(25, 35))
    assert column.encode(pd.Series([24, 25, 34.9, 35])).argmax(axis=1).tolist() == [0, 1, 1, 2]
    assert column.feature_names == ("age in [-inf, 25)", "age in [25, 35)", "age in [35, inf)")
    assert column.encode(pd.Series([1, None])).tolist() == [[1, 0, 0], [0, 0, 0]]


def test_other_than_is_one_where_the_value_differs():
    column = OtherThan(name="country", value="US")
    assert column.encode(pd.Series(["US", "?", "Peru"])).ravel().tolist() == [0, 1, 1]
    (indicators,), treated = column.read(pd.Series(["US", None]))
    assert indicators.tolist() == [0, 0]
    assert treated.counts == {"missing": 1}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Numeric(name="x", low=2, high=1), r"^column 'x' needs finite bounds with low < high, got low=2"),
        (lambda: Numeric(name="x", low=0, high=np.inf), r"^column 'x' needs finite bounds"),
        (lambda: Numeric(name="x", low=0, high=1, transform="log"), r"^transform must be one of linear, signed_log"),
        (lambda: Numeric(name="x", low=0, high=1, missing="drop"), r"^missing must be one of error, indicator, middle"),
        (lambda: Categorical(name="x", categories=()), r"^column 'x' needs distinct categories"),
        (lambda: Categorical(name="x", categories=("a", "a")), r"^column 'x' needs distinct categories"),
        (lambda: Binned(name="x", edges=(2, 1)), r"^column 'x' needs increasing edges"),
    ],
)
def test_impossible_columns_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_other_values_count_as_the_declared_one_whatever_stands_above_them():
    for cells in (["x"], ["a", "x"], ["b", "x"], ["b", "a", "x"], ["y", "x"]):
        assert places(cells, "a", "b", "rest", other="rest")[-1] == 2


LAUGHS = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
REFUSED = {
    "nested aliases": (LAUGHS, r"^has an alias in line 2; write out what it stands for$"),
    "an alias of itself": ("a: &a [*a]", "alias"),
    "merged keys": ("a: &a {x: 1}\nb: {<<: *a}", "alias"),
    "deep lists": ("[" * 100_000, r"^is nested too deeply in line 1$"),
    "deep entries": ("- " * 100_000, "nested too deeply"),
    "deep mappings": ("{a: " * 50 + "1" + "}" * 50, "nested too deeply"),
    "many values": ("[" + "x," * 140_000 + "]", r"^has more than 131072 values$"),
    "a large file": ("#" * (2**21 + 1), r"^has 2097153 bytes"),
    "a long number": ("a: " + "9" * 5000, r"^has a value of 5000 characters in line 1; put it in quotes$"),
    "a key twice": ("a: 1\n'a': 2", r"^says 'a' twice in line 2; leave one out$"),
    "a key twice, further in": ("x: [{a: 1, b: {a: 1}, a: 2}]", "says 'a' twice"),
    "no date": ("a: 2020-13-45", "neither YAML nor JSON"),
    "tagged as a date": ("!!timestamp x", "neither YAML nor JSON"),
    "tagged as a number": ("!!int ''", "neither YAML nor JSON"),
    "an object": ("!!python/object:os.system x", r"^is neither YAML nor JSON: line 1 cannot be read$"),
    "a zero byte": ("a: \x00", "cannot be read"),
    "a list as a key": ("? [a]\n: b", "cannot be read"),
    "two documents": ("a: 1\n---\nb: 2", "cannot be read"),
}


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(text, why):
    with pytest.raises(DataError, match=why):
        plain_yaml(text.encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
def test_other_encodings_are_refused(encoding):
    with pytest.raises(DataError, match="its text cannot be read"):
        plain_yaml("name: é".encode(encoding))


@pytest.mark.parametrize(
    "text", ["a: 1\nb: [a, a, {a: a}]", "", "\ufeffa: 1", "[{a: 1}, {a: 1}]", "a: a", "? a\n: [b]\n? b\n: a"]
)
def test_the_rest_is_what_yaml_says(text):
    """Negative control: it is what is said twice that is refused, not what is there twice."""
    assert plain_yaml(text.encode()) == yaml.safe_load(text)


def schema_with(**changes):
    return {**PEOPLE, **changes}


def column(**entry):
    return schema_with(columns=[{"name": "age", "type": "numeric", "low": 0, "high": 1, **entry}])


FORGED = {
    "a type that is a list": column(type=["numeric"]),
    "a huge bound": column(high=16**700),
    "a range beyond all floats": column(low=-1e308, high=1e308),
    "an edge that is none": schema_with(columns=[{"name": "age", "type": "binned", "edges": [0, float("nan"), 1]}]),
    "an infinite edge": schema_with(columns=[{"name": "age", "type": "binned", "edges": [0, float("inf")]}]),
    "groups without number": schema_with(
        sensitive=[{"name": f"s{i}", "groups": [f"g{j}" for j in range(100)]} for i in range(20)]
    ),
    "a long list in the place of a word": schema_with(label=["x"] * 10_000),
}


@pytest.mark.parametrize("content", FORGED.values(), ids=FORGED)
def test_a_forged_schema_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(DataError, match=r"^schema '.*schema.yaml': [^\n]{1,1000}\.$"):
        read_schema(tmp_path / "schema.yaml")


def test_names_of_columns_are_kept_to_the_last_blank(tmp_path):
    content = column(name=" age ") | {"label": " y", "sensitive": [{"name": "sex ", "groups": ["f", "m"]}]}
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(content))
    schema = read_schema(tmp_path / "schema.yaml")
    assert (schema.columns[0].name, schema.label, schema.sensitive) == (" age ", " y", ("sex ",))
    assert type(schema).from_dict(schema.to_dict()) == schema
