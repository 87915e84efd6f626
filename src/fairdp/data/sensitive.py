"""Protected groups from whatever users hold: arrays, lists, Series, or several columns."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairdp._checks import DataError
from fairdp.data.cells import text_of
from fairdp.data.distinct import distinct_cells, each_cell
from fairdp.data.frames import known_table


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
    return np.array(each_cell(values, cells, text_of), dtype=object)[codes]


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
