"""Records by name, as they are delivered or changed in a stated way."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp.commands.records import Source, load_records
from fairdp.data.catalog import load_dataset
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import TableSchema
from fairdp.data.synthetic import N_TEST, N_TRAIN, synthetic_population
from fairdp.streams import derived_key


@dataclass(frozen=True, kw_only=True)
class Population:
    """Records by name.

    Parameters
    ----------
    dataset
        Named data set.
    split
        Seed of what is left to chance: who is drawn with a bias, and who is kept of a ratio or of so many records.
    sensitive
        Protected columns of a named data set; none: its usual one.
    by_race
        Whether the groups are told apart by race too, white or not, as an input says.
    by_every_race
        Whether they are told apart by each race that an input names.
    bias
        Of a synthetic population, otherwise as the named one.
    ratio
        None: as it is delivered. Else the largest group keeps so many times the training records of the smallest, ρ.
    n_train
        None: all training records. Else so many of them.
    source
        Where a command's records come from, such as a user's own table; ``dataset`` then only names them.
    key
        Secret of the holder of an own table: it chooses the test records, and what identifies the records is a
        commitment under it. None for public data.
    """

    dataset: str
    split: int | None = None
    sensitive: tuple[str, ...] = ()
    by_race: bool = False
    by_every_race: bool = False
    bias: float | None = None
    ratio: float | None = None
    n_train: int | None = None
    source: Source | None = None
    key: bytes | None = field(default=None, repr=False)

    def __str__(self) -> str:
        race = " by sex and every race" if self.by_every_race else " by sex and race" if self.by_race else ""
        race += f" by {' and '.join(self.sensitive)}" if self.sensitive else ""
        bias = "" if self.bias is None else f", bias {self.bias:g}"
        ratio = "" if self.ratio is None else f", ratio {self.ratio:g}"
        some = "" if self.n_train is None else f", {self.n_train} rows"
        return f"{self.dataset}{race}{bias}{ratio}{some}"


@dataclass(frozen=True)
class Parts:
    """Training and test records, and what is to be said of them.

    ``group_sizes`` says how the sizes of the groups are known: those of published records are public.
    """

    train: GroupedData
    test: GroupedData
    schema: TableSchema | None
    notes: tuple[str, ...] = ()
    group_sizes: str | Mapping[str, float] | None = "public"

    def described(self) -> dict[str, Any] | None:
        """The schema as a model takes it."""
        return None if self.schema is None else self.schema.to_dict()

    def digest(self, key: bytes | None = None) -> str:
        """SHA-256 of all records and of what their columns mean: others are other results.

        With a key it is a commitment: without it, nobody can tell whether these are the records.
        """
        digest = hashlib.sha256() if key is None else hashlib.blake2b(key=key, digest_size=32)
        digest.update(repr(self.described()).encode())
        for part in (self.train, self.test):
            digest.update(repr((part.X.shape, part.group_names)).encode())
            for array in (part.X, part.y, part.groups):
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


@lru_cache(maxsize=4)
def load(population: Population) -> Parts:
    """The records that a name stands for."""
    if population.bias is not None:
        return _synthetic(population.bias, population.split or 0)
    if population.source is None:
        named = load_dataset(population.dataset, sensitive=population.sensitive)
        parts = Parts(named.train, named.test, named.schema, named.notes)
    else:
        split_key = None if population.key is None else derived_key(population.key, "test split")
        # Whoever adds up what is spent reads the rows again: here it is enough that each knows its place.
        records = load_records(population.source, split_key=split_key, observe=lambda rows: None)
        known = "public" if records.published else records.declared_sizes or None
        parts = Parts(records.train, records.test, records.schema, records.warnings, known)
    if population.ratio is not None:
        return replace(parts, train=_reduced(parts.train, population.ratio, population.split or 0))
    if population.n_train is not None:
        return replace(parts, train=_some(parts.train, population.n_train, population.split or 0))
    if population.by_every_race:
        return _by_every_race(parts)
    return _by_race(parts) if population.by_race else parts


@lru_cache(maxsize=64)
def digest_of(population: Population) -> str:
    """What identifies the records that a name stands for: SHA-256 of public ones, a commitment to all others."""
    key = None if population.key is None else derived_key(population.key, "records", n_bytes=32)
    return load(population).digest(key)


def _synthetic(bias: float, seed: int) -> Parts:
    people = replace(synthetic_population(), bias=bias)
    rng = np.random.default_rng([seed, int(1000 * bias)])
    return Parts(people.sample(N_TRAIN, rng), people.sample(N_TEST, rng), None)


def _reduced(train: GroupedData, ratio: float, seed: int) -> GroupedData:
    """Every group cut, at random, to at most so many times the smallest one."""
    rng = np.random.default_rng([seed, int(1000 * ratio)])
    most = int(ratio * train.group_sizes.min())
    members = [np.flatnonzero(train.groups == group) for group in range(train.n_groups)]
    kept = [rows if len(rows) <= most else rng.choice(rows, most, replace=False) for rows in members]
    return train.take(np.sort(np.concatenate(kept)))


def _some(train: GroupedData, n_train: int, seed: int) -> GroupedData:
    """So many records at random."""
    return train.take(np.sort(np.random.default_rng([seed, n_train]).permutation(train.n_samples)[:n_train]))


def _by_race(parts: Parts) -> Parts:
    """Groups of the attribute and of the input that says who is white."""
    white = next(position for position, race in _races(parts).items() if race == "White")
    return _crossed(parts, lambda X: (X[:, white] > 0.5).astype(np.int64), ("other", "white"))


def _by_every_race(parts: Parts) -> Parts:
    """Groups of the attribute and of the column of races."""
    races = _races(parts)
    return _crossed(parts, lambda X: X[:, list(races)].argmax(1), tuple(races.values()))


def _races(parts: Parts) -> dict[int, str]:
    """The inputs that say a race."""
    assert parts.schema is not None
    named = enumerate(parts.schema.feature_names)
    return {position: name.removeprefix("race=") for position, name in named if name.startswith("race=")}


def _crossed(
    parts: Parts, code_of: Callable[[NDArray[np.float32]], NDArray[np.int64]], names: tuple[str, ...]
) -> Parts:
    """Each group parted once more, by a code that follows from the inputs."""

    def crossed(data: GroupedData) -> GroupedData:
        both = tuple(f"{group}, {name}" for group in data.group_names for name in names)
        return replace(data, groups=len(names) * data.groups + code_of(data.inputs), group_names=both)

    return Parts(crossed(parts.train), crossed(parts.test), parts.schema)
