"""What a YAML or JSON file says, as plain values; what would take long to read, or is said twice, is refused."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from fairdp._checks import DataError
from fairdp._files import content_of

# No schema comes near. The number of characters is that of a value without quotes, which may be a number.
_MOST_BYTES, _MOST_VALUES, _MOST_DEEP, _MOST_CHARACTERS = 2**21, 2**17, 32, 1000
# Ten times as fast, where PyYAML has it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_plain(path: Path) -> Any:
    """Plain values from the file of a schema; one clear line if it cannot be read."""
    if not path.exists():
        raise FileNotFoundError(f"schema {str(path)!r} does not exist.")
    try:
        return plain_yaml(content_of(path))
    except OSError as error:
        raise DataError(f"schema {str(path)!r} cannot be read: {error.strerror}.") from None
    except DataError as error:
        raise DataError(f"schema {str(path)!r} {error.template}.") from None


def plain_yaml(content: bytes) -> Any:
    """Plain values from the text of a file.

    Raises
    ------
    DataError
        With a phrase that says what is wrong.
    """
    if len(content) > _MOST_BYTES:
        raise DataError(f"has {len(content)} bytes, and may have {_MOST_BYTES}")
    try:
        text = content.decode("utf-8-sig")
        _check(text)
        return yaml.load(text, Loader=_LOADER)
    except DataError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else "its text"
        raise DataError(f"is neither YAML nor JSON: {where} cannot be read") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # Values that look like a date or a number, or are tagged as one, and are none; text that is not UTF-8.
        raise DataError("is neither YAML nor JSON: its text cannot be read") from None


def _check(text: str) -> None:
    """Refuse what would be read, but not as its author or any reader expects; nothing is built for that."""
    # For each collection that is open: the keys of a mapping so far, and whether the next value is one of them.
    levels: list[tuple[set[str], Iterator[bool]]] = []
    for number, event in enumerate(yaml.parse(text, Loader=_LOADER)):
        line = event.start_mark.line + 1
        if number > _MOST_VALUES:
            raise DataError(f"has more than {_MOST_VALUES} values")
        if isinstance(event, yaml.AliasEvent):
            raise DataError(f"has an alias in line {line}; write out what it stands for")
        if isinstance(event, yaml.CollectionEndEvent):
            levels.pop()
        elif isinstance(event, yaml.ScalarEvent):
            if not event.style and len(event.value) > _MOST_CHARACTERS:
                raise DataError(f"has a value of {len(event.value)} characters in line {line}; put it in quotes")
            keys, is_key = levels[-1] if levels else (set(), itertools.repeat(False))
            if next(is_key):
                if event.value in keys:
                    raise DataError(f"says {event.value!r} twice in line {line}; leave one out")
                keys.add(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            if levels:
                next(levels[-1][1])
            if len(levels) == _MOST_DEEP:
                raise DataError(f"is nested too deeply in line {line}")
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            levels.append((set(), itertools.cycle((True, False)) if is_mapping else itertools.repeat(False)))
