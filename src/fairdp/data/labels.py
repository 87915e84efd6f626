"""Labels of two kinds as codes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from fairdp._checks import DataError


def binary_codes(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The two labels in order, and which of them each record has; scikit-learn's own words for anything else.

    >>> binary_codes(np.array(["no", "yes", "no"]))[1]
    array([0, 1, 0])
    """
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
