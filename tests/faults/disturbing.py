"""Commands in copies of this process, and what can be done to them at one of their calls to files or to the ledger."""

import errno
import fcntl
import os
import shutil
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fairdp import _io as folders
from fairdp.classifier import FairDPClassifier
from fairdp.cli import main
from fairdp.ledger.ledger import Ledger
from fairdp.ledger.store import Store
from fairdp.releases import watching as at_the_door
from faults.steady import steady

# What the file layer calls, and what else can fail for lack of space.
CALLS = ("open", "write", "fsync", "close", "mkdir", "rmdir", "unlink", "rename", "replace", "chmod", "listdir")
LEDGER, LOCK = "ledger", "lock"
# Those that change what is on the disk, or let others wait: between two of them a kill leaves the same behind.
CHANGES = ("open", "write", "fsync", "mkdir", "unlink", "rename", "replace", "exchange", LEDGER, LOCK)
# How a copy ends that fails in a way that no command should.
BROKEN = 70

_CLOSE, _WRITE = os.close, os.write


def nothing(*_: object) -> None:
    """Leave everything as it is."""


@dataclass
class Calls:
    """Counts the calls of a process and does something before one of them, by its position."""

    at: int = 0
    then: Callable[[str], None] = nothing
    kinds: tuple[str, ...] = CHANGES
    seen: list[str] = field(default_factory=list)

    def counted(self, kind, call):
        def counting(*arguments, **named):
            self.seen.append(kind)
            due = len(self.seen) == self.at
            # A close that fails has closed nevertheless.
            if due and call is _CLOSE:
                call(*arguments)
            if due:
                self.then(kind)
            return call(*arguments, **named)

        return counting if kind in self.kinds else call

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Let calls be counted inside."""
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self.counted(name, getattr(os, name)))
            patch.setattr(folders, "exchange", self.counted("exchange", folders.exchange))
            patch.setattr(fcntl, "flock", self.counted(LOCK, fcntl.flock))
            patch.setattr(Store, "execute", self.counted(LEDGER, Store.execute))
            # It tells apart by identity what the system can do.
            patch.setattr(shutil.rmtree, "avoids_symlink_attacks", False, raising=False)
            yield


def killed(kind: str) -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def no_space(kind: str) -> None:
    """As the system and SQLite say it."""
    if kind == LEDGER:
        raise sqlite3.OperationalError("database or disk is full")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Hold:
    """Holds a copy at one of its calls until it is told to go on."""

    def __init__(self) -> None:
        (self._here, self._there), (self._wait, self._go) = os.pipe(), os.pipe()

    def __call__(self, kind: str) -> None:
        """In the copy."""
        _WRITE(self._there, b"h")
        os.read(self._wait, 1)

    def wait(self) -> None:
        """Until the copy is there, or at its end."""
        _CLOSE(self._there)
        os.read(self._here, 1)

    def release(self) -> None:
        """Let it go on."""
        _WRITE(self._go, b"g")
        for end in (self._here, self._wait, self._go):
            _CLOSE(end)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of a command: its exit code (below zero, a signal), what it said, its calls, and who released.

    Releases are told by the number of the training that made them; those of a certificate have the number zero.
    """

    code: int
    said: str
    calls: tuple[str, ...]
    released: tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """A copy of this process that runs a command in a folder; what it leaves to say is in files with its name."""

    pid: int
    notes: Path

    def end(self) -> Ended:
        """Wait for its end."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        said, calls, released = (self.notes.with_suffix(f".{name}") for name in ("said", "calls", "released"))
        return Ended(
            code=code,
            said=said.read_text(errors="replace"),
            calls=tuple(calls.read_text().split()) if calls.exists() else (),
            released=tuple(sorted({int(line) for line in released.read_text().split()})),
        )


def started(folder: Path, arguments: list[str], notes: Path, *, calls: Calls, control: Callable[[], None]) -> Copy:
    """Run a command in a copy of this process, on code that a negative control may have changed."""
    pid = os.fork()
    if pid:
        return Copy(pid, notes)
    code = BROKEN
    try:
        said = os.open(notes.with_suffix(".said"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1), os.dup2(said, 2)
        # Whoever had them, a test that captures them say, is in the other process.
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        os.chdir(folder)
        # What is tried here is what locks do, not whether they work on this disk; and nobody waits for a minute.
        Store._check_locks = nothing
        Ledger.__init__.__kwdefaults__["timeout"] = 0.02
        steady(arguments, pytest.MonkeyPatch())
        control()
        with _releases_noted(notes.with_suffix(".released")), calls.counting():
            main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        notes.with_suffix(".calls").write_text(" ".join(calls.seen))
        os._exit(code)


@contextmanager
def _releases_noted(path: Path) -> Iterator[None]:
    """Write down who releases, at the moment it happens."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    training = 0
    fit = FairDPClassifier.fit_grouped

    def numbered(*arguments, **named):
        nonlocal training
        training += 1
        return fit(*arguments, **named)

    def note(release):
        _WRITE(handle, f"{training}\n".encode())
        return release.noisy

    FairDPClassifier.fit_grouped = numbered
    with at_the_door(note):
        yield
