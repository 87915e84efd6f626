"""The one door out of the records: every value computed from them passes here, with the noise that was added to it.

An audit can stand at the door. It sees each value before and after its noise, and may hand out another one in its
place, so that a run on neighbouring records can be replayed with all earlier releases held fixed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Law = Literal["gaussian", "discrete_gaussian", "laplace"]
# Counts of whatever occurs: what is not named counts zero, and of the noisy counts only large ones leave.
OPEN_DOMAIN = np.dtype([("place", np.int64), ("value", object), ("count", np.int64)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """One value as it leaves the records.

    Parameters
    ----------
    purpose
        What it is: ``"gradient"``, ``"statistics"``, ``"sizes"``, ``"look"``, ``"scores"``, ``"histogram"``,
        ``"polynomial"``, ``"reading"``, or the code of a survey (`fairdp.accounting.words`).
    law
        Law of the noise.
    scale
        Standard deviation of the noise, or the scale of Laplace noise, for each coordinate or for all.
    exact
        The value before noise: still private.
    noisy
        The value after it; of counts over an `OPEN_DOMAIN` those that leave.
    """

    purpose: str
    law: Law
    scale: float | NDArray[np.float64]
    exact: NDArray[Any]
    noisy: NDArray[Any]


class Watcher(Protocol):
    """Whoever stands at the door; what it returns leaves in place of the noisy value."""

    def __call__(self, release: Release) -> NDArray[Any]: ...


# Of one context each: a run in another thread has a door of its own.
_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Let a watcher see every release that is made inside; for audits and tests, never for training."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def leave(
    noisy: NDArray[Any],
    *,
    purpose: str,
    law: Law,
    scale: float | NDArray[np.float64],
    exact: NDArray[Any],
) -> NDArray[Any]:
    """The noisy value, which from here on is public; a watcher, where there is one, sees it leave."""
    watcher = _WATCHER.get()
    if watcher is None:
        return noisy
    return watcher(Release(purpose=purpose, law=law, scale=scale, exact=exact, noisy=noisy))
