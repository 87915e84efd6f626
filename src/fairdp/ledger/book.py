"""The ledger: what was spent on which records, written down before it is spent."""

import hashlib
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairdp import _checks
from fairdp._checks import DataError
from fairdp._files import to_plain
from fairdp.ledger.costs import Cost, pure_cost
from fairdp.ledger.entries import (
    COMPLETE,
    COMPLETED,
    LIMIT,
    REFINE,
    SPEND,
    Entry,
    Limit,
    View,
    read_entries,
    read_limits,
)
from fairdp.ledger.limits import check_limit, refuse_beyond
from fairdp.ledger.records import HashedRecords, RecordHasher
from fairdp.ledger.series import next_in_series
from fairdp.ledger.sharing import are_akin, common_view, histories, members
from fairdp.ledger.store import PATIENCE, Store


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What a model folder keeps of its entry: neither depends on a record."""

    entry: int
    token: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Claim:
    """What a command is about to spend.

    Parameters
    ----------
    command, table
        Who spends, and the declared name of the table.
    cost
        All that may be spent, as mechanisms.
    records
        Hashes of the records that it uses; None where they are unknown, so that they may be any of the table.
    model
        The model that a certificate is about.
    fresh
        Whether no record may have been used for that model before.
    of
        Number of certificates of the model that are to hold together, `ENDLESS` for a series without end; None: this
        one is by itself.
    token
        By what the entry is found again if the same release is begun a second time because nothing came of the first;
        empty: there is no such second time.
    """

    command: str
    table: str
    cost: Cost
    records: HashedRecords | None
    model: str = ""
    fresh: bool = False
    of: int | None = None
    token: str = ""


def ledger_path() -> Path:
    """Where the ledger of a user is: ``$FAIRDP_LEDGER``, else in the folder for data of programs."""
    named, base = os.environ.get("FAIRDP_LEDGER"), os.environ.get("XDG_DATA_HOME")
    if named:
        return Path(named)
    return (Path(base) if base else Path.home() / ".local" / "share") / "fairdp" / "ledger.sqlite"


class Ledger:
    """An open ledger.

    Nothing may be released before `spend` has returned: then the cost is on the disk, whatever happens next.
    """

    def __init__(self, path: str | Path, *, patience: float = PATIENCE) -> None:
        self._store = Store(Path(path), patience=patience)
        self.path = self._store.path

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def entries(self) -> list[Entry]:
        """All entries, oldest first; one clear line if the chain of hashes is broken."""
        return read_entries(self._store.log())

    def limits(self) -> dict[str, Limit]:
        """The limits that are in force, by table."""
        return read_limits(self._store.log())

    @property
    def identity(self) -> str:
        """What a ledger is told from others by."""
        return hashlib.blake2b(b"identity", key=self._store.key, digest_size=16).hexdigest()

    def foresee(self, table: str, epsilon: float, budget: float | None) -> None:
        """Refuse a sum of ε that would pass the budget or the limit of a table, before any of it is spent."""
        rows = self._store.log()
        limits = [limit for limit in read_limits(rows).values() if limit.table == table and limit.order is None]
        if budget is not None:
            _checks.finite_positive(budget=budget)
            limits.append(Limit(table=table, epsilon=budget))
        known = {entry.number: entry for entry in read_entries(rows)}
        for limit in limits:
            refuse_beyond(limit, pure_cost(epsilon, [table]), table, (), known)

    def hasher(self) -> RecordHasher:
        """Hashes rows so that they can be found in this ledger."""
        known = {view.columns for entry in self.entries() for view in entry.views.values()}
        return RecordHasher(self._store.key, known)

    def spend(
        self, claim: Claim, *, budget: float | None = None, alongside: Callable[[], None] = lambda: None
    ) -> Entry:
        """Write an entry, or refuse; afterwards its whole cost counts as spent.

        Checks and entry are one transaction: another command sees either neither or both.

        Parameters
        ----------
        budget
            The most that may be spent in total, beside the limit that is in force for the table.
        alongside
            What else is to be done before others come; if it raises an error, no entry is written.
        """
        limits = []
        if budget is not None:
            _checks.finite_positive(budget=budget)
            limits = [Limit(table=claim.table, epsilon=budget)]
        with self._store.transaction():
            rows = self._store.log()
            entries = read_entries(rows)
            begun = self._begun(claim, entries)
            if begun is not None:
                return begun
            shared = self._shared(claim, entries)
            if claim.fresh:
                _refuse_used(claim, entries, shared)
            past = histories(0 if claim.records is None else claim.records.n_records, shared)
            known = {each.number: each for each in entries}
            for limit in (*limits, *read_limits(rows).values()):
                refuse_beyond(limit, claim.cost, claim.table, past, known)
            entry = Entry(
                number=len(entries) + 1,
                token=claim.token or secrets.token_hex(16),
                command=claim.command,
                table=claim.table,
                when=datetime.now(UTC).isoformat(timespec="seconds"),
                cost=claim.cost,
                model=claim.model,
                series=next_in_series(entries, claim.model, claim.of),
                views=self._views(claim.records),
                histories=past,
            )
            alongside()
            self._write(entry, claim.records)
        return entry

    def _begun(self, claim: Claim, entries: list[Entry]) -> Entry | None:
        """The entry of the same release, begun before; it may have no other cost and no other records."""
        entry = next((entry for entry in entries if claim.token and entry.token == claim.token), None)
        if entry is None:
            return None
        same = (entry.command, entry.table, entry.cost) == (claim.command, claim.table, claim.cost)
        if not same or not self.is_about(entry, claim.records):
            raise DataError(f"entry {entry.number} of the ledger is of another release than the one begun again.")
        return entry

    def refine(self, receipt: Receipt, cost: Cost) -> Entry:
        """Say what an entry costs now that it is known, which is no more than was reserved for it."""
        with self._store.transaction():
            entry = self.entry_of(receipt)
            if entry.state == COMPLETED or cost.epsilon > entry.cost.epsilon or cost.delta > entry.cost.delta:
                raise ValueError(f"entry {entry.number} cannot come to cost more than was reserved for it.")
            self._store.append(REFINE, {"entry": entry.number, "cost": to_plain(cost)})
        return replace(entry, cost=cost)

    def complete(self, receipt: Receipt) -> None:
        """Note that the release of an entry is done; before, it counts as spent all the same."""
        with self._store.transaction():
            entry = self.entry_of(receipt)
            if entry.state != COMPLETED:
                self._store.append(COMPLETE, {"entry": entry.number})

    def entry_of(self, receipt: Receipt) -> Entry:
        """The entry that a model folder names; a ledger without it is another one, or was restored from a copy."""
        for entry in self.entries():
            if (entry.number, entry.token) == (receipt.entry, receipt.token):
                return entry
        raise DataError(
            f"ledger {str(self.path)!r} does not have entry {receipt.entry} of this model: it is another ledger, or an "
            "older copy, and what was spent since is missing; name the right one with `ledger`, or restore it."
        )

    def set_limit(self, limit: Limit) -> None:
        """Put a limit in force, in place of an earlier one for the table."""
        check_limit(limit)
        with self._store.transaction():
            self._store.log()
            self._store.append(LIMIT, to_plain(limit))

    def check(self) -> int:
        """Compute the chain of hashes and the digests of all records again, and let SQLite check its file."""
        self._store.check_whole()
        entries = self.entries()
        for entry in entries:
            for name in entry.views:
                self._check_records(entry, name)
        return len(entries)

    def is_about(self, entry: Entry, records: HashedRecords | None) -> bool:
        """Whether an entry used just these records."""
        if records is None or not entry.views:
            return records is None and not entry.views
        hashes = records.views.get(entry.columns)
        (view,) = (view for view in entry.views.values() if view.columns == entry.columns)
        return hashes is not None and self._store.digest(iter([np.sort(hashes)])) == view.digest

    def _check_records(self, entry: Entry, name: str) -> None:
        """One clear line if the hashes of an entry's records are not those that it was written with."""
        if self._store.digest(self._store.read_records(entry.number, name)) != entry.views[name].digest:
            raise DataError(
                f"ledger {str(self.path)!r} is damaged (records of entry {entry.number} were changed); "
                "restore it from a copy."
            )

    def _write(self, entry: Entry, records: HashedRecords | None) -> None:
        body = to_plain(entry)
        del body["state"]
        self._store.append(SPEND, body)
        for name, view in entry.views.items():
            assert records is not None
            self._store.write_records(entry.number, name, records.views[view.columns])

    def _used(self, records: HashedRecords, entry: Entry) -> NDArray[np.bool_] | None:
        """Which of the records an entry used; None if they cannot be matched."""
        names = {view.columns: name for name, view in entry.views.items()}
        view = common_view(records.views, names)
        if view is None:
            return None
        self._check_records(entry, names[view])
        return members(records, view, lambda columns: self._store.read_records(entry.number, names[columns]))

    def _shared(self, claim: Claim, entries: list[Entry]) -> dict[int, NDArray[np.bool_] | bool]:
        """For each entry which of the claimed records it used; where they cannot be matched, all if tables are akin."""
        shared: dict[int, NDArray[np.bool_] | bool] = {}
        for entry in entries:
            used = None if claim.records is None else self._used(claim.records, entry)
            columns = () if claim.records is None else claim.records.columns
            akin = entry.table == claim.table or are_akin(columns, entry.columns)
            shared[entry.number] = akin if used is None else used
        return shared

    def _views(self, records: HashedRecords | None) -> dict[str, View]:
        """What an entry says of its records, whose hashes are sorted for it: which row they are from is forgotten."""
        views = {}
        for place, (columns, hashes) in enumerate({} if records is None else records.views.items()):
            hashes.sort()
            digest = self._store.digest(iter([hashes]))
            views[str(place)] = View(columns=columns, n_records=len(hashes), digest=digest)
        return views


def _refuse_used(claim: Claim, entries: list[Entry], shared: Mapping[int, NDArray[np.bool_] | bool]) -> None:
    """Refuse records if a single one equals a used one: whether it is the same person is not for us to guess."""
    of_model = [entry for entry in entries if claim.model and claim.model in (entry.model, str(entry.number))]
    # Where they cannot be matched, the register beside the model has to do.
    found = {entry.number: int(np.sum(shared[entry.number])) for entry in of_model if shared[entry.number] is not True}
    if any(found.values()):
        n_records = 0 if claim.records is None else claim.records.n_records
        uses = ", ".join(f"{equal} in entry {number} of the ledger" for number, equal in found.items() if equal)
        raise DataError(
            f"of {n_records} records some equal records that were used before ({uses}), so they cannot certify the "
            "model; give records that it has not seen, or add `allow_equal` if they are other people with equal values."
        )
