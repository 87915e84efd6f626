"""Meters of a step's time and of its memory."""

import gc
import json
import os
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import numpy as np
from torch.profiler import ProfilerActivity, profile

from fairdp.experiments.bench.contestants import Step

WARM_UP_ROUNDS = 3


def median_milliseconds(steps: dict[str, Step], *, n_rounds: int, seconds: float) -> tuple[dict[str, float], int]:
    """Median time of every step, and over how many rounds; in a round every contestant has its turn.

    The order is drawn anew in each round, so that everyone comes after everyone else.
    """
    order = np.random.default_rng(0)
    deadline = time.perf_counter() + seconds
    for _ in range(WARM_UP_ROUNDS):
        _one_round(steps, order)
    rounds: list[dict[str, float]] = []
    with _no_garbage_collection():
        while len(rounds) < n_rounds and (not rounds or time.perf_counter() < deadline):
            rounds.append(_one_round(steps, order))
    return {name: 1e3 * float(np.median([times[name] for times in rounds])) for name in steps}, len(rounds)


def median_cpu_seconds(fits: dict[str, Step], *, n_rounds: int) -> dict[str, float]:
    """Median processor time of whole fits, which take turns in an order drawn anew; the first round is not counted.

    Processor time, not time on the clock: a fit is long enough for other programs to come in between.
    """
    order = np.random.default_rng(0)
    rounds = [
        {str(name): _cpu_seconds(fits[name]) for name in order.permutation(list(fits))} for _ in range(n_rounds + 1)
    ]
    return {name: float(np.median([times[name] for times in rounds[1:]])) for name in fits}


def _cpu_seconds(fit: Step) -> float:
    start = time.process_time()
    fit()
    return time.process_time() - start


def _one_round(steps: dict[str, Step], order: np.random.Generator) -> dict[str, float]:
    times = {}
    for name in order.permutation(list(steps)):
        # Untimed, so that the timed step finds the caches as in training: left by its own kind, not by a rival.
        steps[name]()
        start = time.perf_counter()
        steps[name]()
        times[str(name)] = time.perf_counter() - start
    return times


def peak_megabytes(step: Step) -> float:
    """Most memory that a step not yet taken holds at one time, beyond what was held before.

    The peaks of torch's allocator and of NumPy's and Python's are taken apart and added: an upper bound, and exact
    when they fall together.
    """
    _quiet_profiler()
    # From the first step on: the profiler knows only the sizes of blocks whose allocation it saw.
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as events:
        step()
        # From the second step on: the first also fills Python's caches.
        tracemalloc.start()
        step()
        _, outside_torch = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return (_peak_of_tensors(events) + outside_torch) / 1e6


def _peak_of_tensors(events: profile) -> int:
    """Largest running sum over all that torch allocated and freed, temporaries inside kernels included."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        events.export_chrome_trace(str(trace))
        entries = json.loads(trace.read_text())["traceEvents"]
    changes = sorted((entry for entry in entries if entry["name"] == "[memory]"), key=lambda entry: entry["ts"])
    return max(accumulate((entry["args"]["Bytes"] for entry in changes), initial=0))


def _quiet_profiler() -> None:
    """Keep the profiler from announcing its start and end on standard error; it looks only at its first use."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
