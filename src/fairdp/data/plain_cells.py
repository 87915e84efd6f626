"""Cells that are written in a declared format, in the plain one: 1.234,5 as 1234.5 and 05.01.2020 as 2020-01-05.

A cell is rewritten by itself. What is no number or date in the declared format stays as it is.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from fairdp.data.formats import TableFormat

# Blanks and apostrophes come in several forms that look alike.
_ALIKE = {" ": " \u00a0\u202f", "'": "'\u2019"}
_CLOCK = r"(?:[T ][0-9][0-9:.]*(?: ?(?:Z|[+-][0-9:]+))?)?"
# One pattern for each sign: RE2 cannot ask for the same sign twice.
_DAY_FIRST = tuple(
    rf"^\s*([0-9]{{1,2}}){sign}([0-9]{{1,2}}){sign}([0-9]{{4}})({_CLOCK})\s*$" for sign in (r"\.", "/", "-")
)


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
    """What a number looks like in a format; thousands come in threes or not at all."""
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
    """Whether cells of a type are texts, each by itself or one of a few."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(inner) or pa.types.is_large_string(inner) or str(inner) == "string_view"
