"""Rows in memory, from whatever library: pandas, polars, Arrow, or anything else that knows Arrow's C interface."""

from typing import Any

import pandas as pd
import pyarrow as pa

from fairdp._checks import DataError


def frame_of(rows: Any) -> pd.DataFrame:
    """Rows as a frame in which each cell keeps its type; a stream is read to its end.

    >>> frame_of(pa.table({"age": [30, None]}))["age"].tolist()
    [30, <NA>]
    """
    if isinstance(rows, pd.DataFrame):
        return rows
    if isinstance(rows, pa.RecordBatch | pa.Table) or hasattr(rows, "__arrow_c_stream__"):
        try:
            return arrow_frame(pa.table(rows))
        except (pa.ArrowException, TypeError, ValueError):
            pass
    raise DataError(f"rows must be a table of pandas, polars or Arrow, got {type(rows).__name__}.")


def is_table(values: Any) -> bool:
    """Whether these are rows of named columns, as `frame_of` takes them; a column by itself is none.

    >>> [is_table(values) for values in (pd.DataFrame({"age": [30]}), pd.Series([30]), [[30]])]
    [True, False, False]
    """
    if isinstance(values, pd.DataFrame | pa.RecordBatch | pa.Table):
        return True
    column = isinstance(values, pa.ChunkedArray) or type(values).__name__ == "Series"
    return hasattr(values, "__arrow_c_stream__") and not column


def known_table(values: Any) -> Any:
    """A table that knows nothing but Arrow's interface, and may be read once, as a frame; all else as it is."""
    unknown = hasattr(values, "__arrow_c_stream__") and not hasattr(values, "to_pandas")
    return frame_of(values) if unknown and not isinstance(values, pd.DataFrame | pd.Series) else values


def arrow_frame(part: pa.Table | pa.RecordBatch) -> pd.DataFrame:
    """Rows of Arrow as a frame that keeps their types."""
    for place, field in enumerate(part.schema):
        if str(field.type) == "string_view":
            # As polars has it; pandas cannot take rows of it.
            part = part.set_column(place, field.name, part.column(place).cast(pa.large_string()))
    # In pandas' own types, whole numbers would become floats where another row has none.
    return part.to_pandas(types_mapper=pd.ArrowDtype)
