"""The format of a file, found from its bytes and rows: for a proposal that a person confirms, and for nothing else."""

import codecs
import csv
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from fairdp._checks import DataError
from fairdp.data.cells import MISSING_WORDS, moment_of
from fairdp.data.csv_text import opened_bytes, opened_text, separator_of
from fairdp.data.formats import TableFormat
from fairdp.data.plain_cells import is_text, number_pattern, plain_texts
from fairdp.data.readers import kind_of_file, reader_of
from fairdp.data.sheets import sheet_names

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


def detected_format(path: Path, given: TableFormat) -> TableFormat:
    """What the caller says of a file, and for the rest what the file looks like; only what differs from a plain file.

    Everything here depends on private rows, as all of a proposed schema does.
    """
    found, kind = given, kind_of_file(path)
    if kind == "text":
        found = found if found.encoding else replace(found, encoding=_encoding(path))
        found = found if found.sep else replace(found, sep=_separator(path, found.encoding))
    elif kind == "workbook" and found.sheet is None and len(sheet_names(path)) > 1:
        found = replace(found, sheet=sheet_names(path)[0])
    unread = replace(found, decimal=None, thousands=None, day_first=None)
    columns = _text_columns(next(reader_of(path, unread).parts(_ROWS), None))
    decimal, thousands = _signs(columns, given)
    day_first = _day_first(columns) if given.day_first is None else given.day_first
    # Both signs at once: one after the other might be the same for a moment.
    found = replace(found, decimal=decimal, thousands=thousands, day_first=day_first)
    return _without_plain(found, path)


def _without_plain(found: TableFormat, path: Path) -> TableFormat:
    """Without what would be so anyway."""
    plain = {"sep": separator_of(path), "decimal": ".", "thousands": "", "encoding": "utf-8", "day_first": False}
    return TableFormat(**{key: value for key, value in found.to_dict().items() if plain.get(key) != value})


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
    """What splits most lines into as many cells as the header has, the more the better."""
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
    found = {signs: _readable(columns, *signs) for signs in allowed}
    most_columns, most_cells = max(found.values())
    return next(
        signs
        for signs, (n_columns, n_cells) in found.items()
        if n_columns == most_columns and n_cells >= _NEARLY_ALL * most_cells
    )


def _readable(columns: list[pa.Array], decimal: str, thousands: str) -> tuple[int, int]:
    """How many columns are numbers by these signs, and how many of their cells."""
    pattern = number_pattern(TableFormat(decimal=decimal, thousands=thousands))
    if (decimal, thousands) == (",", ""):
        # Points that are no thousands are then those of plain numbers.
        pattern = f"{pattern}|{number_pattern(TableFormat())}"
    counts = [(pc.sum(pc.match_substring_regex(cells, pattern)).as_py() or 0, len(cells)) for cells in columns]
    numbers = [n for n, n_cells in counts if n and n >= _MOST * n_cells]
    return len(numbers), sum(numbers)


def _day_first(columns: list[pa.Array]) -> bool:
    """Whether some column holds dates that begin with a day: a point says it, or a number beyond the months."""
    for cells in columns:
        dated = plain_texts(cells, TableFormat(day_first=True))
        pairs = zip(cells.to_pylist(), dated.to_pylist(), strict=True)
        dates = [cell for cell, plain in pairs if cell != plain and moment_of(plain.strip())]
        if dates and len(dates) >= _MOST * len(cells) and any("." in cell or _day_of(cell) > 12 for cell in dates):
            return True
    return False


def _day_of(cell: str) -> int:
    match = _DAY.match(cell)
    return int(match[1]) if match else 0


def _decodes(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeError:
        return False
    return True
