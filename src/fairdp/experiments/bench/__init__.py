"""What steps and whole fits cost beside those of others, measured side by side in one process."""

import os
import platform
import warnings
from importlib.metadata import version
from typing import Any

import torch

from fairdp import _checks
from fairdp.experiments.bench.contestants import Task, all_steps, fairdp_and_nonprivate, require_rivals
from fairdp.experiments.bench.meters import median_milliseconds, peak_megabytes
from fairdp.experiments.bench.methods import methods_vs_dpsgd
from fairdp.experiments.bench.whole_fits import FitTask, whole_fits
from fairdp.experiments.sweeps.parallel import torch_threads

# Adult after encoding, and grey faces; so many records that the next batch is not in the cache already.
FULL: dict[str, Any] = {
    "mlp": Task(shape=(41,), n_samples=30_000, batch_size=512, n_rounds=1_000, seconds=35.0, n_method_rounds=60),
    "cnn": Task(shape=(1, 48, 48), n_samples=8_000, batch_size=256, n_rounds=100, seconds=30.0),
    "fits": FitTask(n_rounds=5),
}
QUICK: dict[str, Any] = {
    "mlp": Task(shape=(41,), n_samples=30_000, batch_size=512, n_rounds=150, seconds=3.0, n_method_rounds=8),
    "cnn": Task(shape=(1, 48, 48), n_samples=2_000, batch_size=256, n_rounds=12, seconds=2.5),
    "fits": FitTask(n_rounds=1),
}


def run_bench(*, quick: bool = False, n_threads: int = 1) -> dict[str, Any]:
    """Ratios of times and of peak memory, with the numbers behind them.

    The contestants of a task take turns, so that a busy machine slows all of them alike: one step untimed, one timed.
    Times are medians over the rounds.

    Parameters
    ----------
    quick
        Fewer rounds: half a minute instead of three, and a less certain answer.
    n_threads
        Threads of torch. One by default: several that wait for each other on a busy machine measure the scheduler.

    Returns
    -------
    dict
        ``mlp`` and ``cnn``, each with ``step_vs_nonprivate``; ``mlp`` also with ``speedup_vs_opacus`` (used as its
        documentation shows) and ``speedup_vs_gradsample`` (its model and optimiser on our batches in memory).
        ``methods_vs_dpsgd``: steps of each method over as many steps of DP-SGD, on the table.
        ``whole_fits``: processor time of fits with defaults, and as a multiple of ours, on the ``data`` it names.
        ``groups_16_vs_2`` and ``peak_memory_vs_nonprivate``, the larger of the two tasks' ratios. ``threads``,
        ``rounds``, ``machine`` and ``versions`` say what was run and where. A speed-up is better when larger, all
        other ratios when smaller. A load average near the number of processors means that other programs took part.
    """
    return compare(**(QUICK if quick else FULL), n_threads=n_threads)


def compare(*, mlp: Task, cnn: Task, fits: FitTask, n_threads: int = 1) -> dict[str, Any]:
    """`run_bench` on a table and on images of any size, with fits of any number of records."""
    _checks.positive_integer(n_threads=n_threads)
    # Opacus warns of its random numbers and torch of the hooks of Opacus; neither concerns a measurement.
    with torch_threads(n_threads), warnings.catch_warnings(action="ignore"):
        require_rivals()
        load = _load_average()
        threads = torch.get_num_threads()
        mlp_times, mlp_rounds = median_milliseconds(all_steps(mlp), n_rounds=mlp.n_rounds, seconds=mlp.seconds)
        cnn_times, cnn_rounds = median_milliseconds(
            fairdp_and_nonprivate(cnn), n_rounds=cnn.n_rounds, seconds=cnn.seconds
        )
        ratios = methods_vs_dpsgd(mlp)
        wholes = whole_fits(fits, n_threads=threads)
        mlp_peaks, cnn_peaks = _peaks(mlp), _peaks(cnn)
    ours = mlp_times["fairdp"]
    return {
        "mlp": {
            "step_vs_nonprivate": _ratio(mlp_times),
            "speedup_vs_opacus": mlp_times["opacus"] / ours,
            "speedup_vs_gradsample": mlp_times["gradsample"] / ours,
            "milliseconds": mlp_times,
            "peak_megabytes": mlp_peaks,
        },
        "cnn": {
            "step_vs_nonprivate": _ratio(cnn_times),
            "milliseconds": cnn_times,
            "peak_megabytes": cnn_peaks,
        },
        "methods_vs_dpsgd": ratios,
        "whole_fits": wholes,
        "groups_16_vs_2": mlp_times["fairdp_16_groups"] / ours,
        "peak_memory_vs_nonprivate": max(_ratio(mlp_peaks), _ratio(cnn_peaks)),
        "threads": threads,
        "rounds": {"mlp": mlp_rounds, "cnn": cnn_rounds, "fits": fits.n_rounds},
        "machine": {"processors": os.cpu_count(), "load_average": load},
        "versions": _versions(),
    }


def _ratio(measured: dict[str, float]) -> float:
    return measured["fairdp"] / measured["nonprivate"]


def _peaks(task: Task) -> dict[str, float]:
    return {name: peak_megabytes(step) for name, step in fairdp_and_nonprivate(task).items()}


def _versions() -> dict[str, str]:
    packages = ("fairdp", "fairlearn", "interpret-core", "numpy", "opacus", "scikit-learn", "torch")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def _load_average() -> float | None:
    """Processes that wanted a processor during the last minute; not every system tells."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
