"""The records of a run: who is held out, the sizes that are planned with, what of them is public, and who agrees."""

import hashlib
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import SizesNoise, sizes_noise
from fairdp.accounting.spent import FITTED_BEFORE, NAMES_READ, NOISY, READ_FROM_TABLE
from fairdp.data.grouped import GroupedData, bytes_of, declared_groups, split_by_own_coin
from fairdp.data.schema import TableSchema
from fairdp.distributed import process_group
from fairdp.methods import METHODS
from fairdp.parameters import Parameters
from fairdp.randomness import Generators, RandBelow, discrete_gaussian, discrete_laplace
from fairdp.releases import release
from fairdp.run.plan import declared_sizes, floored, held_out_fraction, known_sizes_of

# Libraries whose versions all processes of a group must share.
_LIBRARIES = ("fairdp", "torch", "numpy", "scipy")
# Where files are, and the module, which is compared by what it does once it is built.
_OWN = ("ledger", "table", "module")


def assumed_with(assumed: tuple[str, ...], schema: TableSchema | None, *, paid: bool) -> tuple[str, ...]:
    """Assumptions of what is public, a schema included that was read from the rows as they stand."""
    free = schema is not None and not schema.declared and not paid
    return (*assumed, READ_FROM_TABLE) if free and READ_FROM_TABLE not in assumed else assumed


def read_from_records(
    estimator: Parameters, sensitive_features: object, *, schema: TableSchema | None, before: tuple[str, ...]
) -> tuple[str, ...]:
    """Public because it was read from the records: the names of the groups, unless they are declared.

    And what steps ``before`` the estimator, in a pipeline, have learnt from them.
    """
    learnt = (FITTED_BEFORE + ", ".join(before),) if before else ()
    undeclared = sensitive_features is not None and schema is None and declared_groups(estimator) is None
    return (*learnt, NAMES_READ) if undeclared else learnt


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainHoldoutSplit:
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
    chosen: Parameters,
    data: GroupedData,
    budget: PrivacyBudget,
    generators: Generators,
    *,
    split_key: bytes | None = None,
    sizes: tuple[float, ...] | None = None,
    noise: SizesNoise | None = None,
) -> TrainHoldoutSplit:
    """Send every record to training or to the certificate by its own coin, and find the sizes to plan with.

    The key of the coins is drawn without looking at the data, and adding or removing a record moves no other. Trials of
    one selection share their key, so that a record is held out in all of them or in none.

    Parameters
    ----------
    sizes
        Sizes that were released before; None finds them now.
    noise
        How to count, where sizes are counted with noise; None does it as one run with these choices pays for it.
    """
    finer = chosen.grouping == "attribute_and_label"
    # Before the split, which may put the records in another order.
    totals = (data.by_label() if finer else data).group_sizes
    key = int.from_bytes(split_key or generators.key("hold out"), "little")
    nobody = data.take(np.arange(0))
    fraction = held_out_fraction(chosen, n_groups=data.n_groups, epsilon=budget.epsilon)
    train, held_out = split_by_own_coin(data, seed=key, share=fraction) if fraction else (data, nobody)
    train = train.by_label() if finer else train
    if sizes is None and known_sizes_of(chosen) == NOISY:
        # A record's coin is its own, so those that are held out are in no count and pay for none.
        noise = noise or sizes_noise(NOISY, budget, pure=METHODS[chosen.method].closed_form)
        purpose = f"group sizes {train.group_sizes.tolist()} at {budget.epsilon}"
        sizes = floored(counted_sizes(train.group_sizes, noise, generators.below(purpose)), noise)
    elif sizes is None:
        known = declared_sizes(chosen.group_sizes, train.group_names) or totals.tolist()
        sizes = tuple((1 - fraction) * size for size in known)
    return TrainHoldoutSplit(train=train, held_out=held_out, fraction=fraction, sizes=sizes)


def counted_sizes(exact: NDArray[np.int64], noise: SizesNoise, rand_below: RandBelow) -> NDArray[np.int64]:
    """Numbers of records with exact discrete noise; a record is in one of them and moves it by one."""
    if noise.std:
        drawn = np.array([discrete_gaussian(noise.std, rand_below) for _ in exact], dtype=np.int64)
        return release(exact + drawn, purpose="sizes", law="discrete_gaussian", scale=noise.std, exact=exact)
    drawn = np.array([discrete_laplace(noise.epsilon, rand_below) for _ in exact], dtype=np.int64)
    return release(exact + drawn, purpose="sizes", law="laplace", scale=1 / noise.epsilon, exact=exact)


def agree_on_program(options: object = None) -> None:
    """The same versions, on processors that round alike, and the same options, by their ``repr``."""
    processes = process_group()
    if processes.size == 1:
        return
    import torch

    # Other instructions add in another order, and models would drift apart.
    processor = (platform.machine(), torch.backends.cpu.get_cpu_capability())
    versions = (platform.python_version_tuple()[:2], [version(name) for name in _LIBRARIES])
    for value, what in (
        (versions, "other versions of Python, fairdp or its libraries"),
        (processor, "a processor with other instructions (see ATEN_CPU_CAPABILITY)"),
        (options, "other options"),
    ):
        processes.agree(hashlib.sha256(repr(value).encode()).digest(), what)


def agree_on_run(chosen: Parameters, data: GroupedData) -> None:
    """The same parameters, the same records in the same order."""
    processes = process_group()
    if processes.size == 1:
        return
    shared = {name: value for name, value in vars(chosen).items() if name not in _OWN}
    agree_on_program((shared, chosen.module is None))
    processes.agree(records_digest([data]), "other records, or the same in another order,")


def agree_on_files(path: Path) -> None:
    """The same file, or the same files of a folder; before anything is read, or paid for, one that is not there too."""
    processes = process_group()
    if processes.size > 1:
        # In a folder, names are values and the order of the rows.
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        digest = hashlib.sha256()
        for file in found:
            if file.is_file():
                digest.update(file.relative_to(path).as_posix().encode())
                with file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
        processes.agree(digest.digest(), f"another {path.name!r}, or none,")


def records_digest(parts: Iterable[GroupedData]) -> bytes:
    """A digest of records: all that is trained on, in its order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr((part.X.shape, part.group_names)).encode())
        for array in (part.X, part.y, part.groups, part.weights):
            for content in bytes_of(array) if array is not None else ():
                digest.update(content)
    return digest.digest()
