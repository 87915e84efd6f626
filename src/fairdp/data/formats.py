"""How a table is written in its file: what separates cells, decimals and thousands, its encoding, dates and sheet."""

import dataclasses
import io
from dataclasses import dataclass
from typing import Any

from fairdp._checks import DataError, ParameterError
from fairdp.data.entries import check_keys, truth

FORMAT_KEYS = ("sep", "decimal", "thousands", "encoding", "day_first", "sheet")
# What may be typed in place of a tab, which is hard to see.
_TABS = ("tab", "\\t")
_THOUSANDS = {"": "nothing", ",": "commas", ".": "points", " ": "blanks", "'": "apostrophes"}
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True, kw_only=True)
class TableFormat:
    """How a file is to be read. It says how each cell is written, and is never taken from the rows of that file.

    Parameters
    ----------
    sep
        Character between the cells of a text file; None: a comma, or a tab in a file that ends in .tsv.
    decimal
        ``"."`` or ``","``; None: a point.
    thousands
        What stands between thousands: a point, a comma, a blank or an apostrophe; empty or None: nothing.
    encoding
        Encoding of a text file, as Python names it; None: UTF-8, with or without a mark of the byte order.
    day_first
        Whether dates such as 05.01.2020 are written day, month, year; None: no, only years come first.
    sheet
        Sheet of a workbook; None: its only one.
    """

    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    day_first: bool | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.sep in _TABS:
            object.__setattr__(self, "sep", "\t")
        if self.sep is not None and not (len(self.sep) == 1 and self.sep.isascii() and _separates(self.sep)):
            raise ParameterError("sep", self.sep, "must be one character such as , ; | or the word tab")
        if self.decimal not in (None, ".", ","):
            raise ParameterError("decimal", self.decimal, "must be a point or a comma")
        if self.thousands not in (None, *_THOUSANDS):
            raise ParameterError("thousands", self.thousands, "must be a point, a comma, a blank, an apostrophe or ''")
        if self.thousands and self.thousands == (self.decimal or "."):
            raise ParameterError(
                "thousands", self.thousands, "is the sign of decimals too", "change one with `decimal`"
            )
        if self.encoding is not None and not _is_encoding(self.encoding):
            raise ParameterError("encoding", self.encoding, "is unknown", "name one such as utf-8, cp1252 or utf-16")

    def over(self, other: "TableFormat") -> "TableFormat":
        """What is said here, and where nothing is said, what the other says.

        >>> TableFormat(sep=";").over(TableFormat(sep=",", decimal=",")).to_dict()
        {'sep': ';', 'decimal': ','}
        """
        both = other.to_dict() | self.to_dict()
        if self.decimal and self.thousands is None and self.decimal == other.thousands:
            # Who says that this sign is one of decimals says that it is none of thousands.
            del both["thousands"]
        return TableFormat(**both)

    def to_dict(self) -> dict[str, Any]:
        """What is said, as plain values."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}

    @property
    def rewrites_cells(self) -> bool:
        """Whether some cell may be written in another way than the plain one."""
        return self.decimal == "," or bool(self.thousands) or bool(self.day_first)

    def in_words(self) -> str:
        """For people: what differs from a plain file.

        >>> TableFormat(sep=";", decimal=",", day_first=True).in_words()
        'semicolons between cells, decimal commas, dates with the day first'
        """
        sep = None if self.sep is None else f"{_SEPARATORS.get(self.sep, repr(self.sep))} between cells"
        said = (
            sep,
            {",": "decimal commas", ".": "decimal points"}.get(self.decimal or ""),
            f"{_THOUSANDS[self.thousands]} between thousands" if self.thousands else None,
            "dates with the day first" if self.day_first else None,
            f"encoding {self.encoding}" if self.encoding else None,
            None if self.sheet is None else f"sheet {self.sheet!r}",
        )
        return ", ".join(words for words in said if words) or "a plain file"


PLAIN = TableFormat()


def format_of(entry: Any) -> TableFormat:
    """The format that a schema declares."""
    check_keys("format", entry, allowed=FORMAT_KEYS, required=())
    for key, value in entry.items():
        if key == "day_first":
            truth("format: day_first", value)
        elif not isinstance(value, str):
            raise DataError(f"format: {key} must be a text in quotes, got {value!r}.")
    return TableFormat(**entry)


def _separates(character: str) -> bool:
    return character == "\t" or (character.isprintable() and not character.isalnum() and character not in " \"'+-._")


def _is_encoding(name: str) -> bool:
    try:
        # It refuses codecs that are not between bytes and text, such as rot13.
        io.TextIOWrapper(io.BytesIO(), encoding=name).close()
    except (LookupError, ValueError):
        return False
    return True
