"""The records that a command names: read, measured, warned of, and decided about row by row.

Also the key of the coins by which test records are set aside, which is kept until a run is finished.
"""

import csv
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairdp._io import draft_of, json_bytes, read_key, write_key
from fairdp.accounting.spent import FRONTIER, PUBLISHED, READ_FROM_TABLE
from fairdp.certify.certificate import Certificate
from fairdp.certify.rates import estimated_metrics
from fairdp.classifier import FairDPClassifier
from fairdp.data.catalog import DATASETS, load_dataset
from fairdp.data.cells import spellings_of
from fairdp.data.columns import (
    CellIssues,
    OnIssue,
    counts_by_column,
    ignore_issues,
    lines_for_holder,
    refuse_unreadable,
    summed,
)
from fairdp.data.datasets import group_names
from fairdp.data.grouped import BATCH, GroupedData, encoded_hashes, place_type, split_by_own_coin
from fairdp.data.infer import infer_schema
from fairdp.data.schema import PLAIN, TableFormat, TableSchema, read_schema
from fairdp.data.tables import Observe, Read, encode_file, load_table, table_batches
from fairdp.distributed import process_group
from fairdp.errors import DataError, InputError, ParameterError, SavedModelError
from fairdp.frontier.verdict import SurveyNoise, outlook_of
from fairdp.ledger.ledger import Spending
from fairdp.metrics import evaluate_decisions
from fairdp.parameters import fraction
from fairdp.randomness import Generators
from fairdp.run.certifying import Run
from fairdp.run.checkpoint import read_checkpoint
from fairdp.run.predictor import declared_for_reasons
from fairdp.statements.certificate import collapse_warning, empty_bounds_warning
from fairdp.statements.privacy import NOT_PRIVATE
from fairdp.statements.verdict import forewarning, outlook_warning

# What every file of decisions has among its columns.
_WRITTEN = {"score", "probability", "decision"}
# Of the key of the test split.
KEY_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class Source:
    """The source of records: a table, of which is said how it is written, or a named data set.

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
    treated: tuple[CellIssues, ...] = ()

    @property
    def table(self) -> str:
        """The declared name of the table, or else that of its file."""
        return (self.schema and self.schema.table) or self.name

    @property
    def published(self) -> bool:
        """True if anybody has these records, so that the sizes of their groups are no secret."""
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
    fraction(test_fraction=source.test_fraction)
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
    whole = replace(table.data, may_consume=True, rows=places)
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


def _named_records(source: Source) -> Records:
    """A named data set, which brings its own columns."""
    if source.dataset is None:
        raise InputError("no input: give TABLE with `label` and `sensitive`, or a data set, such as `dataset` adult.")
    named = [name for name in ("label", "positive", "schema", "test", "cache") if getattr(source, name)]
    for name in (*named, *source.written.to_dict()):
        raise InputError(f"`{name}` goes with a table, not with a named data set; leave it out or name a table.")
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
    """A line on how an undeclared table was understood, so that a number read as a word is noticed."""
    if schema.declared:
        return []
    kinds = [f"{column.name} ({type(column).__name__.lower()})" for column in schema.columns]
    more = f" and {len(kinds) - 12} more" if len(kinds) > 12 else ""
    return [f"inferred inputs: {', '.join(kinds[:12])}{more}; label {schema.label!r}, positive {schema.positive!r}."]


def training_sizes(source: Source, sizes: Mapping[str, float]) -> dict[str, float]:
    """Sizes of the training records by those declared for a table: the rest is for testing."""
    share = 1.0 if source.table is None else 1 - source.set_aside
    return {name: share * size for name, size in sizes.items()}


def new_split_key(seed: int | None = None) -> bytes:
    """A key from the operating system's entropy or, for experiments, from a seed."""
    return Generators.of(seed).key("test split")


def keep_split_key(checkpoint: Path, key: bytes) -> None:
    """Write the key beside the checkpoint of a run, whose training records must be the same when it is continued."""
    write_key(split_key_path(checkpoint), key)


def kept_split_key(checkpoint: Path) -> bytes:
    """The key of the run that a checkpoint belongs to."""
    read_checkpoint(checkpoint)
    path = split_key_path(checkpoint)

    def kept() -> bytes:
        key = read_key(path, KEY_BYTES)
        if key is None:
            raise InputError(
                f"the key of the test split is not in {str(path)!r}, so that the run cannot be continued with the same "
                "records; restore the file, or start the run again."
            )
        return key

    return process_group().from_rank_zero(kept)


def split_key_path(checkpoint: Path) -> Path:
    """The file that keeps the key until the model is written."""
    return checkpoint.with_name(f"{checkpoint.name}.key")


def load_with_records(
    folder: Path,
    table: Path | None,
    dataset: str | None,
    *,
    part: Literal["train", "test"] = "test",
    written: TableFormat = PLAIN,
    on_issue: OnIssue = ignore_issues,
    observe: Observe | None = None,
) -> tuple[FairDPClassifier, GroupedData]:
    """A saved model and labelled records: those of a table, or a part of a named data set."""
    if (table is None) == (dataset is None):
        raise InputError("give either TABLE or `dataset`: the records to look at.")
    if dataset is not None:
        return load_for_dataset(folder, dataset, part=part)
    assert table is not None
    estimator, schema = load_saved(folder, written)
    return estimator, encode_file(table, schema, observe=observe, on_issue=on_issue)


def load_saved(folder: Path, written: TableFormat = PLAIN) -> tuple[FairDPClassifier, TableSchema]:
    """A saved model and the schema of its tables; what is said of the file at hand goes before what the model says."""
    estimator = FairDPClassifier.load(folder)
    if estimator.feature_schema_ is None:
        raise SavedModelError(
            f"the model in {str(folder)!r} does not read tables; use FairDPClassifier.load in Python."
        )
    schema = TableSchema.from_dict(estimator.feature_schema_)
    return estimator, replace(schema, format=written.over(schema.format))


def load_for_dataset(
    folder: Path, dataset: str, *, part: Literal["train", "test"] = "test"
) -> tuple[FairDPClassifier, GroupedData]:
    """A saved model and the test or training records of a data set of the kind it was trained on."""
    estimator = FairDPClassifier.load(folder)
    loaded = load_dataset(dataset, sensitive=_protected(estimator, dataset))
    other = json.loads(json_bytes(loaded.schema.to_dict())) if loaded.schema is not None else None
    shapes = (loaded.test.X.shape[1:], estimator.score_model_.shape)
    if (
        estimator.feature_schema_ != other
        or shapes[0] != shapes[1]
        or loaded.test.group_names != estimator.group_names_
    ):
        raise SavedModelError(f"the model in {str(folder)!r} was not trained on data like {dataset}; name a TABLE.")
    return estimator, loaded.test if part == "test" else loaded.train


def _protected(estimator: FairDPClassifier, dataset: str) -> tuple[str, ...]:
    """The columns of a data set whose values make the groups of a model; those by default if no others do."""
    card = DATASETS.get(dataset)
    if card is None:
        return ()
    if estimator.feature_schema_ is not None:
        named = TableSchema.from_dict(estimator.feature_schema_).sensitive
        return named if set(named) <= set(card.sensitive) else ()
    orders = [order for n in range(1, 1 + len(card.sensitive)) for order in permutations(card.sensitive, n)]
    return next((order for order in orders if card.images and group_names(order) == estimator.group_names_), ())


def decided(estimator: FairDPClassifier, data: GroupedData) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Score and decision of each record."""
    scores, decisions = np.empty(data.n_samples), np.empty(data.n_samples, dtype=np.int64)
    stop = 0
    for part in data.batches():
        here = slice(stop, stop := stop + part.n_samples)
        # Computed once: a model smoothed over its parameters runs a hundred times for each record.
        scores[here] = estimator.scores(part.inputs)
        decisions[here] = estimator.predictor_.decisions(
            estimator.score_model_, part.inputs, groups=part.groups, scores=scores[here]
        )
    return scores, decisions


def measure(estimator: FairDPClassifier, test: GroupedData) -> dict[str, Any]:
    """Exact utility and fairness on held-out records: for the data holder's eyes only."""
    (y, groups), (scores, decisions) = test.codes, decided(estimator, test)
    return evaluate_decisions(y, scores, groups, test.group_names, decisions=decisions)


def measured(estimator: FairDPClassifier, test: GroupedData, *, private: bool) -> tuple[int, Mapping[str, Any] | None]:
    """Certification records and metrics: exact ones for the data holder, or what follows from the released counts.

    Without records to test on there are only the counts; without a certificate there are none of these either.
    """
    certificate = estimator.certificate_
    if private and isinstance(certificate, Certificate):
        counted = sum(max(0, n) for group in certificate.counts for row in group for n in row)
        return counted, estimated_metrics(certificate)
    if not test.n_samples:
        return estimator.n_certify_, estimated_metrics(certificate) if isinstance(certificate, Certificate) else None
    return estimator.n_certify_, measure(estimator, test)


def equal_records(train: GroupedData, test: GroupedData, path: Path) -> str | None:
    """A warning for the data holder, and nobody else, of records in a test file that the training table has too."""
    equal = int(np.isin(record_hashes(test), record_hashes(train)).sum())
    if not equal:
        return None
    return (
        f"{equal} of the {test.n_samples} records in {str(path)!r} equal some of the training table; if they are the "
        "same people, results on them are optimistic."
    )


def record_hashes(data: GroupedData) -> NDArray[np.uint64]:
    """Hash of each record's features, label and group as they are encoded, shape (n_samples,); −0 counts as 0.

    Two unequal records share one of 64 bits with probability 2⁻⁶⁴.
    """
    return encoded_hashes(data, size=8).view("<u8")


def seen_before(estimator: FairDPClassifier, spending: Spending) -> list[str]:
    """A warning if the ledger knows some of the rows as used by a saved model; for the data holder's eyes."""
    spending.charge_all()
    model = spending.model_of(estimator.privacy_, estimator.score_model_.digest(), must_know=False)
    try:
        equal = [count for entry, count in spending.used_by(model).items() if str(entry) == model and count]
    except DataError as error:
        return [unknown_use(error)]
    return [
        f"{count} of the records equal some that were used to fit the model; if they are the same people, results "
        "on them are optimistic: evaluate on new rows."
        for count in equal
    ]


def unknown_use(error: DataError) -> str:
    """A warning that a ledger cannot say which records a model has used."""
    return f"it is not known which records the model was trained on: {error.template}"


def warnings_of(estimator: FairDPClassifier, metrics: Mapping[str, Any] | None) -> list[str]:
    """Warnings to read before relying on these metrics; None where nothing was measured."""
    collapse = None if metrics is None else collapse_warning(metrics["positive_rate"])
    found = [collapse] if collapse else []
    said = empty_bounds_warning(estimator.certificate_), _hidden_groups(estimator)
    found += [warning for warning in said if warning is not None]
    return found if estimator.privacy_.is_private else [*found, NOT_PRIVATE]


def hidden_beforehand(run: Run) -> str | None:
    """Groups whose rates a frontier will not see, from the plan alone, while nothing has been trained."""
    plan, names = run.plan, tuple(run.privacy.mechanisms)
    if not plan.recipe.joint or len(names) < 2 or not plan.query_stds[FRONTIER]:
        return None
    sizes = dict(zip(names, plan.recipe.group_sizes, strict=True))
    parity, epsilon = run.config.parity, plan.budget.epsilon
    return forewarning(outlook_of(sizes, SurveyNoise.of(plan), parity=parity, epsilon=epsilon))


def _hidden_groups(estimator: FairDPClassifier) -> str | None:
    """Groups whose rates a frontier could not see, now that the share of positive labels is known too."""
    frontier, privacy = estimator.frontier_, estimator.privacy_
    if frontier is None or len(estimator.group_names_) < 2 or not frontier.sketch_std:
        return None
    sizes = dict(zip(estimator.group_names_, frontier.sizes.reshape(-1, 2).sum(1).tolist(), strict=True))
    label_rate = float((frontier.sizes[1::2].sum() / frontier.sizes.sum()).clip(0.01, 0.99))
    noise = SurveyNoise.of_frontier(frontier)
    return outlook_warning(
        outlook_of(sizes, noise, parity=frontier.parity, epsilon=privacy.epsilon, label_rate=label_rate)
    )


def predict_table(
    folder: Path,
    table: Path,
    out: Path,
    *,
    id_columns: Sequence[str] = (),
    k: int | None = None,
    written: TableFormat = PLAIN,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Write score, probability and decision of a saved model for every row of a table.

    Rows pass some at a time, and the file is there when all are decided. Returns counts, and what became of cells that
    were not as declared, by column.

    Parameters
    ----------
    out
        A CSV or Parquet file; only earlier decisions are replaced.
    id_columns
        Columns that are kept, and tell equal rows of people apart.
    k
        Number of reasons for each negative decision.
    written
        How the table is written, where the model's schema says otherwise.
    say
        Told what the data holder should know of cells that were not as declared.
    """
    estimator, schema = load_saved(folder, written)
    if k is not None:
        declared_for_reasons(estimator, k)
    is_parquet = out.suffix.lower() == ".parquet"
    if not is_parquet and out.suffix.lower() != ".csv":
        raise ParameterError("out", str(out), "must end in .csv or .parquet")
    if out.exists() and table.exists() and out.samefile(table):
        raise ParameterError("out", str(out), "is the table itself", "choose another file")
    _refuse_foreign(out)
    n_rows = n_positive = 0
    issues: tuple[CellIssues, ...] = ()

    def decided(rows: pd.DataFrame, as_written: pd.DataFrame) -> pd.DataFrame:
        nonlocal n_rows, n_positive, issues
        found = list[CellIssues]()
        kept = _ids(rows, id_columns, table)
        # Parts of an id are kept apart by a sign that no text has.
        ids = ["\x1f".join(parts) for parts in zip(*kept.values(), strict=True)] or None
        records = schema.encode(rows, on_issue=found.append)
        scores, groups = estimator.scores(records), _groups(estimator, schema, rows, found.append)
        rule, model = estimator.predictor_, estimator.score_model_
        decisions = rule.decisions(model, records, ids, groups=groups, scores=scores)
        named = np.where(decisions == 1, schema.positive, schema.negative)
        frame = pd.DataFrame({"score": scores, "probability": estimator.probabilities(records), "decision": named})
        if rule.tosses_coins:
            frame.insert(2, "chance", rule.chances(model, records, groups=groups, scores=scores))
        frame = pd.concat([as_written[list(id_columns)].reset_index(drop=True), frame], axis=1)
        if k is not None:
            frame = pd.concat([frame, estimator.reasons(rows, k=k)], axis=1)
        n_rows, n_positive = n_rows + len(frame), n_positive + int(decisions.sum())
        issues = summed((*issues, *found))
        return frame

    # Models compute some thousand rows at once, of which a batch is a multiple. The file is checked here.
    batches = table_batches(table, schema.format, rows=BATCH)
    if id_columns and schema.format.rewrites_cells:
        # Ids are kept to the letter, whatever numbers look like in such a file.
        plain = replace(schema.format, decimal=None, thousands=None, day_first=None)
        texts = table_batches(table, plain, rows=BATCH)
        frames = (decided(rows, as_written) for rows, as_written in zip(batches, texts, strict=True))
    else:
        frames = (decided(rows, rows) for rows in batches)
    with _drafted(out) as draft:
        (_write_parquet if is_parquet else _write_csv)(draft, frames)
        # Known at the end: what is refused here leaves no file.
        refuse_unreadable(issues)
    for line in lines_for_holder(issues):
        say(line)
    return {
        "n_rows": n_rows,
        "positive": schema.positive,
        "positive_rate": n_positive / n_rows if n_rows else float("nan"),
        "out": str(out),
        "treated": counts_by_column(issues),
    }


def _ids(rows: pd.DataFrame, names: Sequence[str], table: Path) -> dict[str, list[str]]:
    """The texts of the columns that say who somebody is."""
    for name in names:
        if name not in rows:
            raise ParameterError("id_columns", name, f"is not a column of {str(table)!r}")
        if name in ("score", "probability", "chance", "decision") or name.startswith("reason"):
            raise ParameterError(
                "id_columns", name, "is the name of a column that is written", "rename it in the table"
            )
    return {name: spellings_of(rows[name]) for name in names}


def _groups(
    estimator: FairDPClassifier, schema: TableSchema, rows: pd.DataFrame, on_issue: OnIssue
) -> NDArray[np.int64] | None:
    """The group of each row, for a rule that needs it."""
    if estimator.predictor_.flips is None:
        return None
    missing = [name for name in schema.sensitive if name not in rows]
    if missing:
        raise DataError(
            f"{estimator.method} decides by group and needs the column {missing[0]!r}; train another method for "
            "decisions without it (see fairdp methods)."
        )
    return schema.encode_groups(rows, on_issue=on_issue)[0]


def _refuse_foreign(out: Path) -> None:
    """Refuse to replace a file that `fairdp predict` has not written."""
    if out.is_file() and out.stat().st_size and not _columns(out) >= _WRITTEN:
        raise ParameterError("out", str(out), "exists and holds no decisions of fairdp predict", "choose another file")


def _columns(path: Path) -> set[str]:
    """The columns of a table that may be none."""
    try:
        if path.suffix.lower() == ".parquet":
            return {*pq.read_schema(path).names}
        with path.open(encoding="utf-8", newline="") as file:
            return {*next(csv.reader(file), [])}
    except (pa.ArrowException, UnicodeDecodeError, csv.Error):
        return set()


@contextmanager
def _drafted(out: Path) -> Iterator[BinaryIO]:
    """A file to write to some at a time, which takes its name when all is written; one line says why it cannot be."""
    try:
        with draft_of(out) as handle, os.fdopen(handle, "wb", closefd=False) as draft:
            yield draft
    except OSError as error:
        # What is wrong with a table has words of its own.
        reason = error.strerror or str(error).splitlines()[0]
        raise ParameterError("out", str(out), f"cannot be written: {reason}") from None


def _write_csv(draft: BinaryIO, frames: Iterator[pd.DataFrame]) -> None:
    for number, frame in enumerate(frames):
        draft.write(frame.to_csv(index=False, header=not number).encode())


def _write_parquet(draft: BinaryIO, frames: Iterator[pd.DataFrame]) -> None:
    first = next(frames)
    found = pa.Schema.from_pandas(first, preserve_index=False)
    # Types of all rows by the first ones; a column that has been empty so far may hold texts later.
    fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in found]
    writer = pq.ParquetWriter(draft, pa.schema(fields, metadata=found.metadata))
    try:
        for frame in itertools.chain([first], frames):
            try:
                table = pa.Table.from_pandas(frame, schema=writer.schema, preserve_index=False)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                # All other columns are of our own making.
                raise DataError(
                    "the ids of later rows are of another type than those of the first; write to a .csv file, which "
                    "takes both."
                ) from None
            writer.write_table(table)
        writer.close()
    finally:
        # One that failed would be closed again when Python lets go of it, and print a traceback.
        writer.is_open = False
