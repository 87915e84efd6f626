"""The release point: every value computed from the records passes here, with the noise that was added to it.

An audit can hook in here. It sees each value before and after its noise, and may hand out another one in its
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


def release(
    noisy: NDArray[Any],
    *,
    purpose: str,
    law: Law,
    scale: float | NDArray[np.float64],
    exact: NDArray[Any],
) -> NDArray[Any]:
    """The noisy value, which from here on is public; the hook, where there is one, sees it."""
    hook = _HOOK.get()
    if hook is None:
        return noisy
    return hook(Release(purpose=purpose, law=law, scale=scale, exact=exact, noisy=noisy))


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """One value as it leaves the records.

    Parameters
    ----------
    purpose
        What it is: ``"gradient"``, ``"statistics"``, ``"sizes"``, ``"look"``, ``"scores"``, ``"histogram"``,
        ``"polynomial"``, ``"reading"``, or the code of a query (`fairdp.accounting.spent`).
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


class ReleaseHook(Protocol):
    """Called with every release; what it returns leaves in place of the noisy value."""

    def __call__(self, release: Release) -> NDArray[Any]: ...


# Of one context each: a run in another thread has a hook of its own.
_HOOK: ContextVar[ReleaseHook | None] = ContextVar("release hook", default=None)


@contextmanager
def watching(hook: ReleaseHook) -> Iterator[None]:
    """Call a hook with every release that is made inside; for audits and tests, never for training."""
    token = _HOOK.set(hook)
    try:
        yield
    finally:
        _HOOK.reset(token)
