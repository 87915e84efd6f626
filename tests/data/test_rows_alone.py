"""Encoding rows is encoding each of them alone, bit for bit, in any order and any parts, from any source."""

import csv
import datetime
import decimal
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fairdp import records
from fairdp.data.cells import number_of, numbers_of
from fairdp.data.schema import Binned, Categorical, Numeric, OtherThan, TableSchema, read_schema
from fairdp.data.tables import encode_file, encode_table, encoded_batches, read_table
from fairdp.errors import DataError
from fairdp.fitting import fit_source
from fairdp.records import Source

UTC = datetime.UTC
CODES = ["01", "1", "1.0", "001", "0A", "02", "2", "x", " x ", "X", "other", "?", "True", "true", "TRUE", "0.10", "0.1"]


CODES += ["1e3", "1000", "2020-01-05", "2020-01-05 00:00:00", "2020-01-05T10:00Z", "inf", "9007199254740993"]


CODES += ["9007199254740992", "9007199254740993.0", "1E400", "a, b", 'say "x"', "two\nlines", "été", "-0", "0", "+1"]


ABSENT = ["", "NA", "None", "nan", " NULL "]
NUMBERS = ["1", "01", "1.5", " 2 ", "+5", "-0", "1e3", "1e400", "-inf", "true", "False", "2020-01-05"]
NUMBERS += ["1970-01-02 06:00", "2020", "9007199254740993", "12345678.90123456789", "0.1", "4.35"]
NUMBERS += ["1970-01-01T00:00:00.000000001+02:00"]
WRONG = ["old", "1_000", "NAN", "2020-02-30", "0x1", "now"]
Row = dict[str, object]


@st.composite
def schemas(draw, pool=CODES) -> TableSchema:
    """Every kind of column, with what is declared drawn at random."""

    def declared(least: int) -> tuple[str, ...]:
        clean = sorted({text.strip() for text in [*pool, "NA", "None"]})
        return tuple(draw(st.lists(st.sampled_from(clean), min_size=least, max_size=6, unique=True)))

    def categorical(name: str) -> Categorical:
        categories = declared(1)
        return Categorical(name=name, categories=categories, other=draw(st.sampled_from(["", *3 * categories])))

    low, high = sorted(draw(st.lists(st.sampled_from([-1e6, 0.0, 1.0, 7.5, 1e9]), min_size=2, max_size=2, unique=True)))
    transform, missing = draw(st.sampled_from(["linear", "signed_log"])), draw(st.sampled_from(["error", "indicator"]))
    protected = [categorical("s"), categorical("t")]
    negative, positive = declared(2)[:2]
    return TableSchema(
        columns=(
            categorical("c"),
            Numeric(name="n", low=low, high=high, transform=transform, missing=missing),
            Binned(name="b", edges=(low, high)),
            OtherThan(name="o", value=declared(1)[0]),
        ),
        label="y",
        positive=positive,
        negative=negative,
        sensitive=("s", "t"),
        groups=tuple(column.categories for column in protected),
        others=tuple(column.other for column in protected),
    )


def rows_with(schema: TableSchema, subject: str, cells: list[object]) -> list[Row]:
    """Rows that differ in one column, and that the schema allows in all others."""
    categories = {column.name: column.categories[0] for column in (schema.columns[0], *schema.protected)}
    allowed = {**categories, "n": "1", "b": "1", "o": "x", "y": schema.positive}
    return [{**allowed, subject: cell} for cell in cells]


def some(*pools: list[object]) -> st.SearchStrategy[list[object]]:
    """Cells that more often than by chance come from the first of these pools."""
    return st.lists(st.one_of(*3 * [st.sampled_from(pools[0])], *map(st.sampled_from, pools)), min_size=2, max_size=7)


def declared_in(schema: TableSchema, name: str) -> list[str]:
    known = {column.name: list(column.categories) for column in (schema.columns[0], *schema.protected)}
    return known.get(name, [schema.negative, schema.positive])


def outcome(encode, rows: list[Row]) -> list[bytes] | None:
    """Features, label and group of each row, to the last bit; None if they are refused."""
    try:
        data = encode(rows)
    except DataError:
        return None
    parts = zip(data.X, data.y, data.groups, strict=True)
    return [b"".join(np.asarray(part).tobytes() for part in record) for record in parts]


def assert_each_row_is_encoded_alone(encode, rows: list[Row]) -> None:
    """The whole, backwards too, is refused if a row is, and otherwise is its rows."""
    alone = [outcome(encode, [row]) for row in rows]
    kept = [row for row, record in zip(rows, alone, strict=True) if record is not None]
    records = [record[0] for record in alone if record is not None]
    if len(kept) < len(rows):
        assert outcome(encode, rows) is None
    if kept:
        assert outcome(encode, kept) == records
        assert outcome(encode, kept[::-1]) == records[::-1]


def csv_file(folder: str, rows: list[Row]) -> Path:
    path = Path(folder) / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def from_csv(schema: TableSchema, part: int):
    def encode(rows: list[Row]):
        with tempfile.TemporaryDirectory() as folder:
            return encode_file(csv_file(folder, rows), schema, rows=part)

    return encode


def typed_by_column(schema: TableSchema):
    """The reader that pandas has: a column's type follows from all of its cells."""

    def encode(rows: list[Row]):
        with tempfile.TemporaryDirectory() as folder:
            return encode_table(pd.read_csv(csv_file(folder, rows), skipinitialspace=True), schema)

    return encode


@settings(max_examples=40, deadline=None)
@given(data=st.data(), part=st.sampled_from([1, 2, 5, 50_000]))
def test_rows_of_a_csv_file(data, part):
    schema, subject = data.draw(schemas()), data.draw(st.sampled_from("cnboyst"))
    cells = some(NUMBERS, ABSENT, WRONG) if subject in "nb" else some(declared_in(schema, subject), CODES, ABSENT)
    assert_each_row_is_encoded_alone(from_csv(schema, part), rows_with(schema, subject, data.draw(cells)))


DEPENDENT = {
    "a code that is no number": (["01", "02", "0A"], ("01", "02", "other")),
    "a word among numbers": (["1.0", "x"], ("1.0", "1", "other")),
    "a word among truth values": (["true", "false", "maybe"], ("true", "True", "other")),
    "a missing value beside a large number": (["9007199254740993", "NA"], ("9007199254740993", "other", "?")),
}


@pytest.mark.parametrize(("cells", "categories"), DEPENDENT.values(), ids=DEPENDENT.keys())
def test_that_check_notices_columns_that_are_typed_as_a_whole(cells, categories):
    schema = TableSchema(
        columns=(Categorical(name="c", categories=categories, other="other"),),
        label="y",
        positive="1",
        negative="0",
        sensitive=("s",),
        groups=(("f", "m"),),
    )
    rows = [{"c": cell, "y": "1", "s": "f"} for cell in cells]
    assert_each_row_is_encoded_alone(from_csv(schema, 2), rows)
    with pytest.raises(AssertionError):
        assert_each_row_is_encoded_alone(typed_by_column(schema), rows)


def test_that_check_notices_standardising_by_the_mean():
    """Each row's number follows from its cell and from the bounds that are declared, never from the other rows."""
    schema = TableSchema(
        columns=(Numeric(name="n", low=0, high=10),),
        label="y",
        positive="1",
        negative="0",
        sensitive=("s",),
        groups=(("f", "m"),),
    )
    rows = [{"n": cell, "y": "1", "s": "f"} for cell in ("1", "2", "7")]
    declared = from_csv(schema, 2)

    def standardised(rows: list[Row]):
        encoded = declared(rows)
        return SimpleNamespace(X=encoded.X - encoded.X.mean(0), y=encoded.y, groups=encoded.groups)

    assert_each_row_is_encoded_alone(declared, rows)
    with pytest.raises(AssertionError):
        assert_each_row_is_encoded_alone(standardised, rows)


BIG = [None, 0, 1, -3, 10, 2**53 + 1, 2**63 - 1]
FLOATS = [None, 0.0, -0.0, 1.0, 0.1, 1e22, float("inf"), float("nan"), 4.35]
DAYS = [None, datetime.date(2020, 1, 5), datetime.date(1500, 1, 1), datetime.date(1970, 1, 1)]
TIMES = [None, datetime.datetime(2020, 1, 5), datetime.datetime(2020, 1, 5, 10, 0, 0, 1), datetime.datetime(1900, 1, 1)]
DECIMALS = [None, decimal.Decimal("1.00"), decimal.Decimal("0.10"), decimal.Decimal("-7.25")]
ARROW = {
    pa.int64(): BIG,
    pa.int8(): [None, 0, 1, 2],
    pa.uint64(): [None, 1, 2**64 - 1],
    pa.float64(): FLOATS,
    pa.float32(): FLOATS,
    pa.bool_(): [None, True, False],
    pa.string(): [None, *CODES, *ABSENT],
    pa.dictionary(pa.int8(), pa.string()): [None, *CODES, *ABSENT],
    pa.date32(): DAYS,
    pa.date64(): DAYS,
    pa.timestamp("us"): TIMES,
    pa.timestamp("ns"): TIMES,
    pa.timestamp("s", tz="Europe/Berlin"): [time and time.replace(microsecond=0, tzinfo=UTC) for time in TIMES],
    pa.decimal128(10, 2): DECIMALS,
    pa.null(): [None],
}


@st.composite
def typed_rows(draw, schema: TableSchema) -> tuple[dict[str, pa.DataType], list[Row]]:
    """A type of Arrow for each column, and rows of cells of these types."""
    subject, kind = draw(st.sampled_from("cnboyst")), draw(st.sampled_from(list(ARROW)))
    kinds = dict.fromkeys("cnboyst", pa.string()) | {subject: kind}
    return kinds, rows_with(schema, subject, draw(some(ARROW[kind])))


def arrow_table(kinds: dict[str, pa.DataType], rows: list[Row]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


@settings(max_examples=20, deadline=None)
@given(data=st.data(), part=st.sampled_from([1, 2, 50_000]))
def test_rows_of_a_parquet_file(data, part):
    schema = data.draw(schemas(pool=[str(2**53 + 1), "1", "01", "True", "2020-01-05", "0.1", "-7.25", "?"]))
    kinds, rows = data.draw(typed_rows(schema))

    def encode(rows: list[Row]):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.parquet"
            pq.write_table(arrow_table(kinds, rows), path, row_group_size=2)
            return encode_file(path, schema, rows=part)

    assert_each_row_is_encoded_alone(encode, rows)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_rows_of_a_frame_of_polars(data):
    schema = data.draw(schemas())
    kinds, rows = data.draw(typed_rows(schema))
    assert_each_row_is_encoded_alone(lambda rows: encode_table(pl.from_arrow(arrow_table(kinds, rows)), schema), rows)


def test_a_null_does_not_touch_the_large_number_beside_it(tmp_path):
    column = Categorical(name="c", categories=("9007199254740993", "?"), other="?")
    cells = pa.table({"c": pa.array([2**53 + 1, None])})
    pq.write_table(cells, tmp_path / "table.parquet")
    for values in (read_table(tmp_path / "table.parquet")["c"], pd.Series([2**53 + 1, None], dtype="Int64")):
        assert column.encode(values).tolist() == [[1, 0], [0, 1]]
    # In pandas' own types it does.
    assert column.encode(cells.to_pandas()["c"]).tolist() == [[0, 1], [0, 1]]


def test_cells_that_python_calls_equal_are_not_one_cell():
    column = Categorical(name="c", categories=("1", "True", "0"))
    for cells, places in (([True, 1, 1.0, 0], [1, 0, 0, 2]), ([1.0, 1, True, 0], [0, 0, 1, 2])):
        assert column.encode(pd.Series(cells, dtype=object)).argmax(axis=1).tolist() == places
    # Counting distinct objects as pandas does would not do.
    assert len(pd.factorize(pd.Series([True, 1, 1.0], dtype=object))[1]) == 1


# Whatever pandas makes of these together, each must mean the same; it is pandas that rounds large whole numbers.
OBJECTS = [*CODES, *ABSENT, None, 0, 1, 2, 1.0, 0.1, True, False, *DAYS[1:], *TIMES[1:], *DECIMALS[1:]]


OBJECTS += [time.replace(tzinfo=UTC) for time in TIMES[1:]]


OBJECTS += [datetime.datetime(2020, 1, 5, 11, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), dtype=st.sampled_from([None, object]))
def test_rows_of_a_frame_with_mixed_cells(data, dtype):
    schema = data.draw(schemas(pool=["1", "True", "01", "0.1", "2020-01-05", "x", "?"]))
    subject = data.draw(st.sampled_from("cnboyst"))
    cells = some([1, 1.0, True, 0.1, "1", "True"], declared_in(schema, subject), OBJECTS)
    rows = rows_with(schema, subject, data.draw(cells))

    def encode(rows: list[Row]):
        return encode_table(
            pd.DataFrame({n: pd.Series([row[n] for row in rows], dtype=dtype) for n in rows[0]}), schema
        )

    assert_each_row_is_encoded_alone(encode, rows)


@settings(max_examples=300, deadline=None)
@given(cells=st.lists(st.text("0123456789+-.eEinfaNITtruy_x /: \tÀ", max_size=8), max_size=6))
def test_numbers_of_a_column_are_those_of_its_cells(cells):
    kept = [cell for cell in cells if number_of(cell) is not None]
    expected = [number_of(cell) for cell in kept]
    found = numbers_of(pd.Series(kept, dtype=pd.ArrowDtype(pa.large_string())))
    np.testing.assert_array_equal(found, np.array(expected, dtype=np.float64), strict=True)
    assert not np.signbit(found[found == 0]).any()


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
    parameters["accountant"] = "rdp"
    fit_source(source, parameters, out=tmp_path / "model")
    return tmp_path / "model"


def decided(model, path, tmp_path) -> pd.DataFrame:
    records.predict_table(model, path, tmp_path / "decisions.csv", id_columns=["person"])
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
    monkeypatch.setattr(records, "table_batches", lambda path, written, rows: iter([by_columns(path, written)]))
    with pytest.raises(AssertionError):
        assert_decisions_are_the_same(model, files, tmp_path)
