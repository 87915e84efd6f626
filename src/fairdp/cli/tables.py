"""Tables in the terminal."""

from collections.abc import Iterable


def print_table(
    title: str | None,
    rows: Iterable[tuple[str, ...] | None],
    headers: tuple[str, ...] | None = None,
    *,
    wrap_numbers: bool = True,
    edge: bool = True,
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Names come from users' data: they are text, never markup.
    table = Table(
        title=Text(title) if title else None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_header=bool(headers),
        show_edge=edge,
    )
    rows = list(rows)
    width = max((len(row) for row in rows if row), default=2)
    for position, header in enumerate(headers or ("",) * width):
        table.add_column(header, overflow="fold", no_wrap=position > 0 and not wrap_numbers)
    for row in rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
