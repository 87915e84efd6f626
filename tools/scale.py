"""Time, memory and worth of more records and workers: measured points, a small model of them, and plans up to 10⁹ rows.

    python tools/scale.py [--measure]

With ``--measure`` steps are measured anew, by one worker and by two (some minutes); without, those of
results/scale.json are used. What whole fits take is read from results/large-tables.json (`tools/large_tables.py`).
Writes results/scale.json and results/scale.md.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

CHECKOUT = Path(__file__).resolve().parents[1]
RESULTS = CHECKOUT / "results"
N_INPUTS, N_RECORDS, N_STEPS = 40, 200_000, 14
# Batches and hidden units of the steps that are measured; those that the model is fitted to, and those it must predict.
BATCHES, WIDTHS, WORKERS = (4_000, 16_000, 64_000), (32, 128, 512), (1, 2)
N_GROUPS, SIZES = 4, tuple(10**power for power in range(4, 10))
Point = dict[str, Any]


def measured_steps() -> list[Point]:
    """Median seconds of a step for each batch and width, in this process or in the process group that it belongs to."""
    import torch

    from fairdp import FairDPClassifier, GroupedData
    from fairdp.distributed import process_group
    from fairdp.run.fit import Progress

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_RECORDS, N_INPUTS), dtype=np.float32)
    data = GroupedData(X, (X[:, 0] > 0).astype(np.int64), np.arange(N_RECORDS) % 2, ("a", "b"))
    found = []
    for batch, width in product(BATCHES, WIDTHS):
        times: list[float] = []
        model = FairDPClassifier(
            method="dpsgd",
            model="mlp",
            hidden=(width,),
            sample_rate=batch / N_RECORDS,
            n_steps=N_STEPS,
            delta=1e-6,
            certify_fraction=0,
            group_sizes="public",
            random_state=0,
        )
        observe = partial(_note, times)
        n_params = model.fit_grouped(data, progress=Progress(observe=observe)).score_model_.params.numel()
        seconds = statistics.median(b - a for a, b in pairwise(times[2:]))
        found.append({"batch": batch, "parameters": n_params, "workers": process_group().size, "seconds": seconds})
    return found if process_group().is_rank_zero else []


def _note(times: list[float], step: int, n_steps: int) -> None:
    times.append(time.perf_counter())


def measure() -> list[Point]:
    """The same by one worker and by two, in turn, three times; medians."""
    rounds = [_launched(size) for _ in range(3) for size in WORKERS]
    by_point: dict[tuple[int, int, int], list[float]] = {}
    for point in (point for points in rounds for point in points):
        by_point.setdefault((point["batch"], point["parameters"], point["workers"]), []).append(point["seconds"])
    names = ("batch", "parameters", "workers")
    return [{**dict(zip(names, key, strict=True)), "seconds": statistics.median(s)} for key, s in by_point.items()]


def _launched(size: int) -> list[Point]:
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--nproc-per-node", str(size)]
    command = [*(torchrun if size > 1 else [sys.executable]), __file__, "--steps"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def costs(point: Point) -> np.ndarray:
    """Parts of a step: a start, records, records times parameters, parameters, and messages."""
    batch, n_params, workers = point["batch"], point["parameters"], point["workers"]
    # Blocks of some 2,048 records are shared; those that are not the first worker's go to it, in double precision.
    n_blocks = max(1, batch // 2048)
    share, messages = batch / min(workers, n_blocks), math.ceil(n_blocks * (workers - 1) / workers)
    return np.array([1.0, share, share * n_params, n_params, workers > 1, messages * 8 * n_params])


NAMES = ("start", "record", "record x parameter", "parameter", "messages", "byte of messages")


def fitted_costs(points: list[Point]) -> np.ndarray:
    """Costs that are not negative and fit the points by their relative errors."""
    rows = np.array([costs(point) / point["seconds"] for point in points])
    scale = rows.max(0)
    return np.asarray(nnls(rows / scale, np.ones(len(points)))[0] / scale)


def checked_steps(points: list[Point]) -> tuple[np.ndarray, list[Point]]:
    """The costs from every second point, and what they predict of the others."""
    learnt, held = points[0::2], points[1::2]
    found = fitted_costs(learnt)
    return found, [{**point, "predicted": float(costs(point) @ found), "fitted": False} for point in held]


def checked_tables() -> list[Point]:
    """Time and memory of whole fits, as a line through the two sizes before the largest, beside that."""
    runs = json.loads((RESULTS / "large-tables.json").read_text())["runs"]
    found = []
    for what, of in (("processor seconds", lambda run: run["seconds"]["processor"]), ("bytes", _anonymous)):
        (n, low), (m, high) = ((run["rows"], of(run)) for run in runs[-3:-1])
        slope = (high - low) / (m - n)
        predicted = low + slope * (runs[-1]["rows"] - n)
        about = {"what": what, "per_row": slope, "at_zero": low - slope * n, "rows": runs[-1]["rows"]}
        found.append({**about, "predicted": predicted, "measured": of(runs[-1])})
    return found


def _anonymous(run: Point) -> float:
    return float(run["peak_anonymous_bytes"])


def planned(n_rows: int) -> Point:
    """Output of `fairdp plan` for a table of so many rows in four groups, at ε = 1 and δ = 1 / (10 n)."""
    from fairdp.planning import plan_report

    report = plan_report(
        group_sizes=(n_rows // N_GROUPS,) * N_GROUPS,
        method="fairdp_frontier",
        epsilon=1.0,
        delta=0.1 / n_rows,
    )
    privacy, certificate = report["privacy"], report["certificate"]
    batch = sum(report["expected_batch_sizes"])
    return {
        "rows": n_rows,
        "batch": batch,
        "steps": privacy.n_steps,
        "passes_per_record": batch * privacy.n_steps / sum(privacy.planned_sizes.values()),
        "noise_multiplier": privacy.noise_multiplier,
        "noise_on_mean": privacy.mean_noise_std,
        "slack": None if certificate is None else certificate["expected_widths"]["demographic_parity"],
    }


def page(content: dict[str, Any]) -> str:
    """The Markdown page."""
    prices = dict(zip(NAMES, content["costs"], strict=True))
    lines = [
        "# Scale",
        "",
        "A step of DP-SGD on an MLP takes "
        f"{1e6 * prices['start']:.0f} µs, {1e9 * prices['record']:.0f} ns a record, "
        f"{1e12 * prices['record x parameter']:.0f} ps a record and parameter, {1e9 * prices['parameter']:.1f} ns a "
        f"parameter, and with several workers {1e6 * prices['messages']:.0f} µs and "
        f"{1e9 * prices['byte of messages']:.2f} ns a byte. What workers do for records is shared by their number; "
        "the rest is not.",
        "",
        "| batch | parameters | workers | measured, ms | predicted, ms | error |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for point in content["steps"]:
        error = point["predicted"] / point["seconds"] - 1
        lines.append(
            f"| {point['batch']:,} | {point['parameters']:,} | {point['workers']} | {1e3 * point['seconds']:.1f} | "
            f"{1e3 * point['predicted']:.1f} | {error:+.0%} |"
        )
    lines += ["", "Whole fits, from the two tables before the largest to that:", ""]
    lines += ["| what | a row | at none | rows | measured | predicted | error |", "|---|---:|---:|---:|---:|---:|---:|"]
    for row in content["tables"]:
        cells = [f"{row[name]:.3g}" for name in ("per_row", "at_zero")]
        cells += [f"{row['rows']:,}", f"{row['measured']:.4g}", f"{row['predicted']:.4g}"]
        lines.append(f"| {row['what']} | {' | '.join(cells)} | {row['predicted'] / row['measured'] - 1:+.0%} |")
    lines += ["", "Plans for the default at ε = 1, δ = 1 / (10 n), four groups:", ""]
    heads = (
        "rows",
        "batch",
        "steps",
        "passes of a record",
        "noise multiplier",
        "noise on the mean",
        "certificate's slack",
    )
    lines += [f"| {' | '.join(heads)} |", "|" + "---:|" * len(heads)]
    for row in content["plans"]:
        lines.append(
            f"| {row['rows']:,} | {row['batch']:,.0f} | {row['steps']} | {row['passes_per_record']:.2g} | "
            f"{row['noise_multiplier']:.2f} | {row['noise_on_mean']:.1e} | {row['slack']:.2g} |"
        )
    return "\n".join([*lines, "", "<sub>`python tools/scale.py`</sub>", ""])


def main() -> int:
    """Measure or read, fit the model, plan, and write; exit code 1 if a prediction is off by a fifth."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measure", action="store_true", help="measure steps anew")
    parser.add_argument("--steps", action="store_true", help="only print the steps of this process or process group")
    chosen = parser.parse_args()
    if chosen.steps:
        found = measured_steps()
        if found:
            print(json.dumps(found))
        return 0
    path = RESULTS / "scale.json"
    points = measure() if chosen.measure else json.loads(path.read_text())["measured"]
    prices, steps = checked_steps(points)
    content = {"measured": points, "costs": prices.tolist(), "steps": steps, "tables": checked_tables()}
    content["plans"] = [planned(n_rows) for n_rows in SIZES]
    path.write_text(json.dumps(content, indent=1) + "\n")
    path.with_suffix(".md").write_text(page(content))
    print(page(content))
    errors = [point["predicted"] / point["seconds"] - 1 for point in steps]
    errors += [row["predicted"] / row["measured"] - 1 for row in content["tables"]]
    print(f"largest error {max(map(abs, errors)):.0%}")
    return 1 if max(map(abs, errors)) >= 0.2 else 0


if __name__ == "__main__":
    sys.exit(main())
