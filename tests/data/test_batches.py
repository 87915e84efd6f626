"""Tables read in batches: the same rows, the same codes and the same refusals as the whole."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairdp.data import tables
from fairdp.data.cells import spellings_of
from fairdp.data.columns import counts_by_column
from fairdp.data.schema import Binned, Categorical, Numeric, OtherThan, TableSchema
from fairdp.data.tables import encode_file, encode_table, encoded_batches, read_table, table_batches

CSV = "age,sex,y\n30,Male,no\n40,Female,yes\n50,Male,yes\n60,Male,no\n70,Female,no\n"
SCHEMA = TableSchema(
    columns=(Numeric(name="age", low=20, high=60),),
    label="y",
    positive="yes",
    negative="no",
    sensitive=("sex",),
    groups=(("Female", "Male"),),
)


def as_parquet(path, **options):
    target = path.with_suffix(".parquet")
    read_table(path).to_parquet(target, **options)
    return target


@pytest.mark.parametrize("rows", [1, 2, 5, 50_000])
@pytest.mark.parametrize("convert", [lambda path: path, as_parquet], ids=["csv", "parquet"])
def test_batches_are_the_rows_of_the_whole(write, rows, convert):
    path = convert(write(CSV))
    batches = list(table_batches(path, rows=rows))
    assert [len(batch) for batch in batches] == [min(rows, 5 - i) for i in range(0, 5, rows)]
    pd.testing.assert_frame_equal(pd.concat(batches), read_table(path), check_index_type=False)


@pytest.mark.parametrize(
    "content",
    ["\ufeff" + CSV, CSV.replace(",", ", "), CSV.replace("\n", "\r\n"), CSV.replace("30", '"30"'), "\n" + CSV],
    ids=["byte order mark", "blanks", "carriage returns", "quotes", "empty first line"],
)
def test_harmless_variants_are_read(write, content):
    batches = table_batches(write(content), rows=2)
    pd.testing.assert_frame_equal(pd.concat(batches), read_table(write(CSV, "plain.csv")))


# Two halves of a column, each in a batch of its own, that must be encoded as in one table.
HALVES = {
    "numbers, then words": (["1", "2", "01"], ["a", "1", "2"]),
    "words, then numbers": (["a", "1", "2"], ["1", "2", "01"]),
    "codes with a leading zero": (["01", "02", "01"], ["02", "01", "03"]),
    "integers, then the same as 1.0": (["1", "2", "1"], ["1.0", "2.0", "1.0"]),
    "integers, then words and 1.0": (["1", "2", "1"], ["1.0", "x", "1.0"]),
    "integers, then missing ones": (["1", "2", "1"], ["", "2", ""]),
    "missing only, then integers": (["", "", ""], ["1", "2", "01"]),
    "missing only, then words": (["", "NA", ""], ["a", "02", "b"]),
    "missing only": (["", "", ""], ["", "NA", ""]),
    "truth values": (["True", "false", "TRUE"], ["False", "true", "False"]),
    "truth values, then missing ones": (["True", "False", "TRUE"], ["", "true", "False"]),
    "truth values, then missing only": (["True", "False", "TRUE"], ["", "", ""]),
    "truth values, then words": (["True", "true", "TRUE"], ["maybe", "true", "False"]),
    "truth values, then numbers": (["True", "true", "False"], ["1", "0", "1"]),
    "small, then huge integers": (["1", "2", "-3"], ["18446744073709551615", "1", "2"]),
    "huge integers": (["18446744073709551615", "1", "2"], ["99999999999999999999999", "1", "2"]),
    "numbers, then dates": (["1", "2.5", "7"], ["2020-01-05", "2020", "1970-01-02"]),
    "numbers in many forms": (["0.1", "1e3", "-0.0"], ["inf", "+5", "12345678.90123456789"]),
    "blanks around words": (["a ", " a", "1 "], ["1", "2", "3"]),
}


def csv_of(halves) -> str:
    lines = [f"{value},{'mf'[i % 2]},{i % 2}" for i, value in enumerate([*halves[0], *halves[1]])]
    return "\n".join(["x,sex,y", *lines, ""])


def outcome(encode):
    """The codes, or a refusal: which of two faults is named first depends on the rows at hand."""
    try:
        return encode().tolist()
    except ValueError:
        return "refused"


def encoders(values: pd.Series):
    """Every kind of column that can encode such values at all."""
    texts = dict.fromkeys(spellings_of(values))
    return (
        Categorical(name="x", categories=(*(text for text in texts if text not in ("", "NA", "?")), "?")),
        Numeric(name="x", low=-10, high=10, missing="indicator"),
        Binned(name="x", edges=(1, 2)),
        OtherThan(name="x", value="1"),
    )


def schema_with(column) -> TableSchema:
    outer = {"label": "y", "positive": "1", "negative": "0", "sensitive": ("sex",), "groups": (("f", "m"),)}
    return TableSchema(columns=(column,), **outer)


def pairs_of_outcomes(whole: pd.DataFrame, batches: list[pd.DataFrame]):
    """Encodings of the whole and of its batches, for every kind of column."""
    for column in encoders(whole["x"]):
        schema = schema_with(column)
        yield (
            outcome(lambda schema=schema: schema.encode(whole)),
            outcome(lambda schema=schema: np.vstack([schema.encode(batch) for batch in batches])),
        )


@pytest.mark.parametrize("halves", HALVES.values(), ids=HALVES.keys())
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_values_are_encoded_as_in_the_whole_table(write, halves, rows):
    path = write(csv_of(halves))
    for whole, parts in pairs_of_outcomes(read_table(path), list(table_batches(path, rows=rows))):
        assert whole == parts


def test_that_check_notices_types_guessed_batch_by_batch(write):
    path = write(csv_of(HALVES["numbers, then words"]))
    guessed = list(pd.read_csv(path, chunksize=3))
    assert any(whole != parts for whole, parts in pairs_of_outcomes(read_table(path), guessed))


PARQUET = {
    "integers": pa.array([1, 2, 1, None, 2, None]),
    "small integers": pa.array([1, 2, 1, 1, None, 2], pa.int8()),
    "floats": pa.array([1.0, 2.5, 2.0, None, 1.0, float("nan")]),
    "words": pa.array(["1", "2", "a", None, "a ", "1.0"]),
    "truth values": pa.array([True, False, True, None, None, True]),
    "nothing, then words": pa.array([None, None, None, "a", "b", "1"]),
    "dictionary": pa.array(["a", "b", "a", None, "c", "b"]).dictionary_encode(),
    "dates": pa.array([1, 2, 3, None, 5, 6], pa.date32()),
    "timestamps": pa.array([1, 2, 3, None, 5, 6], pa.timestamp("s", tz="UTC")),
    "decimals": pa.array([1, 2, 3, None, 5, 6]).cast(pa.decimal128(20, 1)),
    "nothing": pa.nulls(6),
}


@pytest.mark.parametrize("values", PARQUET.values(), ids=PARQUET.keys())
@pytest.mark.parametrize(("rows", "row_group_size"), [(1, 6), (3, 6), (4, 2)])
def test_values_in_parquet_are_encoded_as_in_the_whole_table(tmp_path, values, rows, row_group_size):
    path = tmp_path / "table.parquet"
    table = pa.table({"x": values, "sex": ["m", "f"] * 3, "y": [0, 1] * 3})
    pq.write_table(table, path, row_group_size=row_group_size)
    for whole, parts in pairs_of_outcomes(read_table(path), list(table_batches(path, rows=rows))):
        assert whole == parts


def test_an_index_that_was_saved_is_no_column(write):
    path = as_parquet(write(CSV), index=True)
    frame = read_table(path).set_index(pd.Index([5, 3, 9, 1, 7], name="client"))
    frame.to_parquet(path)
    batches = list(table_batches(path, rows=2))
    assert batches[0].columns.tolist() == read_table(path).columns.tolist() == ["age", "sex", "y"]
    assert pd.concat(batches).index.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("convert", [lambda path: path, as_parquet], ids=["csv", "parquet"])
@pytest.mark.parametrize("rows", [1, 2, 3, 50_000])
def test_encoded_batches_are_the_encoded_table(write, convert, rows):
    path = convert(write(CSV))
    whole = encode_table(read_table(path), SCHEMA)
    batches = list(encoded_batches(path, SCHEMA, rows=rows))
    for name in ("X", "y", "groups"):
        parts = [getattr(batch, name) for batch in batches]
        np.testing.assert_array_equal(np.concatenate(parts), getattr(whole, name))
    assert {batch.group_names for batch in batches} == {("Female", "Male")}
    filled = encode_file(path, SCHEMA, rows=rows)
    for name in ("X", "y", "groups"):
        np.testing.assert_array_equal(getattr(filled, name), getattr(whole, name), strict=True)
    assert filled.group_names == whole.group_names


@pytest.mark.parametrize("counted", [3, 4, 6, 9])
@pytest.mark.parametrize("rows", [1, 2, 50_000])
def test_a_file_that_changes_between_counting_and_reading_is_refused(write, monkeypatch, counted, rows):
    monkeypatch.setattr(tables, "count_rows", lambda *_: counted)
    with pytest.raises(ValueError, match=r"^table '.*table\.csv' has changed while it was read; start again\.$"):
        encode_file(write(CSV), SCHEMA, rows=rows)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "60,Male",
            "60,Martian",
            r"^rows 3 to 4: column 'sex' holds 'Martian' in row 4, which the schema does not declare",
        ),
        (
            "60,Male",
            "60,",
            r"^rows 3 to 4: column 'sex' has 1 missing values, the first in row 4; correct .* 'other: unknown'",
        ),
        ("age", "Age", r"^the table has no column 'age'; did you mean 'Age'\?$"),
    ],
)
@pytest.mark.parametrize("convert", [lambda path: path, as_parquet], ids=["csv", "parquet"])
def test_values_that_the_schema_refuses_are_named_with_their_rows(write, convert, old, new, message):
    path = convert(write(CSV.replace(old, new)))
    with pytest.raises(ValueError, match=message):
        list(encoded_batches(path, SCHEMA, rows=2))
    with pytest.raises(ValueError, match=message):
        encode_file(path, SCHEMA, rows=2)


def parquet_with(columns: list[str], n_rows: int) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array(range(n_rows))] * len(columns), columns), stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (CSV, "table.docx", r"must end in \.csv, .* or \.xlsx, got \.docx"),
        (CSV, "table", r"must end in \.csv, .* or \.xlsx, got no ending"),
        (CSV, "table.xlsx", r"is not a workbook that can be read"),
        (CSV, "table.feather", r"is not an Arrow or Feather file that can be read"),
        ("", "table.csv", r"is empty"),
        ("\ufeff\n\n", "table.csv", r"is empty"),
        ("age,sex,y\n", "table.csv", r"has no rows"),
        ("age,sex,y\n\n\n", "table.csv", r"has no rows"),
        (CSV + "60,Male\n" + CSV, "table.csv", r"line 7 has 2 fields, the header has 3; correct the line"),
        (CSV + "60,Male,no,no\n", "table.csv", r"line 7 has 4 fields, the header has 3"),
        (CSV + '60,"Male,no\n', "table.csv", r"line 7 is broken"),
        (
            CSV.encode() + b"\xe9,Male,no\n",
            "table.csv",
            r"is not UTF-8 at line 7; name its encoding with encoding, such as cp1252, or save it as UTF-8",
        ),
        (CSV.encode() * 9000 + b"1,\xc3,no\n", "table.csv", r"is not UTF-8 at line 54001; name its encoding"),
        (
            CSV.encode("utf-16"),
            "table.csv",
            r"is not UTF-8 at line 1; name its encoding with encoding, such as cp1252, or save it as UTF-8",
        ),
        (CSV.replace("sex", "age"), "table.csv", r"has two columns named 'age'; rename one"),
        (
            CSV.replace(",", ";"),
            "table.csv",
            r"seems to be separated by semicolons; name it with sep, or let fairdp schema find it",
        ),
        (
            CSV.replace(",", "\t"),
            "table.csv",
            r"seems to be separated by tabs; name it with sep, or let fairdp schema find it",
        ),
        (b"no parquet", "table.parquet", r"is not a Parquet file that can be read"),
        (parquet_with(["a", "b", "a"], 3), "table.parquet", r"has two columns named 'a'; rename one"),
        (parquet_with(["a", "b"], 0), "table.pq", r"has no rows"),
    ],
)
@pytest.mark.parametrize(
    "read",
    [
        read_table,
        table_batches,
        lambda path: encoded_batches(path, SCHEMA),
        lambda path: encode_file(path, SCHEMA),
    ],
    ids=["whole", "batches", "encoded batches", "encoded whole"],
)
def test_broken_files_are_refused_before_the_first_batch(write, content, name, message, read):
    with pytest.raises(ValueError, match=rf"^table '.*': ?{message}|^table '.*' {message}") as caught:
        read(write(content, name))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [read_table, lambda path: list(table_batches(path))])
def test_a_parquet_file_that_is_broken_inside_is_refused(write, read):
    content = bytearray(parquet_with(["a"], 100_000))
    content[8:5000] = b"\xff" * 4992
    with pytest.raises(ValueError, match=r"is not a Parquet file that can be read\.$"):
        read(write(bytes(content), "table.parquet"))


def test_missing_files_folders_and_empty_batches_are_refused(tmp_path, write):
    with pytest.raises(FileNotFoundError, match=r"none\.csv' does not exist\.$"):
        table_batches(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"is a folder without Parquet files; name a file or another folder\.$"):
        table_batches(tmp_path)
    with pytest.raises(ValueError, match=r"^rows must be a whole number of at least 1, got 0\.$"):
        table_batches(write(CSV), rows=0)


def test_the_rest_of_a_table_may_be_left_unread(write):
    """An open file would be a warning, and a warning fails the run."""
    for path in (write(CSV), as_parquet(write(CSV))):
        batches = table_batches(path, rows=2)
        assert len(next(batches)) == 2
        batches.close()


@pytest.mark.parametrize("convert", [lambda path: path, as_parquet], ids=["csv", "parquet"])
@pytest.mark.parametrize(("old", "new"), [("70,", ","), ("30", "old")])
def test_a_schema_that_says_so_refuses_missing_numbers_and_words(write, convert, old, new):
    strict = replace(SCHEMA, columns=tuple(replace(c, missing="error") for c in SCHEMA.columns))
    path = convert(write(CSV.replace(old, new)))
    message = (
        r"^rows . to .: column 'age' (has 1 missing values, the first in row 5|holds 'old' in row 1, which is not)"
    )
    with pytest.raises(ValueError, match=message):
        encode_file(path, strict, rows=2)
    issues = []
    assert encode_file(path, SCHEMA, rows=2, on_issue=issues.append).X[:, 0].tolist().count(0.5) >= 1
    assert counts_by_column(issues)["age"]["missing" if old == "70," else "unreadable"] == 1


def test_cells_are_counted_over_all_batches(write):
    issues = []
    list(encoded_batches(write(CSV.replace("30", "old").replace("60,", ",")), SCHEMA, rows=2, on_issue=issues.append))
    assert counts_by_column(issues)["age"] == {"missing": 1, "unreadable": 1, "out_of_range": 1}
