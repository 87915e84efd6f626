"""A schema that is read from a table: types, categories, the positive label, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from fairdp.data.columns import value_meant
from fairdp.data.infer import infer_schema
from fairdp.data.schema import Categorical, Numeric


def many_rows(n_rows: int = 40) -> pd.DataFrame:
    count = np.arange(n_rows)
    return pd.DataFrame(
        {
            "id": [f"client-{i}" for i in count],
            "row": count,
            "amount": np.sqrt(count),
            "code": count % 5,
            "flag": count % 2 == 0,
            "word": pd.Categorical(np.where(count % 3 == 0, "x", "y")),
            "day": [f"2020-01-{1 + i % 28:02d}" for i in count],
            "same": 7,
            "sex": np.where(count % 2 == 0, "Male", "Female"),
            "y": count % 3 // 2,
        }
    )


def test_inference_reads_types_and_says_what_it_leaves_out():
    schema, notes = infer_schema(many_rows(), "y", ["sex"])
    kinds = {column.name: type(column) for column in schema.columns}
    expected = {"amount": Numeric, "code": Numeric, "flag": Categorical, "word": Categorical, "day": Numeric}
    assert kinds == expected
    assert not schema.declared
    assert (schema.positive, schema.negative, schema.groups) == ("1", "0", (("Female", "Male"),))
    assert "count as public" in notes[0]
    for name in ("id", "row", "same"):
        assert any(repr(name) in note and "left out" in note for note in notes)
    assert len(notes) == 4
    X = schema.encode(many_rows())
    assert X.min() == 0
    assert X.max() == 1


def test_inference_is_ready_for_missing_values_whether_or_not_it_meets_any():
    frame = many_rows().astype({"word": object})
    columns = {column.name: column for column in infer_schema(frame, "y", ["sex"])[0].columns}
    assert {columns[name].missing for name in ("amount", "code", "day")} == {"indicator"}
    assert (columns["word"].categories, columns["word"].other) == (("x", "y", "other"), "other")
    frame.loc[:11, "word"] = None
    assert column_of(frame, "word").categories == ("x", "y", "other", "?")
    schema, _ = infer_schema(frame, "y", ["sex"])
    assert schema.encode(frame).shape == (40, schema.n_features)


def test_small_counts_are_numbers_and_codes_are_categories():
    rows = np.arange(60)
    frame = many_rows(60).assign(
        children=rows % 4,
        rooms=1 + rows % 5,
        flag2=rows % 2,
        level=10 * (rows % 3),
        sign=rows % 3 - 1,
        padded="0" + pd.Series(rows % 4).astype(str),
    )
    found = {column.name: column for column in infer_schema(frame, "y", ["sex"])[0].columns}
    assert isinstance(found["children"], Numeric)
    assert (found["rooms"].low, found["rooms"].high) == (1, 5)
    for name in ("flag2", "level", "sign", "padded"):
        assert isinstance(found[name], Categorical), name
    coded = frame.assign(children=pd.Categorical(frame["children"]))
    assert isinstance(column_of(coded, "children"), Categorical)


def test_a_few_words_leave_a_column_of_numbers_one():
    cells = [str(i % 50) for i in range(1000)]
    few = many_rows(1000).assign(x=[*["unknown"] * 30, *["?", "x"], *cells[32:]])
    assert column_of(few, "x") == Numeric(name="x", low=0, high=49, missing="indicator", missing_words=("unknown",))
    schema, _ = infer_schema(few, "y", ["sex"])
    assert schema.encode(few)[:, schema.feature_names.index("x=?")].sum() == 32
    many = many_rows(1000).assign(x=[*["unknown"] * 60, *cells[60:]])
    assert isinstance(column_of(many, "x"), Categorical)


def test_rare_values_are_not_listed_and_an_other_that_is_there_is_taken():
    frame = many_rows(100).assign(job=["clerk"] * 60 + ["nurse"] * 26 + ["Other"] * 11 + ["diver"] * 3)
    assert column_of(frame, "job") == Categorical(name="job", categories=("clerk", "nurse", "Other"), other="Other")
    alone = many_rows(100).assign(job=[f"job {i % 20}" for i in range(100)])
    assert "column 'job' is left out: no 10 rows share a value." in infer_schema(alone, "y", ["sex"])[1]


def test_people_without_a_group_are_one_and_numbers_are_none():
    frame = many_rows(100).astype({"sex": object})
    frame.loc[:4, "sex"] = None
    schema, _ = infer_schema(frame, "y", ["sex"])
    assert (schema.groups, schema.others) == ((("Female", "Male", "unknown"),), ("unknown",))
    assert schema.encode_groups(frame)[0][:5].tolist() == [2] * 5
    with pytest.raises(ValueError, match=r"^protected column 'amount' holds 100 different numbers, .*few ranges"):
        infer_schema(frame, "y", ["amount"])


def test_free_text_with_gaps_and_numbers_of_cases_are_left_out():
    notes = [f"spoke to {i}" if i % 3 else None for i in range(2000)]
    frame = many_rows(2000).assign(note=notes, case=7 * np.arange(2000) + 1000, income=100 * (np.arange(2000) % 900))
    schema, said = infer_schema(frame, "y", ["sex"])
    assert not {"note", "case"} & {column.name for column in schema.columns}
    assert "income" in {column.name for column in schema.columns}
    assert any("'note' is left out: most rows have a value that hardly anybody shares" in line for line in said)
    assert any("'case' is left out" in line for line in said)


def test_of_very_many_values_the_most_frequent_are_listed():
    cities = [f"city {i % 150 if i % 2 else i % 90}" for i in range(6000)]
    column = column_of(many_rows(6000).assign(city=cities), "city")
    counts = pd.Series(cities).value_counts()
    assert (len(column.categories), column.other) == (101, "other")
    assert counts[list(column.categories[:-1])].min() >= counts.drop(list(column.categories[:-1])).max()


def test_inference_orders_codes_as_numbers_and_joins_what_differs_in_blanks():
    frame = many_rows(120).assign(code=5 * (np.arange(120) % 4), sex=["Male", "Female", "Male ", "Female"] * 30)
    schema, _ = infer_schema(frame, "y", "sex")
    assert next(c for c in schema.columns if c.name == "code").categories == ("0", "5", "10", "15", "other")
    assert schema.groups == (("Female", "Male"),)
    assert schema.encode_groups(frame)[0][:3].tolist() == [1, 0, 1]


def texts_in(**columns) -> pd.DataFrame:
    """As a CSV file is read: nothing but text."""
    return many_rows().astype(str).assign(**columns)


def column_of(frame: pd.DataFrame, name: str):
    schema, _ = infer_schema(frame, "y", ["sex"])
    return next((column for column in schema.columns if column.name == name), None)


@pytest.mark.parametrize(
    ("cells", "categories"),
    [
        (["01", "02", "10", "02"], ("01", "02", "10", "other")),
        (["01", "1", "2", "1.0"], ("01", "1", "2", "other")),
        (["10", "9", "9.0", "1e1"], ("9", "10", "1e1", "other")),
        (["true", "False", "TRUE", ""], ("False", "True", "other", "?")),
        (["1.0", "1", "V1", "0A"], ("1", "0A", "V1", "other")),
        (["2020-01-05", "2020/01/06", "NA", ""], ("2020-01-05", "2020-01-06", "other", "?")),
    ],
)
def test_inference_looks_at_each_text(cells, categories):
    frame = texts_in(x=cells * 10)
    assert column_of(frame, "x").categories == categories
    schema, _ = infer_schema(frame, "y", ["sex"])
    assert (schema.encode(frame).sum(axis=1) >= 1).all()


def test_inference_of_texts_is_that_of_values():
    for frame in (many_rows(), texts_in()):
        assert [column.name for column in infer_schema(frame, "y", ["sex"])[0].columns] == [
            "amount",
            "code",
            "flag",
            "word",
            "day",
        ]
    typed, read = (infer_schema(frame, "y", ["sex"])[0] for frame in (many_rows(), texts_in()))
    assert typed == read
    np.testing.assert_array_equal(typed.encode(many_rows()), read.encode(texts_in()))


def test_many_codes_with_leading_zeros_are_words_and_many_numbers_a_quantity():
    many = [f"{i % 4:03d}" for i in range(40)]
    assert column_of(texts_in(x=many), "x").categories[:2] == ("000", "001")
    quantity = Numeric(name="x", low=0, high=19, missing="indicator")
    assert column_of(texts_in(x=[str(i % 20) for i in range(40)]), "x") == quantity
    assert column_of(texts_in(x=[f"{i:05d}" for i in range(40)]), "x") is None
    assert column_of(texts_in(x=[str(i) for i in range(5, 45)]), "x") is None
    assert isinstance(column_of(texts_in(x=["A1"] * 4 + ["1"] * 20 + ["2"] * 16), "x"), Categorical)


def test_the_positive_label_may_be_written_in_another_way():
    schema, _ = infer_schema(texts_in(y=["01", "2"] * 20), "y", ["sex"], positive="2.0")
    assert (schema.positive, schema.negative) == ("2", "01")


@pytest.mark.parametrize(
    ("values", "positive"),
    [
        ((0, 1), "1"),
        ((0.0, 1.0), "1"),
        (("0.0", "1.0"), "1"),
        ((False, True), "True"),
        (("FALSE", "true"), "True"),
        (("No", "Yes"), "Yes"),
        (("no", "YES"), "YES"),
    ],
)
def test_positive_label_never_depends_on_frequency(values, positive):
    for turn in (values, values[::-1]):
        frame = many_rows().assign(y=[turn[0]] * 30 + [turn[1]] * 10)
        assert infer_schema(frame, "y", ["sex"])[0].positive == positive


@pytest.mark.parametrize("values", [("<=50K", ">50K"), (-1, 1), (1, 2), ("bad", "good"), ("n", "y"), ("no", "1")])
def test_a_label_that_could_be_either_must_be_said(values):
    frame = many_rows().assign(y=[values[0]] * 30 + [values[1]] * 10)
    with pytest.raises(
        ValueError, match=r"^which value of label 'y' is a positive decision, '.*' or '.*'\? Say it with positive"
    ) as caught:
        infer_schema(frame, "y", ["sex"])
    assert all(repr(str(value)) in str(caught.value) for value in values)
    for value in values:
        assert infer_schema(frame, "y", ["sex"], positive=value)[0].positive == str(value)


@pytest.mark.parametrize(
    ("written", "texts", "meant"),
    [
        ("1.0", ("0", "1"), "1"),
        ("1", ("0.0", "1.0"), "1.0"),
        (1.0, ("0", "1"), "1"),
        ("true", ("False", "True"), "True"),
        ("1", ("False", "True"), "True"),
        ("GOOD", ("bad", "good"), "good"),
        ("01", ("01", "1"), "01"),
        ("2", ("0", "1"), None),
    ],
)
def test_a_value_may_be_written_in_several_ways(written, texts, meant):
    assert value_meant(written, texts) == meant


def test_positive_label_can_be_chosen():
    schema, notes = infer_schema(many_rows(), "y", ["sex"], positive=0)
    assert (schema.positive, schema.negative) == ("0", "1")
    assert not any("positive" in note for note in notes)
    with pytest.raises(ValueError, match=r"^positive must be a value of label 'y' \(0, 1\), got '7'\.$"):
        infer_schema(many_rows(), "y", ["sex"], positive=7)


@pytest.mark.parametrize(
    ("changes", "label", "sensitive", "message"),
    [
        ({"y": list("abcd") * 10}, "y", ["sex"], r"^label 'y' has 4 values \(a, b, c, d\); fairdp needs exactly two"),
        ({"y": 1}, "y", ["sex"], r"^label 'y' has 1 value \(1\); fairdp needs exactly two"),
        ({"y": range(40)}, "y", ["sex"], r"^label 'y' has 40 values \(0, 1, 2, 3, 4, …\)"),
        ({"y": [None] + [0, 1, 1] * 13}, "y", ["sex"], r"^column 'y' has 1 missing values, the first in row 1"),
        ({}, "Y", ["sex"], r"^the table has no column 'Y'"),
        ({}, "y", ["sez"], r"^the table has no column 'sez'; did you mean 'sex'\?$"),
        ({}, "y", ["y"], r"^column 'y' is named twice"),
        ({}, "y", [], r"^a schema needs at least one input column besides the label, and one protected column"),
    ],
)
def test_inference_refuses_what_it_cannot_use(changes, label, sensitive, message):
    with pytest.raises(ValueError, match=message):
        infer_schema(many_rows().assign(**changes), label, sensitive)


def test_inference_refuses_lists_and_column_names_that_are_no_text():
    with pytest.raises(ValueError, match=r"^column 'word' holds lists or objects"):
        infer_schema(many_rows().assign(word=[[1]] * 40), "y", ["sex"])
    with pytest.raises(ValueError, match=r"^column names must be text, got 3; rename the column"):
        infer_schema(many_rows().rename(columns={"word": 3}), "y", ["sex"])
