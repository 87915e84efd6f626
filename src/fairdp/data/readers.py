"""Tables in files of every kind as rows: how many there are, some at a time, and how a file seems to be written.

Every reader refuses a broken file in one line that names it. Cells of text files stay texts, in the plain format of
`TableFormat`; those of Parquet and Arrow files keep their types, and those of workbooks become their text.
"""

import codecs
import csv
import gzip
import io
import itertools
import operator
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, BinaryIO, TextIO, cast
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from fairdp.data.cells import MISSING_WORDS, distinct_cells, moment_of, raw_text
from fairdp.data.columns import repeated
from fairdp.data.schema import PLAIN, TableFormat, arrow_frame
from fairdp.errors import DataError

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET = (".parquet", ".pq")
ARROW = (".feather", ".arrow", ".ipc")
WORKBOOK = (".xlsx", ".xlsm", ".xls", ".ods")
# How writers of partitioned tables name the folder of rows without a value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# Characters of a text file that are split into cells at a time.
_BLOCK = 2**18
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
# Blanks and apostrophes come in several forms that look alike.
_ALIKE = {" ": " \u00a0\u202f", "'": "'\u2019"}
_CLOCK = r"(?:[T ][0-9][0-9:.]*(?: ?(?:Z|[+-][0-9:]+))?)?"
# One pattern for each sign: RE2 cannot ask for the same sign twice.
_DAY_FIRST = tuple(
    rf"^\s*([0-9]{{1,2}}){sign}([0-9]{{1,2}}){sign}([0-9]{{4}})({_CLOCK})\s*$" for sign in (r"\.", "/", "-")
)
# Bytes of text that encodings and separators are found from, and rows that decimals and dates are found from.
_SAMPLE, _ROWS = 2**18, 50_000
# So many of the cells must agree: a few odd rows do not make a format.
_MOST, _NEARLY_ALL = 0.9, 0.98
# Signs of decimals and of thousands, in the order in which they are believed where a table fits several.
_SIGNS = ((".", ""), (".", ","), (",", "."), (",", " "), (",", "'"), (".", " "), (".", "'"), (",", ""))
# Encodings that can be told apart by what their letters would be: others of the West look like cp1252. It takes some
# letters to tell.
_ENCODINGS, _LETTERS = ("cp1252", "cp1251", "cp1253", "cp932", "gb18030", "cp949", "big5"), 5
_DAY = re.compile(r"\s*([0-9]{1,2})[./-]")

Parts = Iterator[pa.Table | pa.RecordBatch]


def count_rows(path: Path, written: TableFormat = PLAIN) -> int:
    """Number of rows of a file, or of a folder of Parquet files, after looking at all that can be wrong with it.

    Raises
    ------
    FileNotFoundError, DataError
        With one line that names the file and what is wrong with it.
    """
    kind = kind_of_file(path)
    if kind == "text":
        n_rows = sum(block.num_rows for block in _blocks(path, written, only_first=True))
    elif kind == "folder":
        n_rows = _count_folder(path)
    elif kind == "parquet":
        with _opened_parquet(path) as file:
            n_rows = int(file.metadata.num_rows)
    elif kind == "arrow":
        n_rows = sum(part.num_rows for part in _arrow_parts(path))
    else:
        n_rows = _sheet(path, written).num_rows
    if not n_rows:
        raise DataError(f"table {str(path)!r} has no rows.")
    return n_rows


def frames_of(path: Path, rows: int, written: TableFormat = PLAIN) -> Iterator[pd.DataFrame]:
    """The table in a file, at most so many rows at a time, with the numbers of the rows."""
    start = 0
    for part in table_parts(path, rows, written):
        # What pandas has written about its types is in the file too, and may be damaged.
        with _readable(path, "a table"):
            frame = arrow_frame(part)
        frame.index = pd.RangeIndex(start, start + len(frame))
        start += len(frame)
        yield frame


def whole_frame(path: Path, written: TableFormat = PLAIN) -> pd.DataFrame:
    """All rows; where files have other types for a column, each cell keeps the type of its file."""
    parts = list(frames_of(path, count_rows(path, written), written))
    if len(parts) == 1:
        return parts[0]
    columns = {}
    for name in parts[0].columns:
        values = [part[name] for part in parts]
        if len({each.dtype for each in values}) > 1:
            # Together they would become of one type: whole numbers floats, and codes numbers.
            values = [_cells(each) for each in values]
        columns[name] = pd.concat(values, ignore_index=True)
    return pd.DataFrame(columns)


def _cells(values: pd.Series) -> pd.Series:
    codes, cells = distinct_cells(values)
    objects = np.empty(len(cells), dtype=object)
    objects[:] = cells
    return pd.Series(objects[codes], dtype=object)


def table_parts(path: Path, rows: int, written: TableFormat) -> Parts:
    """The rows of a file, at most so many at a time, with texts in the plain format."""
    kind = kind_of_file(path)
    if kind == "text":
        yield from csv_tables(path, rows, written)
    elif kind == "folder":
        yield from _folder_parts(path, rows, written)
    elif kind == "workbook":
        yield from _slices(_sheet(path, written), rows)
    else:
        for part in _parquet_parts(path, rows) if kind == "parquet" else _arrow_parts(path, rows):
            yield plain_table(pa.Table.from_batches([part]), written)


def kind_of_file(path: Path) -> str:
    """``folder``, ``text``, ``parquet``, ``arrow`` or ``workbook``, by its name alone."""
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


def detected_format(path: Path, given: TableFormat) -> TableFormat:
    """The format that the caller states, and for the rest what the file looks like, where it is not plain.

    Everything here depends on private rows, as all of a proposed schema does.
    """
    found, kind = given, kind_of_file(path)
    if kind == "text":
        found = found if found.encoding else replace(found, encoding=_encoding(path))
        found = found if found.sep else replace(found, sep=_separator(path, found.encoding))
    elif kind == "workbook" and found.sheet is None and len(sheet_names(path)) > 1:
        found = replace(found, sheet=sheet_names(path)[0])
    unread = replace(found, decimal=None, thousands=None, day_first=None)
    columns = _text_columns(next(table_parts(path, _ROWS, unread), None))
    decimal, thousands = _signs(columns, given)
    day_first = _day_first(columns) if given.day_first is None else given.day_first
    # Both signs at once: one after the other might be the same for a moment.
    found = replace(found, decimal=decimal, thousands=thousands, day_first=day_first)
    # Without what would be so anyway.
    plain = {"sep": separator_of(path), "decimal": ".", "thousands": "", "encoding": "utf-8", "day_first": False}
    return TableFormat(**{key: value for key, value in found.to_dict().items() if plain.get(key) != value})


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
    """The character between the cells of a file: as is said, or else by the ending of its name."""
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
        raise DataError(f"table {str(path)!r} is a truncated gzip file; copy or pack it again.") from None


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
    """Cells of lines that Arrow and Python's csv module split alike; None for any others.

    Arrow is the faster one: without it, reading and encoding a large table takes three times as long.
    """
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
    has_leading_blanks = text.startswith(" ") or any(before + " " in text for before in f'{sep}\n\r"')
    return _trimmed(table) if has_leading_blanks and not only_first else table


def _has_plain_quotes(content: bytes, sep: str) -> bool:
    """True if quotes only stand around whole cells of one line, without others inside."""
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


def _trimmed(table: pa.Table) -> pa.Table:
    """Without blanks before a cell, in quotes or not."""
    columns = [pc.utf8_ltrim(column, " ") for column in table.columns]
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


def _slices(table: pa.Table | pa.RecordBatch, rows: int) -> Parts:
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files of a folder and of those in it, without hidden ones and notes of writers, such as _metadata."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in PARQUET and path.is_file())
    kept = [path for path in found if not any(part[0] in "._" for part in path.relative_to(folder).parts)]
    if not kept:
        raise DataError(f"table {str(folder)!r} is a folder without Parquet files; name a file or another folder.")
    return sorted(kept, key=lambda path: path.relative_to(folder).as_posix())


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
    first, n_rows = None, 0
    for path in parquet_files(folder):
        with _opened_parquet(path) as file:
            names = [*file.schema_arrow.names, *_values_in_path(folder, path)]
            n_rows += int(file.metadata.num_rows)
        refuse_repeated(path, names)
        first = first or names
        if lacking := sorted(set(names) - set(first)) or sorted(set(first) - set(names)):
            where = path.relative_to(folder).as_posix()
            found = f"{where!r} and the first file do not both have the column {lacking[0]!r}"
            raise DataError(f"table {str(folder)!r}: {found}; give all files the same columns.")
    return n_rows


def _folder_parts(folder: Path, rows: int, written: TableFormat) -> Parts:
    first = None
    for path in parquet_files(folder):
        values = _values_in_path(folder, path)
        for part in _parquet_parts(path, rows):
            table = pa.Table.from_batches([part])
            for name, value in values.items():
                table = table.append_column(name, pa.array([value] * len(table), pa.large_string()))
            first = first or table.column_names
            yield plain_table(table.select(first), written)


def _values_in_path(folder: Path, file: Path) -> dict[str, str | None]:
    """Columns that a partitioned table keeps in the names of its folders, as in sex=F/part-0.parquet."""
    parents: Sequence[str] = PurePath(file.relative_to(folder)).parts[:-1]
    pairs = (part.partition("=") for part in parents if "=" in part)
    return {unquote(name): None if value == _NO_VALUE else unquote(value) for name, _, value in pairs}


def _arrow_parts(path: Path, rows: int = 2**62) -> Parts:
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


def sheet_names(path: Path) -> list[str]:
    """The sheets of a workbook, in its order."""
    return _within(path, lambda book: list(book.sheet_names))


def _sheet(path: Path, written: TableFormat) -> pa.Table:
    """The cells of a sheet as text in the plain format; rows without any cell are left out."""
    names = sheet_names(path)
    listed = ", ".join(map(repr, names))
    if written.sheet is None and len(names) > 1:
        raise DataError(f"table {str(path)!r} has the sheets {listed}; name one with `sheet`.")
    if written.sheet is not None and written.sheet not in names:
        raise DataError(f"table {str(path)!r} has no sheet {written.sheet!r}, it has {listed}; name one with `sheet`.")
    name = written.sheet or names[0]
    cells = _within(path, lambda book: book.get_sheet_by_name(name).to_python(skip_empty_area=True))
    rows = [row for row in cells if any(cell != "" for cell in row)]
    if not rows:
        raise DataError(f"table {str(path)!r} is empty.")
    header = [raw_text(name) or f"Unnamed: {place}" for place, name in enumerate(rows[0])]
    columns = list(zip(*rows[1:], strict=True)) or [()] * len(header)
    refuse_repeated(path, header)
    return pa.Table.from_arrays([_column(cells, written) for cells in columns], header)


def _within(path: Path, look: Callable[[Any], Any]) -> Any:
    """The answer of a look into a workbook."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise DataError(
            f"table {str(path)!r} is a workbook, which needs python-calamine; run pip install 'fairdp[xlsx]'."
        ) from None
    try:
        with CalamineWorkbook.from_path(str(path)) as book:
            return look(book)
    except (CalamineError, OSError, RuntimeError, ValueError):
        raise DataError(f"table {str(path)!r} is not a workbook that can be read.") from None


def _column(cells: Sequence[Any], written: TableFormat) -> pa.Array:
    texts = pa.array([cell if isinstance(cell, str) else raw_text(cell) for cell in cells], pa.large_string())
    if not written.rewrites_cells:
        return texts
    # A number has no decimal sign of its own: only what was typed as text is written in some format.
    typed = pa.array([isinstance(cell, str) for cell in cells], pa.bool_())
    return pc.if_else(typed, plain_texts(texts, written), texts)


@contextmanager
def _readable(path: Path, what: str) -> Iterator[None]:
    """Turn what goes wrong inside the reader of a file into one line."""
    try:
        yield
    except DataError:
        raise
    except (ArithmeticError, AttributeError, LookupError, NotImplementedError, OSError, TypeError, ValueError):
        raise DataError(f"table {str(path)!r} is not {what} that can be read.") from None


def plain_table(table: pa.Table, written: TableFormat) -> pa.Table:
    """A table with the text of all of its cells in the plain format; cells that have a type have no other."""
    if not written.rewrites_cells:
        return table
    columns = [plain_texts(column, written) if is_text(column.type) else column for column in table.columns]
    # What pandas notes of an index stays true.
    return pa.table(columns, names=table.column_names).replace_schema_metadata(table.schema.metadata)


def plain_texts(column: pa.ChunkedArray | pa.Array, written: TableFormat) -> pa.ChunkedArray | pa.Array:
    """The texts of a column, each in the plain format."""
    texts = column.cast(pa.large_string())
    if written.decimal == "," or written.thousands:
        texts = pc.if_else(
            pc.match_substring_regex(texts, number_pattern(written)), _plain_numbers(texts, written), texts
        )
    for pattern in _DAY_FIRST if written.day_first else ():
        texts = pc.replace_substring_regex(texts, pattern, r"\3-\2-\1\4")
    return texts


def number_pattern(written: TableFormat) -> str:
    """A pattern of numbers in a format; thousands come in threes or not at all."""
    decimal, between = re.escape(written.decimal or "."), _between(written)
    whole = rf"(?:[1-9][0-9]{{0,2}}(?:{between}[0-9]{{3}})+|[0-9]+)" if between else "[0-9]+"
    return rf"^\s*[+-]?(?:{whole}(?:{decimal}[0-9]*)?|{decimal}[0-9]+)(?:[eE][+-]?[0-9]+)?\s*$"


def _plain_numbers(texts: pa.Array, written: TableFormat) -> pa.Array:
    if written.thousands:
        texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), _between(written), "")
    return pc.replace_substring(texts, written.decimal or ".", ".")


def _between(written: TableFormat) -> str:
    return f"[{_ALIKE.get(written.thousands, re.escape(written.thousands))}]" if written.thousands else ""


def is_text(kind: pa.DataType) -> bool:
    """True if cells of a type are texts, each by itself or one of a few."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(inner) or pa.types.is_large_string(inner) or str(inner) == "string_view"


def _encoding(path: Path) -> str:
    """UTF-8 where every line is, and else what the lines that are not look like."""
    with opened_bytes(path) as stream:
        head = stream.read(_SAMPLE)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if b"\0" in head:
            # Without a mark: separators and line ends are two bytes, of which one is zero.
            return "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be"
        stream.seek(0)
        if all(_decodes(line, "utf-8") for line in stream):
            return "utf-8"
        stream.seek(0)
        odd = b"".join(line for line in stream if not line.isascii())[:_SAMPLE]
    name = "cp1252"
    if len({byte for byte in odd if byte > 127}) >= _LETTERS:
        from charset_normalizer import from_bytes

        # Cells look less orderly than the prose that its own threshold is for.
        best = from_bytes(odd, cp_isolation=list(_ENCODINGS), threshold=0.4).best()
        name = name if best is None else codecs.lookup(best.encoding).name
    if not _decodes(odd, name):
        raise DataError(f"the encoding of table {str(path)!r} was not recognised; name it with `encoding`.")
    return name


def _separator(path: Path, encoding: str | None) -> str | None:
    """The character that splits most lines into as many cells as the header has, the more the better."""
    with opened_text(path, encoding) as stream:
        lines = stream.readlines(_SAMPLE)
    best, most = None, 1
    for sep in (",", ";", "\t", "|"):
        try:
            rows = [row for row in csv.reader(lines, delimiter=sep, skipinitialspace=True) if row]
        except csv.Error:
            continue
        width = len(rows[0]) if rows else 0
        if width > most and sum(len(row) == width for row in rows) >= _MOST * len(rows):
            best, most = sep, width
    return best


def _text_columns(table: pa.Table | None) -> list[pa.Array]:
    """The cells of each column with text that are not missing."""
    columns = [] if table is None else [column for column in table.columns if is_text(column.type)]
    words = pa.array(sorted(MISSING_WORDS), pa.large_string())
    texts = [pc.utf8_trim_whitespace(column.cast(pa.large_string())) for column in columns]
    return [pc.drop_null(cells.filter(pc.invert(pc.is_in(cells, words)))) for cells in texts]


def _signs(columns: list[pa.Array], given: TableFormat) -> tuple[str, str]:
    """The first signs by which most columns are numbers, and nearly as many of their cells as by any others."""
    allowed = [
        (decimal, thousands)
        for decimal, thousands in _SIGNS
        if given.decimal in (None, decimal) and given.thousands in (None, thousands)
    ]
    found = {signs: _n_readable(columns, *signs) for signs in allowed}
    most_columns, most_cells = max(found.values())
    return next(
        signs
        for signs, (n_columns, n_cells) in found.items()
        if n_columns == most_columns and n_cells >= _NEARLY_ALL * most_cells
    )


def _n_readable(columns: list[pa.Array], decimal: str, thousands: str) -> tuple[int, int]:
    """Number of columns that are numbers by these signs, and of their cells."""
    pattern = number_pattern(TableFormat(decimal=decimal, thousands=thousands))
    if (decimal, thousands) == (",", ""):
        # Points that are no thousands are then those of plain numbers.
        pattern = f"{pattern}|{number_pattern(TableFormat())}"
    counts = [(pc.sum(pc.match_substring_regex(cells, pattern)).as_py() or 0, len(cells)) for cells in columns]
    numbers = [n for n, n_cells in counts if n and n >= _MOST * n_cells]
    return len(numbers), sum(numbers)


def _day_first(columns: list[pa.Array]) -> bool:
    """True if some column holds dates that begin with a day: a point says it, or a number beyond the months."""
    for cells in columns:
        dated = plain_texts(cells, TableFormat(day_first=True))
        pairs = zip(cells.to_pylist(), dated.to_pylist(), strict=True)
        dates = [cell for cell, plain in pairs if cell != plain and moment_of(plain.strip())]
        if dates and len(dates) >= _MOST * len(cells) and any("." in cell or _begins_with_day(cell) for cell in dates):
            return True
    return False


def _begins_with_day(cell: str) -> bool:
    match = _DAY.match(cell)
    return match is not None and int(match[1]) > 12


def _decodes(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeError:
        return False
    return True
