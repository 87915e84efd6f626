"""Tasks on the workers of a Dask cluster: a worker that dies costs time, and no result."""

import logging
import platform
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fairdp._checks import DataError, InputError, ParameterError
from fairdp.experiments.sweeps.store import deciding_digest, library_versions

if TYPE_CHECKING:
    from distributed import Client

# Seconds for a scheduler to answer, and without a single worker before nobody is expected any more.
ANSWER, PATIENCE = 10.0, 60.0
# Between two looks for workers, and between two for results.
_LOOK, _NAP = 2.0, 0.02
_KEPT = "finished work is kept, so run the same command again"
# A training sets the threads of torch and the seeds of its process.
_ONE_AT_A_TIME = threading.Lock()


def on_cluster(
    function: Callable[[int, Any], Any], tasks: Sequence[Any], scheduler: str, *, patience: float = PATIENCE
) -> Iterator[Any]:
    """Result of a function of position and task, in the order in which they end.

    Dask hands out again what a dead worker had, up to its ``allowed-failures`` times, so ``function`` may be called
    more than once for a task; only one result of it is returned.

    Parameters
    ----------
    patience
        Seconds to wait for a worker when there is none.
    """
    with _connected(scheduler) as client, _in_one_line(scheduler):
        _wait_for_a_worker(client, scheduler, patience)
        _refuse_others(client)
        yield from _results(client, function, tasks, scheduler, patience)


def check_cluster(scheduler: str) -> None:
    """One clear line, before anything is spent or written, if there is none or if its workers would not do."""
    with _connected(scheduler) as client, _in_one_line(scheduler):
        _wait_for_a_worker(client, scheduler, PATIENCE)
        _refuse_others(client)


@contextmanager
def _in_one_line(scheduler: str) -> Iterator[None]:
    """What becomes of a cluster, in words for whoever started a sweep on it."""
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
    client: "Client", function: Callable[[int, Any], Any], tasks: Sequence[Any], scheduler: str, patience: float
) -> Iterator[Any]:
    from distributed import CancelledError, as_completed

    expected = deciding_digest()
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
            _wait_for_a_worker(client, scheduler, patience)
            looked = time.monotonic()
        else:
            time.sleep(_NAP)


def _guarded(function: Callable[[int, Any], Any], position: int, task: Any, expected: str) -> Any:
    """On a worker, which may have come after all others were asked for their versions."""
    if deciding_digest() != expected:
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


def _wait_for_a_worker(client: "Client", scheduler: str, patience: float) -> None:
    """One clear line if there is none and none comes, or if the scheduler does not answer."""
    limit = time.monotonic() + patience
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
        f"the Dask scheduler {scheduler!r} has had no worker for {patience:g} seconds; {_KEPT} when there are some."
    )


def _gone(scheduler: str) -> OSError:
    return OSError(f"the Dask scheduler {scheduler!r} is gone; {_KEPT} when there is one.")


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
    _refuse_other_code(client)


def _refuse_other_code(client: "Client") -> None:
    """The same of the code itself, of a version under development say."""
    digest = deciding_digest()
    for worker, found in client.run(deciding_digest, on_error="return").items():
        if found != digest:
            raise DataError(
                f"worker {worker} has other code of the same version than this machine; install the same on both."
            )


def _python(release: str) -> str:
    """Without the last number, which changes no result."""
    return ".".join(release.split(".")[:2])
