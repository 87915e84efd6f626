"""The ledger: what was spent on which records, written down before it is spent."""

import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairdp._io import RecordError, content_of, from_plain, json_bytes, parsed_json, to_plain, write_file
from fairdp.accounting.mechanisms import PrivacyBudget, Reading
from fairdp.accounting.spent import LedgerNote, PrivacySpent
from fairdp.data.grouped import GroupedData
from fairdp.distributed import process_group
from fairdp.errors import DataError, InputError, ParameterError, finite_positive, rounded_up
from fairdp.ledger.costs import Cost, cost_of, pure_cost, reading_cost, reserved_cost
from fairdp.ledger.records import ENCODED, HashedRecords, RecordHasher, common_view, histories, members, same_table
from fairdp.ledger.store import (
    COMPLETE,
    COMPLETED,
    ENCODED_VIEW,
    LIMIT,
    MODEL_VIEW,
    REFINE,
    SPEND,
    TIMEOUT,
    Entry,
    Limit,
    Store,
    View,
    check_limit,
    next_in_series,
    read_entries,
    read_limits,
    record_total,
    refuse_beyond,
    table_total,
)


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The part of an entry that a model folder keeps: nothing depends on a record.

    Beside a checkpoint it also says which ``run`` the entry pays for.
    """

    entry: int
    token: str
    run: str = ""


# Views by which it is told whether a model has seen a record, and nothing is added up.
_FOR_MODEL = (MODEL_VIEW, ENCODED_VIEW)


@dataclass(frozen=True, kw_only=True, eq=False)
class Claim:
    """A release that a command is about to make.

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

    def __init__(self, path: str | Path, *, timeout: float = TIMEOUT) -> None:
        self._store = Store(Path(path), timeout=timeout)
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
        """A name of the ledger, from its key."""
        return hashlib.blake2b(b"identity", key=self._store.key, digest_size=16).hexdigest()

    def foresee(self, table: str, epsilon: float, budget: float | None) -> None:
        """Refuse a sum of ε that would pass the budget or the limit of a table, before any of it is spent."""
        rows = self._store.log()
        limits = [limit for limit in read_limits(rows).values() if limit.table == table and limit.order is None]
        limits += _limits_of(table, budget)
        known = {entry.number: entry for entry in read_entries(rows)}
        for limit in limits:
            refuse_beyond(limit, pure_cost(epsilon, [table]), table, (), known)

    def hasher(self) -> RecordHasher:
        """Hashes rows so that they can be found in this ledger."""
        known = {
            view.columns for entry in self.entries() for name, view in entry.views.items() if name not in _FOR_MODEL
        }
        return RecordHasher(self._store.key, known)

    def spend(self, claim: Claim, *, budget: float | None = None) -> Entry:
        """Write an entry, or refuse; afterwards its whole cost counts as spent.

        Checks and entry are one transaction: another command sees either neither or both.

        Parameters
        ----------
        budget
            The most that may be spent in total, beside the limit that is in force for the table.
        """
        limits = _limits_of(claim.table, budget)
        with self._store.transaction():
            rows = self._store.log()
            entries = read_entries(rows)
            begun = self._begun(claim, entries)
            if begun is not None:
                return begun
            shared = self._shared(claim, entries)
            if claim.fresh:
                self._refuse_used(claim)
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

    def refine(self, receipt: Receipt, cost: Cost, encoded: NDArray[np.bytes_] | None = None) -> Entry:
        """Say what an entry costs now that it is known, which is no more than was reserved for it.

        And the hashes of its records as they are ``encoded``, by a schema that there was not before.
        """
        with self._store.transaction():
            entry = self.entry_of(receipt)
            if entry.state == COMPLETED or cost.epsilon > entry.cost.epsilon or cost.delta > entry.cost.delta:
                raise ValueError(f"entry {entry.number} cannot come to cost more than was reserved for it.")
            views = {} if encoded is None else self._views(HashedRecords({ENCODED: encoded}))
            body = {"entry": entry.number, "cost": to_plain(cost)}
            self._store.append(REFINE, {**body, "views": to_plain(views)} if views else body)
            if encoded is not None:
                self._store.write_records(entry.number, ENCODED_VIEW, encoded)
        return replace(entry, cost=cost, views={**entry.views, **views})

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
        """True if an entry used just these records."""
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

    def used_by(self, model: str, records: HashedRecords | None) -> dict[int, int | None]:
        """Number of the records that each entry of a model used, training and certificates; None: nobody can tell."""
        found: dict[int, int | None] = {}
        for entry in self.entries():
            if model and model in (entry.model, str(entry.number)):
                used = None if records is None else self._used(records, entry, for_model=True)
                found[entry.number] = None if used is None else int(used.sum())
        return found

    def _refuse_used(self, claim: Claim) -> None:
        """Refuse records if a single one equals a used one: whether it is the same person is not for us to guess."""
        found = self.used_by(claim.model, claim.records)
        refuse_unchecked(claim.model, found)
        if any(found.values()):
            n_records = 0 if claim.records is None else claim.records.n_records
            uses = ", ".join(f"{equal} in entry {number} of the ledger" for number, equal in found.items() if equal)
            raise DataError(
                f"of {n_records} records some equal records that were used before ({uses}), so they cannot certify the "
                "model; give records that it has not seen, or add `allow_equal` if they are other people with equal "
                "values."
            )

    def _used(self, records: HashedRecords, entry: Entry, *, for_model: bool = False) -> NDArray[np.bool_] | None:
        """Which of the records an entry used; None if they cannot be matched."""
        names = {view.columns: name for name, view in entry.views.items() if for_model or name not in _FOR_MODEL}
        own = (records.model_view, ENCODED)
        view = common_view((view for view in records.views if for_model or view not in own), names)
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
            akin = entry.table == claim.table or same_table(columns, entry.columns)
            shared[entry.number] = akin if used is None else used
        return shared

    def _views(self, records: HashedRecords | None) -> dict[str, View]:
        """The views of an entry on its records, whose hashes are sorted: which row they are from is forgotten."""
        views = {}
        for place, (columns, hashes) in enumerate({} if records is None else records.views.items()):
            hashes.sort()
            digest = self._store.digest(iter([hashes]))
            name = ENCODED_VIEW if columns == ENCODED else str(place)
            name = MODEL_VIEW if records is not None and columns == records.model_view else name
            views[name] = View(columns=columns, n_records=len(hashes), digest=digest)
        return views


def _limits_of(table: str, budget: float | None) -> list[Limit]:
    if budget is None:
        return []
    finite_positive(budget=budget)
    return [Limit(table=table, epsilon=budget)]


def refuse_unchecked(model: str, used: dict[int, int | None]) -> None:
    """Refuse records of which it cannot be told whether the model has used them."""
    if model not in map(str, used):
        raise DataError(
            "no ledger saw the training of this model, so it cannot be checked that the records are fresh; name the "
            "one that did with `ledger`, or add `allow_equal` if they are other people."
        )
    unknown = [number for number, equal in used.items() if equal is None]
    if unknown:
        raise DataError(
            f"entry {unknown[0]} of the ledger does not know its records by columns of this table, so it cannot be "
            "checked that these are fresh; add the columns, or add `allow_equal` if they are other people."
        )


class Spending:
    """The spending of one fit, search or certificate on one table; without a ledger nothing is added up.

    Parameters
    ----------
    path
        The ledger; None for none.
    budget
        The most that may be spent in total.
    checkpoint
        Of a run that may be continued: beside it stands which entry pays for it.
    token
        Of a run that another process may begin again, should this one die: its entry pays for both.
    """

    def __init__(
        self,
        path: str | Path | None,
        *,
        command: str,
        budget: float | None = None,
        checkpoint: Path | None = None,
        token: str = "",
    ) -> None:
        if path is None and budget is not None:
            raise ParameterError("budget", budget, "needs a table of your own and a ledger that adds up what it spends")
        self._command, self._budget, self._checkpoint, self._token = command, budget, checkpoint, token
        # Of a process group, which fits one model, the first process pays for all.
        self._ledger = None if path is None or not process_group().is_rank_zero else Ledger(path)
        self._hasher = None if self._ledger is None else self._ledger.hasher()
        # Of the records once they are encoded, where the table was paid for before there was a schema.
        self._late: RecordHasher | None = None
        self._charged: HashedRecords | None = None
        self._entry: Entry | None = None
        # What the entry costs should nothing come after the reading of its table; None where that is settled.
        self._only_read: Cost | None = None

    def __enter__(self) -> "Spending":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._ledger is not None:
            # What was refused has released no more; whatever else happened may have.
            if self._only_read is not None and kind is not None and issubclass(kind, InputError):
                self._refine(self._only_read)
            self._ledger.close()

    @property
    def identity(self) -> str:
        """A name of the ledger, from its key; empty without one."""
        return "" if self._ledger is None else self._ledger.identity

    @property
    def observe(self) -> Callable[[pd.DataFrame, Sequence[str]], None] | None:
        """The observer that the rows of the table must pass; None without a ledger."""
        return None if self._hasher is None else self._hasher.add

    def followed(self, data: GroupedData, raw: Callable[[], pd.DataFrame]) -> GroupedData:
        """The records of a whole table, such that those in a part of them can be told by their places."""
        if self._hasher is None:
            return data
        self._hasher.add(raw())
        return replace(data, rows=np.arange(data.n_samples))

    def note_encoded(self, data: GroupedData) -> GroupedData:
        """Records that are going to be used, as they are encoded; to be noted before they are charged."""
        hasher = self._hasher or self._late
        if hasher is not None:
            hasher.add_encoded(data)
        return data

    def charge(self, *parts: GroupedData) -> None:
        """The records of these parts are used, the others of the table are not."""
        if self._hasher is not None and self._charged is None:
            rows = [part.rows for part in parts if part.rows is not None]
            hashed = self._hasher.hashed(rows) if rows else None
            # Of records that were encoded elsewhere nobody knows what they were: any of the table may be among them.
            self._charged = hashed if hashed is not None and hashed.views else None

    def charge_all(self) -> None:
        """All records of the table are used."""
        if self._hasher is not None:
            self._charged = self._hasher.hashed()

    def reserve(self, budget: PrivacyBudget, reading: Reading, table: str) -> None:
        """Write down all that may be spent on a table before its columns are read, by which the rest is planned."""
        if self._ledger is not None:
            hasher = self._hasher
            self.charge_all()
            self.pay(reserved_cost(budget.epsilon, budget.delta, table), table)
            self._late = hasher
            self._only_read = reading_cost(reading, budget.delta, table)

    def _refine(self, cost: Cost) -> None:
        assert self._ledger is not None
        assert self.receipt is not None
        encoded = None if self._late is None else self._late.encoded()
        self._entry, self._only_read, self._late = self._ledger.refine(self.receipt, cost, encoded), None, None

    def spend(self, privacy: PrivacySpent, table: str, *, resume: bool = False, run: str = "") -> None:
        """Write down what a fit or a search is about to spend; trials of a search are paid for once.

        ``run`` tells the run from all others that have other keys; one that goes on releases nothing but what it was
        paid for.
        """
        if self._only_read is not None:
            self._refine(cost_of(privacy))
            self._keep_receipt(run)
        if self._ledger is None or self._entry is not None:
            return
        kept = _kept_receipt(self._checkpoint) if resume else None
        # One of another run, which was left beside the checkpoint, pays for nothing here.
        if kept is not None and kept.run == run:
            self._entry = self._ledger.entry_of(kept)
            continues = self._entry.cost == cost_of(privacy)
            if not continues or not self._ledger.is_about(self._entry, self._charged):
                raise DataError(f"entry {kept.entry} of the ledger is not that of the run in the checkpoint.")
            return
        self.pay(cost_of(privacy), table)
        self._keep_receipt(run)

    def _keep_receipt(self, run: str) -> None:
        if self._checkpoint is not None and self.receipt is not None:
            write_file(receipt_path(self._checkpoint), json_bytes(replace(self.receipt, run=run)), owner_only=True)

    def pay(
        self,
        cost: Cost,
        table: str,
        *,
        model: str = "",
        fresh: bool = False,
        of: int | None = None,
    ) -> Entry | None:
        """Write an entry, or refuse; None without a ledger."""
        if self._ledger is None:
            return None
        claim = Claim(
            command=self._command,
            table=table,
            cost=cost,
            records=self._charged,
            model=model,
            fresh=fresh,
            of=of,
            token=self._token,
        )
        self._entry = self._ledger.spend(claim, budget=self._budget)
        # Nothing needs them any more.
        self._charged = self._hasher = None
        return self._entry

    def model_of(self, privacy: PrivacySpent, digest: str, *, must_know: bool) -> str:
        """By what entries name a model: its own entry, or its digest where the ledger did not see its training.

        A ledger that must know the model and does not is refused.
        """
        note = privacy.ledger
        if self._ledger is None or note is None:
            if must_know:
                refuse_unchecked(digest, {})
            return digest
        try:
            return str(self._ledger.entry_of(Receipt(entry=note.entry, token=note.token)).number)
        except DataError:
            if must_know:
                raise
            return digest

    def used_by(self, model: str) -> dict[int, int | None]:
        """Number of the charged records that each entry of a model used; see `Ledger.used_by`."""
        return {} if self._ledger is None else self._ledger.used_by(model, self._charged)

    def knows_used(self, model: str) -> bool:
        """True if the ledger can tell which of the charged records the model has used."""
        used = self.used_by(model)
        return model in map(str, used) and None not in used.values()

    @property
    def receipt(self) -> Receipt | None:
        """Which entry pays for this command; None without a ledger."""
        return None if self._entry is None else Receipt(entry=self._entry.number, token=self._entry.token)

    def note(self) -> LedgerNote | None:
        """The total of all entries of the table up to this one, which may be published."""
        if self._ledger is None or self._entry is None:
            return None
        entries = self._ledger.entries()[: self._entry.number]
        total = table_total(entries, self._entry.table)
        return LedgerNote(
            entry=self._entry.number,
            token=self._entry.token,
            table=self._entry.table,
            epsilon=total.epsilon,
            delta=total.delta,
            epsilon_sum=total.epsilon_sum,
        )

    def later(self, note: LedgerNote | None) -> LedgerNote | None:
        """The note of a model's own entry once this one is written beside it, for a certificate say."""
        if self._ledger is None or self._entry is None or note is None:
            return note
        entries = self._ledger.entries()[: self._entry.number]
        # Another ledger does not know what the model's own had added up.
        if (note.entry, note.token) not in [(entry.number, entry.token) for entry in entries]:
            return note
        total = table_total(entries, note.table)
        return replace(note, epsilon=total.epsilon, delta=total.delta, epsilon_sum=total.epsilon_sum)

    def completed(self, privacy: PrivacySpent) -> PrivacySpent:
        """Note that a fit is done; its privacy record with what the ledger says of its table."""
        said = replace(privacy, ledger=self.note())
        self.complete()
        return said

    def complete(self) -> str:
        """Note that the release is done; what the record that has spent most has spent, for the data holder's eyes."""
        if self._ledger is None or self.receipt is None:
            return ""
        self._ledger.complete(self.receipt)
        # As long as the checkpoint is there, the run can go on, if only to be saved.
        if self._checkpoint is not None and not self._checkpoint.exists():
            receipt_path(self._checkpoint).unlink(missing_ok=True)
        total = record_total(self._ledger.entries())
        return (
            f"ledger: entry {self.receipt.entry} in {str(self._ledger.path)!r}; record by record, which is for your "
            f"eyes only, the most that any record has spent is epsilon {rounded_up(total.epsilon)} at delta "
            f"{total.delta:.4g} (sum {rounded_up(total.epsilon_sum)})."
        )


def receipt_path(checkpoint: Path) -> Path:
    """Where it is kept which entry pays for the run of a checkpoint."""
    return checkpoint.with_name(f"{checkpoint.name}.entry")


def _kept_receipt(checkpoint: Path | None) -> Receipt | None:
    """The receipt beside a checkpoint; without one the run pays again, which can only be too much."""
    if checkpoint is None or not receipt_path(checkpoint).exists():
        return None
    try:
        return from_plain(Receipt, parsed_json(content_of(receipt_path(checkpoint))))
    except (OSError, RecordError):
        path = str(receipt_path(checkpoint))
        raise DataError(f"{path!r} is damaged; remove it, and the run will have an entry of its own.") from None
