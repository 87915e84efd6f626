"""One table in twelve messy files: each from the file to the report in three commands, to the same model."""

import json
from pathlib import Path

import numpy as np
import pytest

from fairdp.data.schema import read_schema
from fairdp.data.tables import encode_file
from messy_tables import CHANGED, FILES, ODD, Text, people

N_ROWS = 900
SHORT = ("--n-steps", 40, "--sample-rate", 0.3, "--epsilon", 8, "--seed", 0, "--no-ledger", "--certify-fraction", 0)
# Of fits on 700 rows whose inputs or groups differ.
NOISE = 0.12


def learnable() -> list[dict]:
    """Whoever earns much is approved, mostly."""
    rng = np.random.default_rng(1)
    rows = people(N_ROWS)
    return [{**row, "approved": "yes" if (row["income"] or 0) + rng.normal(0, 2e4) > 5e4 else "no"} for row in rows]


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


def meaning(table, schema) -> list[tuple]:
    """Each row as it is trained on; files need not keep their rows in order."""
    data = encode_file(table, schema)
    return sorted(
        (*row, int(y), int(group)) for row, y, group in zip(data.X.tolist(), data.y, data.groups, strict=True)
    )


def one_more(run, write, options, tmp_path) -> tuple[list[tuple], list[tuple]]:
    """Meaning of rows by the schema of their file, without and with an odd row among them."""
    rows, places = people(120), (tmp_path / "without", tmp_path / "with")
    for place in places:
        place.mkdir()
    without = write(places[0], rows)
    proposed = run("schema", without, "--label", "approved", "--sensitive", "sex", *options)
    assert proposed.code == 0, proposed.err
    (tmp_path / "schema.yaml").write_text(proposed.out, encoding="utf-8")
    odd = {**rows[0], **ODD, "person": "another"}
    schema = read_schema(tmp_path / "schema.yaml")
    return meaning(without, schema), meaning(write(places[1], [*rows[:60], odd, *rows[60:]]), schema)


@pytest.mark.parametrize("name", [*FILES, *CHANGED])
def test_one_odd_row_more_changes_no_other_row_of_a_file(run, tmp_path, name):
    before, after = one_more(run, *{**FILES, **CHANGED}[name], tmp_path)
    assert len(after) == len(before) + 1
    for row in before:
        after.remove(row)
    assert len(after) == 1
