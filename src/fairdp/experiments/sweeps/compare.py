"""A comparison from beginning to end: train what is missing, sum it up, draw it, and write it all down."""

import io
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from fairdp._files import json_bytes, write_file
from fairdp.experiments.drawing import save_figure, tradeoff_figure
from fairdp.experiments.sweeps.comparison import Comparison, PrivacyCost, control_rows, summary_rows, tidy_rows
from fairdp.experiments.sweeps.fits import Fit, Row, Trained
from fairdp.experiments.sweeps.parallel import Say, Workers
from fairdp.experiments.sweeps.paying import Payment
from fairdp.experiments.sweeps.populations import Population, digest_of, load
from fairdp.experiments.sweeps.reading import ReadOnce
from fairdp.experiments.sweeps.store import Store, code_digest
from fairdp.experiments.sweeps.training import train_all
from fairdp.metrics.rates import collapse_warning
from fairdp.report.comparison import PROVENANCE, SUMMARY

PACKAGES = ("fairdp", "torch", "numpy", "scipy", "scikit-learn", "dp-accounting", "joblib")
# Methods whose positive rate DP-SGD is moved to, as a control.
CONTROLLED = ("fairdp", "fairdp_parity", "fairdp_frontier")


@dataclass(frozen=True, kw_only=True)
class CompareTask:
    """A comparison, who does the work, and where it goes.

    Parameters
    ----------
    command
        How it was asked for, for the record.
    watch
        Told how many of the trainings that were still to do are done.
    payment
        Where trainings on a user's own table add up what they spend.
    read
        How the columns of such a table were read, if they were.
    """

    comparison: Comparison
    workers: Workers
    folder: Path
    command: str
    say: Say
    watch: Callable[[int, int], None]
    payment: Payment | None = None
    read: ReadOnce | None = None


def run_compare(task: CompareTask) -> dict[str, object]:
    """Carry it out; finished trainings are kept one by one, so that the same task continues where it was stopped."""
    comparison, store = task.comparison, Store(task.folder / "trainings")
    found = train_all(
        comparison.fits(),
        store=store,
        workers=task.workers,
        say=task.say,
        watch=task.watch,
        payment=task.payment,
    )
    rows, delta = summary_rows(found), comparison.delta
    read_for = (0.0, 0.0) if task.read is None else (task.read.epsilon, task.read.delta)
    costs = [
        PrivacyCost.of(str(population), store.spent_on(population), delta=delta, read=read_for)
        for population in comparison.populations
    ]
    read = [] if task.read is None else [task.read.note]
    notes = [*read, *(note for population in comparison.populations for note in load(population).notes)]
    report: dict[str, object] = {
        "delta": delta,
        "n_runs": len(found),
        "positive": {
            population.dataset: schema.positive
            for population in comparison.populations
            if (schema := load(population).schema) is not None
        },
        "rows": [row.to_json() for row in rows],
        "controls": [row.to_json() for at in CONTROLLED for row in control_rows(found, at=at)],
        "privacy": [cost.to_json() for cost in costs],
        "warnings": [*notes, *(note for row in rows for note in _collapse(row))],
    }
    seconds = sum(result.seconds for result in found.values())
    frame = pd.DataFrame(tidy_rows(found))
    parquet = io.BytesIO()
    frame.to_parquet(parquet, index=False)
    contents = {
        "results.parquet": parquet.getvalue(),
        "results.csv": frame.to_csv(index=False, lineterminator="\n").encode(),
        SUMMARY: json_bytes(report),
        PROVENANCE: json_bytes(provenance(task.command, comparison.populations, seconds=seconds)),
    }
    for name, content in contents.items():
        write_file(task.folder / name, content)
    drawn = _draw(found, task.folder)
    return {**report, "out": str(task.folder), "files": [*contents, *(path.name for path in drawn)]}


def _collapse(row: Row) -> list[str]:
    """What to tell of a method that gives nearly everybody the same decision."""
    warning = collapse_warning(row.mean["positive_rate"])
    budget = "" if row.named["epsilon"] is None else f" at ε = {row.named['epsilon']:g}"
    return [f"{row.named['dataset']}, {row.named['method']}{budget}: {warning}"] if warning else []


def _draw(found: Mapping[Fit, Trained], folder: Path) -> list[Path]:
    # In a picture one control is a yardstick, and two are a crowd.
    controls = next((rows for at in CONTROLLED if (rows := control_rows(found, at=at))), [])
    drawn, beside = [row.to_json() for row in summary_rows(found)], [row.to_json() for row in controls]
    paths = []
    for utility in ("accuracy", "auc"):
        figure = tradeoff_figure(drawn, utility=utility, controls=beside)
        paths += save_figure(figure, folder, f"tradeoff-{utility}")
    return paths


def provenance(command: str, populations: Iterable[Population], *, seconds: float) -> dict[str, object]:
    """What somebody needs to make the same results again, and on what they were made; ``seconds`` of all trainings."""
    return {
        "command": command,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "code_sha256": code_digest(),
        "records": {str(population): _identified(population) for population in populations},
        "hardware": {"system": platform.platform(), "machine": platform.machine(), "processors": os.cpu_count()},
        "training_seconds": round(seconds, 1),
    }


def _identified(population: Population) -> str:
    """What the records are told apart by; of a user's own nobody else can check it."""
    return f"{'SHA-256' if population.key is None else 'commitment'} {digest_of(population)}"
