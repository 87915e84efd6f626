"""Labels of two kinds as codes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target


def binary_codes(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The two labels in order, and which of them each record has; scikit-learn's own words for anything else.

    >>> binary_codes(np.array(["no", "yes", "no"]))[1]
    array([0, 1, 0])
    """
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) > 2:
        kind = type_of_target(labels)
        raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
    if len(classes) < 2:
        raise ValueError("Classifier can't train when only one class is present.")
    return classes, codes.astype(np.int64)
