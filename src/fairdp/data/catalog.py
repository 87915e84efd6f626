"""The data sets that fairdp knows by name: what they are, and how to load them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairdp._checks import DataError, ParameterError
from fairdp.data import sources
from fairdp.data.grouped import GroupedData
from fairdp.data.utkface import LICENCE as UTKFACE_LICENCE

if TYPE_CHECKING:
    # Listing the data sets must not wait for pandas.
    import pandas as pd

    from fairdp.data.schema import TableSchema

CC_BY = "Creative Commons Attribution 4.0 International (CC BY 4.0)"


@dataclass(frozen=True, kw_only=True)
class DatasetCard:
    """What a user should know about a data set before using it.

    ``groups`` are those of the first column of ``sensitive``, which lists all that may be protected.
    """

    name: str
    title: str
    rows: int
    features: int
    groups: tuple[str, ...]
    sensitive: tuple[str, ...]
    label: str
    licence: str
    source: str
    citation: str
    checksums: Mapping[str, str] = field(default_factory=dict)
    images: bool = False


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A loaded data set; ``schema`` is None where the records are not a table."""

    name: str
    train: GroupedData
    test: GroupedData
    schema: "TableSchema | None"
    notes: tuple[str, ...] = ()


_ADULT = DatasetCard(
    name="adult",
    title="Census income, the paper's 41 features",
    rows=48_842,
    features=41,
    groups=("Female", "Male"),
    sensitive=("sex", "race", "education", "workclass"),
    label="income above 50,000 dollars a year",
    licence=CC_BY,
    source=sources.ADULT_URL,
    citation="Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, doi:10.24432/C5XW20",
    checksums=sources.CHECKSUMS["adult"],
)
_CARDS = (
    _ADULT,
    replace(
        _ADULT,
        name="adult_full",
        title="Census income, all usable columns",
        features=105,
        sensitive=(*_ADULT.sensitive, "marital-status", "relationship", "occupation", "native-country"),
    ),
    DatasetCard(
        name="credit",
        title="Default of credit card clients, Taiwan 2005",
        rows=30_000,
        features=89,
        groups=("Male", "Female"),
        sensitive=("SEX", "EDUCATION", "MARRIAGE"),
        label="default on the payment of the next month",
        licence=CC_BY,
        source=sources.CREDIT_URL,
        citation="Yeh (2009), Default of Credit Card Clients, UCI Machine Learning Repository, doi:10.24432/C55S3H",
        checksums={**sources.CHECKSUMS["credit"], "content": sources.CREDIT_CONTENT},
    ),
    DatasetCard(
        name="utkface",
        title="Faces, grey, 48 × 48 pixels",
        rows=23_705,
        features=48 * 48,
        groups=("white", "non-white"),
        sensitive=("race", "gender"),
        label="age above 35",
        licence=UTKFACE_LICENCE,
        source="https://susanqq.github.io/UTKFace/",
        citation="Zhang, Song and Qi (2017), Age Progression/Regression by Conditional Adversarial Autoencoder, CVPR",
        checksums=sources.CHECKSUMS["utkface"],
        images=True,
    ),
    DatasetCard(
        name="synthetic",
        title="Synthetic population with known true rates",
        rows=30_000,
        features=10,
        groups=("group 0", "group 1"),
        sensitive=("group",),
        label="a noisy threshold of the first input",
        licence="part of fairdp",
        source="drawn when it is loaded",
        citation="fairdp.data.synthetic",
    ),
)
DATASETS: Mapping[str, DatasetCard] = {card.name: card for card in _CARDS}


def load_dataset(
    name: str, *, sensitive: Sequence[str] = (), fetch_missing: bool = True, split_seed: int = 0
) -> Dataset:
    """A data set by name, encoded and split.

    Parameters
    ----------
    name
        One of ``DATASETS``.
    sensitive
        Protected columns, whose values together make the groups; empty: the first that the card lists. A column that is
        protected here or by default is no input. The test records are the same, whoever is protected.
    fetch_missing
        Whether files that are neither in the user's folder nor in the cache may be fetched.
    split_seed
        Public seed of the 20 % test rows of ``credit`` and ``utkface`` and of the synthetic records.
        Adult has an official split.
    """
    if name not in DATASETS:
        raise DataError(f"unknown data set {name!r}; known are {', '.join(DATASETS)}.")
    protected = _protected(DATASETS[name], sensitive)
    if name == "synthetic":
        return _load_synthetic(split_seed)
    folder, notes = _located(name, fetch_missing=fetch_missing)
    if name == "utkface":
        return _load_faces(folder, notes, split_seed, protected)
    return _load_table(name, folder, notes, split_seed, protected)


def _protected(card: DatasetCard, sensitive: Sequence[str]) -> tuple[str, ...]:
    """The columns whose values make the groups, each of them known and named once."""
    chosen = tuple(sensitive) or card.sensitive[:1]
    for column in chosen:
        if column not in card.sensitive:
            known = ", ".join(card.sensitive)
            raise ParameterError("sensitive", column, f"is no column that {card.name} can protect", f"it has {known}")
        if chosen.count(column) > 1:
            raise ParameterError("sensitive", column, "is named twice", "name it once")
    return chosen


def _located(name: str, *, fetch_missing: bool) -> tuple[Path, tuple[str, ...]]:
    """Folder of the checked files and notes on the check."""
    folder = sources.find(name)
    if folder is None and fetch_missing:
        folder = sources.fetch(name)
    if folder is None:
        raise FileNotFoundError(f"the files of {name} are not here; run fairdp data get {name}.")
    return folder, sources.verify(name, folder)


def _frames(name: str, folder: Path, split_seed: int) -> "tuple[pd.DataFrame, pd.DataFrame]":
    from fairdp.data import adult, credit, splits

    if name != "credit":
        return adult.read_adult(folder)
    frame, schema = credit.read_credit(folder), credit.credit_schema()
    cells = 2 * schema.encode_groups(frame)[0] + schema.encode_labels(frame)
    train, test = splits.split_rows(cells, seed=split_seed)
    return frame.iloc[train].reset_index(drop=True), frame.iloc[test].reset_index(drop=True)


def _load_table(
    name: str, folder: Path, notes: tuple[str, ...], split_seed: int, protected: tuple[str, ...]
) -> Dataset:
    from fairdp.data.adult import adult_full_schema, adult_schema
    from fairdp.data.credit import credit_schema, with_named_groups
    from fairdp.data.tables import encode_table

    schemas = {"adult": adult_schema, "adult_full": adult_full_schema, "credit": credit_schema}
    schema = schemas[name]()
    frames: Sequence[pd.DataFrame] = _frames(name, folder, split_seed)
    if protected != schema.sensitive:
        schema = schema.protecting(protected)
    if name == "credit":
        schema, frames = with_named_groups(schema, frames)
    train, test = (encode_table(frame, schema) for frame in frames)
    return Dataset(name=name, train=train, test=test, schema=schema, notes=notes)


def _load_faces(folder: Path, notes: tuple[str, ...], split_seed: int, protected: tuple[str, ...]) -> Dataset:
    from fairdp.data import splits, utkface

    faces = utkface.read_utkface(folder)
    # The same image on both sides would make test rows predictable from training rows.
    clusters = utkface.duplicate_clusters(faces.pixels)
    train, test = splits.split_rows(2 * faces.groups + faces.labels, seed=split_seed, clusters=clusters)
    train_data, test_data = (utkface.grouped_faces(faces, rows, protected) for rows in (train, test))
    return Dataset(name="utkface", train=train_data, test=test_data, schema=None, notes=(*notes, UTKFACE_LICENCE))


def _load_synthetic(seed: int) -> Dataset:
    import numpy as np

    from fairdp.data.synthetic import N_TEST, N_TRAIN, synthetic_population

    records = synthetic_population().sample(N_TRAIN + N_TEST, np.random.default_rng(seed))
    train, test = np.split(np.arange(N_TRAIN + N_TEST), [N_TRAIN])
    return Dataset(name="synthetic", train=records.take(train), test=records.take(test), schema=None)
