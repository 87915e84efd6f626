"""Where a command's records come from, and what to say about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fairdp._checks import InputError
from fairdp.accounting.words import PUBLISHED, READ_FROM_TABLE
from fairdp.commands.split_keys import new_split_key
from fairdp.config import limits
from fairdp.data.catalog import load_dataset
from fairdp.data.formats import PLAIN, TableFormat
from fairdp.data.grouped import GroupedData
from fairdp.data.inference import infer_schema
from fairdp.data.schema import TableSchema, read_schema
from fairdp.data.splits import split_by_own_coin
from fairdp.data.stored_rows import place_type
from fairdp.data.tables import Observe, Read, encode_file, load_table
from fairdp.data.treatments import Treated


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the records come from: a table, of which is said how it is written, or a named data set.

    Records to test on are in a table of their own, ``test``, or a fraction of the table; none at a fraction of zero.
    ``cache`` is a folder that keeps tables encoded for further runs.
    """

    table: Path | None
    dataset: str | None
    label: str | None
    positive: str | None
    sensitive: tuple[str, ...]
    schema: Path | None
    test_fraction: float
    written: TableFormat = PLAIN
    test: Path | None = None
    cache: Path | None = None

    @property
    def set_aside(self) -> float:
        """The fraction of the table that is tested on instead of being used."""
        return 0.0 if self.test is not None else self.test_fraction


@dataclass(frozen=True, kw_only=True)
class Records:
    """Training and test records, with what to say about them.

    ``declared_sizes`` are those of the training records' groups, if the schema declares those of the table.
    ``treated`` is what became of cells of the table that were not as declared, for the data holder.
    """

    name: str
    train: GroupedData
    test: GroupedData
    schema: TableSchema | None
    warnings: tuple[str, ...] = ()
    public_assumptions: tuple[str, ...] = ()
    declared_sizes: dict[str, float] = field(default_factory=dict)
    treated: tuple[Treated, ...] = ()

    @property
    def table(self) -> str:
        """The declared name of the table, or else that of its file."""
        return (self.schema and self.schema.table) or self.name

    @property
    def published(self) -> bool:
        """Whether anybody has these records, so that the sizes of their groups are no secret."""
        return PUBLISHED in self.public_assumptions


def load_records(
    source: Source, *, split_key: bytes | None = None, observe: Observe | None = None, read: Read | None = None
) -> Records:
    """The records that a source names.

    ``split_key`` is the secret of the coins that choose the test records of a table; None: a new one. Data sets that
    are known by name bring their own test records. Whoever wants to ``observe`` the rows of a table is told later, by
    their places in it, which records are in which part. ``read`` is how columns are read that nobody declared, paid
    for; None reads them as they stand, for a model that is not private.
    """
    if source.table is not None and source.dataset is not None:
        raise InputError(f"give TABLE or `dataset`, not both: got {str(source.table)!r} and {source.dataset!r}.")
    if source.table is None:
        return _named_records(source)
    path = source.table
    if source.schema is not None:
        # What the schema declares need not be typed again.
        declared = read_schema(source.schema)
        source = replace(source, label=source.label or declared.label, sensitive=source.sensitive or declared.sensitive)
    if source.label is None or not source.sensitive:
        missing = "`label`" if source.label is None else "`sensitive`"
        raise InputError(f"{missing} is needed with a table: name the column of {str(source.table)!r}.")
    limits.fraction(test_fraction=source.test_fraction)
    if source.cache is not None and source.schema is None:
        raise InputError("`cache` keeps tables that a `schema` encodes; name one (fairdp schema proposes it).")
    table = load_table(
        path,
        label=source.label,
        sensitive=source.sensitive,
        schema_path=source.schema,
        positive=source.positive,
        written=source.written,
        observe=observe,
        read=read or infer_schema,
        cache=source.cache,
    )
    # Nobody else holds the whole table.
    n_rows = table.data.n_samples
    places = None if observe is None else np.arange(n_rows).astype(place_type(n_rows))
    whole = replace(table.data, expendable=True, rows=places)
    key = int.from_bytes(split_key or new_split_key(), "little")
    if source.set_aside:
        train, test = split_by_own_coin(whole, seed=key, share=source.set_aside)
    else:
        train, test = whole, whole.take(np.arange(0))
    if source.test is not None:
        test = encode_file(source.test, table.schema, cache=source.cache)
    paid = read is not None and source.schema is None
    assumed = () if table.schema.declared or paid else (READ_FROM_TABLE,)
    return Records(
        name=path.name,
        train=train,
        test=test,
        schema=table.schema,
        warnings=(*table.notes, *_read_as(table.schema)),
        public_assumptions=assumed,
        declared_sizes=training_sizes(source, table.schema.group_sizes),
        treated=table.treated,
    )


def training_sizes(source: Source, sizes: Mapping[str, float]) -> dict[str, float]:
    """What sizes declared for a table say of its training records: the rest is for testing."""
    share = 1.0 if source.table is None else 1 - source.set_aside
    return {name: share * size for name, size in sizes.items()}


def _named_records(source: Source) -> Records:
    """A named data set, which brings its own columns."""
    if source.dataset is None:
        raise InputError(
            "there is nothing to train on: name a table, TABLE `label` COL `sensitive` COL, or a data set, such as "
            "`dataset` adult."
        )
    _refuse_table_options(source)
    loaded = load_dataset(source.dataset, sensitive=source.sensitive)
    return Records(
        name=source.dataset,
        train=loaded.train,
        test=loaded.test,
        schema=loaded.schema,
        warnings=loaded.notes,
        public_assumptions=(PUBLISHED,),
    )


def _read_as(schema: TableSchema) -> list[str]:
    """How an undeclared table was understood, so that a number read as a word is noticed."""
    if schema.declared:
        return []
    kinds = [f"{column.name} ({type(column).__name__.lower()})" for column in schema.columns]
    more = f" and {len(kinds) - 12} more" if len(kinds) > 12 else ""
    return [f"inputs were read as {', '.join(kinds[:12])}{more}; label {schema.label!r}, positive {schema.positive!r}."]


def _refuse_table_options(source: Source) -> None:
    told = [name for name in ("label", "positive", "schema", "test", "cache") if getattr(source, name)]
    for name in (*told, *source.written.to_dict()):
        raise InputError(f"`{name}` goes with a table, not with a named data set; leave it out or name a table.")
