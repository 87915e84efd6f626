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
SHORT = ("--n-steps", 15, "--sample-rate", 0.3, "--epsilon", 4, "--seed", 0, "--no-ledger", "--certify-fraction", 0)


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
    """The format found is stated and saved: next month's file is read by it, a plain one by options, decided alike."""
    variant, sheet = VARIANTS[name], VARIANTS[name].found.get("sheet")
    table = variant.write(tmp_path, people(400))
    proposed(run, table, *(["--sheet", sheet] if sheet else []))
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


def test_what_was_found_is_said_in_one_line(run, golden, tmp_path):
    for text in (Text(**GERMAN, encoding="cp1252"), Text(name="plain.csv")):
        golden("models", f"schema of {text.name}", proposed(run, text(tmp_path, people())))


def test_without_a_schema_a_file_is_plain_or_as_the_options_say(run, refused, tmp_path):
    path = Text(sep=";", decimal=",")(tmp_path, people(2000))
    refused("fit", path, *COLUMNS, "--out", "model", *SHORT)
    assert run("fit", path, *COLUMNS, "--out", "model", "--sep", ";", "--decimal", ",", *SHORT).code == 0
    saved = json.loads((tmp_path / "model" / "model.json").read_text())["feature_schema"]
    assert saved["format"] == {"sep": ";", "decimal": ","}
    assert {column["name"]: column["type"] for column in saved["columns"]}["income"] == "numeric"


def test_several_ids_are_kept(run, refused, tmp_path):
    Path("schema.yaml").write_text(yaml.safe_dump(SCHEMA), encoding="utf-8")
    path = Text()(tmp_path, people(400))
    assert run("fit", path, "--schema", "schema.yaml", "--out", "model", *SHORT).code == 0
    assert run("predict", "model", path, "--out", "out.parquet", "--id", "person,town").code == 0
    found = pd.read_parquet("out.parquet")
    assert found.columns.tolist()[:3] == ["person", "town", "score"]
    assert found["town"].tolist() == [row["town"] for row in people(400)]
    for id_column in ("name", "person,score"):
        refused("predict", "model", path, "--out", "out.csv", "--id", id_column)
    renamed = [{**row, "score": 1} for row in people(50)]
    refused("predict", "model", Text()(tmp_path, renamed), "--out", "out.csv", "--id", "score")


def folder_with(**files: pa.Table) -> Path:
    Path("folder").mkdir()
    for name, table in files.items():
        pq.write_table(table, f"folder/{name}.parquet")
    return Path("folder")


def test_ids_of_two_types_are_refused_in_one_line_or_written_as_text(run, refused, tmp_path):
    Path("schema.yaml").write_text(yaml.safe_dump(SCHEMA), encoding="utf-8")
    path = Text()(tmp_path, people(400))
    assert run("fit", path, "--schema", "schema.yaml", "--out", "model", *SHORT).code == 0
    numbered, named = (
        pd.DataFrame(people(50)).assign(person=ids) for ids in (range(50), [f"A{number}" for number in range(50)])
    )
    folder = folder_with(a=pa.Table.from_pandas(numbered), b=pa.Table.from_pandas(named))
    refused("predict", "model", folder, "--out", "out.parquet", "--id", "person")
    assert run("predict", "model", folder, "--out", "out.csv", "--id", "person").code == 0
    assert pd.read_csv("out.csv")["person"].tolist() == [*map(str, range(50)), *named["person"]]


def file_with(name: str, content: bytes) -> Path:
    Path(name).write_bytes(content)
    return Path(name)


def packed(tmp_path) -> bytes:
    return gzip.compress(Text()(tmp_path, people()).read_bytes())


def sheets(place):
    return workbook(sheets=("a", "b"))(place, people())


def plain(place):
    return Text()(place, people())


REFUSED = {
    "wrong sheet": (sheets, ["--sheet", "c"]),
    "several sheets": (sheets, []),
    "empty sheet": (sheets, ["--sheet", "a"]),
    "no workbook": (lambda place: file_with("t.xlsx", b"no"), []),
    "wrong encoding": (lambda place: Text(encoding="cp1252")(place, people()), []),
    "wrong encoding named": (lambda place: Text(encoding="cp1252")(place, people()), ["--encoding", "ascii"]),
    "UTF-16 without a mark": (lambda place: Text(encoding="utf-16-le")(place, people()), ["--encoding", "utf-16"]),
    "unknown encoding": (plain, ["--encoding", "x9"]),
    "wrong separator": (plain, ["--sep", ";"]),
    "no separator": (plain, ["--sep", "ab"]),
    "truncated": (lambda place: file_with("t.csv.gz", packed(place)[:-40]), []),
    "not packed": (lambda place: file_with("t.csv.gz", b"a,b\n1,2\n"), []),
    "empty": (lambda place: file_with("t.csv", b""), []),
    "empty and packed": (lambda place: file_with("t.csv.gz", gzip.compress(b"")), []),
    "empty workbook": (lambda place: workbook()(place, [{"": None}]), []),
    "folder without Parquet": (lambda place: folder_with(), []),
    "other columns": (lambda place: folder_with(a=pa.table({"x": [1], "y": [2]}), b=pa.table({"x": [1]})), []),
    "no rows in any": (lambda place: folder_with(a=pa.table({"x": []})), []),
    "no Arrow": (lambda place: file_with("t.feather", b"no"), []),
}


@pytest.mark.parametrize("command", ["fit", "compare"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line(refused, tmp_path, command, case):
    Path("schema.yaml").write_text(yaml.safe_dump(SCHEMA), encoding="utf-8")
    make, options = REFUSED[case]
    refused(command, make(tmp_path), "--schema", "schema.yaml", "--out", "model", "--no-ledger", *options)


PROPOSALS = {"several sheets", "wrong encoding"}


@pytest.mark.parametrize("case", sorted(set(REFUSED) - PROPOSALS))
def test_so_it_is_for_a_proposal(refused, tmp_path, case):
    """All but what a proposal finds out: an encoding, a sheet."""
    make, options = REFUSED[case]
    refused("schema", make(tmp_path), *COLUMNS, *options)


@pytest.mark.parametrize("options", [("--sep", "|"), ("--no-day-first",)], ids=" ".join)
def test_options_do_not_contradict_the_schema_of_a_fit(refused, tmp_path, options):
    entry = {"sep": ";", "day_first": True}
    Path("schema.yaml").write_text(yaml.safe_dump({**SCHEMA, "format": entry}), encoding="utf-8")
    refused("fit", Text(sep=";")(tmp_path, people()), "--schema", "schema.yaml", *options)


def test_a_named_data_set_has_no_format(refused):
    refused("fit", "--dataset", "synthetic", "--sep", ";")
