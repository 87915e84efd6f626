"""A certificate on a million records: read in batches, in bounded memory and time."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

N_ROWS = 1_000_000
REGIONS, AGES = ("north", "east", "south", "west"), ("young", "middle", "older", "old")
MEASURED = """
import atexit, sys, time
def report():
    memory = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(memory, time.process_time(), file=sys.stderr)
atexit.register(report)
from fairdp.cli import main
main()
"""

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process from /proc"),
]


def applicants(n_rows: int, seed: int) -> pd.DataFrame:
    """Twelve columns: eight numbers, a word, two protected columns of four values each, and a label."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n_rows, 8)).round(4)
    frame = pd.DataFrame(numbers, columns=[f"x{i}" for i in range(8)])
    frame["job"] = rng.choice(["clerk", "driver", "nurse"], n_rows)
    frame["region"], frame["age"] = rng.choice(REGIONS, n_rows), rng.choice(AGES, n_rows)
    frame["approved"] = np.where(numbers[:, 0] + rng.normal(size=n_rows) > 0, "yes", "no")
    return frame


def measured(*arguments) -> SimpleNamespace:
    """A command in a fresh process: its JSON, kibibytes at its peak, and seconds of CPU."""
    command = [sys.executable, "-c", MEASURED, *map(str, arguments), "--json"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    memory, seconds = run.stderr.splitlines()[-1].split()
    return SimpleNamespace(report=json.loads(run.stdout), kibibytes=int(memory), seconds=float(seconds))


def written(frame: pd.DataFrame, path):
    pyarrow.csv.write_csv(pa.Table.from_pandas(frame, preserve_index=False), path)
    return path


def tau_of(run: SimpleNamespace) -> float:
    return run.report["certificate"]["demographic_parity"]["tau"]


def test_a_million_records_of_sixteen_groups_take_less_than_a_minute_of_cpu_and_a_gibibyte(tmp_path):
    """Of a CSV file, which takes most; `data/test_batch_memory.py` has the other formats."""
    train = written(applicants(4000, seed=0), tmp_path / "train.csv")
    columns = ("--label", "approved", "--sensitive", "region,age")
    settings = ("--epsilon", 2, "--n-steps", 20, "--sample-rate", 0.2, "--seed", 0)
    fitted = measured("fit", train, *columns, *settings, "--out", tmp_path / "model")
    fresh = written(applicants(N_ROWS, seed=1), tmp_path / "fresh.csv")
    found = measured("certify", tmp_path / "model", fresh, "--epsilon", 1)
    assert found.report["n_certify"] == N_ROWS
    assert len(found.report["certificate"]["group_names"]) == 16
    # Bounds from a million records are far below those from the few hundred that were held out.
    assert tau_of(found) < 0.05 < tau_of(fitted)
    assert found.kibibytes < 2**20
    assert found.seconds < 60
