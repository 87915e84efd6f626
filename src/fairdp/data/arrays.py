"""Arrays as users hold them, checked by scikit-learn's rules."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from fairdp.data.grouped import GroupedData
from fairdp.labels import binary_codes
from fairdp.sensitive import groups_of


def grouped_arrays(
    estimator: Any, X: ArrayLike, y: ArrayLike, sensitive_features: ArrayLike | None
) -> tuple[GroupedData, NDArray[Any]]:
    """Records to fit an estimator on, and the two labels in order; the estimator notes names of features."""
    records, labels = validate_data(estimator, X, y, dtype=np.float32, allow_nd=True)
    classes, codes = binary_codes(labels)
    groups, names = groups_of(sensitive_features, len(codes))
    if sensitive_features is None:
        # The line to name is the one that calls `fit`.
        warnings.warn("no sensitive_features given: all records are one group.", UserWarning, stacklevel=3)
    return GroupedData(records, codes, groups, names), classes


def records_of(estimator: Any, X: ArrayLike, *, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Records for an estimator that was fitted on records of this shape."""
    records: NDArray[np.float32] = validate_data(estimator, X, dtype=np.float32, allow_nd=True, reset=False)
    if records.shape[1:] != shape:
        raise ValueError(f"X has records of shape {records.shape[1:]}, but the model was fitted on {shape}.")
    return records
