"""Files of every kind as rows: how many there are, all of them, or some at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from fairdp._checks import DataError
from fairdp.data.csv_text import count_csv_rows, csv_tables, refuse_repeated
from fairdp.data.formats import PLAIN, TableFormat
from fairdp.data.frames import arrow_frame
from fairdp.data.parquet_folder import PARQUET, joined, parquet_files, refuse_other_columns, values_in_path, with_values
from fairdp.data.plain_cells import plain_table
from fairdp.data.sheets import sheet_table

Parts = Iterator[pa.Table | pa.RecordBatch]

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
ARROW = (".feather", ".arrow", ".ipc")
WORKBOOK = (".xlsx", ".xlsm", ".xls", ".ods")


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A file that can be read.

    Parameters
    ----------
    path
        The file.
    count
        Number of rows, after looking at all that can be wrong with the file.
    parts
        Its rows, at most so many at a time.
    """

    path: Path
    count: Callable[[], int]
    parts: Callable[[int], Parts]

    def batches(self, rows: int) -> Iterator[pd.DataFrame]:
        """Parts of the table with the numbers of their rows."""
        start = 0
        for part in self.parts(rows):
            # What pandas has written about its types is in the file too, and may be damaged.
            with _readable(self.path, "a table"):
                frame = arrow_frame(part)
            frame.index = pd.RangeIndex(start, start + len(frame))
            start += len(frame)
            yield frame

    def whole(self) -> pd.DataFrame:
        """All rows."""
        return joined(self.batches(self.count()))


def reader_of(path: Path, written: TableFormat = PLAIN) -> Reader:
    """The reader of a file, or of a folder of Parquet files, by the ending of its name.

    Raises
    ------
    FileNotFoundError, DataError
        With one line that names the file and what is wrong with it.
    """
    kind = kind_of_file(path)
    if kind == "folder":
        return Reader(
            path=path, count=lambda: _count_folder(path), parts=lambda rows: _folder_parts(path, rows, written)
        )
    if kind == "text":
        return Reader(
            path=path, count=lambda: count_csv_rows(path, written), parts=lambda rows: csv_tables(path, rows, written)
        )
    if kind == "parquet":
        return Reader(
            path=path,
            count=lambda: _counted(path, _count_parquet(path)),
            parts=lambda rows: (plain_table(_table(part), written) for part in _parquet_parts(path, rows)),
        )
    if kind == "arrow":
        return Reader(
            path=path,
            count=lambda: _counted(path, sum(part.num_rows for part in _arrow_parts(path, _MANY))),
            parts=lambda rows: (plain_table(_table(part), written) for part in _arrow_parts(path, rows)),
        )
    return Reader(
        path=path,
        count=lambda: _counted(path, len(_checked_sheet(path, written))),
        parts=lambda rows: _slices(_checked_sheet(path, written), rows),
    )


_MANY = 2**62


def kind_of_file(path: Path) -> str:
    """What a file is, by its name alone."""
    if path.is_dir():
        return "folder"
    if not path.is_file():
        raise FileNotFoundError(f"table {str(path)!r} does not exist.")
    name = path.name.lower()
    for kind, endings in (("text", TEXT), ("parquet", PARQUET), ("arrow", ARROW), ("workbook", WORKBOOK)):
        if name.endswith(endings):
            return kind
    known = "must end in .csv, .tsv or .txt (also with .gz), .parquet, .feather, .arrow or .xlsx"
    raise DataError(f"table {str(path)!r} {known}, got {path.suffix or 'no ending'}.")


def _counted(path: Path, n_rows: int) -> int:
    if not n_rows:
        raise DataError(f"table {str(path)!r} has no rows.")
    return n_rows


def _table(part: pa.Table | pa.RecordBatch) -> pa.Table:
    return part if isinstance(part, pa.Table) else pa.Table.from_batches([part])


def _slices(table: pa.Table | pa.RecordBatch, rows: int) -> Parts:
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def _count_parquet(path: Path) -> int:
    with _opened_parquet(path) as file:
        return int(file.metadata.num_rows)


def _parquet_parts(path: Path, rows: int) -> Parts:
    with _opened_parquet(path) as file, _readable(path, "a Parquet file"):
        yield from file.iter_batches(batch_size=min(rows, 2**31), use_threads=False)


def _opened_parquet(path: Path) -> pq.ParquetFile:
    with _readable(path, "a Parquet file"):
        # Else whole columns of a row group are read ahead and kept, and a row group may be the whole file.
        file = pq.ParquetFile(path, buffer_size=2**16, pre_buffer=False)
    refuse_repeated(path, file.schema_arrow.names)
    return file


def _count_folder(folder: Path) -> int:
    """Rows of all files, each of which has the columns of the first."""
    files, first, n_rows = parquet_files(folder), None, 0
    for path in files:
        with _opened_parquet(path) as file:
            names = [*file.schema_arrow.names, *values_in_path(folder, path)]
            n_rows += int(file.metadata.num_rows)
        refuse_repeated(path, names)
        first = first or names
        refuse_other_columns(folder, path, names, first)
    return _counted(folder, n_rows)


def _folder_parts(folder: Path, rows: int, written: TableFormat) -> Parts:
    first = None
    for path in parquet_files(folder):
        values = values_in_path(folder, path)
        for part in _parquet_parts(path, rows):
            table = with_values(part, values)
            first = first or table.column_names
            yield plain_table(table.select(first), written)


def _arrow_parts(path: Path, rows: int) -> Parts:
    """A file of Arrow's, which is also what Feather is, or a stream of it."""
    with _readable(path, "an Arrow or Feather file"), pa.OSFile(str(path)) as source:
        try:
            file = pa.ipc.open_file(source)
            batches = (file.get_batch(place) for place in range(file.num_record_batches))
        except pa.ArrowInvalid:
            source.seek(0)
            file = pa.ipc.open_stream(source)
            batches = iter(file)
        refuse_repeated(path, file.schema.names)
        for batch in batches:
            yield from _slices(batch, rows)


def _checked_sheet(path: Path, written: TableFormat) -> pa.Table:
    table = sheet_table(path, written)
    refuse_repeated(path, table.column_names)
    return table


@contextmanager
def _readable(path: Path, what: str) -> Iterator[None]:
    """Turn what goes wrong inside the reader of a file into one line."""
    try:
        yield
    except DataError:
        raise
    except (ArithmeticError, AttributeError, LookupError, NotImplementedError, OSError, TypeError, ValueError):
        raise DataError(f"table {str(path)!r} is not {what} that can be read.") from None
