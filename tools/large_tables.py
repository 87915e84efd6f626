"""Cost of a fit by size of its table: `large_tables.py --millions 1 5 20` writes results/large-tables.json and .md.

For each size a table of so many rows and twenty columns is written as a folder of Parquet files, from a seed and in
pieces; `fairdp fit` trains the default method on it for one epoch, with certificate and ledger, in a process of its
own, whose anonymous memory (RssAnon, what the system cannot give back but by swapping) is read ten times a second.
Seconds of the processor are those of that process alone, whatever else the machine does.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CHECKOUT = Path(__file__).resolve().parents[1]
RESULTS = CHECKOUT / "results"
# Rows of one file.
PIECE = 250_000
SAMPLE_RATE = 0.01
NUMBERS = [f"x{place}" for place in range(10)]
CATEGORIES = {"job": 12, "city": 300, "branch": 40, "kind": 5, "channel": 4, "product": 25, "state": 3}
GROUPS = {"sex": ["f", "m"], "region": ["east", "west"]}
# The bars: anonymous memory at the largest size, and how much a million rows may take at it beside the smallest.
MOST_GIB, MOST_BENT = 2.0, 1.5


def write_table(folder: Path, n_rows: int) -> None:
    """A folder of Parquet files whose label follows some columns of each kind."""
    folder.mkdir()
    for number, start in enumerate(range(0, n_rows, PIECE)):
        pq.write_table(piece(min(PIECE, n_rows - start), seed=number), folder / f"part-{number:05d}.parquet")


def piece(n_rows: int, *, seed: int) -> pa.Table:
    """Some rows; one cell in twenty of some columns is missing."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(len(NUMBERS), n_rows)).round(3)
    codes = {name: rng.integers(size, size=n_rows) for name, size in CATEGORIES.items()}
    groups = {name: rng.integers(2, size=n_rows) for name in GROUPS}
    score = numbers[0] - 0.7 * numbers[1] + 0.5 * (codes["job"] % 3) + 0.3 * groups["sex"] + rng.logistic(size=n_rows)
    columns: dict[str, Any] = {
        name: pa.array(values, mask=rng.random(n_rows) < 0.05 if place % 2 else None)
        for place, (name, values) in enumerate(zip(NUMBERS, numbers, strict=True))
    }
    for name, values in codes.items():
        words = pa.array([f"{name} {code}" for code in range(CATEGORIES[name])])
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(values, mask=rng.random(n_rows) < 0.05), words)
    for name, values in groups.items():
        columns[name] = pa.array(np.array(GROUPS[name])[values])
    columns["y"] = pa.array(np.where(score > 0.6, "yes", "no"))
    return pa.table(columns)


def schema() -> dict[str, Any]:
    """The declared schema of the table."""
    numbers = [{"name": name, "type": "numeric", "low": -4, "high": 4, "missing": "indicator"} for name in NUMBERS]
    words = [
        {"name": name, "type": "categorical", "categories": [f"{name} {code}" for code in range(size)] + ["?"]}
        for name, size in CATEGORIES.items()
    ]
    sensitive = [{"name": name, "groups": values} for name, values in GROUPS.items()]
    outcome = {"label": "y", "positive": "yes", "negative": "no"}
    return {**outcome, "sensitive": sensitive, "columns": [*numbers, *words]}


def measured_fit(folder: Path, n_rows: int) -> dict[str, Any]:
    """Time and memory of one fit on a new table."""
    started = time.perf_counter()
    write_table(folder / "table", n_rows)
    (folder / "schema.json").write_text(json.dumps(schema()))
    written = time.perf_counter() - started
    fit = [
        "fit",
        folder / "table",
        "--schema",
        folder / "schema.json",
        "--epsilon",
        1,
        "--delta",
        1e-9,
        "--seed",
        0,
        "--json",
    ]
    fit += ["--sample-rate", SAMPLE_RATE, "--n-steps", round(1 / SAMPLE_RATE)]
    fit += ["--out", folder / "model", "--ledger", folder / "ledger.sqlite"]
    command = [sys.executable, "-m", "fairdp", *map(str, fit)]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src"), "TMPDIR": str(folder)}
    started, used = time.perf_counter(), processor_seconds()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        memory: list[tuple[float, int]] = []
        watcher = threading.Thread(target=watch, args=(process.pid, memory, started))
        watcher.start()
        out = process.communicate()[0]
        watcher.join()
    if process.returncode:
        sys.exit(process.returncode)
    report = json.loads(out)
    seconds = {**report["seconds"], "process": time.perf_counter() - started}
    seconds["processor"] = processor_seconds() - used
    when, peak = max(memory, key=lambda each: each[1])
    return {
        "rows": n_rows,
        "table_bytes": sum(path.stat().st_size for path in (folder / "table").iterdir()),
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "seconds_to_write_the_table": round(written, 1),
        "peak_anonymous_bytes": peak,
        "peak_at_second": round(when, 1),
        "n_train": report["n_train"],
        "n_certify": report["n_certify"],
        "auc": report["metrics"]["auc"],
    }


def processor_seconds() -> float:
    """Of child processes that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def watch(pid: int, memory: list[tuple[float, int]], started: float) -> None:
    """Note the anonymous memory of a process until it ends."""
    while True:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")]
        except OSError:
            return
        if not found:
            return
        memory.append((time.perf_counter() - started, found[0]))
        time.sleep(0.1)


def known(out: Path) -> list[dict[str, Any]]:
    """Earlier measurements, so that sizes can be measured one at a time."""
    path = out / "large-tables.json"
    return json.loads(path.read_text())["runs"] if path.exists() else []


def rows_of(run: dict[str, Any]) -> int:
    """By which runs are sorted."""
    return run["rows"]


def page(runs: list[dict[str, Any]]) -> str:
    """The table that people read."""
    phases = list(runs[0]["seconds"])
    lines = [
        "# Tables larger than memory",
        "",
        f"`fairdp fit` with its default method, one epoch (sample rate {SAMPLE_RATE:g}), a certificate and the ledger, "
        "on 20 columns in a folder of Parquet files.",
        "",
        "| million rows | "
        + " | ".join(f"{name}, s" for name in phases)
        + " | processor, s / million | anonymous memory, GiB | "
        "bytes / row |",
        "|" + "---|" * (len(phases) + 4),
    ]
    for run in runs:
        millions, peak = run["rows"] / 1e6, run["peak_anonymous_bytes"]
        cells = [f"{millions:g}", *(f"{run['seconds'][name]:.1f}" for name in phases)]
        cells += [f"{run['seconds']['processor'] / millions:.1f}", f"{peak / 2**30:.2f}", f"{peak / run['rows']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    first, last = runs[0], runs[-1]
    growth = (last["peak_anonymous_bytes"] - first["peak_anonymous_bytes"]) / max(1, last["rows"] - first["rows"])
    lines += ["", f"From the first size to the last, {growth:.0f} bytes more for each row more.", ""]
    millions = " ".join(f"{run['rows'] / 1e6:g}" for run in runs)
    lines += [f"<sub>`python tools/large_tables.py --millions {millions}`</sub>", ""]
    return "\n".join(lines)


def misses(runs: list[dict[str, Any]]) -> list[str]:
    """Which bars the runs do not clear."""
    per_row = [run["seconds"]["processor"] / run["rows"] for run in runs]
    found = []
    if runs[-1]["peak_anonymous_bytes"] >= MOST_GIB * 2**30:
        found.append(f"anonymous memory of {runs[-1]['peak_anonymous_bytes'] / 2**30:.2f} GiB, at most {MOST_GIB:g}")
    if per_row[-1] > MOST_BENT * per_row[0]:
        found.append(f"a row of the largest takes {per_row[-1] / per_row[0]:.2f} times as long as one of the smallest")
    return found


def main() -> int:
    """Measure every size, write the results, and say whether the bars are cleared."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] + ".")
    parser.add_argument("--millions", type=float, nargs="+", default=[1.0, 5.0, 20.0], help="rows, in millions")
    parser.add_argument("--scratch", type=Path, help="folder for the tables; some 100 bytes a row")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    arguments = parser.parse_args()
    runs = []
    for millions in arguments.millions:
        with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="large-tables-") as folder:
            runs.append(measured_fit(Path(folder), round(millions * 1e6)))
        print(json.dumps(runs[-1]), flush=True)
    measured = {run["rows"] for run in runs}
    runs = sorted([*runs, *(run for run in known(arguments.out) if run["rows"] not in measured)], key=rows_of)
    about = {"processors": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    (arguments.out / "large-tables.json").write_text(json.dumps({"about": about, "runs": runs}, indent=2) + "\n")
    (arguments.out / "large-tables.md").write_text(page(runs))
    print(page(runs))
    for miss in (missed := misses(runs)):
        print(f"missed: {miss}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
