"""One table in twelve messy files: each from the file to the report in three commands, to the same model."""

import json
from pathlib import Path

import numpy as np
import pytest

from messy_tables import GERMAN, VARIANTS, Text, months, people, workbook

N_ROWS = 900
SHORT = ("--n-steps", 40, "--sample-rate", 0.3, "--epsilon", 8, "--seed", 0, "--no-ledger", "--certify-fraction", 0.3)
# Of fits on 700 rows whose inputs or groups differ.
NOISE = 0.12


def learnable() -> list[dict]:
    """Whoever earns much is approved, mostly."""
    rng = np.random.default_rng(1)
    rows = people(N_ROWS)
    return [{**row, "approved": "yes" if (row["income"] or 0) + rng.normal(0, 2e4) > 5e4 else "no"} for row in rows]


def with_column(**cells):
    def write(folder: Path, rows: list[dict]) -> Path:
        made = [{**row, **{name: make(place) for name, make in cells.items()}} for place, row in enumerate(rows)]
        return Text()(folder, made)

    return write


def without_some_groups(folder: Path, rows: list[dict]) -> Path:
    return Text()(folder, [{**row, "sex": None if place % 9 == 0 else row["sex"]} for place, row in enumerate(rows)])


# How the file is written, and the options that its schema needs.
FILES = {
    "separator": (VARIANTS["semicolons"].write, ()),
    "decimals": (VARIANTS["decimal commas"].write, ()),
    "dates": (VARIANTS["as in France"].write, ()),
    "encoding": (VARIANTS["cp1252"].write, ()),
    "UTF-16": (VARIANTS["UTF-16"].write, ()),
    "packed": (VARIANTS["packed"].write, ()),
    "workbook": (VARIANTS["a workbook"].write, ()),
    "sheet": (workbook(sheets=("a", "people"), text=Text(**GERMAN)), ("--sheet", "people")),
    "folder of Parquet": (months, ()),
}
CHANGED = {
    "missing groups": (without_some_groups, ()),
    "ids and free text": (with_column(case=lambda i: 7 * i + 100, remark=lambda i: f"spoke to {i}, twice"), ()),
    "high cardinality": (with_column(zip=lambda i: f"{i * i % 101:05d}", code=lambda i: i * 7 % 300), ()),
}


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def three_commands(run, write, options) -> dict:
    table = write(Path(), learnable())
    proposed = run("schema", table, "--label", "approved", "--sensitive", "sex", *options)
    assert proposed.code == 0, proposed.err
    Path("schema.yaml").write_text(proposed.out, encoding="utf-8")
    fitted = run("fit", table, "--schema", "schema.yaml", "--out", "model", "--overwrite", "--json", *SHORT)
    assert fitted.code == 0, fitted.err
    reported = run("report", "model", "--out", "report.html")
    assert reported.code == 0, reported.err
    assert "approved" in Path("report.html").read_text(encoding="utf-8")
    return json.loads(fitted.out)


def assert_as_the_plain_table(run, files, *, within: float) -> None:
    plain = three_commands(run, Text(name="plain.csv"), ())["metrics"]
    assert plain["auc"] > 0.75
    for name, (write, options) in files.items():
        found = three_commands(run, write, options)["metrics"]
        for metric in ("auc", "accuracy"):
            assert found[metric] == pytest.approx(plain[metric], abs=within), name


def test_a_messy_file_becomes_the_model_of_the_plain_one(run):
    assert_as_the_plain_table(run, {"dates": FILES["dates"]}, within=0)


@pytest.mark.more
def test_nine_ways_to_write_a_table_lead_to_one_model(run):
    assert_as_the_plain_table(run, FILES, within=0)


@pytest.mark.more
def test_three_tables_that_hold_more_or_less_lead_to_one_as_good(run):
    assert len(FILES) + len(CHANGED) == 12
    assert_as_the_plain_table(run, CHANGED, within=NOISE)
    saved = json.loads(Path("model/model.json").read_text())["feature_schema"]
    assert {column["name"] for column in saved["columns"]} >= {"income", "code"}
