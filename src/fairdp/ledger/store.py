"""One SQLite file for one owner: rows that stay once they are written, each bound to all before it by a hash.

The journal is SQLite's rollback journal and every commit is on the disk before it is said to be done: the other mode,
a log that is written ahead, needs memory that is shared and is not safe between machines. Every statement passes
`Store.execute`, so that a test can stop a process between any two of them.
"""

import errno
import hashlib
import os
import secrets
import sqlite3
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp._checks import DataError
from fairdp._files import json_bytes, parsed_json

FORMAT = 1
KEY_BYTES = 32
# "fdpl", in the place where SQLite keeps whose file it is.
_OWNER = 0x6664706C
# Seconds to wait for another process; a command holds the lock while it compares records, not while it trains.
PATIENCE = 60.0
# Records in one row of the file.
CHUNK = 2**16

_TABLES = (
    "CREATE TABLE about (secret BLOB NOT NULL)",
    "CREATE TABLE log (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL, hash BLOB NOT NULL)",
    "CREATE TABLE records (entry INTEGER NOT NULL, view TEXT NOT NULL, chunk INTEGER NOT NULL, hashes BLOB NOT NULL)",
    "CREATE UNIQUE INDEX records_in_order ON records (entry, view, chunk)",
)
# Another process tries to get the lock that this one holds: 0 if it is refused, 1 if it is not.
_OTHER = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    sys.exit(0 if "locked" in str(error) else 2)
sys.exit(1)
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the log."""

    number: int
    kind: str
    body: dict[str, Any]


class Store:
    """An open ledger file. Nothing is changed outside of `transaction`."""

    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        self.path, self._patience = Path(path).resolve(), patience
        with self._said():
            self._connection = self._connected()
            with self._locked():
                if not self._pragma("user_version") and not self.execute("SELECT name FROM sqlite_master").fetchall():
                    self._create()
                self._check_format()
                self._check_locks()
            self.key = bytes(self.execute("SELECT secret FROM about").fetchone()[0])

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """The one way for a statement to the file."""
        return self._connection.execute(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything or nothing, and nobody else in between: others wait from the beginning of this to its end."""
        with self._said(), self._locked():
            yield

    def log(self) -> list[Row]:
        """All rows in their order; one clear line if the chain of their hashes is broken."""
        rows: list[Row] = []
        last = b""
        with self._said():
            for number, kind, body, stored in self.execute("SELECT number, kind, body, hash FROM log ORDER BY number"):
                known = isinstance(kind, str) and isinstance(body, bytes)
                last = self._chained(last, number, kind, body) if known else b""
                if number != len(rows) + 1 or last != stored:
                    raise self._damaged(f"row {len(rows) + 1} was changed or is missing")
                rows.append(Row(number=number, kind=kind, body=parsed_json(body)))
        return rows

    def append(self, kind: str, body: Mapping[str, Any]) -> None:
        """Write one more row, within a transaction."""
        number, last = self.execute("SELECT number, hash FROM log ORDER BY number DESC LIMIT 1").fetchone() or (0, b"")
        content = json_bytes(body)
        chained = self._chained(last, number + 1, kind, content)
        self.execute("INSERT INTO log VALUES (?, ?, ?, ?)", (number + 1, kind, content, chained))

    def write_records(self, entry: int, view: str, hashes: NDArray[np.bytes_]) -> None:
        """Write sorted hashes of records, within a transaction."""
        for chunk, start in enumerate(range(0, len(hashes), CHUNK)):
            part = hashes[start : start + CHUNK].view(np.uint8).data
            self.execute("INSERT INTO records VALUES (?, ?, ?, ?)", (entry, view, chunk, part))

    def read_records(self, entry: int, view: str) -> Iterator[NDArray[np.bytes_]]:
        """The hashes of records of an entry, sorted, some at a time."""
        order = "SELECT hashes FROM records WHERE entry = ? AND view = ? ORDER BY chunk"
        with self._said():
            for (part,) in self.execute(order, (entry, view)):
                yield np.frombuffer(part, dtype="S16")

    def check_whole(self) -> None:
        """SQLite's own check of the file."""
        with self._said():
            found = self.execute("PRAGMA integrity_check").fetchone()[0]
        if found != "ok":
            raise self._damaged(" ".join(str(found).split()))

    def digest(self, hashes: Iterator[NDArray[np.bytes_]]) -> str:
        """By which a row of the log names hashes of records."""
        digest = hashlib.blake2b(key=self.key, digest_size=16)
        for part in hashes:
            digest.update(part.view(np.uint8).data)
        return digest.hexdigest()

    def _connected(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        # SQLite gives its journal the rights of the file, which it would make by the mask of the user. A file that is
        # there stays closed: whoever closes it takes away the locks that other threads of this process hold on it.
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        if self.path.stat().st_mode & 0o077:
            self.path.chmod(0o600)
        connection = sqlite3.connect(self.path, timeout=self._patience, isolation_level=None)
        for setting in ("journal_mode = DELETE", "synchronous = EXTRA", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {setting}")
        return connection

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            # After some errors SQLite has already done so.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _create(self) -> None:
        for table in _TABLES:
            self.execute(table)
        self.execute("INSERT INTO about VALUES (?)", (secrets.token_bytes(KEY_BYTES),))
        self.execute(f"PRAGMA application_id = {_OWNER}")
        self.execute(f"PRAGMA user_version = {FORMAT}")

    def _check_format(self) -> None:
        version = self._pragma("user_version")
        if self._pragma("application_id") != _OWNER:
            raise DataError(f"{str(self.path)!r} holds something else than a ledger; choose another `ledger`.")
        if version != FORMAT:
            raise DataError(
                f"ledger {str(self.path)!r} has format {version}, this fairdp reads {FORMAT}; install a matching one."
            )
        if self._pragma("journal_mode") != "delete":
            raise DataError(f"ledger {str(self.path)!r} cannot be kept by a rollback journal; put it on another disk.")

    def _check_locks(self) -> None:
        """Refuse a place where two processes could both hold the lock."""
        kept_out = _keeps_out(self.path)
        if kept_out is None:
            # This process has the lock of the ledger itself, so no other may get it.
            command = [sys.executable, "-I", "-S", "-c", _OTHER, str(self.path)]
            kept_out = subprocess.run(command, capture_output=True).returncode == 0
        if not kept_out:
            raise DataError(
                f"ledger {str(self.path)!r} lies where locks do not keep other processes out; put it on a local disk."
            )

    def _pragma(self, name: str) -> Any:
        return self.execute(f"PRAGMA {name}").fetchone()[0]

    def _chained(self, last: bytes, number: int, kind: str, body: bytes) -> bytes:
        # Lengths first, so that no two rows have the same bytes.
        head = f"{number} {len(kind)} {len(body)}".encode()
        return hashlib.blake2b(b"\0".join((last, head, kind.encode(), body)), key=self.key, digest_size=32).digest()

    def _damaged(self, what: str) -> DataError:
        return DataError(f"ledger {str(self.path)!r} is damaged ({what}); restore it from a copy.")

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Turn what goes wrong with the file into one line; nothing may be released then."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise DataError(
                    f"ledger {str(self.path)!r} was in use by another process for more than {self._patience:g} "
                    "seconds; try again when that has ended."
                ) from None
            raise DataError(f"ledger {str(self.path)!r} cannot be read or written ({error}).") from None
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from None
        except OSError as error:
            raise DataError(f"ledger {str(self.path)!r} cannot be opened ({error.strerror}).") from None


def _keeps_out(path: Path) -> bool | None:
    """Whether locks like SQLite's keep others out of a new file beside a ledger; None where only a process can tell.

    The lock of an open file is as strange to the lock of its process as another process is, and needs none, whose start
    would take longer than all else that a ledger does. Not on the ledger: closing it would end the locks on it.
    """
    try:
        import fcntl

        with tempfile.TemporaryFile(dir=path.parent) as one:
            if os.fstat(one.fileno()).st_dev != path.stat().st_dev:
                return None
            fcntl.lockf(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with open(f"/proc/self/fd/{one.fileno()}", "r+b") as other:
                whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                try:
                    fcntl.fcntl(other, fcntl.F_OFD_SETLK, whole)
                except BlockingIOError:
                    return True
        return False
    except (ImportError, AttributeError, OSError):
        return None
