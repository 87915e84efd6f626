"""Processes that are killed or held between any two statements: no release without its entry, no limit passed."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairdp.errors import DataError
from fairdp.ledger.ledger import Ledger, Receipt
from fairdp.ledger.store import Store
from faults.disturbing import LEDGER, Calls, Hold, killed
from ledger_cases import claim, people, pure

# Exit codes of a child: it has released, or was refused.
RELEASED, REFUSED, BROKEN = 0, 2, 3
STATEMENTS = (LEDGER,)


def release(path: Path, **said) -> None:
    """A command: write the cost down, release, say that it is done."""
    with Ledger(path, timeout=0.05) as ledger:
        entry = ledger.spend(claim(ledger, pure(1.0), people(*range(20)), **said), budget=1.5)
        with (path.parent / "released").open("a") as releases:
            releases.write("one\n")
        ledger.complete(Receipt(entry=entry.number, token=entry.token))


def certificate(path: Path) -> None:
    """Another: the records must be fresh for the model of the first entry."""
    with Ledger(path, timeout=0.05) as ledger:
        records = people(*range(100, 120))
        said = {"command": "certify", "model": "1", "fresh": True}
        entry = ledger.spend(claim(ledger, pure(0.1), records, **said))
        with (path.parent / "released").open("a") as releases:
            releases.write("one\n")
        ledger.complete(Receipt(entry=entry.number, token=entry.token))


def look_then_spend(path: Path) -> None:
    """Negative control: looks at what is left first, and spends after, in two transactions."""
    with Ledger(path, timeout=0.05) as ledger:
        if sum(entry.cost.epsilon for entry in ledger.entries()) + 1.0 > 1.5:
            raise DataError("nothing is left.")
        ledger.spend(claim(ledger, pure(1.0), people(*range(20))))
        with (path.parent / "released").open("a") as releases:
            releases.write("one\n")


def forked(command: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    code = BROKEN
    try:
        # What is tried here is what locks do, not whether they work on this disk.
        Store._check_locks = lambda store: None
        command()
        code = RELEASED
    except DataError:
        code = REFUSED
    finally:
        os._exit(code)


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def n_releases(path: Path) -> int:
    releases = path.parent / "released"
    return len(releases.read_text().splitlines()) if releases.exists() else 0


def n_statements(folder: Path, command: Callable[[Path], None], prepare: Callable[[Path], None]) -> int:
    """Number of statements that a command sends."""
    read, write = os.pipe()
    path = folder / "counted" / "ledger.sqlite"
    path.parent.mkdir()
    prepare(path)

    def counted() -> None:
        calls = Calls(kinds=STATEMENTS)
        with calls.counting():
            command(path)
        os.write(write, str(len(calls.seen)).encode())

    assert exit_code(forked(counted)) == RELEASED
    return int(os.read(read, 10))


def nothing(path: Path) -> None:
    """A new ledger."""


def one_fit(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.spend(claim(ledger, pure(0.2), people(*range(50, 60))))


def cases(
    tmp_path: Path, command: Callable[[Path], None], prepare: Callable[[Path], None]
) -> Iterator[tuple[int, Path]]:
    for number in range(1, n_statements(tmp_path, command, prepare) + 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        prepare(folder / "ledger.sqlite")
        yield number, folder / "ledger.sqlite"


@pytest.mark.parametrize("prepare", [nothing, one_fit])
def test_a_kill_between_any_two_statements_leaves_a_ledger_in_which_what_was_released_is_spent(tmp_path, prepare):
    n_killed = 0
    for number, path in cases(tmp_path, release, prepare):

        def interrupted(number: int = number, path: Path = path) -> None:
            with Calls(at=number, then=killed, kinds=STATEMENTS).counting():
                release(path)

        n_killed += exit_code(forked(interrupted)) == -signal.SIGKILL
        with Ledger(path) as ledger:
            assert ledger.check() == len(ledger.entries())
            spent = [entry for entry in ledger.entries() if entry.cost.epsilon == 1.0]
            assert len(spent) >= n_releases(path)
            # What was not written may be spent now; what was written may not be spent again.
            allowed = not spent
        assert (exit_code(forked(lambda path=path: release(path))) == RELEASED) == allowed
        with Ledger(path) as ledger:
            assert sum(entry.cost.epsilon for entry in ledger.entries() if entry.cost.epsilon == 1.0) <= 1.5
    assert n_killed > 10


@pytest.mark.parametrize(("command", "prepare"), [(release, nothing), (certificate, one_fit)])
def test_whoever_is_held_at_any_statement_only_one_of_two_releases(tmp_path, command, prepare):
    outcomes = [held_and_other(number, path, command) for number, path in cases(tmp_path, command, prepare)]
    before = 1 if prepare is one_fit else 0
    assert {(released, entries - before) for released, entries, _ in outcomes} == {(1, 1)}
    # Both orders occur: the other is first, or has to wait and is refused.
    assert {other for _, _, other in outcomes} == {RELEASED, REFUSED}


def test_that_check_notices_a_look_outside_of_the_transaction(tmp_path):
    outcomes = [
        held_and_other(number, path, look_then_spend) for number, path in cases(tmp_path, look_then_spend, nothing)
    ]
    assert max(released for released, _, _ in outcomes) == 2


def held_and_other(number: int, path: Path, command: Callable[[Path], None]) -> tuple[int, int, int]:
    """Hold one process before a statement while another runs to its end; releases, entries, how the other ended."""
    hold = Hold()

    def held() -> None:
        with Calls(at=number, then=hold, kinds=STATEMENTS).counting():
            command(path)

    first = forked(held)
    hold.wait()
    other = exit_code(forked(lambda: command(path)))
    hold.release()
    assert BROKEN not in (exit_code(first), other)
    with Ledger(path) as ledger:
        return n_releases(path), len(ledger.entries()), other


def test_real_processes_at_once_do_not_pass_a_limit(tmp_path):
    path = tmp_path / "ledger.sqlite"

    def patient() -> None:
        with Ledger(path) as ledger:
            ledger.spend(claim(ledger, pure(0.4), people(*range(20))), budget=1.0)

    codes = [exit_code(child) for child in [forked(patient) for _ in range(6)]]
    assert sorted(codes) == [RELEASED] * 2 + [REFUSED] * 4
    with Ledger(path) as ledger:
        assert len(ledger.entries()) == 2
