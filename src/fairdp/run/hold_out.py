"""Which records are used for training and which are held out for the certificate."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairdp.accounting.account import SizesNoise, sizes_noise
from fairdp.accounting.words import NOISY
from fairdp.config.defaults import SMALLEST_BATCH, in_order
from fairdp.data.grouped import GroupedData
from fairdp.data.splits import split_by_own_coin
from fairdp.methods import METHODS
from fairdp.randomness import Generators, RandBelow, discrete_gaussian, discrete_laplace
from fairdp.releases import leave
from fairdp.run.settings import RunSettings


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """The records of a run, those to train on and those to certify on, and the sizes that the former are planned with.

    Records to train on may be in finer groups, by label too, if that is how they are sampled.
    """

    train: GroupedData
    held_out: GroupedData
    fraction: float
    sizes: tuple[float, ...]

    @property
    def expected_held_out(self) -> tuple[float, ...]:
        """Expected number of held-out records of each group."""
        by_group = np.reshape(self.sizes, (self.held_out.n_groups, -1)).sum(1)
        return tuple((by_group * self.fraction / (1 - self.fraction)).tolist())


def hold_out(
    settings: RunSettings,
    data: GroupedData,
    generators: Generators,
    *,
    split_key: bytes | None = None,
    sizes: tuple[float, ...] | None = None,
    noise: SizesNoise | None = None,
) -> Parts:
    """Send every record to training or to the certificate by its own coin, and find the sizes to plan with.

    The key of the coins is drawn without looking at the data, and adding or removing a record moves no other. Trials of
    one selection share their key, so that a record is held out in all of them or in none.

    Parameters
    ----------
    sizes
        Sizes that were released before; None finds them now.
    noise
        How to count, where sizes are counted with noise; None does it as one run with these settings pays for it.
    """
    finer = settings.training["grouping"] == "attribute_and_label"
    # Before the split, which may put the records in another order.
    totals = (data.by_label() if finer else data).group_sizes
    key = int.from_bytes(split_key or generators.key("hold out"), "little")
    nobody = data.take(np.arange(0))
    fraction = 0.0 if settings.reason_for_no_certificate(data.n_groups) else settings.certification.fraction
    train, held_out = split_by_own_coin(data, seed=key, share=fraction) if fraction else (data, nobody)
    train = train.by_label() if finer else train
    if sizes is None and settings.known_sizes == NOISY:
        # A record's coin is its own, so those that are held out are in no count and pay for none.
        noise = noise or sizes_noise(NOISY, settings.budget, pure=METHODS[settings.method].closed_form)
        purpose = f"group sizes {train.group_sizes.tolist()} at {settings.budget.epsilon}"
        sizes = floored(counted_sizes(train.group_sizes, noise, generators.below(purpose)), noise)
    elif sizes is None:
        known = declared_sizes(settings.group_sizes, train.group_names) or totals.tolist()
        sizes = tuple((1 - fraction) * size for size in known)
    return Parts(train=train, held_out=held_out, fraction=fraction, sizes=sizes)


def declared_sizes(declared: object, group_names: tuple[str, ...]) -> tuple[float, ...]:
    """Sizes that were declared, in the order of the groups, which they must name; none if none were."""
    known = in_order("group_sizes", declared if isinstance(declared, Mapping) else None, group_names)
    return () if known is None else tuple(map(float, known.values()))


def counted_sizes(exact: NDArray[np.int64], noise: SizesNoise, rand_below: RandBelow) -> NDArray[np.int64]:
    """Numbers of records with exact discrete noise; a record is in one of them and moves it by one."""
    if noise.std:
        drawn = np.array([discrete_gaussian(noise.std, rand_below) for _ in exact], dtype=np.int64)
        return leave(exact + drawn, purpose="sizes", law="discrete_gaussian", scale=noise.std, exact=exact)
    drawn = np.array([discrete_laplace(noise.epsilon, rand_below) for _ in exact], dtype=np.int64)
    return leave(exact + drawn, purpose="sizes", law="laplace", scale=1 / noise.epsilon, exact=exact)


def floored(sizes: NDArray[np.int64], noise: SizesNoise) -> tuple[float, ...]:
    """Noisy sizes that a run can be planned with.

    Two deviations at least: a smaller count cannot be told from none, and records weigh as the inverse of the size that
    is planned with. So a group that is there weighs at most some two and a half times too much (five deviations counted
    as two), and one that hardly is weighs little. A batch at least, so that no run ends for the lack of records that
    the noise took away.
    """
    deviation = noise.std or math.sqrt(2) / noise.epsilon
    return tuple(max(float(size), 2 * deviation, float(SMALLEST_BATCH)) for size in sizes)
