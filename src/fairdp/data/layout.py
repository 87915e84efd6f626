"""Encoded rows before they are inputs: a number as it is, a category as the place of the one input that is one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# In the place of the number of inputs that a code chooses among.
NUMBER = 0

# Of each column of cells how many inputs it becomes: NUMBER for a number, which is one, or those that a code is for.
Widths = tuple[int, ...]


def inputs_of(cells: Sequence[NDArray[Any]], widths: Widths) -> NDArray[np.float32]:
    """Inputs of rows, shape (n_rows, n_inputs): numbers, and ones where codes say so.

    Parameters
    ----------
    cells
        For each width the numbers, or the codes: 0 for none of the inputs, 1 for the first of them.
    """
    X = np.zeros((len(cells[0]), n_inputs(widths)), dtype=np.float32)
    stop = 0
    for values, width in zip(cells, widths, strict=True):
        start, stop = stop, stop + max(1, width)
        if width == NUMBER:
            X[:, start] = values
        else:
            rows = np.flatnonzero(values)
            X[rows, start + values[rows].astype(np.intp) - 1] = 1.0
    return X


def n_inputs(widths: Widths) -> int:
    """Number of inputs.

    >>> n_inputs((NUMBER, 1, 5))
    7
    """
    return sum(max(1, width) for width in widths)


def row_type(widths: Widths, n_groups: int) -> np.dtype[np.void]:
    """A stored row: each cell in as few bytes as it needs, then label and group."""
    cells = [(str(place), "<f4" if width == NUMBER else _code_type(width)) for place, width in enumerate(widths)]
    return np.dtype([*cells, ("label", "<i1"), ("group", group_type(n_groups))])


def group_type(n_groups: int) -> str:
    """Type of a group code that has room for twice as many groups: they may come to be told apart by label too."""
    return "<i1" if 2 * n_groups <= 2**7 else "<i2" if 2 * n_groups <= 2**15 else "<i4"


def _code_type(width: int) -> str:
    return "<u1" if width < 2**8 else "<u2" if width < 2**16 else "<u4"
