"""CSV files as text: Arrow's cells are those of Python's csv module, to the last character."""

import csv
import gzip
import io

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fairdp.data import readers as csv_text
from fairdp.data.readers import count_rows as count_csv_rows
from fairdp.data.readers import csv_tables
from fairdp.data.schema import PLAIN, TableFormat
from fairdp.errors import DataError

# Everything that one of two readers might take in a way of its own.
PIECES = st.sampled_from(
    [
        *'a1,,,\n\n\r""',
        "\r\n",
        '"a"',
        '""',
        '"a,b"',
        '" a"',
        '"\n"',
        *" \t\ufeff\0é'\\\x0b\x1c\x85\u2028|#",
        "NA",
        "null",
    ]
)


def rows_by_csv(text: str, sep: str = ",") -> list[list[str]] | str:
    """The rows below the header, without blanks before a cell, or a refusal."""
    try:
        rows = [
            row
            for row in csv.reader(io.StringIO(text, newline=""), delimiter=sep, skipinitialspace=True, strict=True)
            if row
        ]
    except csv.Error:
        return "refused"
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        return "refused"
    return [[cell.lstrip(" ") for cell in row] for row in rows[1:]]


def rows_by_fairdp(path, rows: int = 50_000, written: TableFormat = PLAIN) -> list[list[str]] | str:
    try:
        n_rows = count_csv_rows(path, written)
        found = [list(row.values()) for table in csv_tables(path, rows, written) for row in table.to_pylist()]
    except DataError:
        return "refused"
    assert len(found) == n_rows
    return found


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(PIECES, max_size=30), block=st.sampled_from([1, 7, 2**18]), rows=st.sampled_from([1, 2, 1000]))
@example(pieces=["\ufeff", ",", "\n"] * 3, block=1, rows=1)
@example(pieces=['" a"', ",", " ", "a", "\n"] * 3, block=1, rows=2)
@example(pieces=[" ", '"a"', ",", '"a,b"', "\n"] * 3, block=7, rows=2)
@example(pieces=['"a"', "a", ",", "1", "\n"], block=7, rows=2)
@example(pieces=["a", '"', ",", '"', "1", "\n"], block=2**18, rows=2)
def test_cells_are_those_of_the_csv_module(tmp_path, monkeypatch, pieces, block, rows):
    monkeypatch.setattr(csv_text, "_BLOCK", block)
    text = "x,y\n" + "".join(pieces)
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8", newline="")
    assert rows_by_fairdp(path, rows) == rows_by_csv(text)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.one_of(PIECES, st.sampled_from(";|\t")), max_size=30),
    sep=st.sampled_from(";|\t"),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-16-le"]),
    name=st.sampled_from(["table.csv", "table.csv.gz"]),
    block=st.sampled_from([1, 7, 2**18]),
)
def test_other_separators_encodings_and_packed_files(pieces, sep, encoding, name, block, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_text, "_BLOCK", block)
    text = f"x{sep}y\n" + "".join(piece.replace(",", sep) for piece in pieces)
    path, content = tmp_path / name, text.encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert rows_by_fairdp(path, 2, TableFormat(sep=sep, encoding=encoding)) == rows_by_csv(text, sep)


@pytest.mark.parametrize("text", ['x,y\n1, "a, b"\n', 'x,y\n1,"a"b\n'])
def test_that_check_notices_arrow_on_its_own(write, monkeypatch, text):
    path = write(text)
    assert rows_by_fairdp(path) == rows_by_csv(text)
    monkeypatch.setattr(csv_text, "_has_plain_quotes", lambda content, sep: True)
    monkeypatch.setattr(csv_text, "_split_by_csv", lambda path, *_: (_ for _ in ()).throw(DataError("not split")))
    assert rows_by_fairdp(path) != rows_by_csv(text)


def test_both_readers_are_used(tmp_path):
    plain, quoted, odd = ["1,a\n", "2,b\n"], ['1,"a, b"\n', '"2",\n'], ['1,"say ""a"""\n']
    split = [csv_text._split_by_arrow(lines, ["x", "y"], ",", only_first=False) for lines in (plain, quoted, odd)]
    assert [table and table.to_pylist()[0]["y"] for table in split] == ["a", "a, b", None]


def test_a_cell_over_several_lines_and_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_text, "_BLOCK", 4)
    cell = "\n".join(f'line {i}, "quoted"' for i in range(20))
    with (tmp_path / "table.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["x", "y"], ["1", cell], ["2", "b"]])
    assert rows_by_fairdp(tmp_path / "table.csv") == [["1", cell], ["2", "b"]]


@pytest.mark.parametrize("block", [1, 20, 2**18])
def test_a_broken_line_is_named_wherever_it_is(write, monkeypatch, block):
    monkeypatch.setattr(csv_text, "_BLOCK", block)
    lines = 'x,y\n\n1,"a\n\nb"\n2,c\n3,"d, ""e"""\n'
    for broken, message in (
        ("4\n", r"line 8 has 1 fields, the header has 2; correct the line"),
        ("4,5,6\n", r"line 8 has 3 fields"),
        ('4,"5\n', r"line 8 is broken \(unexpected end of data\)"),
        ('4,"5"6\n', r"line 8 is broken"),
    ):
        with pytest.raises(ValueError, match=message):
            count_csv_rows(write(lines + broken))
    assert count_csv_rows(write(lines)) == 3


def test_a_column_without_a_name_gets_one(write):
    assert next(csv_tables(write(",x\n0,1\n"), 5)).column_names == ["Unnamed: 0", "x"]


def test_cells_longer_than_the_csv_module_allows_are_refused_beside_any_rows(write):
    for before in ("1,a\n", '1,"say ""a"""\n'):
        with pytest.raises(ValueError, match=r"line 3 is broken \(field larger than field limit"):
            count_csv_rows(write(f"x,y\n{before}2,{'a' * 200_000}\n"))
