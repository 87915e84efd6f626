"""Encoded tables that are kept for further runs: as private as the tables, and whole or not there.

A file holds the rows, what became of odd cells, and a digest of all that: one that was damaged, cut or is another
table's is not used, and the table is encoded again. It is named by a digest of the schema and of the table's own files.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fairdp import _scratch
from fairdp._checks import DataError, ParameterError
from fairdp._files import RecordError, from_plain, json_bytes, parsed_json
from fairdp._folders import lock
from fairdp.data.parquet_folder import parquet_files
from fairdp.data.schema import TableSchema
from fairdp.data.treatments import Tell, Treated, summed

FORMAT = 1
_DIGEST_BYTES, _LENGTH_BYTES = 32, 8
_CHUNK = 2**20


@dataclass(frozen=True, kw_only=True)
class About:
    """What a file says of its rows."""

    key: str
    n_rows: int
    treated: tuple[Treated, ...]


class TableFiles:
    """The files of a table as they are now, of so many rows, which a schema encodes."""

    def __init__(self, path: Path, schema: TableSchema, n_rows: int) -> None:
        self.path, self._files = path, parquet_files(path) if path.is_dir() else [path]
        self._schema, self.n_rows = schema, n_rows
        self._states = self._now()

    @cached_property
    def key(self) -> str:
        """By which the encoded table is known: another schema, byte or version of who encodes it is another one."""
        versions = [version(name) for name in ("fairdp", "numpy", "pandas", "pyarrow")]
        digest = hashlib.sha256(json.dumps([FORMAT, versions, self._schema.to_dict()]).encode())
        for file in self._files:
            # In a folder, names are values and the order of the rows; of a file, the ending says how to read it.
            name = file.relative_to(self.path).as_posix() if self.path.is_dir() else "".join(file.suffixes).lower()
            with file.open("rb") as stream:
                digest.update(json.dumps(name).encode() + hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()

    def unchanged(self, parts: Iterable[Any]) -> Iterator[Any]:
        """The same parts; at their end the files must be as they were, or what was read has no name."""
        yield from parts
        if self._now() != self._states:
            raise DataError(f"table {str(self.path)!r} has changed while it was read; start again.")

    def _now(self) -> list[tuple[int, int, int]]:
        states = (file.stat() for file in self._files)
        return [(state.st_ino, state.st_size, state.st_mtime_ns) for state in states]


def cached_rows(
    folder: Path,
    files: TableFiles,
    kind: np.dtype[np.void],
    *,
    encode: Callable[[Tell], Iterator[NDArray[np.void]]],
    seen_again: Iterable[None],
    tell: Tell,
) -> NDArray[np.void]:
    """The encoded rows that a folder keeps; where it has none, they are encoded now and kept.

    Parameters
    ----------
    encode
        The rows, some at a time, with what became of odd cells.
    seen_again
        Lets whoever wants to see the rows of the table see them, though they are not encoded.
    tell
        Is told what became of odd cells, now or then.
    """
    told: list[Treated] = []
    kept = read_rows(folder, files, kind)
    if kept is None:
        rows = write_rows(folder, files, encode(told.append), kind, told)
    else:
        rows, told = kept[0], list(kept[1].treated)
        for _ in files.unchanged(seen_again):
            pass
    for each in told:
        tell(each)
    return rows


def read_rows(folder: Path, files: TableFiles, kind: np.dtype[np.void]) -> tuple[NDArray[np.void], About] | None:
    """The rows of a table that are kept, in a map of their file; None if there are none, or not whole."""
    try:
        with _path(folder, files.key).open("rb") as file:
            about, size = _checked(file), os.fstat(file.fileno()).st_size
            known = about is not None and (about.key, about.n_rows) == (files.key, files.n_rows)
            if about is None or not known or size < files.n_rows * kind.itemsize:
                return None
            return _scratch.mapped(file, kind, (files.n_rows,)), about
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ParameterError("cache", str(folder), f"cannot be read: {error.strerror}") from None


def write_rows(
    folder: Path, files: TableFiles, parts: Iterable[NDArray[np.void]], kind: np.dtype[np.void], told: list[Treated]
) -> NDArray[np.void]:
    """Keep the rows of a table, once all have come; ``told`` is by then what became of odd cells."""
    n_rows, digest = 0, hashlib.blake2b(digest_size=_DIGEST_BYTES)
    with _draft(folder, files.key) as file:
        for part in files.unchanged(parts):
            n_rows += len(part)
            _write(file, part.tobytes(), digest, folder)
        content = json_bytes(About(key=files.key, n_rows=n_rows, treated=summed(told)))
        _write(file, content + len(content).to_bytes(_LENGTH_BYTES, "little"), digest, folder)
        _write(file, digest.digest(), digest, folder)
        return _scratch.mapped(file, kind, (n_rows,))


def _write(file: BinaryIO, content: bytes, digest: Any, folder: Path) -> None:
    digest.update(content)
    rest = memoryview(content)
    try:
        while rest:
            rest = rest[os.write(file.fileno(), rest) :]
    except OSError as error:
        raise ParameterError("cache", str(folder), f"cannot be written: {error.strerror}") from None


@contextmanager
def _draft(folder: Path, key: str) -> Iterator[BinaryIO]:
    """A file for its owner only that gets its name when it is whole; what is left by a process that was ended goes."""
    path = _path(folder, key)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_left(path)
        handle, draft = _locked_draft(path)
    except OSError as error:
        raise ParameterError("cache", str(folder), f"cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "r+b") as file:
            yield file
            # Not synced: should the system end before the bytes are on the disk, the digest does not fit.
            os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _locked_draft(path: Path) -> tuple[int, Path]:
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        lock(handle)
        # Somebody who removes what was left may have come between the two calls.
        if os.path.exists(name):
            return handle, Path(name)
        os.close(handle)


def _remove_left(path: Path) -> None:
    for draft in path.parent.glob(f".{path.name}.*"):
        with suppress(OSError):
            handle = os.open(draft, os.O_RDONLY)
            try:
                # Whoever is at work holds a lock.
                if lock(handle):
                    draft.unlink()
            finally:
                os.close(handle)


def _checked(file: BinaryIO) -> About | None:
    """What a whole file says of itself; None of any other."""
    size = file.seek(0, os.SEEK_END)
    rest, digest = size - _DIGEST_BYTES, hashlib.blake2b(digest_size=_DIGEST_BYTES)
    if rest < _LENGTH_BYTES:
        return None
    file.seek(0)
    while rest:
        part = file.read(min(_CHUNK, rest))
        if not part:
            return None
        digest.update(part)
        rest -= len(part)
    if file.read() != digest.digest():
        return None
    file.seek(size - _DIGEST_BYTES - _LENGTH_BYTES)
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    with suppress(OSError, RecordError):
        file.seek(size - _DIGEST_BYTES - _LENGTH_BYTES - length)
        return from_plain(About, parsed_json(file.read(length)))
    return None


def _path(folder: Path, key: str) -> Path:
    return folder / f"{key[:32]}.rows"
