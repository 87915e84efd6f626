"""Workbooks: every cell of a sheet as the text it is written as, or as the text of the number or date that it holds."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fairdp._checks import DataError
from fairdp.data.cells import spelling_of
from fairdp.data.formats import TableFormat
from fairdp.data.plain_cells import plain_texts


def sheet_table(path: Path, written: TableFormat) -> pa.Table:
    """The cells of a sheet as text in the plain format; rows without any cell are left out."""
    rows = [row for row in _rows(path, written.sheet) if any(cell != "" for cell in row)]
    if not rows:
        raise DataError(f"table {str(path)!r} is empty.")
    names = [spelling_of(name) or f"Unnamed: {place}" for place, name in enumerate(rows[0])]
    columns = list(zip(*rows[1:], strict=True)) or [()] * len(names)
    return pa.Table.from_arrays([_column(cells, written) for cells in columns], names)


def sheet_names(path: Path) -> list[str]:
    """The sheets of a workbook, in its order."""
    return _within(path, lambda book: list(book.sheet_names))


def _rows(path: Path, sheet: str | None) -> list[list[Any]]:
    names = sheet_names(path)
    if sheet is None and len(names) > 1:
        raise DataError(f"table {str(path)!r} has the sheets {_listed(names)}; name one with `sheet`.")
    if sheet is not None and sheet not in names:
        raise DataError(f"table {str(path)!r} has no sheet {sheet!r}, it has {_listed(names)}; name one with `sheet`.")
    return _within(path, lambda book: book.get_sheet_by_name(sheet or names[0]).to_python(skip_empty_area=True))


def _within(path: Path, look: Callable[[Any], Any]) -> Any:
    """What a look into a workbook finds."""
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


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _column(cells: Sequence[Any], written: TableFormat) -> pa.Array:
    texts = pa.array([cell if isinstance(cell, str) else spelling_of(cell) for cell in cells], pa.large_string())
    if not written.rewrites_cells:
        return texts
    # A number has no decimal sign of its own: only what was typed as text is written in some format.
    typed = pa.array([isinstance(cell, str) for cell in cells], pa.bool_())
    return pc.if_else(typed, plain_texts(texts, written), texts)
