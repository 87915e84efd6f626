"""Rows of an encoded table that stay in a file, narrow, and become inputs when they are asked for."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp.data.layout import Widths, inputs_of, n_inputs

Places = NDArray[np.signedinteger[Any]]


class StoredRows:
    """Rows in a map of a file, of which a part is only a list of places. Printing shows the shape only.

    Indexing takes rows without reading them, `at` and `numpy.asarray` read them: to the same bits as an array that was
    encoded in memory.

    Parameters
    ----------
    rows
        All rows of the table, as `fairdp.data.layout.row_type` has them; in a file, or else in memory.
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
