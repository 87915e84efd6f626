"""Damaged and forged files among the counts of the campaign."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from faults.counts import Count
from faults.flips import flips, without_a_checksum
from faults.forged import forged, with_a_crash
from faults.trials import Trials

Damage = Callable[[Path], Trials]
FORGED, FLIPPED = "forged", "flipped bit or cut"
# What is done to which files, and the negative control with the mistake in it.
DAMAGES: tuple[tuple[str, str, Damage, str, Damage], ...] = (
    (FLIPPED, "checkpoint", flips, "nobody compares the checksum", without_a_checksum),
    (FORGED, "folder, schema, checkpoint, table, key, argument", forged, "a reader crashes", with_a_crash),
)


def count_files(before: Path) -> Iterator[Count]:
    """Every bit of a checkpoint flipped and every cut, and ten thousand forgeries of all kinds."""
    for kind, what, damage, control, mistaken in DAMAGES:
        done, noticed = _done(damage, before), _done(mistaken, before)
        yield Count(
            kind=kind,
            what=what,
            tried=done.n,
            failed=len(done.failures),
            first=next(iter(done.failures), ""),
            control=control,
            control_tried=noticed.n,
            control_failed=len(noticed.failures),
        )


def _done(damage: Damage, before: Path) -> Trials:
    with tempfile.TemporaryDirectory(dir=before.parent) as place:
        return damage(Path(place))
