"""Tasks spread over processes or a cluster; the results are the same for any number of workers."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from fairdp.experiments.sweeps.cluster import on_cluster

Task = TypeVar("Task")
Result = TypeVar("Result")
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Who does the work.

    Parameters
    ----------
    number
        Processes on this machine.
    scheduler
        Address of a Dask scheduler whose workers do it instead, such as ``tcp://10.0.0.1:8786``.
    """

    number: int = 1
    scheduler: str | None = None


def spread(function: Callable[[Task], Result], tasks: Sequence[Task], workers: Workers) -> Iterator[tuple[int, Result]]:
    """Position and result of every task, in the order in which they end; each worker uses one thread.

    Parameters
    ----------
    function
        A function of a module, so that other processes find it.
    """
    if workers.scheduler is not None and tasks:
        yield from on_cluster(partial(_numbered, function), tasks, workers.scheduler)
        return
    if min(workers.number, len(tasks)) <= 1:
        for position, task in enumerate(tasks):
            yield _numbered(function, position, task)
        return
    with parallel_config("loky", n_jobs=workers.number, inner_max_num_threads=1), warnings.catch_warnings():
        # Workers that have loaded large data are taken for leaking and replaced, which costs nothing but words.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        # As many at a time as there are workers and as many again: what waits in a queue is lost in an interruption.
        done = Parallel(return_as="generator_unordered", batch_size=1)(
            delayed(_numbered)(function, position, task) for position, task in enumerate(tasks)
        )
        try:
            yield from done
        except TerminatedWorkerError as error:
            raise OSError(
                "a worker was killed, perhaps because memory ran out; finished work is kept, so run the same command "
                "again, with --workers 1 if it happens twice."
            ) from error


def _numbered(function: Callable[[Task], Result], position: int, task: Task) -> tuple[int, Result]:
    # Sums of several threads are added in another order: one, so that the machine does not matter.
    with torch_threads(1):
        return position, function(task)


@contextmanager
def torch_threads(n_threads: int) -> Iterator[None]:
    """Run with this many threads of torch and return to the former number."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def told(
    results: Iterator[Result], total: int, say: Say, *, what: str, seconds_between: float = 20.0
) -> Iterator[Result]:
    """The same results, with a line now and then: how many are done, and the time left at that pace."""
    start = last = time.monotonic()
    for done, result in enumerate(results, start=1):
        now = time.monotonic()
        if done == total or now - last > seconds_between:
            left = (now - start) / done * (total - done)
            say(f"{what}: {done} of {total} tasks" + (f", about {duration(left)} left" if done < total else ""))
            last = now
        yield result


def duration(seconds: float) -> str:
    """A length of time for readers.

    >>> duration(42), duration(200), duration(8000)
    ('42 s', '3 min', '2 h 13 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def run_tasks(
    function: Callable[[Task, np.random.Generator], Result],
    tasks: Sequence[Task],
    *,
    seed: int,
    workers: Workers,
    say: Say,
    what: str,
) -> list[Result]:
    """Result of every task, in order, each with a generator of its own; ``what`` names the work and is in the seed."""
    seeds = np.random.SeedSequence([seed, *what.encode()]).spawn(len(tasks))
    seeded = [_Seeded(function, task, task_seed) for task, task_seed in zip(tasks, seeds, strict=True)]
    results = dict(told(spread(_call, seeded, workers), len(tasks), say, what=what))
    return [results[position] for position in range(len(tasks))]


@dataclass(frozen=True)
class _Seeded:
    function: Callable[[Any, np.random.Generator], Any]
    task: Any
    seed: np.random.SeedSequence


def _call(seeded: _Seeded) -> Any:
    return seeded.function(seeded.task, np.random.default_rng(seeded.seed))
