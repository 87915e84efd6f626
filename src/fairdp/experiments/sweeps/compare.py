"""A comparison from beginning to end: train what is missing, sum it up, draw it, and write it all down."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fairdp._files import json_bytes, write_file
from fairdp.experiments.drawing import save_figure, tradeoff_figure
from fairdp.experiments.sweeps.comparison import Comparison, control_rows, privacy_cost, summary_rows, tidy_rows
from fairdp.experiments.sweeps.parallel import Say, Workers
from fairdp.experiments.sweeps.populations import load
from fairdp.experiments.sweeps.provenance import provenance
from fairdp.experiments.sweeps.store import Store
from fairdp.experiments.sweeps.training import train_all
from fairdp.metrics.rates import collapse_warning
from fairdp.report.comparison import PROVENANCE, SUMMARY

# Methods whose positive rate DP-SGD is moved to, as a control.
CONTROLLED = ("fairdp", "fairdp_parity")


@dataclass(frozen=True, kw_only=True)
class CompareTask:
    """A comparison, who does the work, and where it goes.

    Parameters
    ----------
    command
        How it was asked for, for the record.
    watch
        Told how many of the trainings that were still to do are done.
    """

    comparison: Comparison
    workers: Workers
    folder: Path
    command: str
    say: Say
    watch: Callable[[int, int], None]


def run_compare(task: CompareTask) -> dict[str, Any]:
    """Carry it out; finished trainings are kept one by one, so that the same task continues where it was stopped."""
    fits = task.comparison.fits()
    store = Store(task.folder / "runs")
    found = train_all(fits, store=store, workers=task.workers, say=task.say, watch=task.watch)
    delta = task.comparison.delta
    report: dict[str, Any] = {
        "delta": delta,
        "n_runs": len(found),
        "rows": summary_rows(found),
        "controls": [row for at in CONTROLLED for row in control_rows(found, at=at)],
        "privacy": privacy_cost({str(own): store.spent_on(own) for own in task.comparison.populations}, delta=delta),
    }
    notes = [note for own in task.comparison.populations for note in load(own).notes]
    report["warnings"] = [*notes, *(note for row in report["rows"] for note in _collapse(row))]
    seconds = sum(record["seconds"] for record in found.values())
    origin = provenance(task.command, task.comparison.populations, seconds=seconds)
    files = _write(report, tidy_rows(found), origin, task.folder)
    return {**report, "out": str(task.folder), "files": files}


def _collapse(row: dict[str, Any]) -> list[str]:
    """What to tell of a method that gives nearly everybody the same decision."""
    warning = collapse_warning(row["mean"]["positive_rate"])
    budget = "" if row["epsilon"] is None else f" at ε = {row['epsilon']:g}"
    return [f"{row['dataset']}, {row['method']}{budget}: {warning}"] if warning else []


def _write(report: dict[str, Any], rows: Sequence[dict[str, Any]], origin: dict[str, Any], folder: Path) -> list[str]:
    frame = pd.DataFrame(rows)
    parquet = io.BytesIO()
    frame.to_parquet(parquet, index=False)
    contents = {
        "results.parquet": parquet.getvalue(),
        "results.csv": frame.to_csv(index=False, lineterminator="\n").encode(),
        SUMMARY: json_bytes(report),
        PROVENANCE: json_bytes(origin),
    }
    for name, content in contents.items():
        write_file(folder / name, content)
    drawn = []
    # In a picture one control is a yardstick, and two are a crowd.
    first = next((at for at in CONTROLLED if any(row["at"] == at for row in report["controls"])), None)
    controls = [row for row in report["controls"] if row["at"] == first]
    for utility in ("accuracy", "auc"):
        figure = tradeoff_figure(report["rows"], utility=utility, controls=controls)
        drawn += save_figure(figure, folder, f"tradeoff-{utility}")
    return [*contents, *(path.name for path in drawn)]
