"""Every mutant against the check that should notice it: what is noticed, what is argued, and what is left.

    python tests/mutants/run.py [--area NAME] [--name WORDS] [--twenty] [--texts]

Everything is imported once. Each mutant is then put into a copy of this process, which runs the check and ends. A check
that does not pass on the true code, or finds no test to run, proves nothing, and is an error.
"""

import argparse
import gc
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

TESTS = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    # The sources beside the tests, whichever are installed.
    sys.path[:0] = [str(TESTS.parent / "src"), str(TESTS)]

from mutants.changing import Mutant, NotChanged, put_in
from mutants.tables import Outcome, known, write_tables

# Seconds of computing, and of waiting, after which a mutant counts as noticed: it does not end.
_CPU_LIMIT, _WALL_LIMIT = 120, 900
_WORKERS = 2
# Plain asserts and few plugins: nobody reads why a test fails, and rewriting takes longer than most tests.
_OPTIONS = ["-x", "-q", "-o", "addopts=--import-mode=importlib", "--assert=plain"]
_OPTIONS += [f"-pno:{plugin}" for plugin in ("cacheprovider", "xdist", "unraisableexception", "threadexception")]
# How pytest ends: all passed, some failed; anything else is no answer.
_VERDICTS = {0: "survived", 1: "killed"}


def mutants(folder: Path = Path(__file__).parent) -> list[Mutant]:
    """All mutants, area by area; every name stands once."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            checks = entry.pop("check", [])
            checks = (checks,) if isinstance(checks, str) else tuple(checks)
            found.append(Mutant(area=path.stem, checks=checks, **entry))
    twice = [name for name, times in Counter(mutant.name for mutant in found).items() if times > 1]
    if twice:
        raise ValueError(f"two mutants are named {twice[0]!r}.")
    return found


def twenty(everything: list[Mutant], day: str) -> list[Mutant]:
    """Twenty mutants that have a check: others every day, the same ones all day."""
    return random.Random(day).sample([mutant for mutant in everything if mutant.checks], 20)


def outcome_of(mutant: Mutant) -> Callable[[], Outcome]:
    """How to find out, in a process that ends afterwards, whether the check of a mutant notices it."""

    def found() -> Outcome:
        try:
            put_in(mutant)
        except NotChanged as error:
            return Outcome(verdict="error", by=str(error))
        return checked(mutant.checks)

    return found


def checked(checks: Iterable[str]) -> Outcome:
    """What pytest says of these tests, up to the first that fails."""
    os.chdir(TESTS.parent)
    os.environ["HYPOTHESIS_PROFILE"] = "first"
    first = _FirstFailure()
    with tempfile.TemporaryDirectory() as folder:
        code = pytest.main(
            [*_OPTIONS, f"--basetemp={folder}/tests", *(f"tests/{check}" for check in checks)], plugins=[first]
        )
    verdict = _VERDICTS.get(int(code), "error")
    return Outcome(verdict=verdict, by=first.name or ("" if verdict == "survived" else f"pytest ended with {code!r}"))


class _FirstFailure:
    name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid.removeprefix("tests/")


def in_copies(jobs: dict[str, Callable[[], Outcome]]) -> Iterator[tuple[str, Outcome]]:
    """The outcome of each job, made in a copy of this process of its own, two at a time."""
    waiting, running = list(jobs.items()), {}
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < _WORKERS:
                name, job = waiting.pop(0)
                place = Path(folder) / str(len(waiting))
                running[_copy(job, place)] = (name, place, time.monotonic())
            ended = [(pid, status) for pid in running for done, status in [os.waitpid(pid, os.WNOHANG)] if done]
            for pid in [pid for pid, (_, _, since) in running.items() if time.monotonic() - since > _WALL_LIMIT]:
                os.killpg(pid, signal.SIGKILL)
            for pid, status in ended:
                name, place, since = running.pop(pid)
                yield name, _read(place, status, time.monotonic() - since)
            time.sleep(0 if ended else 0.02)


def _copy(job: Callable[[], Outcome], place: Path) -> int:
    pid = os.fork()
    if pid:
        with suppress(PermissionError):
            os.setpgid(pid, pid)
        return pid
    status = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_LIMIT, _CPU_LIMIT))
        with open(place.with_suffix(".log"), "w") as log:
            os.dup2(log.fileno(), 1), os.dup2(log.fileno(), 2)
        place.write_text(json.dumps(asdict(job())))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _read(place: Path, status: int, seconds: float) -> Outcome:
    """What a copy wrote before it ended; the log of its tests where it tells why there is no answer."""
    if os.WIFSIGNALED(status):
        limit = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        ending = "time limit" if limit else f"signal {os.WTERMSIG(status)}"
        return Outcome(verdict="killed by the time limit" if limit else "error", by=ending, seconds=seconds)
    log = place.with_suffix(".log").read_text(errors="replace")
    if not place.exists():
        return Outcome(verdict="error", by=log[-2000:], seconds=seconds)
    found = json.loads(place.read_text())
    if found["verdict"] == "error":
        found["by"] += f"\n{log[-2000:]}"
    return Outcome(**{**found, "seconds": seconds})


def import_everything() -> None:
    """What tests and mutants need, once for all copies, with one thread, so that a copy is whole."""
    import torch

    torch.set_num_threads(1)
    for name in ("hypothesis", "scipy.stats", "pandas", "dp_accounting.pld", "dp_accounting.rdp", "mpmath", "opacus"):
        with suppress(ImportError):
            import_module(name)
    import fairdp

    for module in walk_packages(fairdp.__path__, "fairdp."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    # What is here already is not looked through by every copy.
    gc.freeze()


def outcomes(chosen: list[Mutant], *, baseline: bool = True) -> dict[str, Outcome]:
    """What became of each mutant, and of each check on the true code where it does not pass."""
    found = {}
    if baseline:
        files: dict[str, set[str]] = {}
        for check in {check for mutant in chosen for check in mutant.checks}:
            files.setdefault(check.split("::")[0], set()).add(check)
        jobs = {f"true code: {file}": lambda tests=tests: checked(sorted(tests)) for file, tests in files.items()}
        for name, outcome in in_copies(jobs):
            if outcome.verdict != "survived":
                found[name] = Outcome(verdict="error", by=outcome.by)
                print(f"error     {name}: {outcome.by}", flush=True)
    found |= {mutant.name: Outcome(verdict="argued", by=mutant.argued) for mutant in chosen if mutant.argued}
    jobs = {mutant.name: outcome_of(mutant) for mutant in chosen if not mutant.argued}
    for name, outcome in in_copies(jobs):
        found[name] = outcome
        print(f"{outcome.verdict:9} {outcome.seconds:5.1f} s  {name}  [{outcome.by}]", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--area", help="only the mutants of one file")
    parser.add_argument("--name", default="", help="only those with these words in their name")
    parser.add_argument("--changed", action="store_true", help="only those that are new or not as they were")
    parser.add_argument("--twenty", action="store_true", help="today's twenty, on checks that are taken to pass")
    parser.add_argument("--texts", action="store_true", help="only see whether all can be put into the code")
    given = parser.parse_args()
    everything = mutants()
    chosen = [m for m in everything if given.area in (None, m.area) and given.name in m.name]
    if given.changed:
        chosen = [m for m in chosen if m.name not in known(everything)]
    chosen = twenty(everything, f"{datetime.now(UTC):%Y-%m-%d}") if given.twenty else chosen
    if "OMP_NUM_THREADS" not in os.environ:
        return subprocess.call([sys.executable, *sys.argv], env={**os.environ, "OMP_NUM_THREADS": "1"})
    import_everything()
    if given.texts:
        jobs = {m.name: lambda m=m: put_in(m) or Outcome(verdict="put in") for m in chosen}
        found = dict(in_copies(jobs))
        left = {name: outcome for name, outcome in found.items() if outcome.verdict != "put in"}
    else:
        found = outcomes(chosen, baseline=not given.twenty)
        left = {name: outcome for name, outcome in found.items() if outcome.verdict in ("survived", "error")}
    for name, outcome in left.items():
        print(f"\n{outcome.verdict}: {name}\n{outcome.by}")
    print(", ".join(f"{n} {verdict}" for verdict, n in sorted(Counter(o.verdict for o in found.values()).items())))
    if not given.texts and not given.twenty:
        write_tables(everything, found)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
