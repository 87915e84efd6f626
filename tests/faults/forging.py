"""Values, texts and files that nobody should write, from a seeded generator."""

import copy
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

NUMBERS = (0, 1, -1, 2, 7, 2**31, 2**63, 2**64, 10**30, 10**299, -(10**299), 0.5, -0.0, 1.0)
NUMBERS += (1e-300, 5e-324, 1e300, -1e300)
ODD = (math.nan, math.inf, -math.inf, None, True, False, "", "x", "inf", "nan", "0", "1e400", "\x00", "é ü", "a" * 5000)
NESTED = ([], [[]], {}, {"": None}, [1, 2, 3], [None], ["x"] * 50, {"x": {"x": {"x": []}}}, [[0.5, 0.5]] * 3)
# As text: Python's own numbers do not hold them.
TEXTS = (
    *("1e400", "-1e400", "9" * 5000, "0x" + "f" * 5000, "NaN", "Infinity", "[" * 2000 + "]" * 2000, "[" * 100_000),
    *('{"a": 1, "a": 2}', '"\\ud800"', "\x00", "nul", "1.", ".5", "01", "tru", "'x'", "\ufeff{}", "// x", "{" * 50),
)


def nasty(rng: Random) -> Any:
    """One value that may be anything but what is expected."""
    return copy.deepcopy(rng.choice(rng.choice((NUMBERS, ODD, NESTED))))


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every value of a record is."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield (*above, name)
        yield from paths(item, (*above, name))


def changed(rng: Random, record: Any) -> Any:
    """A record with one to three changes."""
    record = copy.deepcopy(record)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(paths(record))
        if places:
            _change(rng, record, rng.choice(places))
    return record


def _change(rng: Random, record: Any, path: tuple[Any, ...]) -> None:
    *above, last = path
    for name in above:
        record = record[name]
    value = record[last]
    how = rng.randrange(6)
    if how == 0:
        del record[last]
    elif how == 1 and isinstance(record, list):
        record.append(copy.deepcopy(value))
    elif how == 1:
        record[rng.choice(("more", "", "type", str(last) + " "))] = nasty(rng)
    elif how == 2 and isinstance(value, (int, float)) and not isinstance(value, bool):
        record[last] = rng.choice(
            (value + 1, -value, value * 2, value * (1 + 1e-12), value / 3, float(value), str(value))
        )
    elif how == 2 and isinstance(value, str):
        record[last] = rng.choice((value + "x", value.upper(), value[:-1], value * 2, [value], "\t" + value))
    else:
        record[last] = nasty(rng)


def changed_text(rng: Random, text: str) -> str:
    """A text with a piece of another put in, left out or repeated."""
    start = rng.randrange(len(text) + 1)
    stop = min(len(text), start + rng.choice((0, 1, 1, 5, 50)))
    return text[:start] + rng.choice((*TEXTS, "", "", text[start:stop] * 2)) + text[stop:]


def changed_bytes(rng: Random, content: bytes) -> bytes:
    """Content with bits flipped, bytes put in or left out, cut, or in another encoding."""
    how = rng.randrange(6)
    place = rng.randrange(len(content) + 1)
    if how == 0:
        return content[:place]
    if how == 1:
        return content[:place] + rng.randbytes(rng.choice((1, 8, 64))) + content[place:]
    if how == 2:
        return content[:place] + content[place + rng.choice((1, 8, 64)) :]
    if how == 3:
        return rng.choice(
            (b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf" + content, content + b"\0", content * 2, b"\n" + content)
        )
    if how == 4:
        return content.decode(errors="replace").encode(rng.choice(("utf-16", "utf-32", "utf-7")))
    flipped = bytearray(content)
    for _ in range(rng.choice((1, 1, 4, 16))):
        if flipped:
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def changed_json(rng: Random, content: bytes) -> bytes:
    """A JSON file with changed values, or with a changed text."""
    how = rng.randrange(8)
    # A file may have been changed before.
    with suppress(ValueError, RecursionError):
        if how < 5:
            return json.dumps(changed(rng, json.loads(content))).encode()
        if how < 7:
            return changed_text(rng, content.decode()).encode()
    return changed_bytes(rng, content)


def changed_tensors(rng: Random, content: bytes) -> bytes:
    """A file of tensors with a changed header, or changed numbers."""
    size = int.from_bytes(content[:8], "little")
    header, numbers = content[8 : 8 + size], bytearray(content[8 + size :])
    how = rng.randrange(5)
    if how == 0 and numbers:
        kinds = (b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f", b"\0\0\0\0", rng.randbytes(4))
        place = 4 * rng.randrange(max(1, len(numbers) // 4))
        numbers[place : place + 4] = rng.choice(kinds)
    elif how == 1:
        header = changed_text(rng, header.decode()).encode()
    elif how == 2:
        return changed_bytes(rng, content)
    else:
        header = json.dumps(changed(rng, json.loads(header))).encode()
    length = len(header) if rng.randrange(8) else rng.choice((0, 1, 2**20, 2**40, 2**63, 2**64 - 1))
    return length.to_bytes(8, "little") + header + bytes(numbers)
