"""Parameters with several values, as typed on the command line."""

import re
from contextlib import suppress
from typing import Any

import click


def read_grid(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, list[Any]]:
    """Read ``weight_bound=.25,.5`` as a parameter with its values, ``hidden=[32],[16,16]`` as one with lists."""
    grid: dict[str, list[Any]] = {}
    for text in values:
        name, equals, rest = text.partition("=")
        if not equals or not rest.strip():
            raise click.BadParameter(f"{text!r} is not a parameter with values, such as weight_bound=.25,.5,1.")
        parts = re.findall(r"[^,\[\]]*\[[^\]]*\]|[^,]+", rest)
        grid.setdefault(name.strip().replace("-", "_"), []).extend(_value(part.strip()) for part in parts)
    return grid


def _value(text: str) -> Any:
    """A whole number, a number, a list, a truth value, None, or else a word."""
    if text.startswith("["):
        return tuple(_value(part.strip()) for part in text.strip("[]").split(",") if part.strip())
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return {"true": True, "false": False, "none": None, "null": None}.get(text.lower(), text)
