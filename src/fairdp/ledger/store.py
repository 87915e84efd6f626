"""The ledger's file, and what it says: entries, their totals, limits, and series of certificates.

It is one SQLite file for one owner: rows stay once they are written, each bound to all before it by a hash.

The journal is SQLite's rollback journal and every commit is on the disk before it is said to be done: the other mode,
a log that is written ahead, needs memory that is shared and is not safe between machines. Every statement passes
`Store.execute`, so that a test can stop a process between any two of them.
"""

import errno
import hashlib
import math
import os
import secrets
import sqlite3
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp._io import RecordError, from_plain, json_bytes, parsed_json
from fairdp.accounting.mechanisms import RDP_ORDERS, SampledGaussian, epsilon_spent
from fairdp.errors import DataError, ParameterError, finite_positive, in_unit_interval, rounded_up
from fairdp.ledger.costs import NOTHING, Cost, Total, composed, renyi_divergence, summed
from fairdp.ledger.records import Columns, History, maximal

FORMAT = 1
KEY_BYTES = 32
# "fdpl", in the place where SQLite keeps whose file it is.
_OWNER = 0x6664706C
# Seconds to wait for another process; a command holds the lock while it compares records, not while it trains.
TIMEOUT = 60.0
# Records in one row of the file.
CHUNK = 2**16
# Kinds of rows.
SPEND, REFINE, COMPLETE, LIMIT = "spend", "refine", "complete", "limit"
# What was planned counts as spent from the moment it is written; a crash leaves it so.
SPENT, COMPLETED = "spent", "completed"
# The name of the view by the columns of a model alone, in which nothing is added up.
MODEL_VIEW = "model"
# And that of the records as they are encoded for it.
ENCODED_VIEW = "encoded"
# Sums of floats that should be equal to a limit may be larger by this part.
_ROUNDING = 1e-9
# Instead of the number of certificates: there is no last one.
ENDLESS = 0

# One line of the log: its kind and what it says.
Row = tuple[str, dict[str, Any]]

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


class Store:
    """An open ledger file. Nothing is changed outside of `transaction`."""

    def __init__(self, path: Path, *, timeout: float = TIMEOUT) -> None:
        self.path, self._timeout = Path(path).resolve(), timeout
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
                rows.append((kind, parsed_json(body)))
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
                if len(part) % 16:
                    raise self._damaged(f"records of entry {entry} were changed")
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
        connection = sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None)
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
                    f"ledger {str(self.path)!r} was in use by another process for more than {self._timeout:g} "
                    "seconds; try again when that has ended."
                ) from None
            raise DataError(f"ledger {str(self.path)!r} cannot be read or written ({error}).") from None
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from None
        except OSError as error:
            raise DataError(f"ledger {str(self.path)!r} cannot be opened ({error.strerror}).") from None


def _keeps_out(path: Path) -> bool | None:
    """True if locks like SQLite's keep others out of a new file beside a ledger; None where only a process can tell.

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


@dataclass(frozen=True, kw_only=True)
class Series:
    """The place of a certificate among those that hold together: number k of N, or of a series without end (N = 0)."""

    number: int
    of: int


@dataclass(frozen=True, kw_only=True)
class View:
    """Columns by which an entry's records are hashed, how many there are, and the digest of their hashes."""

    columns: Columns
    n_records: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One release, or several that were planned as one.

    Parameters
    ----------
    token
        Random; a model folder keeps it with the number, and nothing in it depends on a record.
    table
        Declared name of the table.
    model
        What the release is about: for a certificate, the model (the number of its entry, or its digest).
    views
        How its records were hashed, by name; none where they are unknown.
    histories
        The different sets of earlier entries that used one of its records.
    """

    number: int
    token: str
    command: str
    table: str
    when: str
    cost: Cost
    model: str
    series: Series | None
    views: dict[str, View]
    histories: tuple[tuple[int, ...], ...]
    state: str = field(default=SPENT)

    @property
    def columns(self) -> Columns:
        """All columns of the table; none where they are unknown."""
        return max((view.columns for view in self.views.values()), key=len, default=())


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The most that entries of a table, or any record of it, may spend in total; a later limit replaces an earlier one.

    With an ``order`` it is kept by a Rényi filter at that order and then needs a δ; else by the sum of ε, and of δ if
    there is a limit on it.
    """

    table: str
    epsilon: float
    delta: float | None = None
    order: int | None = None


def read_entries(rows: Iterable[Row]) -> list[Entry]:
    """All entries in their order, each in its present state."""
    entries: dict[int, Entry] = {}
    for kind, body in rows:
        if kind == SPEND:
            entry = _read(Entry, body)
            entries[entry.number] = entry
        elif kind in (REFINE, COMPLETE):
            entry = entries[body["entry"]]
            late = {name: _read(View, view) for name, view in body.get("views", {}).items()}
            change = {"cost": _read(Cost, body["cost"])} if kind == REFINE else {"state": COMPLETED}
            entries[entry.number] = replace(entry, views={**entry.views, **late}, **change)
    return list(entries.values())


def read_limits(rows: Iterable[Row]) -> dict[str, Limit]:
    """The limits that are in force, by table."""
    found = [_read(Limit, body) for kind, body in rows if kind == LIMIT]
    return {limit.table: limit for limit in found}


def _read(kind: Any, body: dict[str, Any]) -> Any:
    try:
        return from_plain(kind, body)
    except (RecordError, ValueError):
        raise DataError("the ledger holds an entry that this fairdp cannot read; install a newer one.") from None


def table_total(entries: Sequence[Entry], table: str) -> Total:
    """The total over all entries of a declared table, as if each had used every record: it may be published."""
    return composed(entry.cost for entry in entries if entry.table == table)


def record_total(entries: Sequence[Entry]) -> Total:
    """The total of the record that has spent most, found by comparing records: for the data holder's eyes only.

    The last entry that used a record knows all before it that did.
    """
    known = {entry.number: entry.cost for entry in entries}
    sets = [(*history, entry.number) for entry in entries for history in entry.histories]
    totals = [composed(known[number] for number in each if number in known) for each in maximal(sets)]
    return max(totals, key=lambda total: (total.epsilon, total.epsilon_sum), default=NOTHING)


def check_limit(limit: Limit) -> None:
    """Refuse a limit that cannot be kept."""
    finite_positive(epsilon=limit.epsilon)
    if limit.delta is not None:
        in_unit_interval(delta=limit.delta)
    if limit.order is None:
        return
    if limit.order not in RDP_ORDERS:
        orders = ", ".join(map(str, RDP_ORDERS[:3]))
        raise ParameterError("order", limit.order, f"must be one of {orders}, … {RDP_ORDERS[-1]}")
    if limit.delta is None:
        raise ParameterError("order", limit.order, "needs `delta`", "a Renyi divergence has an epsilon only at a delta")
    if allowed_divergence(limit) <= 0:
        raise ParameterError("epsilon", limit.epsilon, f"is too small for `order`={limit.order}", "use a larger order")


def allowed_divergence(limit: Limit) -> float:
    r"""The Rényi divergence at the limit's order that ε and δ allow.

    :math:`\varepsilon - \ln(1 - 1/\lambda) + (\ln \delta + \ln \lambda) / (\lambda - 1)` (Canonne, Kamath, Steinke,
    2020, Proposition 12).
    """
    assert limit.order is not None
    assert limit.delta is not None
    order = limit.order
    return limit.epsilon - math.log1p(-1 / order) + (math.log(limit.delta) + math.log(order)) / (order - 1)


def refuse_beyond(
    limit: Limit, cost: Cost, table: str, histories: Sequence[History], entries: Mapping[int, Entry]
) -> None:
    """Refuse a cost that would pass a limit: for the table by its name, or for a single record by what it has spent.

    The sum, and the Rényi divergence at an order that was fixed with the limit, are bounds also if each ε is chosen
    after seeing the results of those before (Rogers, Roth, Ullman, Vadhan, 2016; Feldman and Zrnic, 2021).
    """
    for whom, costs in _spent_before(limit, table, histories, entries):
        if limit.order is None:
            _refuse_sum(limit, cost, costs, whom)
        else:
            _refuse_divergence(limit, cost, costs, whom)


def _spent_before(
    limit: Limit, table: str, histories: Sequence[History], entries: Mapping[int, Entry]
) -> Iterable[tuple[str, list[Cost]]]:
    """Costs that the limit counts, and on whom: under its table's name, and on each record of its table."""
    named = {number for number, entry in entries.items() if entry.table == limit.table}
    if table == limit.table:
        yield "", [entries[number].cost for number in named]
    for history in histories:
        if table == limit.table or named & set(history):
            yield " on some of its records, under any name", [entries[number].cost for number in history]


def _refuse_sum(limit: Limit, cost: Cost, before: list[Cost], whom: str) -> None:
    spent = summed(before)
    if spent + cost.epsilon > limit.epsilon * (1 + _ROUNDING):
        raise _refusal(limit, cost, spent, whom, max(0.0, limit.epsilon - spent))
    deltas = math.fsum(each.delta for each in before)
    if limit.delta is not None and deltas + cost.delta > limit.delta * (1 + _ROUNDING):
        raise DataError(
            f"delta {cost.delta:g} would pass the limit of {limit.delta:g} on table {limit.table!r}, of which "
            f"{deltas:g} is spent{whom}: {max(0.0, limit.delta - deltas):g} is left; use a smaller `delta`."
        )


def _refuse_divergence(limit: Limit, cost: Cost, before: list[Cost], whom: str) -> None:
    assert limit.order is not None
    allowed, spent = allowed_divergence(limit), math.fsum(worst_divergence(each, limit.order) for each in before)
    if spent + worst_divergence(cost, limit.order) > allowed * (1 + _ROUNDING):
        raise _refusal(limit, cost, summed(before), whom, _gaussian_epsilon(limit, allowed - spent))


def worst_divergence(cost: Cost, order: int) -> float:
    """The largest Rényi divergence over the ways in which an entry may use a record."""
    return max(renyi_divergence(mechanism, order) for mechanism in cost.mechanisms)


def _gaussian_epsilon(limit: Limit, left: float) -> float:
    """ε of the one Gaussian release whose divergence is what is left, for people to go by."""
    assert limit.order is not None
    assert limit.delta is not None
    if left <= 0:
        return 0.0
    multiplier = math.sqrt(limit.order / (2 * left))
    release = SampledGaussian(sample_rate=1.0, noise_multiplier=multiplier, n_steps=1)
    return min(limit.epsilon, epsilon_spent(release, limit.delta, accountant="rdp"))


def _refusal(limit: Limit, cost: Cost, spent: float, whom: str, left: float) -> DataError:
    how = "" if limit.order is None else f" by a Renyi filter at order {limit.order}"
    remedy = f"use `epsilon` {_rounded_down(left)} or less" if left > 1e-3 else "use other records"
    return DataError(
        f"epsilon {rounded_up(cost.epsilon)} would pass the limit of {limit.epsilon:g} on table {limit.table!r}{how}, "
        f"of which {rounded_up(spent)} is spent{whom}: {_rounded_down(left)} is left; {remedy}, or a larger limit."
    )


def _rounded_down(value: float) -> str:
    return f"{math.floor(1e4 * value) / 1e4:g}"


def next_in_series(entries: Iterable[Entry], model: str, of: int | None) -> Series | None:
    """The place of the next certificate of a model, of which so many hold together; None for one by itself.

    Whoever could begin another series would not be bound by the first: it is as long as it was said to be.
    """
    if of is None:
        return None
    if of < 0:
        raise ParameterError("of", of, "must be the number of certificates, or 0 for a series without end")
    earlier = [entry.series for entry in entries if model and entry.model == model and entry.series is not None]
    for series in earlier:
        if series.of != of:
            length = "certificates without end" if series.of == ENDLESS else series.of
            raise DataError(f"the certificates of this model are a series of {length}; repeat that `of`.")
    number = len(earlier) + 1
    if of != ENDLESS and number > of:
        raise DataError(f"all {of} certificates of the series are made; fit the model again for another series.")
    return Series(number=number, of=of)
