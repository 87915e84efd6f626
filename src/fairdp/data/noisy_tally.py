"""The counts of a table's columns as they leave it: with noise, and of all values only the frequent ones."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairdp.config.reading import DISTINCT, FEWEST, SHAPES, VALUES
from fairdp.data.tally import Tally
from fairdp.randomness import RandBelow, discrete_gaussian
from fairdp.releases import OPEN_DOMAIN, leave

PURPOSE = "reading"


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyTally:
    """What is known of a table's columns once it was paid for; everything here is public.

    Parameters
    ----------
    names
        The columns.
    values
        Noisy counts of the values of each column that are frequent: at least the ``threshold``.
    shapes, distinct
        As in `fairdp.data.tally.Tally`, with noise.
    std
        Deviation of the noise on the counts of values.
    """

    names: tuple[str, ...]
    values: tuple[Mapping[str, int], ...]
    shapes: NDArray[np.int64]
    distinct: NDArray[np.int64]
    std: float
    threshold: int


def released_tally(tally: Tally, *, std: float, threshold: int, below: Callable[[str], RandBelow]) -> NoisyTally:
    """Add noise to all counts, and keep of the values those that reach the threshold.

    ``below`` gives chance for a purpose, which names the counts too: where it follows from a seed, other counts must
    not meet the same noise.
    """
    cells = _cells(tally)
    rand_below = below(f"{PURPOSE} {_digest(cells, tally)} at {std}")

    def noisy(exact: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
        drawn = [discrete_gaussian(factor * std, rand_below) for _ in range(exact.size)]
        return exact + np.array(drawn, dtype=np.int64).reshape(exact.shape)

    def left(exact: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
        scale = factor * std
        return leave(noisy(exact, factor), purpose=PURPOSE, law="discrete_gaussian", scale=scale, exact=exact)

    # What fewer people have can reach no threshold; others do not change its noise.
    candidates = cells[cells["count"] >= FEWEST]
    candidates["count"] = noisy(candidates["count"], VALUES)
    frequent = candidates[candidates["count"] >= threshold]
    found = leave(frequent, purpose=PURPOSE, law="discrete_gaussian", scale=VALUES * std, exact=cells)
    values: list[dict[str, int]] = [{} for _ in tally.names]
    for place, text, count in found.tolist():
        values[place][text] = count
    return NoisyTally(
        names=tally.names,
        values=tuple(values),
        shapes=left(tally.shapes, SHAPES),
        distinct=left(tally.distinct, DISTINCT),
        std=std,
        threshold=threshold,
    )


def _cells(tally: Tally) -> NDArray[np.void]:
    """The counts of all values of all columns, in an order that does not follow the rows."""
    cells = [
        (place, text, count) for place, counts in enumerate(tally.values) for text, count in sorted(counts.items())
    ]
    return np.array(cells, dtype=OPEN_DOMAIN)


def _digest(cells: NDArray[np.void], tally: Tally) -> str:
    digest = hashlib.sha256(repr((tally.names, cells.tolist())).encode())
    digest.update(tally.shapes.tobytes() + tally.distinct.tobytes())
    return digest.hexdigest()
