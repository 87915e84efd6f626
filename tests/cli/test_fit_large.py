"""A model from two million rows: read in batches, encoded into narrow rows of a file, and read when sampled."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml

from pool import made_once

N_ROWS, ROWS_AT_A_TIME = 2_000_000, 500_000
# With the five numbers 40 features: 305 MiB in single precision.
CATEGORIES = {
    name: [f"{name}{i}" for i in range(n)] for name, n in (("job", 6), ("trade", 8), ("area", 9), ("way", 12))
}
PROTECTED = {"sex": ["f", "m"], "age": ["old", "young"]}
SCHEMA = {
    "label": "approved",
    "positive": "yes",
    "negative": "no",
    "sensitive": [{"name": name, "groups": values} for name, values in PROTECTED.items()],
    "columns": [
        *({"name": f"x{i}", "type": "numeric", "low": -4, "high": 4} for i in range(5)),
        *({"name": name, "type": "categorical", "categories": values} for name, values in CATEGORIES.items()),
    ],
}
# An epoch: each step takes every record with a chance of 0.002.
EPOCH = ("--sample-rate", "0.002", "--n-steps", "500")
FEW_STEPS = ("--sample-rate", "0.002", "--n-steps", "50")
# Kibibytes: five million rows need some .6 GiB and one million .38; held as a whole, the table takes 1.2 GiB.
LIMIT = 3 * 2**18

IMPORTS = "import fairdp.classifier, pandas, pyarrow.parquet, sklearn, torch"
COMMAND = "from fairdp.cli import main; main()"
# What a command would hold that reads the whole table, and then encodes it.
HOLDING_ALL = """
from fairdp.data.schema import read_schema
from fairdp.data.tables import encode_table, read_table
frame = read_table(sys.argv[2])
data = encode_table(frame, read_schema(sys.argv[4]))
"""
MEASURED = """
import atexit, sys
def report():
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
atexit.register(report)
"""

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process from /proc"),
]


def applicants(seed: int) -> pa.Table:
    """Twelve columns: five numbers, four words, two protected columns of two values each, and a label."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(5, ROWS_AT_A_TIME)).round(4)
    words = {
        name: pa.DictionaryArray.from_arrays(rng.integers(len(values), size=ROWS_AT_A_TIME), values).cast(pa.string())
        for name, values in (CATEGORIES | PROTECTED).items()
    }
    approved = np.where(numbers[0] + numbers[1] + rng.normal(size=ROWS_AT_A_TIME) > 0, "yes", "no")
    return pa.table({**{f"x{i}": own for i, own in enumerate(numbers)}, **words, "approved": approved})


def large_table(path: Path) -> None:
    """Written some rows at a time, as it will be read."""
    schema = applicants(0).schema
    writer = pq.ParquetWriter(path, schema) if path.suffix == ".parquet" else pyarrow.csv.CSVWriter(path, schema)
    with writer:
        for seed in range(N_ROWS // ROWS_AT_A_TIME):
            writer.write_table(applicants(seed))
    path.with_name("schema.yaml").write_text(yaml.safe_dump(SCHEMA))


def table_in(ending: str) -> Path:
    """Written once for all tests."""
    return made_once(lambda place: large_table(place / f"large.{ending}"), "large", ending) / f"large.{ending}"


def measured(code: str, *arguments: object) -> tuple[int, str]:
    """Kibibytes that a fresh process needs at its peak, and what it prints."""
    command = [sys.executable, "-c", MEASURED + code, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return int(run.stderr.splitlines()[-1]), run.stdout


def fit_of(table: Path, out: Path, *settings: str) -> tuple[object, ...]:
    """The command; delta is far below one over the number of rows, as it must be."""
    common = ("--delta", 1e-8, "--seed", 0, "--out", out, "--json")
    return "fit", table, "--schema", table.with_name("schema.yaml"), *settings, *common


@pytest.mark.parametrize(("ending", "settings"), [("parquet", EPOCH), ("csv", FEW_STEPS)], ids=["parquet", "csv"])
def test_two_million_rows_are_trained_on_in_little_memory_above_the_libraries(tmp_path, ending, settings):
    libraries, _ = measured(IMPORTS)
    peak, printed = measured(COMMAND, *fit_of(table_in(ending), tmp_path / "model", *settings))
    report = json.loads(printed)
    assert peak - libraries < LIMIT
    assert report["n_train"] + report["n_certify"] + report["n_test"] == N_ROWS
    assert len(report["certificate"]["group_names"]) == 4
    assert report["metrics"]["auc"] > 0.85


def test_that_check_notices_a_table_that_is_held_as_a_whole(tmp_path):
    libraries, _ = measured(IMPORTS)
    peak, _ = measured(HOLDING_ALL + COMMAND, *fit_of(table_in("parquet"), tmp_path / "model", *FEW_STEPS))
    assert peak - libraries > LIMIT
