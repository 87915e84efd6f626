"""Whether all processes of a team were given the same, asked before anything is released or spent."""

import hashlib
import platform
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from fairdp.data.grouped import GroupedData, bytes_of
from fairdp.run.settings import RunSettings
from fairdp.team import the_team

_LIBRARIES = ("fairdp", "torch", "numpy", "scipy")


def agree_on_program(options: object = None) -> None:
    """The same versions, on processors that round alike, and the same options, by their ``repr``."""
    team = the_team()
    if team.size == 1:
        return
    import torch

    # Other instructions add in another order, and models would drift apart.
    processor = (platform.machine(), torch.backends.cpu.get_cpu_capability())
    versions = (platform.python_version_tuple()[:2], [version(name) for name in _LIBRARIES])
    team.agree(_digest([repr(versions).encode()]), "other versions of Python, fairdp or its libraries")
    team.agree(_digest([repr(processor).encode()]), "a processor with other instructions (see ATEN_CPU_CAPABILITY)")
    team.agree(_digest([repr(options).encode()]), "other options")


def agree_on_run(settings: RunSettings, data: GroupedData) -> None:
    """The same settings, the same records in the same order."""
    team = the_team()
    if team.size == 1:
        return
    # The module itself is compared by what it does, once it is built.
    chosen = replace(settings, module=None), settings.seed, settings.module is None
    agree_on_program(chosen)
    team.agree(records_digest([data]), "other records, or the same in another order,")


def agree_on_files(path: Path) -> None:
    """The same file, or the same files of a folder; before anything is read, or paid for, one that is not there too."""
    team = the_team()
    if team.size > 1:
        # In a folder, names are values and the order of the rows.
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        files = [each for each in found if each.is_file()]
        names = [each.relative_to(path).as_posix().encode() for each in files]
        contents = (_digest(_contents(each)) for each in files)
        digest = _digest(part for pair in zip(names, contents, strict=True) for part in pair)
        team.agree(digest, f"another {path.name!r}, or none,")


def records_digest(parts: Iterable[GroupedData]) -> bytes:
    """What tells records from others: all that is trained on, in its order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr((part.X.shape, part.group_names)).encode())
        for array in (part.X, part.y, part.groups, part.weights):
            for content in bytes_of(array) if array is not None else ():
                digest.update(content)
    return digest.digest()


def _contents(file: Path) -> Iterable[bytes]:
    with file.open("rb") as stream:
        while piece := stream.read(2**22):
            yield piece


def _digest(contents: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content)
    return digest.digest()
