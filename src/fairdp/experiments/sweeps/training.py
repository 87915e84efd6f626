"""Trainings of a sweep: those that are kept already are read, the others are done and kept one by one."""

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fairdp._checks import DataError
from fairdp.experiments.sweeps.fits import Fit, Trained, figures_of
from fairdp.experiments.sweeps.parallel import Say, Workers, spread, told
from fairdp.experiments.sweeps.paying import Payment, refuse_too_many, table_of
from fairdp.experiments.sweeps.populations import digest_of
from fairdp.experiments.sweeps.store import Store, random_state_of
from fairdp.methods import METHODS


def train_all(
    fits: Sequence[Fit],
    *,
    store: Store | None,
    workers: Workers,
    say: Say,
    watch: Callable[[int, int], None] | None = None,
    payment: Payment | None = None,
) -> dict[Fit, Trained]:
    """What every training reached; equal trainings are done once.

    Parameters
    ----------
    store
        Where finished trainings are kept and found again; None: nowhere.
    watch
        Told, as trainings end, how many of those that were still to do are done.
    payment
        Where trainings on a user's own table add up what they spend; None: nowhere.
    """
    asked = list(dict.fromkeys(fits))
    known = {} if store is None else {fit: found for fit in asked if (found := store.read(fit)) is not None}
    missing = [fit for fit in asked if fit not in known]
    if known:
        say(f"trainings: {len(known)} of {len(asked)} are kept from before")
    if payment is not None:
        private = [fit for fit in missing if METHODS[fit.method].private and table_of(fit.population)]
        refuse_too_many(payment, [(table_of(fit.population), fit.epsilon) for fit in private])
    tasks = [
        _Task(
            fit=fit,
            payment=None if payment is None else payment.of_one(),
            records=None if workers.scheduler is None else digest_of(fit.population),
        )
        for fit in missing
    ]
    results = spread(_timed, tasks, workers)
    for done, (position, found) in enumerate(told(results, len(missing), say, what="trainings"), start=1):
        known[missing[position]] = found
        if store is not None:
            store.write(missing[position], found)
        if watch is not None:
            watch(done, len(missing))
    return {fit: known[fit] for fit in asked}


@dataclass(frozen=True, kw_only=True)
class _Task:
    """One training; ``records`` identifies its records where they may be others: on a worker elsewhere."""

    fit: Fit
    payment: Payment | None
    records: str | None


def _timed(task: _Task) -> Trained:
    start, fit = time.perf_counter(), task.fit
    if task.records not in (None, digest_of(fit.population)):
        raise DataError(
            f"a worker on {platform.node()!r} finds other records of {str(fit.population)!r} than this machine; put "
            "the same files where all of them see them."
        )
    found = figures_of(fit, random_state=random_state_of(fit), payment=task.payment)
    return replace(found, seconds=round(time.perf_counter() - start, 1))
