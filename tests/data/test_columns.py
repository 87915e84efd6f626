"""Encoding of single columns."""

import numpy as np
import pandas as pd
import pytest

from fairdp.data.cells import days_of
from fairdp.data.columns import Binned, Categorical, Numeric, OtherThan
from fairdp.data.distinct import numbers_of
from fairdp.data.schema import TableSchema


def test_numeric_is_clipped_and_scaled_to_the_declared_bounds():
    column = Numeric(name="age", low=20, high=60)
    assert column.encode(pd.Series([0, 20, 30, 60, 99])).ravel().tolist() == [0, 0, 0.25, 1, 1]


def test_infinite_numbers_go_to_the_bounds():
    column = Numeric(name="x", low=0, high=1)
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


def test_words_are_missing_however_many_there_are():
    column = Numeric(name="x", low=0, high=1, missing="indicator")
    for n_words in (1, 5):
        features = column.encode(pd.Series(["1", *["word"] * n_words], dtype=object))
        assert features.tolist() == [[1, 0], *[[0.5, 1]] * n_words]


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


def test_no_rows_give_no_features():
    for column in (Numeric(name="x", low=0, high=1), Categorical(name="x", categories=("a", "b"))):
        assert column.encode(pd.Series([], dtype=float)).shape == (0, len(column.feature_names))


def test_other_values_count_as_the_declared_one_whatever_stands_above_them():
    for cells in (["x"], ["a", "x"], ["b", "x"], ["b", "a", "x"], ["y", "x"]):
        assert places(cells, "a", "b", "rest", other="rest")[-1] == 2
