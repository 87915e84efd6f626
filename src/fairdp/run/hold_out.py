"""Which records are used for training and which are held out for the certificate."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairdp.accounting.account import group_sizes_epsilon
from fairdp.data.grouped import GroupedData
from fairdp.data.splits import split_by_own_coin
from fairdp.randomness import Generators, RandBelow, discrete_laplace
from fairdp.run.checkpoint import Checkpoint
from fairdp.run.settings import RunSettings


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """The records of a run, those to train on and those to certify on, and the public sizes of the former.

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

    @property
    def expected_total(self) -> float:
        """Public number of records of both parts."""
        return sum(self.sizes) / (1 - self.fraction)


def hold_out(
    settings: RunSettings,
    data: GroupedData,
    generators: Generators,
    resumed: Checkpoint | None,
    *,
    split_key: bytes | None = None,
) -> Parts:
    """Send every record to training or to the certificate by its own coin; plan with expected sizes.

    The key of the coins is drawn without looking at the data, and adding or removing a record moves no other. Trials of
    one selection share their key, so that a record is held out in all of them or in none.
    """
    finer = settings.training["grouping"] == "attribute_and_label"
    sizes = (data.by_label() if finer else data).group_sizes
    totals, _ = noisy_sizes(
        sizes,
        private=settings.group_sizes == "private",
        epsilon=settings.budget.epsilon,
        count_noise=generators.below(f"group sizes {sizes.tolist()} at {settings.budget.epsilon}"),
    )
    key = int.from_bytes(split_key or generators.key("hold out"), "little")
    nobody = data.take(np.arange(0))
    fraction = 0.0 if settings.reason_for_no_certificate(data.n_groups) else settings.certification.fraction
    train, held_out = split_by_own_coin(data, seed=key, share=fraction) if fraction else (data, nobody)
    planned = tuple((1 - fraction) * size for size in totals) if resumed is None else resumed.group_sizes
    return Parts(
        train=train.by_label() if finer else train,
        held_out=held_out,
        fraction=fraction,
        sizes=planned,
    )


def noisy_sizes(
    sizes: NDArray[np.int64], *, private: bool, epsilon: float, count_noise: RandBelow
) -> tuple[tuple[float, ...], float]:
    """Group sizes to plan with and the pure epsilon they cost: the real ones for free, or noisy ones."""
    share = group_sizes_epsilon("private" if private else "public", epsilon)
    if not share:
        return tuple(float(size) for size in sizes), 0.0
    return tuple(max(1.0, float(size) + discrete_laplace(share, count_noise)) for size in sizes), share
