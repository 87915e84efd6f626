"""Mistakes that the campaign must notice: each is put into the code of a copy of this process, or of a real one."""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from fairdp import _io as folders
from fairdp.ledger.ledger import Ledger
from fairdp.ledger.store import Entry, Store
from fairdp.run import fit as training
from fairdp.saved import folder as saved


def folder_removed_first(pause: float = 0.0) -> None:
    """The old folder goes before the new one is in its place."""

    def remove_first(staging: Path, folder: Path) -> None:
        if folder.exists():
            shutil.rmtree(folder)
            time.sleep(pause)
        os.rename(staging, folder)

    folders._put_in_place = remove_first


def written_in_place() -> None:
    """Every old file of a model is renamed, and the new one written in its place."""

    def write(folder: Path, contents: Mapping[str, bytes], **rules: object) -> None:
        folder.mkdir(exist_ok=True)
        old = [path.rename(path.with_name(f"{path.name}~")) for path in folder.iterdir()]
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        for path in old:
            path.unlink()

    saved.write_folder = write


def entry_after_release() -> None:
    """The ledger says that an entry is written, and writes it at its next transaction."""
    execute, waiting = Store.execute, []

    def later(store, statement, values=()):
        if statement == "COMMIT" and not waiting and _has_entry(store, execute):
            waiting.append(store)
            return None
        if waiting and (statement == "BEGIN IMMEDIATE"):
            waiting.clear()
            execute(store, "COMMIT")
        return execute(store, statement, values)

    Store.execute = later


def _has_entry(store: Store, execute: Callable) -> bool:
    """True if the last line of the log is an entry, and not its completion."""
    last = execute(store, "SELECT kind FROM log ORDER BY number DESC LIMIT 1").fetchone()
    return last is not None and last[0] == "spend" and store._connection.total_changes > 0


def forgetful_resuming() -> None:
    """A run that is continued forgets what its optimiser has gathered."""
    restore = training.restore

    def forgetting(checkpoint, state, *, fingerprint):
        optimizer = state.optimizer
        restore(checkpoint, state, fingerprint=fingerprint)
        state.optimizer = optimizer

    training.restore = forgetting


def without_transactions(company: int = 0) -> None:
    """The ledger looks, and writes, and nobody else is kept out in between; there it waits for so many processes."""
    execute, met = Store.execute, []

    def at_once(store, statement, values=()):
        if statement in ("BEGIN IMMEDIATE", "COMMIT"):
            return None
        if company and not met and statement.startswith("SELECT number, hash FROM log"):
            met.append(store)
            _wait_for_company(store.path.parent, company)
        return execute(store, statement, values)

    Store.execute = at_once


def _wait_for_company(folder: Path, company: int, seconds: float = 60.0) -> None:
    """Until so many processes are here, however slowly they start; then one after the other."""
    (folder / f"met.{os.getpid()}").touch()
    end = time.monotonic() + seconds
    while len(list(folder.glob("met.*"))) < company and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2 * sorted(path.name for path in folder.glob("met.*")).index(f"met.{os.getpid()}"))


def used_records_of_the_start() -> None:
    """Earlier use of records is looked up among the entries that were there when the ledger was opened."""
    hasher, used_by, entries = Ledger.hasher, Ledger.used_by, Ledger.entries
    at_start: list[Entry] = []

    def opened(ledger):
        at_start[:] = entries(ledger)
        return hasher(ledger)

    def looked_up(ledger, *arguments):
        Ledger.entries = lambda _: list(at_start)
        try:
            return used_by(ledger, *arguments)
        finally:
            Ledger.entries = entries

    Ledger.hasher, Ledger.used_by = opened, looked_up


def without_claims() -> None:
    """Two commands may write to one folder."""
    folders.lock = lambda handle: True


def without_locks() -> None:
    """Nobody is kept out of a folder, nor out of the ledger."""
    without_claims()
    without_transactions()


def without_claims_at_the_start() -> None:
    """Nobody is kept out of a folder, and used records are looked up too early."""
    without_claims()
    used_records_of_the_start()


# In words, as the results name them.
WORDS = {
    folder_removed_first: "the old folder is removed before the new one is in its place",
    written_in_place: "old files are renamed, and new ones written in their place",
    entry_after_release: "the entry is written after the release",
    forgetful_resuming: "a run that is continued forgets its optimiser",
    without_transactions: "the ledger looks and writes without a lock",
    used_records_of_the_start: "used records are looked up when the ledger is opened",
    without_claims_at_the_start: "two commands may write to one folder, and used records are looked up too early",
    without_claims: "two commands may write to one folder",
    without_locks: "no locks",
}
