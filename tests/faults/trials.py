"""Commands in children that are forked after import: how each ended, how long it took, and how much memory it had."""

import io
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

# Seconds of computing that a command may take; of waiting for others it may take more.
CPU_LIMIT, WALL_LIMIT = 5, 300
# Memory above what the imports have.
MEMORY_LIMIT = 2**30
# Characters of a line that is still clear.
LONGEST_LINE = 2000
ALLOWED = (0, 1, 2)

Run = Callable[..., tuple[int, str]]
# Prepares a case in an empty folder, runs its commands, and says what does not hold.
Case = Callable[[Path, Run], list[str]]


@dataclass(frozen=True, kw_only=True)
class Trials:
    """Outcomes of some cases.

    Parameters
    ----------
    n
        Number of cases.
    n_by_code
        Number of commands that ended with each exit code.
    slowest
        Seconds of computing of the slowest case.
    peak_bytes
        Most memory that a child had above its imports.
    failures
        What did not hold, one line for each case.
    """

    n: int
    n_by_code: dict[int, int]
    slowest: float
    peak_bytes: int
    failures: tuple[str, ...]

    @property
    def good(self) -> bool:
        """True if every case held."""
        return self.n > 0 and not self.failures

    def __str__(self) -> str:
        codes = ", ".join(f"exit {code}: {count}" for code, count in sorted(self.n_by_code.items()))
        return (
            f"{self.n} cases ({codes}), {len(self.failures)} failed, slowest {self.slowest:.2f} s, "
            f"{self.peak_bytes / 2**20:.0f} MB above the imports"
        )


@dataclass
class _Tally:
    codes: Counter[int] = field(default_factory=Counter)
    slowest: float = 0.0
    peak: int = 0
    failures: list[str] = field(default_factory=list)


def run_cases(names: Sequence[str], case_of: Callable[[str], Case], place: Path, *, batch: int = 50) -> Trials:
    """Run every case by its name, so many in each child; a child that dies takes only the case it was at."""
    tally, left = _Tally(), list(names)
    while left:
        done = _child(left[:batch], case_of, place, tally)
        left = left[done:]
    return Trials(
        n=len(names),
        n_by_code=dict(tally.codes),
        slowest=tally.slowest,
        peak_bytes=tally.peak,
        failures=tuple(tally.failures),
    )


def _child(names: list[str], case_of: Callable[[str], Case], place: Path, tally: _Tally) -> int:
    """Run cases in a fork; how many of them are done, the one at which it died included."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            _run_all(names, case_of, place, writing)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        lines = [json.loads(line) for line in stream]
    _, status = os.waitpid(child, 0)
    for line in lines:
        tally.codes.update(line["codes"])
        tally.slowest, tally.peak = max(tally.slowest, line["seconds"]), max(tally.peak, line["bytes"])
        tally.failures += [f"{line['name']}: {wrong}" for wrong in line["wrong"]]
    if len(lines) == len(names):
        return len(names)
    ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "the case itself"
    why = (
        f"over {CPU_LIMIT} s"
        if ended == "SIGPROF"
        else f"over {WALL_LIMIT} s of waiting"
        if ended == "SIGALRM"
        else ended
    )
    tally.failures.append(f"{names[len(lines)]}: {why}")
    return len(lines) + 1


def _run_all(names: list[str], case_of: Callable[[str], Case], place: Path, writing: int) -> None:
    import tempfile

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_LIMIT,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name in names:
        codes: list[int] = []
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT)
        signal.alarm(WALL_LIMIT)
        with tempfile.TemporaryDirectory(dir=place) as folder:
            os.chdir(folder)
            wrong = case_of(name)(Path(folder), _noting(codes))
            os.chdir(place)
        signal.setitimer(signal.ITIMER_PROF, 0)
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        line = {
            "name": name,
            "codes": codes,
            "wrong": wrong,
            "bytes": 1024 * used,
            "seconds": time.process_time() - start,
        }
        os.write(writing, json.dumps(line).encode() + b"\n")


def _noting(codes: list[int]) -> Run:
    def run(*arguments: object) -> tuple[int, str]:
        code, said = run_command(*arguments)
        codes.append(code)
        return code, said

    return run


def run_command(*arguments: object) -> tuple[int, str]:
    """A command in this process: its exit code, and what it says on stderr."""
    from fairdp.cli import main

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            return int(stop.code or 0), err.getvalue()
    return -1, err.getvalue()


def complaints(code: int, said: str) -> list[str]:
    """Violations in the end of a command: a known code, and for a refusal one clear line."""
    lines = [line for line in said.splitlines() if not line.startswith(("warning: ", "ledger: ", "before training: "))]
    if code not in ALLOWED:
        return [f"exit {code}: {said[:300]!r}"]
    if code == 2 and (len(lines) != 1 or not lines[0].startswith("fairdp: ")):
        return [f"not one line: {said[:300]!r}"]
    if "not enough memory" in said:
        return ["needs more memory than there is"]
    if any(len(line) > LONGEST_LINE for line in lines):
        return [f"a line of {max(map(len, lines))} characters: {said[:200]!r}"]
    return []
