"""Trainings of a sweep: those that are kept already are read, the others are done and kept one by one."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from fairdp.experiments.sweeps.fits import Fit, figures_of
from fairdp.experiments.sweeps.parallel import Say, Workers, spread, told
from fairdp.experiments.sweeps.store import Store, random_state_of

Record = dict[str, Any]


def train_all(
    fits: Sequence[Fit],
    *,
    store: Store | None,
    workers: Workers,
    say: Say,
    watch: Callable[[int, int], None] | None = None,
) -> dict[Fit, Record]:
    """``figures`` and ``seconds`` of every training; equal trainings are done once.

    Parameters
    ----------
    store
        Where finished trainings are kept and found again; None: nowhere.
    watch
        Told, as trainings end, how many of those that were still to do are done.
    """
    asked = list(dict.fromkeys(fits))
    known = {} if store is None else {fit: record for fit in asked if (record := store.read(fit)) is not None}
    missing = [fit for fit in asked if fit not in known]
    if known:
        say(f"trainings: {len(known)} of {len(asked)} are kept from before")
    results = spread(_timed, missing, workers)
    for done, (position, record) in enumerate(told(results, len(missing), say, what="trainings"), start=1):
        fit = missing[position]
        if store is not None:
            store.write(fit, record["figures"], seconds=record["seconds"])
        known[fit] = record
        if watch is not None:
            watch(done, len(missing))
    return {fit: known[fit] for fit in asked}


def _timed(fit: Fit) -> Record:
    start = time.perf_counter()
    figures = figures_of(fit, random_state=random_state_of(fit))
    return {"figures": figures, "seconds": round(time.perf_counter() - start, 3)}
