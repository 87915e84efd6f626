"""One release about a user's table, from the rows that pass to the entry that pays for it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from fairdp._checks import DataError, InputError, ParameterError
from fairdp._files import RecordError, content_of, from_plain, json_bytes, parsed_json, write_file
from fairdp._format import rounded_up
from fairdp.accounting.ledger_note import LedgerNote
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.reading import Reading
from fairdp.accounting.spent import PrivacySpent
from fairdp.data.grouped import GroupedData
from fairdp.ledger.book import Claim, Ledger, Receipt
from fairdp.ledger.costs import Cost, cost_of, reading_cost, reserved_cost
from fairdp.ledger.entries import Entry
from fairdp.ledger.records import HashedRecords
from fairdp.ledger.totals import record_total, table_total
from fairdp.team import the_team


@dataclass(frozen=True, kw_only=True)
class KeptReceipt:
    """What is kept beside a checkpoint: which entry pays for which run."""

    entry: int
    token: str
    run: str = ""


class Spending:
    """What one fit, search or certificate spends on one table; without a ledger nothing is added up.

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
        # Of a team, which fits one model, the first process pays for all.
        self._ledger = None if path is None or not the_team().is_first else Ledger(path)
        self._hasher = None if self._ledger is None else self._ledger.hasher()
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
        """What the ledger is told from others by; empty without one."""
        return "" if self._ledger is None else self._ledger.identity

    @property
    def observe(self) -> Callable[[pd.DataFrame], None] | None:
        """What the rows of the table must pass; None without a ledger."""
        return None if self._hasher is None else self._hasher.add

    def followed(self, data: GroupedData, raw: Callable[[], pd.DataFrame]) -> GroupedData:
        """The records of a whole table, such that those in a part of them can be told by their places."""
        if self._hasher is None:
            return data
        self._hasher.add(raw())
        return replace(data, rows=np.arange(data.n_samples))

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
            self.charge_all()
            self.pay(reserved_cost(budget.epsilon, budget.delta, table), table)
            self._only_read = reading_cost(reading, budget.delta, table)

    def _refine(self, cost: Cost) -> None:
        assert self._ledger is not None
        assert self.receipt is not None
        self._entry, self._only_read = self._ledger.refine(self.receipt, cost), None

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
            self._entry = self._ledger.entry_of(Receipt(entry=kept.entry, token=kept.token))
            continues = self._entry.cost == cost_of(privacy)
            if not continues or not self._ledger.is_about(self._entry, self._charged):
                raise DataError(f"entry {kept.entry} of the ledger is not that of the run in the checkpoint.")
            return
        self.pay(cost_of(privacy), table)
        self._keep_receipt(run)

    def _keep_receipt(self, run: str) -> None:
        if self._checkpoint is not None and self.receipt is not None:
            kept = KeptReceipt(entry=self.receipt.entry, token=self.receipt.token, run=run)
            write_file(receipt_path(self._checkpoint), json_bytes(kept), owner_only=True)

    def pay(
        self,
        cost: Cost,
        table: str,
        *,
        model: str = "",
        fresh: bool = False,
        of: int | None = None,
        alongside: Callable[[], None] = lambda: None,
    ) -> Entry | None:
        """Write an entry, or refuse; without a ledger only what is to be done alongside is done."""
        if self._ledger is None:
            alongside()
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
        self._entry = self._ledger.spend(claim, budget=self._budget, alongside=alongside)
        # Nothing needs them any more.
        self._charged = self._hasher = None
        return self._entry

    def model_of(self, privacy: PrivacySpent, digest: str) -> str:
        """By what entries name a model: its own entry, which the ledger must have, or else its digest."""
        note = privacy.ledger
        if self._ledger is None or note is None:
            return digest
        return str(self._ledger.entry_of(Receipt(entry=note.entry, token=note.token)).number)

    @property
    def receipt(self) -> Receipt | None:
        """Which entry pays for this command; None without a ledger."""
        return None if self._entry is None else Receipt(entry=self._entry.number, token=self._entry.token)

    def note(self) -> LedgerNote | None:
        """What all entries of the table spend up to this one, which may be published."""
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
        """What a model's folder says of its own entry once this one is written beside it, for a certificate say."""
        if self._ledger is None or self._entry is None or note is None:
            return note
        total = table_total(self._ledger.entries()[: self._entry.number], note.table)
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


def _kept_receipt(checkpoint: Path | None) -> KeptReceipt | None:
    """The receipt beside a checkpoint; without one the run pays again, which can only be too much."""
    if checkpoint is None or not receipt_path(checkpoint).exists():
        return None
    try:
        return from_plain(KeptReceipt, parsed_json(content_of(receipt_path(checkpoint))))
    except (OSError, RecordError):
        path = str(receipt_path(checkpoint))
        raise DataError(f"{path!r} is damaged; remove it, and the run will have an entry of its own.") from None
