"""Seeded tasks spread over processes; the results are the same for any number of them."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

import numpy as np

from fairdp.studies.results import Run

Task = TypeVar("Task")
Result = TypeVar("Result")

# A line of progress is worth reading this often.
_SECONDS_BETWEEN_LINES = 20.0
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_tasks(
    function: Callable[[Task, np.random.Generator], Result], tasks: Sequence[Task], run: Run, *, what: str
) -> list[Result]:
    """Result of every task, in order.

    Parameters
    ----------
    function
        Called with a task and its own generator; a function of a module, so that other processes find it.
    what
        Name of the work: shown as progress, and part of the seed.
    """
    seeds = np.random.SeedSequence([run.seed, *what.encode()]).spawn(len(tasks))
    if min(run.workers, len(tasks)) == 1:
        results = (_seeded(function, task, seed) for task, seed in zip(tasks, seeds, strict=True))
        return list(_told(results, len(tasks), run, what))
    with (
        _one_thread_in_children(),
        ProcessPoolExecutor(min(run.workers, len(tasks)), mp_context=get_context("spawn")) as pool,
    ):
        futures = [pool.submit(_seeded, function, task, seed) for task, seed in zip(tasks, seeds, strict=True)]
        try:
            for _ in _told((future.result() for future in as_completed(futures)), len(tasks), run, what):
                pass
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _seeded(
    function: Callable[[Task, np.random.Generator], Result], task: Task, seed: np.random.SeedSequence
) -> Result:
    return function(task, np.random.default_rng(seed))


def _told(results: Iterable[Result], total: int, run: Run, what: str) -> Iterator[Result]:
    """The same results, with a line of progress now and then."""
    last = time.monotonic()
    for done, result in enumerate(results, start=1):
        if done == total or time.monotonic() - last > _SECONDS_BETWEEN_LINES:
            run.say(f"{what}: {done} of {total} tasks")
            last = time.monotonic()
        yield result


@contextmanager
def _one_thread_in_children() -> Iterator[None]:
    """Let new processes use one thread each: they must not fight over the processors they share."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
