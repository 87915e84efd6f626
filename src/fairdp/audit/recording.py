"""Who stands at the door of the records: one that notes what leaves, and one that lets the same leave again."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairdp.releases import OPEN_DOMAIN, Release


class Diverged(Exception):
    """A replayed run has left the path of the recorded one: what it does next depends on one record."""

    def __init__(self, release: str, found: str) -> None:
        super().__init__(f"{release}: {found}")
        self.release, self.found = release, found


class Move(NamedTuple):
    """How far one record moved one release, before noise, in units of the noise.

    ``distance`` is the L1 distance over the scale of Laplace noise, and the L2 distance over the deviation of Gaussian
    noise.
    """

    place: int
    purpose: str
    law: str
    distance: float

    @property
    def name(self) -> str:
        """The release as people count."""
        return named(self.place, self.purpose)


def named(place: int, purpose: str) -> str:
    """A release by its place in the run, from 1, and its purpose."""
    return f"release {place + 1} ({purpose})"


class Recorder:
    """Notes every release of a run and lets it pass."""

    def __init__(self) -> None:
        self.releases: list[Release] = []

    def __call__(self, release: Release) -> NDArray[Any]:
        # Copies: what leaves may be changed in place by whoever receives it.
        copied = Release(
            purpose=release.purpose,
            law=release.law,
            scale=np.array(release.scale, dtype=np.float64),
            exact=np.array(release.exact),
            noisy=np.array(release.noisy),
        )
        self.releases.append(copied)
        return release.noisy


class Replayer:
    """Holds each release against the recorded one, notes how far it moved, and lets the recorded one leave.

    What was released before is thereby the same in both runs, as the analysis of adaptive composition has it.
    """

    def __init__(self, recorded: Sequence[Release]) -> None:
        self.recorded = recorded
        self.moves: list[Move] = []

    def __call__(self, release: Release) -> NDArray[Any]:
        place = len(self.moves)
        name = named(place, release.purpose)
        if place >= len(self.recorded):
            raise Diverged(name, f"one more than the {len(self.recorded)} releases of the recorded run")
        before = self.recorded[place]
        _check_same_form(name, before, release)
        self.moves.append(Move(place, release.purpose, release.law, _distance(before, release)))
        return before.noisy.copy()

    def check_complete(self) -> None:
        """Refuse a run that has ended early."""
        if len(self.moves) < len(self.recorded):
            missing = self.recorded[len(self.moves)]
            raise Diverged(named(len(self.moves), missing.purpose), "was not made: the run ended before it")


def _check_same_form(name: str, before: Release, release: Release) -> None:
    """Refuse anything but another exact value: purpose, law, shape and noise must not depend on records."""
    if (before.purpose, before.law) != (release.purpose, release.law):
        found = f"{release.purpose} with {release.law} noise in place of {before.purpose} with {before.law} noise"
        raise Diverged(name, found)
    shapes = np.shape(before.exact), np.shape(release.exact)
    is_open = OPEN_DOMAIN in (before.exact.dtype, release.exact.dtype)
    if is_open and (before.exact.dtype, before.noisy.dtype) != (release.exact.dtype, release.noisy.dtype):
        raise Diverged(name, "counts of whatever occurs in place of other counts")
    if not is_open and (shapes[0] != shapes[1] or np.shape(release.noisy) != shapes[0]):
        raise Diverged(name, f"has shape {shapes[1]} in place of {shapes[0]}")
    if not np.array_equal(before.scale, np.asarray(release.scale, dtype=np.float64)):
        largest = float(np.max(np.abs(np.asarray(release.scale) / before.scale - 1)))
        raise Diverged(name, f"the scale of the noise depends on the records: it differs by up to {largest:.2g} of it")


def _distance(before: Release, release: Release) -> float:
    if before.exact.dtype == OPEN_DOMAIN:
        moved = _moved_counts(before.exact, release.exact)
    else:
        moved = np.asarray(release.exact, dtype=np.float64) - np.asarray(before.exact, dtype=np.float64)
    if not moved.any():
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(moved == 0, 0.0, moved / before.scale)
    # A value that is not finite is hidden by no noise.
    total = np.abs(shares).sum() if before.law == "laplace" else np.sqrt(np.square(shares).sum())
    return float(total) if np.isfinite(total) else float("inf")


def _moved_counts(before: NDArray[np.void], after: NDArray[np.void]) -> NDArray[np.float64]:
    """How far each count moved; what only one of both names counts zero in the other."""
    counts: dict[tuple[int, str], int] = {(place, value): -count for place, value, count in before.tolist()}
    for place, value, count in after.tolist():
        counts[place, value] = counts.get((place, value), 0) + count
    return np.array(list(counts.values()), dtype=np.float64)
