"""Tasks spread over processes or a cluster; the results are the same for any number of workers."""

import hashlib
import json
import logging
import platform
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

import fairdp
import fairdp_lab
from fairdp.errors import DataError, InputError, ParameterError

if TYPE_CHECKING:
    from distributed import Client

# Seconds for a scheduler to answer, and without a single worker before nobody is expected any more.
ANSWER, TIMEOUT = 10.0, 60.0
# Between two looks for workers, and between two for results.
_LOOK, _NAP = 2.0, 0.02
_KEPT = "finished work is kept, so run the same command again"
# A training sets the threads of torch and the seeds of its process.
_ONE_AT_A_TIME = threading.Lock()
# Libraries that numbers come from.
_LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "dp-accounting")
Task = TypeVar("Task")
Result = TypeVar("Result")
Say = Callable[[str], None]


def on_cluster(
    function: Callable[[int, Any], Any], tasks: Sequence[Any], scheduler: str, *, timeout: float = TIMEOUT
) -> Iterator[Any]:
    """Result of a function of position and task, in the order in which they end.

    Dask hands out again what a dead worker had, up to its ``allowed-failures`` times, so ``function`` may be called
    more than once for a task; only one result of it is returned.

    Parameters
    ----------
    timeout
        Seconds to wait for a worker when there is none.
    """
    with _connected(scheduler) as client, _in_one_line(scheduler):
        _wait_for_a_worker(client, scheduler, timeout)
        _refuse_others(client)
        yield from _results(client, function, tasks, scheduler, timeout)


def check_cluster(scheduler: str) -> None:
    """One clear line, before anything is spent or written, if there is none or if its workers would not do."""
    with _connected(scheduler) as client, _in_one_line(scheduler):
        _wait_for_a_worker(client, scheduler, TIMEOUT)
        _refuse_others(client)


@contextmanager
def _in_one_line(scheduler: str) -> Iterator[None]:
    """Put failures of a cluster in words for whoever started a sweep on it."""
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except RuntimeError as error:
        # Dask's own words for a scheduler that cannot read what it hands out.
        if "deserialization" not in str(error):
            raise
        raise DataError(
            f"the Dask scheduler {scheduler!r} cannot load this fairdp; install the same one where it runs."
        ) from error
    except KilledWorker as error:
        raise OSError(
            f"{error.allowed_failures + 1} workers died at the same task, perhaps because memory ran out; {_KEPT}, "
            "with fewer workers on each machine."
        ) from error
    except (CancelledError, CommClosedError) as error:
        raise _gone(scheduler) from error


def _results(
    client: "Client", function: Callable[[int, Any], Any], tasks: Sequence[Any], scheduler: str, timeout: float
) -> Iterator[Any]:
    from distributed import CancelledError, as_completed

    expected = environment_digest()
    futures = [
        client.submit(_guarded, function, position, task, expected, pure=False) for position, task in enumerate(tasks)
    ]
    # Results are fetched in the background: nothing here waits for a scheduler that is gone.
    ended, looked = as_completed(futures, with_results=True), time.monotonic()
    del futures
    while not ended.is_empty():
        if ended.has_ready():
            _, result = next(ended)
            if isinstance(result, CancelledError):
                raise result
            yield result
        elif time.monotonic() - looked > _LOOK:
            _wait_for_a_worker(client, scheduler, timeout)
            looked = time.monotonic()
        else:
            time.sleep(_NAP)


def _guarded(function: Callable[[int, Any], Any], position: int, task: Any, expected: str) -> Any:
    """On a worker, which may have come after all others were asked for their versions."""
    if environment_digest() != expected:
        raise DataError(
            f"a worker on {platform.node()!r} came with another fairdp or other libraries, so its numbers would be "
            f"others; {_KEPT} without it."
        )
    # A worker with several threads would let two of them change each other's settings.
    with _ONE_AT_A_TIME:
        return function(position, task)


@contextmanager
def _connected(scheduler: str) -> "Iterator[Client]":
    try:
        from distributed import Client
    except ImportError:
        raise InputError("a Dask cluster needs further packages; run: pip install 'fairdp[dask]'") from None
    # Whatever is worth a word is said by the errors above, in one line; versions are compared below.
    with _quiet("distributed"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            client = Client(scheduler, timeout=ANSWER)
        except (OSError, ValueError) as error:
            raise ParameterError("scheduler", scheduler, "does not answer", f"check the address ({error})") from None
        with client:
            yield client


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Without the words of a logger and those below it, which have levels of their own."""
    loggers = [logging.getLogger(each) for each in (name, *logging.root.manager.loggerDict) if each.startswith(name)]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


def _wait_for_a_worker(client: "Client", scheduler: str, timeout: float) -> None:
    """One clear line if there is none and none comes, or if the scheduler does not answer."""
    limit = time.monotonic() + timeout
    try:
        while not client.nthreads(callback_timeout=ANSWER):
            if time.monotonic() > limit:
                break
            time.sleep(_NAP)
        else:
            return
    except OSError as error:
        raise _gone(scheduler) from error
    raise OSError(
        f"the Dask scheduler {scheduler!r} has had no worker for {timeout:g} seconds; {_KEPT} when there are some."
    )


def _gone(scheduler: str) -> OSError:
    return OSError(f"the Dask scheduler {scheduler!r} is gone; {_KEPT} when there is one.")


@lru_cache(maxsize=1)
def code_digest() -> str:
    """SHA-256 of all modules of fairdp and of its laboratory."""
    digest = hashlib.sha256()
    for package in (fairdp, fairdp_lab):
        home = Path(str(package.__file__)).parent
        for path in sorted(home.rglob("*.py")):
            digest.update(path.relative_to(home.parent).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def library_versions() -> dict[str, str]:
    """Versions of the libraries that numbers come from."""
    return {name: version(name) for name in _LIBRARIES}


def environment_digest() -> str:
    """Tells machines apart that might give other numbers: by their code and their libraries."""
    about = json.dumps([code_digest(), library_versions()], sort_keys=True)
    return hashlib.sha256(about.encode()).hexdigest()


def _refuse_others(client: "Client") -> None:
    """Refuse workers that would give other numbers, before any work is handed out."""
    own = {"python": _python(platform.python_version()), "fairdp": version("fairdp"), **library_versions()}
    for name, here in own.items():
        # Functions of the standard library, which every worker has.
        asked = (platform.python_version,) if name == "python" else (version, name)
        for worker, found in client.run(*asked, on_error="return").items():
            there = "none" if isinstance(found, Exception) else _python(found) if name == "python" else found
            if there != here:
                raise DataError(f"worker {worker} has {name} {there}, this machine {here}; install the same on both.")
    # The code itself may differ under one version, while it is being developed.
    digest = environment_digest()
    for worker, found in client.run(environment_digest, on_error="return").items():
        if found != digest:
            raise DataError(
                f"worker {worker} has other code of the same version than this machine; install the same on both."
            )


def _python(release: str) -> str:
    """Without the last number, which changes no result."""
    return ".".join(release.split(".")[:2])


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
    seeded = list(zip(tasks, seeds, strict=True))
    results = dict(told(spread(partial(_call, function), seeded, workers), len(tasks), say, what=what))
    return [results[position] for position in range(len(tasks))]


def _call(
    function: Callable[[Task, np.random.Generator], Result], seeded: tuple[Task, np.random.SeedSequence]
) -> Result:
    task, seed = seeded
    return function(task, np.random.default_rng(seed))
