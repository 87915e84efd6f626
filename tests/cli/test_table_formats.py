"""Commands on tables as people have them: a format is found once, written down, and saved with the model."""

import gzip
import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from messy_tables import GERMAN, SCHEMA, VARIANTS, Text, people, workbook

COLUMNS = ("--label", "approved", "--sensitive", "sex")
SHORT = ("--n-steps", 15, "--sample-rate", 0.3, "--epsilon", 4, "--seed", 0, "--no-ledger", "--certify-fraction", 0.3)


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def proposed(run, path, *options) -> str:
    """The schema of a file as it is proposed, and confirmed without a look."""
    result = run("schema", path, *COLUMNS, *options)
    assert result.code == 0, result.err
    Path("schema.yaml").write_text(result.out.replace("declared: false", "declared: true"), encoding="utf-8")
    return result.err


WAYS = ["as in Germany", "as in France", "UTF-16", "text in a second sheet", "Parquet by month"]


@pytest.mark.parametrize("name", WAYS)
def test_from_a_messy_file_to_decisions_in_three_commands(run, tmp_path, name):
    """What is found is said and saved: next month's file is read by it, a plain one by options, and decided alike."""
    variant, sheet = VARIANTS[name], VARIANTS[name].found.get("sheet")
    table = variant.write(tmp_path, people(400))
    said = proposed(run, table, *(["--sheet", sheet] if sheet else []))
    assert said.splitlines()[0].startswith("Read as ")
    assert yaml.safe_load(Path("schema.yaml").read_text(encoding="utf-8")).get("format", {}) == variant.found
    fitted = run("fit", table, "--schema", "schema.yaml", "--out", "model", *SHORT)
    assert fitted.code == 0, fitted.err
    saved = json.loads((tmp_path / "model" / "model.json").read_text())["feature_schema"]
    assert saved.get("format", {}) == variant.found
    shutil.rmtree(table) if table.is_dir() else table.unlink()
    month = variant.write(tmp_path, people(90))
    assert run("predict", "model", month, "--out", "messy.csv", "--id", "person").code == 0
    plain = Text(name="plain.csv")(tmp_path, people(90))
    options = ("--sep", ",", "--decimal", ".", "--thousands", "", "--encoding", "utf-8", "--no-day-first")
    assert run("predict", "model", plain, "--out", "plain-out.csv", "--id", "person", *options).code == 0
    found, expected = pd.read_csv("messy.csv"), pd.read_csv("plain-out.csv")
    assert found.columns[0] == "person"
    assert found["person"].tolist() == [row["person"] for row in people(90)]
    pd.testing.assert_frame_equal(found, expected)
    assert run("evaluate", "model", month).code == 0


def test_what_was_found_is_said_in_one_line(run, tmp_path):
    said = proposed(run, Text(**GERMAN, encoding="cp1252")(tmp_path, people()))
    assert said.splitlines()[0] == (
        "Read as semicolons between cells, decimal commas, points between thousands, dates with the day first, "
        "encoding cp1252; options such as --sep and --day-first say otherwise."
    )
    assert proposed(run, Text(name="plain.csv")(tmp_path, people())).splitlines()[0].startswith("Read as a plain file;")


def test_without_a_schema_a_file_is_plain_or_as_the_options_say(run, tmp_path):
    path = Text(sep=";", decimal=",")(tmp_path, people(2000))
    refused = run("fit", path, *COLUMNS, "--out", "model", *SHORT)
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "separated by semicolons; name it with --sep, or let fairdp schema find it." in refused.err
    assert run("fit", path, *COLUMNS, "--out", "model", "--sep", ";", "--decimal", ",", *SHORT).code == 0
    saved = json.loads((tmp_path / "model" / "model.json").read_text())["feature_schema"]
    assert saved["format"] == {"sep": ";", "decimal": ","}
    assert {column["name"]: column["type"] for column in saved["columns"]}["income"] == "numeric"


def test_several_ids_are_kept(run, tmp_path):
    Path("schema.yaml").write_text(yaml.safe_dump(SCHEMA), encoding="utf-8")
    path = Text()(tmp_path, people(400))
    assert run("fit", path, "--schema", "schema.yaml", "--out", "model", *SHORT).code == 0
    assert run("predict", "model", path, "--out", "out.parquet", "--id", "person,town").code == 0
    found = pd.read_parquet("out.parquet")
    assert found.columns.tolist()[:3] == ["person", "town", "score"]
    assert found["town"].tolist() == [row["town"] for row in people(400)]
    for id_column, words in (("name", "is not a column of"), ("person,score", "is not a column of")):
        refused = run("predict", "model", path, "--out", "out.csv", "--id", id_column)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert words in refused.err
        assert "--id=" in refused.err
    renamed = [{**row, "score": 1} for row in people(50)]
    refused = run("predict", "model", Text()(tmp_path, renamed), "--out", "out.csv", "--id", "score")
    assert "--id='score' is the name of a column that is written; rename it in the table." in refused.err


def folder_with(**files: pa.Table) -> Path:
    Path("folder").mkdir()
    for name, table in files.items():
        pq.write_table(table, f"folder/{name}.parquet")
    return Path("folder")


def test_ids_of_two_types_are_refused_in_one_line_or_written_as_text(run, tmp_path):
    Path("schema.yaml").write_text(yaml.safe_dump(SCHEMA), encoding="utf-8")
    path = Text()(tmp_path, people(400))
    assert run("fit", path, "--schema", "schema.yaml", "--out", "model", *SHORT).code == 0
    numbered, named = (
        pd.DataFrame(people(50)).assign(person=ids) for ids in (range(50), [f"A{number}" for number in range(50)])
    )
    folder = folder_with(a=pa.Table.from_pandas(numbered), b=pa.Table.from_pandas(named))
    refused = run("predict", "model", folder, "--out", "out.parquet", "--id", "person")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "write to a .csv file, which takes both" in refused.err
    assert not list(tmp_path.glob("*out.parquet*"))
    assert run("predict", "model", folder, "--out", "out.csv", "--id", "person").code == 0
    assert pd.read_csv("out.csv")["person"].tolist() == [*map(str, range(50)), *named["person"]]


def file_with(name: str, content: bytes) -> Path:
    Path(name).write_bytes(content)
    return Path(name)


def packed(tmp_path) -> bytes:
    return gzip.compress(Text()(tmp_path, people()).read_bytes())


REFUSED = {
    "wrong sheet": (
        lambda place: workbook(sheets=("a", "b"))(place, people()),
        ["--sheet", "c"],
        ["has no sheet 'c', it has 'a', 'b'; name one with --sheet."],
    ),
    "several sheets": (lambda place: workbook(sheets=("a", "b"))(place, people()), [], ["'a', 'b'; name one with"]),
    "empty sheet": (
        lambda place: workbook(sheets=("a", "b"))(place, people()),
        ["--sheet", "a"],
        ["people.xlsx' has no rows."],
    ),
    "no workbook": (lambda place: file_with("t.xlsx", b"no"), [], ["is not a workbook that can be read"]),
    "wrong encoding": (
        lambda place: Text(encoding="cp1252")(place, people()),
        [],
        ["is not UTF-8 at line 2; name its encoding with --encoding"],
    ),
    "wrong encoding named": (
        lambda place: Text(encoding="cp1252")(place, people()),
        ["--encoding", "ascii"],
        ["is not ascii at line 2; name its encoding with --encoding"],
    ),
    "UTF-16 without a mark": (
        lambda place: Text(encoding="utf-16-le")(place, people()),
        ["--encoding", "utf-16"],
        ["is not utf-16 at line 1"],
    ),
    "unknown encoding": (lambda place: Text()(place, people()), ["--encoding", "x9"], ["--encoding='x9' is unknown"]),
    "wrong separator": (lambda place: Text()(place, people()), ["--sep", ";"], ["separated by commas", "--sep"]),
    "no separator": (lambda place: Text()(place, people()), ["--sep", "ab"], ["--sep must be one character"]),
    "truncated": (
        lambda place: file_with("t.csv.gz", packed(place)[:-40]),
        [],
        ["is not a whole gzip file; copy or pack it again."],
    ),
    "not packed": (lambda place: file_with("t.csv.gz", b"a,b\n1,2\n"), [], ["is not a whole gzip file"]),
    "empty": (lambda place: file_with("t.csv", b""), [], ["'t.csv' is empty."]),
    "empty and packed": (lambda place: file_with("t.csv.gz", gzip.compress(b"")), [], ["'t.csv.gz' is empty."]),
    "empty workbook": (lambda place: workbook()(place, [{"": None}]), [], ["people.xlsx' is empty."]),
    "folder without Parquet": (lambda place: folder_with(), [], ["folder without Parquet files"]),
    "other columns": (
        lambda place: folder_with(a=pa.table({"x": [1], "y": [2]}), b=pa.table({"x": [1]})),
        [],
        ["'b.parquet' and the first file do not both have the column 'y'; give all files the same columns."],
    ),
    "no rows in any": (lambda place: folder_with(a=pa.table({"x": []})), [], ["has no rows"]),
    "no Arrow": (lambda place: file_with("t.feather", b"no"), [], ["is not an Arrow or Feather file"]),
}


@pytest.mark.parametrize("command", ["fit", "compare"])
@pytest.mark.parametrize(("make", "options", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line(run, tmp_path, command, make, options, words):
    Path("schema.yaml").write_text(yaml.safe_dump(SCHEMA), encoding="utf-8")
    path = make(tmp_path)
    result = run(command, path, "--schema", "schema.yaml", "--out", "model", "--no-ledger", *options)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("fairdp: ")
    assert result.err.count("\n") == 1
    for word in words:
        assert word in result.err
    assert not Path("model").exists()


PROPOSALS = {"several sheets", "wrong encoding"}


@pytest.mark.parametrize("name", sorted(set(REFUSED) - PROPOSALS))
def test_so_it_is_for_a_proposal(run, tmp_path, name):
    """All but what a proposal finds out: an encoding, a sheet."""
    make, options, _ = REFUSED[name]
    result = run("schema", make(tmp_path), *COLUMNS, *options)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("fairdp: ")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sep", "|"], "--sep is '|', but the schema says ';'; make them agree."),
        (["--no-day-first"], "--day-first is False, but the schema says True; make them agree."),
    ],
)
def test_options_do_not_contradict_the_schema_of_a_fit(run, tmp_path, options, words):
    entry = {"sep": ";", "day_first": True}
    Path("schema.yaml").write_text(yaml.safe_dump({**SCHEMA, "format": entry}), encoding="utf-8")
    result = run("fit", Text(sep=";")(tmp_path, people()), "--schema", "schema.yaml", *options)
    assert (result.code, result.err) == (2, f"fairdp: {words}\n")


def test_a_named_data_set_has_no_format(run):
    result = run("fit", "--dataset", "synthetic", "--sep", ";")
    assert (result.code, "--sep goes with a table" in result.err) == (2, True)
