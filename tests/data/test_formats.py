"""One table, written in many ways, is read to the same arrays; how it is written is said, and no row decides it."""

import datetime
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fairdp.classifier import FairDPClassifier
from fairdp.data.cells import number_of
from fairdp.data.columns import refuse_unreadable
from fairdp.data.infer import proposed_schema
from fairdp.data.readers import detected_format, plain_texts
from fairdp.data.schema import PLAIN, TableFormat, TableSchema, frame_of, read_schema
from fairdp.data.tables import encode_file, encode_table, encoded_batches, load_table, read_table, table_batches
from fairdp.errors import InputError
from messy_tables import GERMAN, SCHEMA, VARIANTS, Text, months, partitioned, people, workbook

DECLARED = TableSchema.from_dict({**SCHEMA, "declared": True})
NAMES = [name for name, variant in VARIANTS.items() if variant.write is not partitioned]


def assert_same(found, expected) -> None:
    assert found.group_names == expected.group_names
    for name in ("X", "y", "groups"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), strict=True)


def in_order_of_files(rows):
    """As partitions have them: by run, then by group."""
    places = sorted(range(len(rows)), key=lambda place: (place // 20, rows[place]["sex"], place))
    return [rows[place] for place in places]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_is_read_to_the_arrays_of_the_plain_table(tmp_path, name):
    variant, rows = VARIANTS[name], people()
    path = variant.write(tmp_path, rows)
    rows = in_order_of_files(rows) if variant.write is partitioned else rows
    expected = encode_file(Text(name="plain.csv")(tmp_path, rows), DECLARED)
    assert np.ptp(expected.X, axis=0).min() > 0
    schema = replace(DECLARED, format=TableFormat(**variant.found))
    assert_same(encode_file(path, schema, rows=7), expected)
    assert_same(encode_table(read_table(path, schema.format), schema), expected)
    parts = list(encoded_batches(path, schema, rows=11))
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), expected.X)


def sheet_in_question(name: str) -> TableFormat:
    """The first sheet is taken unless another is named."""
    return TableFormat(sheet=VARIANTS[name].found.get("sheet"))


@pytest.mark.parametrize("name", VARIANTS)
def test_the_format_of_every_variant_is_found(tmp_path, name):
    path = VARIANTS[name].write(tmp_path, people())
    assert detected_format(path, sheet_in_question(name)).to_dict() == VARIANTS[name].found


@pytest.mark.parametrize("name", NAMES)
def test_every_variant_gets_the_proposal_of_the_plain_table(tmp_path, name):
    def proposed(path, written) -> dict:
        options = {"label": "approved", "sensitive": ("sex",), "positive": None, "table": "people"}
        return yaml.safe_load(proposed_schema(read_table(path, written), written=written, **options))

    path = VARIANTS[name].write(tmp_path, people())
    expected = proposed(Text(name="plain.csv")(tmp_path, people()), PLAIN)
    assert [column["name"] for column in expected["columns"]] == ["income", "assets", "since", "town"]
    found = proposed(path, detected_format(path, sheet_in_question(name)))
    assert found.pop("format", {}) == VARIANTS[name].found
    assert found == expected


def test_a_proposal_with_its_format_is_read_back(tmp_path):
    path = Text(**GERMAN)(tmp_path, people())
    written = detected_format(path, PLAIN)
    text = proposed_schema(
        read_table(path, written), table="p", label="approved", sensitive=("sex",), positive=None, written=written
    )
    (tmp_path / "schema.yaml").write_text(text, encoding="utf-8")
    schema = read_schema(tmp_path / "schema.yaml")
    assert schema.format == written
    assert TableSchema.from_dict(schema.to_dict()) == schema
    table = load_table(path, label="approved", sensitive=["sex"], schema_path=tmp_path / "schema.yaml")
    assert table.data.n_samples == 60


ODD = {
    "person": "1.234,5",
    "income": 7,
    "assets": 1,
    "since": datetime.date(2031, 12, 31),
    "town": "31/01/2020",
    "sex": "m",
    "approved": "no",
}


@pytest.mark.parametrize("name", NAMES)
def test_one_more_row_changes_nobody_elses(tmp_path, name):
    variant = VARIANTS[name]
    schema = replace(DECLARED, format=TableFormat(**variant.found))
    expected = encode_file(variant.write(tmp_path, people()), schema)
    for place in (0, 60):
        rows = people()
        rows.insert(place, ODD)
        folder = tmp_path / str(place)
        folder.mkdir()
        found = encode_file(variant.write(folder, rows), schema)
        kept = np.arange(61) != place
        for part in ("X", "y", "groups"):
            np.testing.assert_array_equal(getattr(found, part)[kept], getattr(expected, part), strict=True)


def test_that_check_notices_a_reader_that_looks_at_rows(tmp_path):
    """Dates that do not say whether the day comes first, until one more row does: read by what is found, all change."""
    rows = [{**row, "since": row["since"].replace(day=1 + row["since"].day % 12)} for row in people()]
    write = Text(date="%d/%m/%Y")
    path, more = write(tmp_path, rows), replace(write, name="more.csv")(tmp_path, [*rows, ODD])
    doubtful, certain = (read_table(each, detected_format(each, PLAIN)) for each in (path, more))
    assert (doubtful["since"] != certain["since"][:-1]).all()
    declared = replace(DECLARED, format=TableFormat(day_first=True))
    np.testing.assert_array_equal(encode_file(path, declared).X, encode_file(more, declared).X[:-1])


def test_a_declared_format_is_not_guessed_again(tmp_path):
    """All assets are read as the schema says, though the file looks otherwise."""
    rows = [{**row, "assets": 1 + place % 9} for place, row in enumerate(people())]
    path = Text(sep=";", decimal=",", thousands=".")(tmp_path, rows)
    wrong = replace(DECLARED, format=TableFormat(sep=";", thousands=","))
    issues = []
    encode_file(path, wrong, on_issue=issues.append)
    with pytest.raises(
        ValueError, match=r"^column 'income' holds no number or date in \d+ of \d+ cells: .* decimal, thousands"
    ):
        refuse_unreadable(issues)


@pytest.mark.parametrize(
    ("text", "given", "guessed", "column", "right"),
    [
        ("w;y\n1,234;a\n2,500;b\n", {"decimal": ","}, ["1234", "2500"], "w", ["1.234", "2.500"]),
        ("w;y\n62.010;1,5\n63.120;2,5\n", {"thousands": ""}, ["62010", "63120"], "w", ["62.010", "63.120"]),
        ("d;y\n01/02/2020;a\n03/04/2020;b\n", {"day_first": True}, None, "d", ["2020-02-01", "2020-04-03"]),
        ("d;y\n1.2.2020;a\n", {"day_first": False}, ["2020-2-1"], "d", ["1.2.2020"]),
        ("name, first;age\nDoe, J;5\nRoe, R;6\n", {"sep": ";"}, None, "age", ["5", "6"]),
        ("miasto;y\nŁódź;1\n".encode("cp1250"), {"encoding": "cp1250"}, ["£ódŸ"], "miasto", ["Łódź"]),
    ],
    ids=["decimals", "thousands", "days last", "no dates", "separator", "encoding"],
)
def test_one_option_corrects_a_wrong_guess(write, text, given, guessed, column, right):
    path = write(text)
    first = read_table(path, detected_format(path, PLAIN))
    assert column not in first or first[column].tolist() != right
    assert guessed is None or first[column].tolist() == guessed
    assert read_table(path, detected_format(path, TableFormat(**given)))[column].tolist() == right


CITIES = {
    "cp1251": ["Москва", "Казань", "Новосибирск", "Екатеринбург", "Самара", "Омск", "Челябинск", "Ростов", "Пермь"],
    "cp1253": ["Αθήνα", "Θεσσαλονίκη", "Πάτρα", "Ηράκλειο", "Λάρισα"],
    "cp949": ["서울", "부산", "대구", "인천", "광주"],
    "big5": ["臺北", "高雄", "臺中", "臺南", "新竹"],
    "cp932": ["東京", "大阪", "名古屋", "札幌", "福岡", "京都", "神戸"],
    "gb18030": ["北京", "上海", "广州", "深圳", "成都", "杭州"],
    "cp1252": ["Köln", "São Paulo", "Málaga", "Århus", "Besançon", "Düsseldorf"],
    "utf-16-le": ["Köln", "Łódź", "Málaga"],
    "utf-16-be": ["Köln", "Łódź", "Málaga"],
}


@pytest.mark.parametrize("encoding", CITIES)
def test_encodings_that_can_be_told_apart_are_found(write, encoding):
    text = "town;x\n" + "".join(f"{town};{place}\n" for place, town in enumerate(CITIES[encoding] * 3))
    assert detected_format(write(text.encode(encoding)), PLAIN) == TableFormat(sep=";", encoding=encoding)


@pytest.mark.parametrize("word", ["Köln", "café", "£5", "10 €", "ñ"])
def test_few_letters_are_taken_for_western_ones(write, word):
    assert detected_format(write(f"a,b\n{word},1\n".encode("cp1252")), PLAIN) == TableFormat(encoding="cp1252")


def test_another_sheet_is_one_option_away(tmp_path):
    path = workbook(sheets=("cover", "people"))(tmp_path, people())
    assert detected_format(path, PLAIN).sheet == "cover"
    found = detected_format(path, TableFormat(sheet="people"))
    assert len(read_table(path, found)) == 60


def test_odd_cells_do_not_make_a_format(write):
    lines = [f"{place};{place}.5" for place in range(100)]
    path = write("\n".join(["x;y", *lines, "1,5;31.12.2020", ""]))
    assert detected_format(path, PLAIN) == TableFormat(sep=";")


@settings(max_examples=200, deadline=None)
@given(
    value=st.decimals(min_value=-(10**9), max_value=10**9, places=3).map(float),
    signs=st.sampled_from([(",", "."), (",", " "), (",", "'"), (".", ","), (".", " "), (",", "")]),
)
def test_a_number_in_any_format_is_the_number(value, signs):
    decimal, thousands = signs
    written = f"{value:,.3f}".replace(",", "_").replace(".", decimal).replace("_", thousands)
    form = TableFormat(decimal=decimal, thousands=thousands)
    assert number_of(plain_texts(pa.array([written]), form).to_pylist()[0]) == float(f"{value:.3f}")


PIECES = st.text("0123456789.,-/' eE+TZ:ax\u00a0\u202f’", max_size=12)


@settings(max_examples=200, deadline=None)
@given(
    cells=st.lists(st.one_of(st.none(), PIECES), max_size=6),
    form=st.builds(
        lambda signs, day: TableFormat(decimal=signs[0], thousands=signs[1], day_first=day),
        st.sampled_from([(",", "."), (",", ""), (".", ","), (",", " "), (".", "'"), (".", "")]),
        st.booleans(),
    ),
)
def test_a_cell_is_rewritten_by_itself(cells, form):
    def plain(texts):
        return plain_texts(pa.array(texts, pa.large_string()), form).to_pylist()

    assert plain(cells) == [plain([cell])[0] for cell in cells]
    # What is plain already stays what it is, but for thousands with the sign that a plain number has for decimals.
    if form.thousands != "." and form.thousands != ",":
        assert plain(["1.5", "2020-01-05", "a,b", "-3"]) == ["1.5", "2020-01-05", "a,b", "-3"]


@pytest.mark.parametrize(
    ("cell", "form", "plain"),
    [
        ("1.234,5", {"decimal": ",", "thousands": "."}, "1234.5"),
        ("0.123", {"decimal": ",", "thousands": "."}, "0.123"),
        ("1.23", {"decimal": ",", "thousands": "."}, "1.23"),
        ("12.34,5", {"decimal": ",", "thousands": "."}, "12.34,5"),
        ("-,5", {"decimal": ","}, "-.5"),
        ("1,5e3", {"decimal": ","}, "1.5e3"),
        ("1,234", {}, "1,234"),
        ("1,234,567.5", {"thousands": ","}, "1234567.5"),
        ("05.01.2020", {"day_first": True}, "2020-01-05"),
        ("5/1/2020 13:45", {"day_first": True}, "2020-1-5 13:45"),
        ("05.01/2020", {"day_first": True}, "05.01/2020"),
        ("2020-01-05", {"day_first": True}, "2020-01-05"),
        ("05.01.2020", {}, "05.01.2020"),
    ],
)
def test_cells_by_hand(cell, form, plain):
    assert plain_texts(pa.array([cell]), TableFormat(**form)).to_pylist() == [plain]


def test_numbers_of_a_workbook_have_no_decimal_sign(tmp_path):
    """A cell with the number 1.234 is no text in which a point would stand between thousands."""
    rows = [{**people()[0], "income": 1.234, "town": "1.234"}]
    frame = read_table(workbook()(tmp_path, rows), TableFormat(decimal=",", thousands="."))
    assert frame.loc[0, ["income", "town", "since"]].tolist() == ["1.234", "1234", str(rows[0]["since"])]


def test_cells_of_files_with_other_types_stay_what_they_are(tmp_path):
    """A large whole number beside a float, a code beside a number: together they would be rounded and lose zeros."""
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"a": [2**53 + 1], "b": ["01"]}), tmp_path / "t" / "1.parquet")
    pq.write_table(pa.table({"a": [0.5], "b": [1]}), tmp_path / "t" / "2.parquet")
    frame, parts = read_table(tmp_path / "t"), list(table_batches(tmp_path / "t"))
    assert (frame["a"].tolist(), frame["b"].tolist()) == ([2**53 + 1, 0.5], ["01", 1])
    assert [part["a"].tolist() for part in parts] == [[2**53 + 1], [0.5]]
    # Other readers of such folders refuse them, or make all of them floats.
    assert pd.concat([part["a"].astype("float64") for part in parts]).tolist() != [2**53 + 1, 0.5]


def test_values_in_the_names_of_folders_are_texts(tmp_path):
    for name in ("code=01", "code=__HIVE_DEFAULT_PARTITION__", "code=a%2Fb"):
        (tmp_path / "t=x" / "k" / name).mkdir(parents=True)
        pq.write_table(pa.table({"v": [1]}), tmp_path / "t=x" / "k" / name / "0.parquet")
    frame = read_table(tmp_path / "t=x" / "k")
    # In the order of the paths, and without what stands above the folder that was named.
    assert frame.columns.tolist() == ["v", "code"]
    assert frame["code"].tolist() == ["01", pd.NA, "a/b"]


SOURCES = {
    "pandas": lambda table: table.to_pandas(),
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "Arrow": lambda table: table,
    "a batch": lambda table: table.combine_chunks().to_batches()[0],
    "a stream": lambda table: Stream(table),
}


class Stream:
    """Anything that knows Arrow's interface, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("convert", SOURCES.values(), ids=SOURCES)
def test_frames_of_every_library_are_encoded_alike(convert, tmp_path):
    expected = encode_file(Text()(tmp_path, people()), DECLARED)
    table = read_table(months(tmp_path, people())).astype({"assets": str})
    found = encode_table(convert(pa.Table.from_pandas(table, preserve_index=False)), DECLARED)
    assert_same(found, expected)


def test_rows_of_polars_can_be_taken():
    frame = frame_of(pl.DataFrame({"a": ["x", None, "z"], "b": [1, 2, None]}))
    assert frame.iloc[[2, 0]]["a"].tolist() == ["z", "x"]
    assert frame["b"].tolist() == [1, 2, pd.NA]


def test_a_classifier_takes_a_stream_that_can_be_read_once():
    rng = np.random.default_rng(0)
    X, sex = rng.random((200, 2)), np.where(rng.random(200) < 0.5, "f", "m")
    y, table = (X[:, 0] > 0.5).astype(int), pa.table({"a": X[:, 0], "b": X[:, 1]})
    settings = {"n_steps": 3, "random_state": 0, "epsilon": 3.0}
    expected = FairDPClassifier(**settings).fit(table.to_pandas(), y, sensitive_features=sex)
    groups = pa.table({"sex": sex}).to_reader()
    found = FairDPClassifier(**settings).fit(table.to_reader(), y, sensitive_features=groups)
    assert found.feature_names_in_.tolist() == ["a", "b"]
    assert found.group_names_ == ("f", "m")
    np.testing.assert_array_equal(found.predict(Stream(table)), expected.predict(table.to_pandas()))


@pytest.mark.parametrize("rows", [[[1, 2]], {"a": [1]}, "table.csv", None, 3])
def test_what_is_no_table_is_refused(rows):
    with pytest.raises(InputError, match=r"^rows must be a table of pandas, polars or Arrow, got "):
        encode_table(rows, DECLARED)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"sep": ";;"}, r"^sep must be one character such as , ; \| or the word tab, got ';;'"),
        ({"sep": "a"}, r"^sep must be one character"),
        ({"sep": '"'}, r"^sep must be one character"),
        ({"decimal": ";"}, r"^decimal must be a point or a comma, got ';'"),
        ({"thousands": "x"}, r"^thousands must be a point, a comma, a blank, an apostrophe or '', got 'x'"),
        ({"thousands": "."}, r"^thousands='\.' is the sign of decimals too; change one with decimal\.$"),
        ({"decimal": ",", "thousands": ","}, r"^thousands=',' is the sign of decimals too"),
        ({"encoding": "klingon"}, r"^encoding='klingon' is unknown; name one such as utf-8, cp1252 or utf-16\.$"),
        ({"encoding": "rot13"}, r"^encoding='rot13' is unknown"),
        ({"encoding": "hex"}, r"^encoding='hex' is unknown"),
    ],
)
def test_formats_that_cannot_be_are_refused(said, message):
    with pytest.raises(ValueError, match=message):
        TableFormat(**said)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"separator": ";"}, r"format has the unknown key 'separator'; it may have sep, decimal"),
        ({"day_first": "yes"}, r"format: day_first must be true or false, without quotes, got 'yes'"),
        ({"sep": 1}, r"format: sep must be a text in quotes, got 1"),
        (";", r"format must be a mapping of names to values, got str"),
        ({"encoding": "klingon"}, r"encoding='klingon' is unknown"),
    ],
)
def test_a_schema_with_a_wrong_format_is_refused(entry, message):
    with pytest.raises(ValueError, match=message):
        TableSchema.from_dict({**SCHEMA, "format": entry})


def test_what_is_said_of_a_file_fills_the_schema_and_does_not_contradict_it(tmp_path):
    schema = tmp_path / "schema.yaml"
    path = Text(**GERMAN)(tmp_path, people())
    rest = TableFormat(decimal=",", thousands=".", day_first=True)
    schema.write_text(yaml.safe_dump({**SCHEMA, "format": {"sep": ";"}}))
    table = load_table(path, label="approved", sensitive=["sex"], schema_path=schema, written=rest)
    assert table.schema.format == rest.over(TableFormat(sep=";"))
    with pytest.raises(ValueError, match=r"^sep is '\|', but the schema says ';'; make them agree\.$"):
        load_table(path, label="approved", sensitive=["sex"], schema_path=schema, written=TableFormat(sep="|"))
    # A month may have a sheet of its own.
    schema.write_text(yaml.safe_dump({**SCHEMA, "format": {"sheet": "May"}}))
    path = workbook(sheets=("May", "June"))(tmp_path, people())
    june = load_table(path, label="approved", sensitive=["sex"], schema_path=schema, written=TableFormat(sheet="June"))
    assert june.data.n_samples == 60


def test_a_sign_of_decimals_is_none_of_thousands():
    assert TableFormat(decimal=".").over(TableFormat(decimal=",", thousands=".")) == TableFormat(decimal=".")


def test_a_number_of_the_label_is_the_same_however_it_is_written(write):
    path = write("x,sex,y\n" + "".join(f"{place % 5},{'fm'[place % 2]},{place % 3 == 0:d}.0\n" for place in range(40)))
    for positive in ("1", "1.0", 1, 1.0):
        table = load_table(path, label="y", sensitive=["sex"], positive=positive)
        assert (table.schema.positive, int(table.data.y.sum())) == ("1", 14)


def test_temporary_files_are_not_needed(tmp_path, monkeypatch):
    """Nothing of a packed table is left anywhere else."""
    # Of which all of `tempfile` makes its names, and the operating system its files without one.
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: pytest.fail("a temporary file"))
    monkeypatch.setattr(tempfile, "_gettempdir", lambda: pytest.fail("a temporary file"))
    with pytest.raises(pytest.fail.Exception), tempfile.TemporaryFile():
        pass
    path = Text(name="people.csv.gz")(tmp_path, people())
    assert len(read_table(path)) == 60
    assert sorted(Path(tmp_path).iterdir()) == [path]


def test_types_that_pandas_wrote_and_somebody_damaged_are_refused_in_one_line(tmp_path):
    table = pa.table({"a": [1, 2]})
    for damage in (b"{", b'{"columns": [{}], "index_columns": []}', b"\xe1"):
        pq.write_table(table.replace_schema_metadata({"pandas": damage}), tmp_path / "t.parquet")
        with pytest.raises(InputError, match="is not a table that can be read"):
            read_table(tmp_path / "t.parquet")
