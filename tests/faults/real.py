"""Real processes, as users start them: several at once, killed, and on a disk that is really full."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from fairdp.errors import InputError
from faults.counts import Count, NegativeControl, Tally
from faults.disturbing import Ended, nothing
from faults.negative_controls import (
    WORDS,
    folder_removed_first,
    without_transactions,
    written_in_place,
)
from faults.pairs import BUDGET, PAIRS, with_copy
from faults.scenarios import ENDINGS, FIT, Judge, copied, entries_in, not_verified, parameters_in, run, unnoticed_use

TIMES = 20
# Two fits with a budget for one, two certificates of the same records by two copies of a model, and one of others.
AT_ONCE = (*PAIRS[3].commands, *PAIRS[1].commands, PAIRS[2].second)
PAGE = 4096
TESTS = Path(__file__).resolve().parents[1]
# How real processes are brought to the gap that a control's mistake leaves: seconds, or how many of them meet there.
GAPS = {folder_removed_first: 1.0, without_transactions: len(AT_ONCE)}


def _python(control: NegativeControl) -> list[str]:
    """`python -m fairdp`, or the same with a mistake in the code."""
    if control is nothing:
        return [sys.executable, "-m", "fairdp"]
    gap = GAPS.get(control, "")
    script = (
        f"from faults import negative_controls as n; from fairdp.cli import main; n.{control.__name__}({gap}); main()"
    )
    return [sys.executable, "-c", script]


def _environment() -> dict[str, str]:
    path = os.pathsep.join(map(str, (TESTS.parent / "src", TESTS)))
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def _start(folder: Path, command: tuple[str, ...], control: NegativeControl) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*_python(control), *command],
        cwd=folder,
        env=_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def at_once(before: Path, times: int, control: NegativeControl = nothing) -> Tally:
    """Five commands at the same time, on one ledger: every pair of kinds is among them."""
    tally = Tally()
    for time_ in range(times):
        folder = copied(before, before.with_name("case"))
        processes = [_start(folder, command, control) for command in AT_ONCE]
        said = [process.communicate()[1] for process in processes]
        codes = [process.returncode for process in processes]
        tally.add(f"time {time_ + 1}", list(_wrong_after_all(folder, before, codes, said)))
    return tally


def _wrong_after_all(folder: Path, before: Path, codes: list[int], said: list[str]) -> Iterator[str]:
    """Nobody is killed here, so that exit code zero means released; one of each two must have got through."""
    for code, text in zip(codes, said, strict=True):
        if code not in ENDINGS:
            yield f"exit code {code}: {text[-300:]}"
    fits, same, other = codes[:2].count(0), codes[2:4].count(0), codes[4:].count(0)
    try:
        entries = entries_in(folder)[len(entries_in(before)) :]
    except InputError as error:
        yield f"the ledger: {error}"
        return
    if fits > 1 or same > 1:
        yield f"{fits} fits and {same} certificates of the same records where one of each was allowed"
    if len(entries) != codes.count(0) or {entry.state for entry in entries} - {"completed"}:
        yield f"{codes.count(0)} releases have {len(entries)} entries"
    if sum(entry.cost.epsilon for entry in entries if entry.command == "fit") + 1 > BUDGET:
        yield "the budget is exceeded"
    if not fits and not same and not other:
        yield "nobody got through"
    for code, command in zip(codes, AT_ONCE, strict=True):
        if code == 0 and command[0] == "certify":
            yield from unnoticed_use(folder, command[1], command[2])
    for path in folder.glob("*/model.json"):
        yield from not_verified(folder, path.parent.name)


def killed_in_course(before: Path, times: int, control: NegativeControl = nothing) -> Tally:
    """A fit over a model is killed at the first, second, … change of what is beside it."""
    whole, tally = before.with_name("whole"), Tally()
    ended = run(copied(before, whole), FIT.command)
    assert ended.code == 0, ended.said
    judge = Judge(FIT, before, whole)
    for number in range(1, times + 1):
        folder = copied(before, before.with_name("case"))
        process = _start(folder, FIT.command, control)
        _wait_for_changes(folder, process, number if control is nothing else None)
        process.kill()
        said = process.communicate()[1]
        tally.add(f"change {number}", judge.complaints(folder, _ended(process.returncode, said, folder, before)))
    return tally


def _wait_for_changes(folder: Path, process: subprocess.Popen[str], number: int | None) -> None:
    """Until names in the folder have changed so often; for a negative control, until the model is gone."""
    seen, changes = set(os.listdir(folder)), 0
    while process.poll() is None and (changes < number if number else (folder / "model").exists()):
        names = set(os.listdir(folder))
        changes += names != seen
        seen = names
        time.sleep(0.0005)


def _ended(code: int, said: str, folder: Path, before: Path) -> Ended:
    """From outside a release is seen by the new model alone."""
    released = (1,) if parameters_in(folder) != parameters_in(before) else ()
    return Ended(code=code, said=said, calls=(), released=released)


_ON_SMALL_DISK = """
mount -t tmpfs -o size=$1 none "$2" && cp -a "$3/." "$2" || exit 71
cd "$2"; out=$4; shift 4; "$@"; code=$?; cp -a . "$out"; exit $code
"""


def on_full_disks(before: Path, times: int, control: NegativeControl = nothing) -> Tally:
    """A fit over a model on disks with room for a little more every time, up to all that it needs."""
    whole, tally = before.with_name("whole"), Tally()
    assert run(copied(before, whole), FIT.command).code == 0
    judge = Judge(FIT, before, whole)
    pages = 1
    while _on_small_disk(before, pages, control).code:
        pages *= 2
    for number in range(times):
        room = pages * (number + 1) // (times + 1)
        tally.add(f"{room} pages", judge.complaints(before.with_name("case"), _on_small_disk(before, room, control)))
    return tally


def _on_small_disk(before: Path, pages: int, control: NegativeControl) -> Ended:
    """The end of a fit on its own file system with so many free pages; its files are copied to the case."""
    disk, case = (before.with_name(name) for name in ("disk", "case"))
    disk.mkdir(exist_ok=True)
    shutil.rmtree(case, ignore_errors=True)
    case.mkdir()
    used = sum(-(-path.stat().st_size // PAGE) * PAGE for path in before.rglob("*"))
    arguments = [str(used + PAGE * pages), disk, before, case, *_python(control), *FIT.command]
    process = subprocess.run(
        ["unshare", "-rm", "sh", "-c", _ON_SMALL_DISK, "sh", *map(str, arguments)],
        env=_environment(),
        capture_output=True,
        text=True,
    )
    assert process.returncode != 71, process.stderr
    return _ended(process.returncode, process.stderr, case, before)


def count_real(before: Path, *, times: int = TIMES) -> Iterator[Count]:
    """All three, each with its negative control; these are few, because they have been given a gap to fall into."""
    before = with_copy(before)
    kinds = (
        ("five real processes at once", "fit, fit, certify, certify, certify", at_once, without_transactions, 2),
        ("real processes killed", "fit over a model", killed_in_course, folder_removed_first, 2),
        ("real full disks", "fit over a model", on_full_disks, written_in_place, 8),
    )
    for kind, what, tried, control, few in kinds:
        yield tried(before, times).count(
            kind, what, control=WORDS[control], noticed=tried(before, min(few, times), control)
        )
