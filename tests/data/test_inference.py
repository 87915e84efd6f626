"""A schema that is read from a table: types, categories, the positive label, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from fairdp.data.inference import infer_schema
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
    expected = {"amount": Numeric, "code": Categorical, "flag": Categorical, "word": Categorical, "day": Numeric}
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


def test_inference_declares_the_missing_values_it_meets():
    frame = many_rows().astype({"code": object})
    frame.loc[3, ["amount", "code", "day"]] = None
    schema, _ = infer_schema(frame, "y", ["sex"])
    columns = {column.name: column for column in schema.columns}
    assert columns["amount"].missing == columns["day"].missing == "indicator"
    assert columns["code"].categories == ("0", "1", "2", "3", "4", "?")
    assert schema.encode(frame).shape == (40, schema.n_features)


def test_free_text_with_gaps_and_numbers_of_cases_are_left_out():
    notes = [f"spoke to {i}" if i % 3 else None for i in range(2000)]
    frame = many_rows(2000).assign(note=notes, case=7 * np.arange(2000) + 1000, income=100 * (np.arange(2000) % 900))
    schema, said = infer_schema(frame, "y", ["sex"])
    assert not {"note", "case"} & {column.name for column in schema.columns}
    assert "income" in {column.name for column in schema.columns}
    assert any("'note' is left out: most rows have a value that hardly anybody shares" in line for line in said)
    assert any("'case' is left out" in line for line in said)


def test_inference_warns_of_a_column_with_very_many_values():
    frame = many_rows(3000).assign(city=[f"city {i % 150}" for i in range(3000)])
    _, notes = infer_schema(frame, "y", ["sex"])
    assert "column 'city' becomes 150 features, one for each value; leave it out or group them." in notes


def test_inference_orders_codes_as_numbers_and_joins_what_differs_in_blanks():
    frame = many_rows().assign(code=np.arange(40) % 12, sex=["Male", "Female", "Male ", "Female"] * 10)
    schema, _ = infer_schema(frame, "y", "sex")
    assert next(c for c in schema.columns if c.name == "code").categories[-2:] == ("10", "11")
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
        (["01", "02", "10", "02"], ("01", "02", "10")),
        (["01", "1", "2", "1.0"], ("01", "1", "2")),
        (["10", "9", "9.0", "1e1"], ("9", "10", "1e1")),
        (["true", "False", "TRUE", ""], ("False", "True", "?")),
        (["1.0", "1", "V1", "0A"], ("0A", "1", "1.0", "V1")),
        (["2020-01-05", "2020/01/06", "NA", ""], ("2020-01-05", "2020-01-06", "?")),
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
    many = [f"{i % 20:03d}" for i in range(40)]
    assert column_of(texts_in(x=many), "x").categories[:2] == ("000", "001")
    assert column_of(texts_in(x=[str(i % 20) for i in range(40)]), "x") == Numeric(name="x", low=0, high=19)
    assert column_of(texts_in(x=[f"{i:05d}" for i in range(40)]), "x") is None
    assert column_of(texts_in(x=[str(i) for i in range(5, 45)]), "x") is None
    assert isinstance(column_of(texts_in(x=["A1", *map(str, range(20))] + ["1"] * 19), "x"), Categorical)


def test_the_positive_label_may_be_written_in_another_way():
    schema, _ = infer_schema(texts_in(y=["01", "2"] * 20), "y", ["sex"], positive="2.0")
    assert (schema.positive, schema.negative) == ("2", "01")


@pytest.mark.parametrize(
    ("values", "positive", "guessed"),
    [
        ((0, 1), "1", False),
        ((False, True), "True", False),
        (("No", "Yes"), "Yes", False),
        (("<=50K", ">50K"), ">50K", True),
        ((-1, 1), "1", True),
        (("bad", "good"), "good", True),
    ],
)
def test_positive_label_never_depends_on_frequency(values, positive, guessed):
    for turn in (values, values[::-1]):
        frame = many_rows().assign(y=[turn[0]] * 30 + [turn[1]] * 10)
        schema, notes = infer_schema(frame, "y", ["sex"])
        assert schema.positive == positive
        assert any("sort order" in note for note in notes) == guessed


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
        ({"sex": [None] + ["f"] * 39}, "y", ["sex"], r"^column 'sex' has 1 missing values"),
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
