"""Two model folders, byte by byte: what differs although every release was the same has not been paid for."""

import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load

from fairdp.audit.accounted import Found

Files = Mapping[str, bytes]


def files_of(folder: Path) -> dict[str, bytes]:
    """Contents of all files below a folder, by their paths in it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def differing_files(before: Files, after: Files) -> Iterator[Found]:
    """Files that differ, each with the first place where they do.

    A file that only names others by their hashes differs with them; it is reported where nothing else is.
    """
    found = [
        (f"file {name}", _first_difference(name, before.get(name), after.get(name)))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    own = [(name, text) for name, text in found if not _only_hashes(name, text)]
    yield from own or found


def _only_hashes(name: str, text: str) -> bool:
    return name == "file SHA256SUMS" or text.startswith(("$.files.", "$.about.model_sha256"))


def _first_difference(name: str, before: bytes | None, after: bytes | None) -> str:
    if before is None or after is None:
        return "is written for one of the two tables only"
    if name.endswith(".json"):
        return _path_of_difference(json.loads(before), json.loads(after)) or "differs in its spelling"
    if name.endswith(".safetensors"):
        return _differing_tensor(load(before), load(after))
    place = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(map(len, (before, after)))
    )
    return f"byte {place} differs"


def _differing_tensor(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    for name in sorted({*before, *after}):
        if name not in before or name not in after or before[name].shape != after[name].shape:
            return f"tensor {name!r} has another shape"
        if not np.array_equal(before[name], after[name], equal_nan=True):
            return (
                f"tensor {name!r} differs in {int((before[name] != after[name]).sum())} of {before[name].size} entries"
            )
    return "differs in its header"


def _path_of_difference(before: Any, after: Any, path: str = "$") -> str:
    """The first place where two JSON values differ, with both values there; empty if they are equal."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = list(dict.fromkeys([*before, *after]))
        inner = (_path_of_difference(before.get(name), after.get(name), f"{path}.{name}") for name in names)
    elif isinstance(before, list) and isinstance(after, list):
        pairs = enumerate(zip_longest(before, after))
        inner = (_path_of_difference(a, b, f"{path}[{place}]") for place, (a, b) in pairs)
    else:
        return (
            ""
            if before == after and type(before) is type(after)
            else f"{path} is {after!r} in place of {before!r}"[:160]
        )
    return next((found for found in inner if found), "")
