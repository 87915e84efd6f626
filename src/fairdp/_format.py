"""Numbers as words may state them: rounded to the side on which nothing is promised that was not computed."""

import math
from collections.abc import Iterable, Sequence
from html import escape


def rounded_up(value: float) -> str:
    """Four digits, rounded up, for what was spent.

    >>> rounded_up(0.99971)
    '0.9998'
    """
    if not value or math.isinf(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.ceil(value / unit - 1e-9) * unit:.10g}"


def bound_above(value: float) -> str:
    """Four decimals of an upper bound on a rate or a gap."""
    return f"{min(1.0, math.ceil(1e4 * value - 1e-9) / 1e4):.4f}"


def bound_below(value: float) -> str:
    """Four decimals of a lower bound on a ratio."""
    return f"{math.floor(1e4 * value + 1e-9) / 1e4:.4f}"


def with_error(mean: float, error: float | None, *, digits: int = 3) -> str:
    """A mean and its standard error, which one run alone does not have; a dash where there is no number at all.

    >>> with_error(0.81234, 0.0012), with_error(0.8, math.nan), with_error(math.nan, 0.1)
    ('0.812 ± 0.001', '0.800', '–')
    """
    if math.isnan(mean):
        return "–"
    return f"{mean:.{digits}f}" + ("" if error is None or math.isnan(error) else f" ± {error:.{digits}f}")


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
