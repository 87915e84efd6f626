"""Small tables for notebooks; everything in them is escaped."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(caption: str, rows: Iterable[Sequence[str]], note: str = "") -> str:
    """A table whose first column holds the headings of its rows.

    >>> html_table("sizes", [("a<b", "1")])
    '<table><caption>sizes</caption><tr><th scope="row">a&lt;b</th><td>1</td></tr></table>'
    """
    lines = "".join(
        f'<tr><th scope="row">{escape(head)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for head, *cells in rows
    )
    after = f"<p><small>{escape(note)}</small></p>" if note else ""
    return f"<table><caption>{escape(caption)}</caption>{lines}</table>{after}"
