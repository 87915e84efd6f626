"""Records, labels and protected groups as one thing: checked once, split, and made of what an estimator is given.

They are in memory, or stay in a file as rows that are read some at a time, to the same bits.
"""

import hashlib
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pandas.api import types

from fairdp import parameters as limits
from fairdp._io import joined
from fairdp.data.cells import canonical_text, distinct_cells, each_cell
from fairdp.data.columns import Widths, inputs_of, n_inputs
from fairdp.data.schema import frame_of, is_table, known_table
from fairdp.errors import DataError, ParameterError, finite_positive, in_unit_interval

# Records that are inputs at once, where all are gone through, are a multiple of the first number, at most the second,
# and so many bytes. Models compute so many rows of tables, or fewer images, at a time: their sums do not depend on it.
BATCH, MOST_BATCH, _MOST_BYTES = 2**13, 2**17, 2**26
# Bytes of records that are copied at a time, and names of records that are compared at a time, about.
_CHUNK, _NAMES = 2**24, 2**21

Places = NDArray[np.signedinteger[Any]]


class StoredRows:
    """Rows in a map of a file, of which a part is only a list of places. Printing shows the shape only.

    Indexing takes rows without reading them, `at` and `numpy.asarray` read them: to the same bits as an array that was
    encoded in memory.

    Parameters
    ----------
    rows
        All rows of the table, as `fairdp.data.columns.row_type` has them; in a file, or else in memory.
    widths
        What inputs their cells become.
    places
        Those that these are; None for all.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, rows: NDArray[np.void], widths: Widths, places: Places | None = None) -> None:
        # Without the subclass, which would follow every gathered part.
        self._rows, self._widths, self._places = np.asarray(rows), widths, places
        self.shape = (len(rows if places is None else places), n_inputs(widths))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: NDArray[Any] | slice) -> "StoredRows":
        """The rows at these positions, unread."""
        if self._places is not None:
            return StoredRows(self._rows, self._widths, np.asarray(self._places[chosen]))
        if isinstance(chosen, slice):
            return StoredRows(self._rows[chosen], self._widths)
        places: Places = chosen.astype(place_type(len(self._rows)), copy=False)
        return StoredRows(self._rows, self._widths, places)

    def at(self, chosen: NDArray[Any] | slice) -> NDArray[np.float32]:
        """The inputs of the rows at these positions."""
        rows = self._rows[chosen if self._places is None else self._places[chosen]]
        return inputs_of([rows[str(place)] for place in range(len(self._widths))], self._widths)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.at(slice(None)).astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        return f"StoredRows{self.shape}"


def place_type(n_rows: int) -> np.dtype[np.signedinteger[Any]]:
    """The narrower type of places in a table, if it has room for all."""
    return np.dtype(np.int32 if n_rows <= np.iinfo(np.int32).max else np.int64)


def groups_of(sensitive_features: Any, n_samples: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Group codes and names; several columns are combined, and only the combinations that occur are groups.

    >>> groups_of(["m", "f", "m"], 3)
    (array([1, 0, 1]), ('f', 'm'))
    >>> groups_of([["f", "old"], ["m", "old"]], 2)[1]
    ('f & old', 'm & old')
    """
    if sensitive_features is None:
        return np.zeros(n_samples, dtype=np.int64), ("all",)
    sensitive_features = known_table(sensitive_features)
    if hasattr(sensitive_features, "to_pandas"):
        # Frames and series of polars, and whatever else knows how.
        sensitive_features = sensitive_features.to_pandas()
    try:
        # As objects: the type of one value must not depend on the others, or 1 would be 1.0 beside 2.5.
        columns = pd.DataFrame(sensitive_features, dtype=object)
    except ValueError as error:
        raise DataError(f"`sensitive_features` must be one or more columns ({error}).") from None
    if len(columns) != n_samples:
        raise DataError(f"`sensitive_features` has {len(columns)} entries, but X has {n_samples} records.")
    missing = columns.isna().to_numpy().any(axis=1)
    if missing.any():
        raise DataError(
            f"`sensitive_features` has no value for {missing.sum()} records (first at position {missing.argmax()}); "
            "give missing values a group of their own or drop these records."
        )
    # Codes come from the values themselves: joined texts of different values may read the same.
    combined = pd.MultiIndex.from_arrays([_texts(columns.iloc[:, i]) for i in range(columns.shape[1])])
    codes, found = combined.factorize(sort=True)
    names = tuple(" & ".join(values) for values in found)
    if len(set(names)) < len(names):
        names = tuple(" & ".join(repr(value) for value in values) for values in found)
    return codes.astype(np.int64), names


def _texts(values: pd.Series) -> NDArray[np.object_]:
    """The text of each value by itself, as in tables."""
    codes, cells = distinct_cells(values)
    return np.array(each_cell(values, cells, canonical_text), dtype=object)[codes]


def codes_of(
    sensitive_features: Any, n_samples: int, group_names: tuple[str, ...], *, known_to: str = "the model knows"
) -> NDArray[np.int64]:
    """Codes of records whose groups must be among those that are known.

    >>> codes_of(["m", "m"], 2, ("f", "m"))
    array([1, 1])
    """
    codes, names = groups_of(sensitive_features, n_samples)
    unknown = [name for name in names if name not in group_names]
    if unknown:
        known = ", ".join(map(repr, group_names))
        raise DataError(f"`sensitive_features` names the group {unknown[0]!r}, but {known_to} {known}.")
    return np.array([group_names.index(name) for name in names], dtype=np.int64)[codes]


def binary_codes(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The two labels in order, and which of them each record has; scikit-learn's own words for anything else.

    >>> binary_codes(np.array(["no", "yes", "no"]))[1]
    array([0, 1, 0])
    """
    from sklearn.utils.multiclass import check_classification_targets, type_of_target

    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise DataError(str(error)) from None
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) > 2:
        # The first sentences are scikit-learn's.
        kind, shown = type_of_target(labels), ", ".join(map(str, classes[:3].tolist()))
        raise DataError(
            f"Only binary classification is supported. The type of the target is {kind}. y holds {len(classes)} values "
            f"({shown}, …); keep two of them or merge the rest."
        )
    if len(classes) < 2:
        held = f"y holds only {classes[0].item()!r}" if len(classes) else "y is empty"
        raise DataError(f"Classifier can't train when only one class is present: {held}; check the label.")
    return classes, codes.astype(np.int64)


def label_codes(labels: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Which of a model's two labels each record has.

    >>> label_codes(["no", "no"], np.array(["no", "yes"]))
    array([0, 0])
    """
    given = np.asarray(labels)
    unknown = given[~np.isin(given, classes)]
    if len(unknown):
        known = " and ".join(repr(value) for value in classes.tolist())
        raise DataError(f"y holds {unknown[0].item()!r}, but the model knows the labels {known}.")
    return (given == classes[1]).astype(np.int64)


def bytes_of(values: NDArray[Any] | StoredRows) -> Iterator[memoryview]:
    """The bytes of values of records, some at a time: of rows their inputs, of codes wide ones, however they are kept.

    >>> b"".join(bytes_of(np.array([1], dtype=np.int8))).hex()
    '0100000000000000'
    """
    for start in range(0, len(values), BATCH):
        part = np.asarray(values[start : start + BATCH])
        if np.issubdtype(part.dtype, np.signedinteger):
            part = part.astype(np.int64, copy=False)
        yield np.ascontiguousarray(part).data


@dataclass(frozen=True, eq=False)
class GroupedData:
    """Features, binary labels and group codes of the same records.

    Printing it shows shapes only: what it holds is private.

    Parameters
    ----------
    X
        Features, shape (n_samples, n_features) or (n_samples, channels, height, width), float32; or rows of a table
        that is larger than memory, which `batches` and `StoredRows.at` read.
    y
        Labels, 0 or 1, shape (n_samples,). Those of stored rows are narrow, and so are their groups: sums overflow.
    groups
        Group codes 0 … K − 1, shape (n_samples,).
    group_names
        One public name for each code. A declared group may be empty here; training refuses it.
    weights
        Share of its full contribution that each record makes to training, in [0, 1], shape (n_samples,); None: all
        of it. Decisions are counted without weights.
    rows
        Place of each record in the table that it comes from, shape (n_samples,); None where nobody asks. Nothing that
        is computed from the records depends on it.
    may_consume
        Whether a split may put the records in another order, for its first part to share their memory: a large table
        fits once, but not twice. Another split would move that part.
    """

    X: NDArray[np.float32] | StoredRows
    y: NDArray[np.int64]
    groups: NDArray[np.int64]
    group_names: tuple[str, ...]
    weights: NDArray[np.float64] | None = None
    rows: NDArray[np.signedinteger[Any]] | None = field(default=None, kw_only=True)
    may_consume: bool = False

    def __post_init__(self) -> None:
        if not len(self.X) == len(self.y) == len(self.groups):
            lengths = f"{len(self.X)}, {len(self.y)} and {len(self.groups)}"
            raise DataError(f"X, y and groups must have one entry per record, got {lengths}.")
        if len(set(self.group_names)) < len(self.group_names):
            twice = next(name for name in self.group_names if self.group_names.count(name) > 1)
            raise DataError(f"group_names must differ, but two groups are called {twice!r}; rename a value.")
        if not ((self.y == 0) | (self.y == 1)).all():
            raise DataError("y must hold only 0 and 1; encode the labels, or use FairDPClassifier.fit, which does.")
        if len(self.groups) and not (self.groups.min() >= 0 and self.groups.max() < len(self.group_names)):
            raise DataError(
                f"groups must hold codes from 0 to {len(self.group_names) - 1}, one for each of group_names."
            )
        # A larger weight than one would be more than the noise is for.
        if self.weights is not None and not (
            len(self.weights) == len(self.y) and ((self.weights >= 0) & (self.weights <= 1)).all()
        ):
            raise DataError("weights must hold a number from 0 to 1 for each record; divide by the largest you allow.")

    @property
    def n_samples(self) -> int:
        """Number of records, n."""
        return len(self.y)

    def __len__(self) -> int:
        return self.n_samples

    @property
    def row_bytes(self) -> int:
        """Memory of the inputs of one record."""
        return 4 * math.prod(self.X.shape[1:])

    @property
    def n_groups(self) -> int:
        """Number of declared groups, K."""
        return len(self.group_names)

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """Records of each group, n_k, shape (n_groups,)."""
        return np.bincount(self.groups, minlength=self.n_groups)

    @property
    def inputs(self) -> NDArray[np.float32]:
        """The features in memory, all of them: of records that come in `batches`, or that are few."""
        return np.asarray(self.X)

    @property
    def codes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Labels and groups that can be computed with."""
        return self.y.astype(np.int64, copy=False), self.groups.astype(np.int64, copy=False)

    @property
    def cells(self) -> NDArray[Any]:
        """Group and label of each record as one code, 2 k + y, shape (n_samples,)."""
        # Narrow groups have room for twice as many.
        return 2 * self.groups + self.y

    def take(self, indices: NDArray[np.int64] | slice) -> "GroupedData":
        """The records at these positions, with the same declared groups; a slice shares the memory."""
        weights = None if self.weights is None else self.weights[indices]
        rows = None if self.rows is None else self.rows[indices]
        return GroupedData(self.X[indices], self.y[indices], self.groups[indices], self.group_names, weights, rows=rows)

    def batches(self, n_rows: int | None = None) -> Iterator["GroupedData"]:
        """The same records, some at a time: their inputs in memory, and labels and groups that can be computed with."""
        n_rows = n_rows or min(MOST_BATCH, BATCH * max(1, _MOST_BYTES // (BATCH * max(1, self.row_bytes))))
        for start in range(0, self.n_samples, n_rows):
            part = self.take(slice(start, start + n_rows))
            y, groups = part.codes
            yield replace(part, X=part.inputs, y=y, groups=groups)

    def share(self, rank: int, size: int) -> slice:
        """The records that one of several processes goes through: some of the `batches`, next to each other."""
        n_batches = math.ceil(self.n_samples / BATCH)
        ends = (min(self.n_samples, BATCH * round(number * n_batches / size)) for number in (rank, rank + 1))
        return slice(*ends)

    def by_label(self) -> "GroupedData":
        """The same records in finer groups: those of group k with label y have code 2 k + y."""
        names = tuple(f"{name}, label {label}" for name in self.group_names for label in (0, 1))
        return replace(self, groups=self.cells, group_names=names, may_consume=False)

    def __repr__(self) -> str:
        return f"GroupedData(X: {self.X.shape}, groups: {self.n_groups})"


def split_by_own_coin(data: GroupedData, *, seed: int, share: float) -> tuple[GroupedData, GroupedData]:
    """Two parts of a private table, the second with this share: each record's coin is a keyed hash of itself.

    Adding or removing a record leaves all others on their side, which no shuffle and no stratified split does. Equal
    records are numbered, so that each has a coin of its own; removing one of them is removing the last. The same seed
    makes the same split, and should be as secret as the records: whoever knows it can choose rows by their side. The
    sizes are random. The first part of records that `may_consume` is in their own memory.
    """
    chosen = _chosen_by_own_coin(data, seed=seed, share=share)
    second = data.take(_places(chosen))
    # Stored rows need not be moved. Moved one by one, values that share memory would be moved twice.
    if not data.may_consume or isinstance(data.X, StoredRows) or np.may_share_memory(data.y, data.groups):
        return data.take(_places(~chosen)), second
    for values, last in zip(_arrays(data), _arrays(second), strict=True):
        _move_to_end(values, chosen, last)
    # Only the first part starts where the memory does: from elsewhere a matrix product may round in another way.
    return data.take(slice(data.n_samples - second.n_samples)), second


def _places(chosen: NDArray[np.bool_]) -> NDArray[Any]:
    return np.flatnonzero(chosen).astype(place_type(len(chosen)), copy=False)


def _arrays(data: GroupedData) -> list[NDArray[Any]]:
    X = np.asarray(data.X)
    return [values for values in (X, data.y, data.groups, data.weights, data.rows) if values is not None]


def _move_to_end(values: NDArray[Any], chosen: NDArray[np.bool_], last: NDArray[Any]) -> None:
    """Let the chosen rows, which are at hand as the last ones, follow all the others."""
    stop = 0
    for here in _chunks(len(values), values[:1].nbytes):
        # A copy: it goes to rows at or before its own, which may overlap them.
        others = values[here][~chosen[here]]
        values[stop : stop + len(others)] = others
        stop += len(others)
    values[stop:] = last


def _chosen_by_own_coin(data: GroupedData, *, seed: int, share: float) -> NDArray[np.bool_]:
    """Records whose coin falls on the second part, shape (n_samples,)."""
    in_unit_interval(share=share)
    key, limit = seed.to_bytes(16, "little"), np.uint64(int(share * 2**64))
    names = joined(_names(data, key), "<u8", (data.n_samples, 2))
    chosen = np.empty(data.n_samples, dtype=bool)
    for rows in _equals_together(names):
        chosen[rows] = _coins(names[rows]) < limit
    return chosen


def _names(data: GroupedData, key: bytes) -> Iterator[NDArray[np.uint64]]:
    """A keyed hash of each record, some records at a time, shape (n_records, 2)."""
    for part in data.batches(_step(data.row_bytes)):
        digests = (hashlib.blake2b(record, key=key, digest_size=16).digest() for record in _contents(part))
        yield np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def _equals_together(names: NDArray[np.uint64]) -> Iterator[NDArray[np.int64] | slice]:
    """All rows in order, or by the first bits of their names some at a time: those with one name come together."""
    n_bits = max(0, (len(names) - 1) // _NAMES).bit_length()
    if not n_bits:
        yield slice(None)
        return
    shift = np.uint64(64 - n_bits)
    for first in range(2**n_bits):
        pieces = range(0, len(names), _NAMES)
        yield np.concatenate([i + np.flatnonzero(names[i : i + _NAMES, 0] >> shift == first) for i in pieces])


def _coins(names: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The coin of each of these records, among which are all that equal one of them, in their order."""
    numbers, coins = _numbers_among_equals(names), np.empty(len(names), dtype="<u8")
    for here in _chunks(len(names), names[:1].nbytes):
        each = zip(_as_bytes(numbers[here, None]), _as_bytes(names[here]), strict=True)
        digests = (hashlib.blake2b(number, key=name, digest_size=8).digest() for number, name in each)
        coins[here] = np.frombuffer(b"".join(digests), dtype="<u8")
    return coins


def _contents(data: GroupedData) -> list[bytes]:
    """All that there is to say of each record; with other weights they are not equal."""
    codes = (data.y[:, None].astype(np.uint8), data.groups[:, None].astype("<u4"))
    parts = [np.asarray(data.X).reshape(data.n_samples, -1), *codes]
    if data.weights is not None:
        parts.append(data.weights[:, None])
    return _as_bytes(np.hstack([np.ascontiguousarray(part).view(np.uint8) for part in parts]))


def _as_bytes(rows: NDArray[Any]) -> list[bytes]:
    """The bytes of each row."""
    rows = np.ascontiguousarray(rows)
    return rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel().tolist()


def _numbers_among_equals(names: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """1 for the first record of a name, 2 for the second, and so on, shape (n_samples,)."""
    # Stable: equal names stay in the order of their records.
    order, places = np.lexsort(names.T), np.arange(len(names))
    names = names[order]
    is_first = np.append(True, (names[1:] != names[:-1]).any(1))[: len(names)]
    numbers = np.empty(len(names), dtype="<u8")
    numbers[order] = 1 + places - np.maximum.accumulate(places * is_first)
    return numbers


def _chunks(n_rows: int, n_bytes: int) -> Iterator[slice]:
    """All rows of so many bytes, some at a time."""
    step = _step(n_bytes)
    return (slice(start, start + step) for start in range(0, n_rows, step))


def _step(n_bytes: int) -> int:
    # Beside the bytes of a row, there are for a moment some objects that hold or hash them.
    return max(1, _CHUNK // (n_bytes + 200))


def split_rows(
    cells: NDArray[np.int64],
    *,
    seed: int,
    test_share: float = 0.2,
    clusters: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the training and of the test rows, in order.

    Parameters
    ----------
    cells
        Stratum of each row, 0 … m − 1, such as group and label: each gives the same share to the test rows.
    seed
        Public seed of the split.
    test_share
        Share of the rows of each stratum that go to the test side.
    clusters
        Rows with the same code stay on one side; by default each row is alone.
    """
    in_unit_interval(test_share=test_share)
    rows = np.arange(len(cells))
    members = _members(rows if clusters is None else clusters)
    quota = _quotas(np.bincount(cells), test_share)
    stratum = cells.tolist()
    test: list[int] = []
    for chosen in np.random.default_rng(seed).permutation(len(members)).tolist():
        if _fits(quota, [stratum[row] for row in members[chosen]]):
            for row in members[chosen]:
                quota[stratum[row]] -= 1
                test.append(row)
    is_test = np.isin(rows, test)
    return rows[~is_test], rows[is_test]


def _quotas(sizes: NDArray[np.int64], test_share: float) -> list[int]:
    """Test rows of each stratum: its share rounded, by largest remainder, to the right total."""
    shares = test_share * sizes
    quotas = np.floor(shares).astype(np.int64)
    left = round(test_share * int(sizes.sum())) - int(quotas.sum())
    quotas[np.argsort(quotas - shares, kind="stable")[:left]] += 1
    return [int(quota) for quota in quotas]


def _members(clusters: NDArray[np.int64]) -> list[list[int]]:
    """Rows of each cluster."""
    found: dict[int, list[int]] = {}
    for row, cluster in enumerate(clusters.tolist()):
        found.setdefault(cluster, []).append(row)
    return list(found.values())


def _fits(quota: Sequence[int], strata: Sequence[int]) -> bool:
    """True if rows of these strata can join the test side."""
    return all(quota[stratum] >= strata.count(stratum) for stratum in strata)


def grouped_arrays(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike | None,
    sensitive_features: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
) -> tuple[GroupedData, NDArray[Any]]:
    """Records to fit an estimator on, and the two labels in order; the estimator notes names of features."""
    from sklearn.utils.validation import validate_data

    with _own_remedies(X):
        records, labels = validate_data(estimator, X, y, dtype=np.float32, allow_nd=True)
    classes, codes = binary_codes(labels)
    declared = declared_groups(estimator)
    # A declared group may have no record.
    if declared is None or sensitive_features is None:
        groups, names = groups_of(sensitive_features, len(codes))
    else:
        groups, names = codes_of(sensitive_features, len(codes), declared, known_to="declared are"), declared
    if sensitive_features is None:
        # The line to name is the one that calls `fit`.
        warnings.warn("no sensitive_features given: all records are one group.", UserWarning, stacklevel=3)
    shares = None if sample_weight is None else shares_of(sample_weight, len(codes), estimator.max_sample_weight)
    if shares is not None and len(np.unique(codes[shares > 0])) < 2:
        raise DataError("`sample_weight` leaves at most one class with any weight; give both labels some.")
    return GroupedData(records, codes, groups, names, shares), classes


def raw_table(X: Any, y: Any, sensitive_features: Any) -> pd.DataFrame:
    """All that users passed, as one table of cells as they are; an image is one cell."""
    parts = [_named_columns(X, "x"), _named_columns(y, "y")]
    if sensitive_features is not None:
        parts.append(_named_columns(sensitive_features, "sensitive_feature_"))
    return pd.concat(parts, axis=1)


def _named_columns(values: Any, name: str) -> pd.DataFrame:
    """Columns by their own names, or else by their places."""
    if hasattr(values, "to_pandas"):
        values = values.to_pandas()
    if isinstance(values, Mapping):
        values = pd.DataFrame(values)
    if isinstance(values, pd.Series):
        values = values.to_frame(values.name if values.name is not None else f"{name}0")
    if isinstance(values, pd.DataFrame):
        return values.rename(columns=str).reset_index(drop=True)
    array = np.asarray(values)
    if array.ndim > 2:
        # As text: what is compared is whether all pixels are equal.
        array = np.array([hashlib.sha256(np.ascontiguousarray(image).data).hexdigest() for image in array])
    array = array.reshape(len(array), -1)
    return pd.DataFrame(array, columns=[f"{name}{place}" for place in range(array.shape[1])])


def check_declared_groups(estimator: Any, data: GroupedData) -> None:
    """Refuse records in other groups than were declared."""
    if estimator.groups is not None and declared_groups(estimator) != data.group_names:
        raise ParameterError("groups", estimator.groups, f"must be the groups of the data, {data.group_names!r}")


def declared_groups(estimator: Any) -> tuple[str, ...] | None:
    """Group names that an estimator declares, by itself or with their sizes; None leaves them to the records."""
    if estimator.groups is not None:
        limits.group_names(groups=estimator.groups)
        return tuple(str(name) for name in estimator.groups)
    by_group = isinstance(estimator.group_sizes, Mapping) and estimator.grouping == "attribute"
    return tuple(str(name) for name in estimator.group_sizes) if by_group else None


def shares_of(sample_weight: ArrayLike, n_samples: int, max_sample_weight: float) -> NDArray[np.float64]:
    """Weights as shares of the largest that is allowed, which noise is scaled to.

    >>> shares_of([1, 2], 2, 4.0)
    array([0.25, 0.5 ])
    """
    finite_positive(max_sample_weight=max_sample_weight)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except ValueError as error:
        raise DataError(f"`sample_weight` must hold numbers ({error}).") from None
    if weights.shape != (n_samples,):
        raise DataError(
            f"`sample_weight` must have shape ({n_samples},), one number for each record; got {weights.shape}."
        )
    outside = ~((weights >= 0) & (weights <= max_sample_weight))
    if outside.any():
        raise DataError(
            f"`sample_weight` must be from 0 to `max_sample_weight`={max_sample_weight:g}, got "
            f"{weights[outside][0]:g}; raise `max_sample_weight`, to which the noise is scaled, or lower the weights."
        )
    return weights / max_sample_weight


def records_of(estimator: Any, X: ArrayLike, *, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Records for an estimator that was fitted on records of this shape."""
    from sklearn.utils.validation import validate_data

    X = known_table(X)
    with _own_remedies(X):
        records: NDArray[np.float32] = validate_data(estimator, X, dtype=np.float32, allow_nd=True, reset=False)
    if records.shape[1:] != shape:
        raise DataError(f"X has records of shape {records.shape[1:]}, but the model was fitted on {shape}.")
    return records


@contextmanager
def _own_remedies(X: Any) -> Iterator[None]:
    """scikit-learn's sentence and our remedy: its own advice, an imputer, would read the private rows for nothing."""
    try:
        yield
    except (TypeError, ValueError) as error:
        first = str(error).splitlines()[0].rstrip(".")
        if "NaN" in first:
            raise DataError(
                f"{first}; fill missing values with a number that you know, not with one of these rows, which would be "
                "in no epsilon, or declare missing: indicator in a schema and pass it as `schema`."
            ) from None
        words = _not_numbers(X)
        if words or first.startswith("could not convert"):
            named = f" (X has other than numbers in {', '.join(words[:5])}{', …' if len(words) > 5 else ''})"
            raise DataError(
                f"{first}{named if words else ''}; declare what the columns may hold and pass it as `schema`: fairdp "
                "schema TABLE proposes one. Or encode words by categories that you state, such as "
                "OneHotEncoder(categories=...)."
            ) from None
        if isinstance(error, TypeError):
            raise
        raise DataError(str(error)) from None


def _not_numbers(X: Any) -> list[str]:
    """Columns of a table whose type is not that of numbers."""
    if not is_table(X):
        return []
    kinds = frame_of(X).dtypes
    return [repr(name) for name, kind in kinds.items() if not types.is_numeric_dtype(kind)]


def encoded_hashes(data: GroupedData, *, size: int, key: bytes = b"") -> NDArray[np.bytes_]:
    """Hash of each record's features, label and group as they are encoded, of so many bytes; −0 counts as 0."""
    found: list[bytes] = []
    for part in data.batches(max(1, _CHUNK // (data.row_bytes + 16))):
        y, groups = (np.asarray(codes, dtype="<i8") for codes in (part.y, part.groups))
        X = np.asarray(part.inputs, dtype="<f4").reshape(len(y), -1) + np.float32(0)
        rows = np.hstack([np.ascontiguousarray(each).view(np.uint8).reshape(len(y), -1) for each in (X, y, groups)])
        content, width = rows.tobytes(), rows.shape[1]
        each = (content[start : start + width] for start in range(0, len(content), width))
        found.append(b"".join(hashlib.blake2b(record, key=key, digest_size=size).digest() for record in each))
    return np.frombuffer(b"".join(found), dtype=f"S{size}")
