"""Text files with separated cells: every cell as it is written, whatever stands above or below it."""

import codecs
import csv
import gzip
import io
import itertools
import operator
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from fairdp._checks import DataError
from fairdp.data.columns import repeated
from fairdp.data.formats import PLAIN, TableFormat
from fairdp.data.plain_cells import plain_table

# Characters that are split into cells at a time.
_BLOCK = 2**18
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}


def count_csv_rows(path: Path, written: TableFormat = PLAIN) -> int:
    """Number of rows of a text file, each of which has the fields of the header.

    Raises
    ------
    DataError
        With one line that names the file and what is wrong with it.
    """
    n_rows = sum(block.num_rows for block in _blocks(path, written, only_first=True))
    if not n_rows:
        raise DataError(f"table {str(path)!r} has no rows.")
    return n_rows


def csv_tables(path: Path, rows: int, written: TableFormat = PLAIN) -> Iterator[pa.Table]:
    """The cells of a text file as text in the plain format, so many rows at a time."""
    waiting: list[pa.Table] = []
    n_waiting = 0
    for block in _blocks(path, written):
        waiting.append(plain_table(block, written))
        n_waiting += block.num_rows
        while n_waiting >= rows:
            table = pa.concat_tables(waiting)
            yield table.slice(0, rows)
            waiting, n_waiting = [table.slice(rows)], n_waiting - rows
    if n_waiting:
        yield pa.concat_tables(waiting)


def refuse_repeated(path: Path, names: Sequence[str]) -> None:
    """Refuse a table with two columns of one name."""
    name = repeated(names)
    if name is not None:
        raise DataError(f"table {str(path)!r} has two columns named {name!r}; rename one.")


def separator_of(path: Path, written: TableFormat = PLAIN) -> str:
    """What separates the cells of a file: as is said, or else by the ending of its name."""
    return written.sep or ("\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ",")


@contextmanager
def opened_text(path: Path, encoding: str | None = None) -> Iterator[TextIO]:
    """A text file, unpacked if it ends in .gz; bytes that its encoding does not know are said in one line."""
    try:
        with opened_bytes(path) as content, _text(content, _codec(encoding)) as stream:
            yield stream
    except UnicodeError:
        name, broken = encoding or "UTF-8", _first_broken_line(path, _codec(encoding))
        remedy = "name its encoding with `encoding`, such as cp1252, or save it as UTF-8"
        raise DataError(f"table {str(path)!r} is not {name} at line {broken}; {remedy}.") from None


@contextmanager
def opened_bytes(path: Path) -> Iterator[io.BufferedIOBase]:
    """The bytes of a file, unpacked if it ends in .gz."""
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as content:
            yield content
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"table {str(path)!r} is not a whole gzip file; copy or pack it again.") from None


def _text(content: io.BufferedIOBase, codec: str, errors: str = "strict") -> TextIO:
    return io.TextIOWrapper(cast(BinaryIO, content), encoding=codec, errors=errors, newline="")


def _codec(encoding: str | None) -> str:
    """The codec of an encoding; that of UTF-8 leaves out a mark of the byte order."""
    name = codecs.lookup(encoding or "utf-8").name
    return "utf-8-sig" if name == "utf-8" else name


def _blocks(path: Path, written: TableFormat, *, only_first: bool = False) -> Iterator[pa.Table]:
    """Some rows at a time, of all columns or of the first."""
    line, sep = 0, separator_of(path, written)
    with opened_text(path, written.encoding) as stream:
        names, line = _header(path, stream, sep)
        while lines := stream.readlines(_BLOCK):
            block = _split_by_arrow(lines, names, sep, only_first=only_first)
            if block is None:
                block, n_more = _split_by_csv(path, lines, stream, names, sep, line)
                line += n_more
            line += len(lines)
            yield block


def _header(path: Path, stream: TextIO, sep: str) -> tuple[list[str], int]:
    """Names of the columns, and the number of the line they end in."""
    reader = csv.reader(stream, delimiter=sep, skipinitialspace=True, strict=True)
    try:
        header = next((row for row in reader if row), [])
    except csv.Error as error:
        raise _broken(path, reader.line_num, error) from None
    if not header:
        raise DataError(f"table {str(path)!r} is empty.")
    refuse_repeated(path, header)
    for separator, name in _OTHER_SEPARATORS.items():
        if len(header) == 1 and separator in header[0]:
            remedy = "name it with `sep`, or let fairdp schema find it"
            raise DataError(f"table {str(path)!r} seems to be separated by {name}; {remedy}.")
    names = [name or f"Unnamed: {place}" for place, name in enumerate(header)]
    refuse_repeated(path, names)
    return names, reader.line_num


def _split_by_arrow(lines: list[str], names: list[str], sep: str, *, only_first: bool) -> pa.Table | None:
    """Cells of lines that Arrow and Python's csv module split alike; None for any others. Arrow is the faster one."""
    text = "".join(lines)
    content = text.encode()
    if (
        text.startswith("\ufeff")
        or max(map(len, lines)) > csv.field_size_limit()
        or not _has_plain_quotes(content, sep)
    ):
        return None
    try:
        table = pa.csv.read_csv(
            pa.py_buffer(content),
            read_options=pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(content)),
            parse_options=pa.csv.ParseOptions(delimiter=sep),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.large_string()),
                include_columns=names[:1] if only_first else names,
                check_utf8=False,
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        # A line with too many or too few fields, or no line with any: the csv module says which.
        return None
    return table if only_first or not _has_leading_blanks(text, sep) else _trimmed(table)


def _has_plain_quotes(content: bytes, sep: str) -> bool:
    """Whether quotes only stand around whole cells of one line, without others inside."""
    if b'"' not in content:
        return True
    characters = np.frombuffer(b"\n" + content + b"\n", dtype=np.uint8)
    quotes = np.flatnonzero(characters == ord('"'))
    if len(quotes) % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    # What stands before and after a cell.
    is_edge = np.isin(np.arange(256), [ord(sep), ord("\n"), ord("\r")])
    if not (is_edge[characters[opening - 1]].all() and is_edge[characters[closing + 1]].all()):
        return False
    ends = np.flatnonzero((characters == ord("\n")) | (characters == ord("\r")))
    return bool((np.searchsorted(ends, opening) == np.searchsorted(ends, closing)).all())


def _has_leading_blanks(text: str, sep: str) -> bool:
    return text.startswith(" ") or any(before + " " in text for before in f'{sep}\n\r"')


def _trimmed(table: pa.Table) -> pa.Table:
    """Without blanks before a cell, in quotes or not."""
    columns = [pa.compute.utf8_ltrim(column, " ") for column in table.columns]
    return pa.table(columns, names=table.column_names)


def _split_by_csv(
    path: Path, lines: list[str], stream: TextIO, names: list[str], sep: str, before: int
) -> tuple[pa.Table, int]:
    """Cells of lines, and how many more had to be read since a cell goes on over the end of the last."""
    left = iter(lines)
    reader = csv.reader(itertools.chain(left, stream), delimiter=sep, skipinitialspace=True, strict=True)
    rows: list[list[str]] = []
    try:
        while operator.length_hint(left):
            row = next(reader)
            if len(row) == len(names):
                rows.append(row)
            elif row:
                found = f"line {before + reader.line_num} has {len(row)} fields, the header has {len(names)}"
                raise DataError(f"table {str(path)!r}: {found}; correct the line.")
    except csv.Error as error:
        raise _broken(path, before + reader.line_num, error) from None
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    table = pa.table([pa.array(column, pa.large_string()) for column in columns], names=names)
    return _trimmed(table), reader.line_num - len(lines)


def _broken(path: Path, line: int, error: csv.Error) -> DataError:
    return DataError(f"table {str(path)!r}: line {line} is broken ({error}).")


def _first_broken_line(path: Path, codec: str) -> int:
    """Number of the first line with bytes that the codec does not know."""
    with opened_bytes(path) as content, _text(content, codec, "replace") as stream:
        try:
            return next((number for number, line in enumerate(stream, start=1) if "\ufffd" in line), 1)
        except UnicodeError:
            # A mark of the byte order is missing.
            return 1
