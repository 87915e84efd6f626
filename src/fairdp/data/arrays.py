"""Arrays as users hold them, checked by scikit-learn's rules."""

import hashlib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pandas.api import types
from sklearn.utils.validation import validate_data

from fairdp import _checks
from fairdp._checks import DataError, ParameterError
from fairdp.config import limits
from fairdp.data.frames import frame_of, is_table, known_table
from fairdp.data.grouped import GroupedData
from fairdp.data.labels import binary_codes
from fairdp.data.sensitive import codes_of, groups_of


def grouped_arrays(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike | None,
    sensitive_features: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
) -> tuple[GroupedData, NDArray[Any]]:
    """Records to fit an estimator on, and the two labels in order; the estimator notes names of features."""
    with _own_remedies(X):
        records, labels = validate_data(estimator, X, y, dtype=np.float32, allow_nd=True)
    classes, codes = binary_codes(labels)
    groups, names = _declared_or_read(estimator, sensitive_features, len(codes))
    if sensitive_features is None:
        # The line to name is the one that calls `fit`.
        warnings.warn("no sensitive_features given: all records are one group.", UserWarning, stacklevel=3)
    shares = None if sample_weight is None else shares_of(sample_weight, len(codes), estimator.max_sample_weight)
    if shares is not None and len(np.unique(codes[shares > 0])) < 2:
        raise DataError("`sample_weight` leaves at most one class with any weight; give both labels some.")
    return GroupedData(records, codes, groups, names, shares), classes


def raw_table(X: Any, y: Any, sensitive_features: Any) -> pd.DataFrame:
    """What users passed, as one table of cells as they are; an image is one cell."""
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


def _declared_or_read(
    estimator: Any, sensitive_features: ArrayLike | None, n_samples: int
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Group codes and names; a declared group may have no record."""
    declared = declared_groups(estimator)
    if declared is None or sensitive_features is None:
        return groups_of(sensitive_features, n_samples)
    return codes_of(sensitive_features, n_samples, declared, known_to="declared are"), declared


def shares_of(sample_weight: ArrayLike, n_samples: int, max_sample_weight: float) -> NDArray[np.float64]:
    """Weights as shares of the largest that is allowed, which noise is scaled to.

    >>> shares_of([1, 2], 2, 4.0)
    array([0.25, 0.5 ])
    """
    _checks.finite_positive(max_sample_weight=max_sample_weight)
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
