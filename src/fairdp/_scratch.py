"""Arrays that grow with the number of records, in a file without a name where they would take much memory."""

import math
import tempfile
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairdp._checks import DataError

# Bytes up to which an array is in memory.
MOST_IN_MEMORY = 2**26


def joined(parts: Iterable[NDArray[Any]], kind: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """The rows of all parts, which together have this shape or fewer rows; a large array can only be read.

    Its file has no name, so that the system removes it when the process ends, however that ends.
    """
    kind = np.dtype(kind)
    if kind.itemsize * math.prod(shape) > MOST_IN_MEMORY:
        return in_file(parts, kind, shape)
    whole, stop = np.empty(shape, dtype=kind), 0
    for part in parts:
        start, stop = stop, stop + len(part)
        whole[start:stop] = part
    return whole[:stop]


def in_file(parts: Iterable[NDArray[Any]], kind: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """The same in a file, of whatever size."""
    with tempfile.TemporaryFile() as file:
        n_rows = 0
        for part in parts:
            n_rows += len(part)
            try:
                # Through the file, not through a map of it: a full disk is then an error and not the end of us.
                file.write(np.ascontiguousarray(part, dtype=kind).data)
                file.flush()
            except OSError as error:
                raise DataError(
                    f"a temporary file in {tempfile.gettempdir()!r} cannot be written ({error.strerror}); name a "
                    "folder with more room in TMPDIR."
                ) from None
        return mapped(file, kind, (n_rows, *shape[1:]))


def mapped(file: Any, kind: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """What stands at the beginning of an open file; it may be closed and removed."""
    if not math.prod(shape):
        return np.empty(shape, dtype=kind)
    return np.asarray(np.memmap(file, dtype=kind, mode="r", shape=shape))
