"""Every mutant against the check that should notice it: what is noticed, what is argued, and what is left.

    python tests/mutants/run.py [--area NAME] [--name WORDS] [--changed] [--twenty] [--patterns]

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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    # The sources beside the tests, whichever are installed.
    sys.path[:0] = [str(TESTS.parent / "src"), str(TESTS)]

from mutants.changing import PACKAGES, SOURCES, Mutant, NotChanged, all_places, put_in

# Seconds of computing, and of waiting, after which a mutant counts as noticed: it does not end.
_CPU_LIMIT, _WALL_LIMIT = 120, 900
_WORKERS = 2
# Plain asserts and few plugins: nobody reads why a test fails, and rewriting takes longer than most tests.
_OPTIONS = ["-x", "-q", "-o", "addopts=--import-mode=importlib", "--assert=plain"]
_OPTIONS += [f"-pno:{plugin}" for plugin in ("cacheprovider", "xdist", "unraisableexception", "threadexception")]
# How pytest ends: all passed, some failed; anything else is no answer.
_VERDICTS = {0: "survived", 1: "killed"}
RESULTS = TESTS.parent / "results"
COMMAND = "make mutants"
# The area of the methods' mathematics.
FORMULAS = "formulas"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The fate of a mutant: ``killed``, ``killed by the time limit``, ``argued``, ``survived`` or ``error``."""

    verdict: str
    by: str = ""
    seconds: float = 0.0


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
    """A job for a process that ends afterwards: put a mutant in and run its check."""

    def found() -> Outcome:
        try:
            put_in(mutant)
        except NotChanged as error:
            return Outcome(verdict="error", by=str(error))
        return checked(mutant.checks)

    return found


def checked(checks: Iterable[str]) -> Outcome:
    """Verdict of pytest on these tests, up to the first that fails."""
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
    """The outcome that a copy wrote before it ended; with the log of its tests if there is no answer."""
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
    """Import all that tests and mutants need, once for all copies, with one thread, so that a copy is whole."""
    import torch

    torch.set_num_threads(1)
    for name in ("hypothesis", "scipy.stats", "pandas", "dp_accounting.pld", "dp_accounting.rdp", "mpmath", "opacus"):
        with suppress(ImportError):
            import_module(name)
    for package in SOURCES.glob(f"{PACKAGES}*/__init__.py"):
        for module in walk_packages([str(package.parent)], f"{package.parent.name}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    # What is here already is not looked through by every copy.
    gc.freeze()


def outcomes(chosen: list[Mutant], *, baseline: bool = True) -> dict[str, Outcome]:
    """Outcomes of the mutants, and of each check that does not pass on the true code."""
    found = {}
    all_places(SOURCES)  # Parsed here once, and not by every copy.
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


def write_tables(everything: list[Mutant], found: dict[str, Outcome]) -> None:
    """Write all outcomes once all are known; a mutant that was not run now, and is as it was, keeps the one it had."""
    found = known(everything) | found
    if all(mutant.name in found for mutant in everything):
        for name, content in zip(("mutants.json", "mutants.md"), tables(everything, found), strict=True):
            (RESULTS / name).write_text(content, encoding="utf-8")


def known(everything: list[Mutant]) -> dict[str, Outcome]:
    """Outcomes of an earlier time, of those that are as they were then."""
    path = RESULTS / "mutants.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["mutants"] if path.exists() else []
    earlier, found = {row["name"]: row for row in rows}, {}
    for mutant in everything:
        row = earlier.get(mutant.name, {})
        if row == json.loads(json.dumps(_written(mutant))) | {key: row.get(key) for key in ("verdict", "by")}:
            found[mutant.name] = Outcome(verdict=row["verdict"], by=row["by"])
    return found


def _written(mutant: Mutant) -> dict[str, Any]:
    return {key: value for key, value in asdict(mutant).items() if value}


def tables(everything: list[Mutant], found: dict[str, Outcome]) -> tuple[str, str]:
    """All outcomes as JSON, and as a page."""
    counts = Counter(found[mutant.name].verdict for mutant in everything)
    summary = f"{len(everything)} mutants: " + ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
    rows = [
        _written(mutant) | {"verdict": found[mutant.name].verdict, "by": found[mutant.name].by} for mutant in everything
    ]
    methods = by_method(everything, found)
    page = [f"# Mutants\n\n{summary}. Made by `{COMMAND}`.\n", *_table_of_methods(methods)]
    for area in sorted({mutant.area for mutant in everything}):
        page += [
            f"## {area.replace('_', ' ')}\n",
            "| mistake | in | noticed by, or why it is none |",
            "| --- | --- | --- |",
        ]
        page += [_row(mutant, found[mutant.name]) for mutant in everything if mutant.area == area]
        page.append("")
    plain = {"command": COMMAND, "summary": dict(sorted(counts.items())), "total": len(everything)}
    plain |= {"by_method": methods, "mutants": rows}
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n", "\n".join(page)


def by_method(everything: list[Mutant], found: dict[str, Outcome]) -> dict[str, dict[str, int]]:
    """Number of mistakes in the mathematics of each method by verdict; their names begin with the method."""
    own: dict[str, Counter[str]] = {}
    for mutant in everything:
        if mutant.area == FORMULAS:
            own.setdefault(mutant.name.split(":")[0], Counter())[found[mutant.name].verdict] += 1
    return {method: dict(sorted(verdicts.items())) for method, verdicts in own.items()}


def _table_of_methods(methods: dict[str, dict[str, int]]) -> list[str]:
    verdicts = sorted({verdict for own in methods.values() for verdict in own})
    lines = [f"| mistakes in the formulas of | {' | '.join(verdicts)} |", "| --- |" + " --- |" * len(verdicts)]
    lines += [f"| `{method}` | {' | '.join(str(own.get(v, 0)) for v in verdicts)} |" for method, own in methods.items()]
    return [*lines, ""] if methods else []


def _row(mutant: Mutant, outcome: Outcome) -> str:
    by = f"`{outcome.by.split('[')[0]}`" if outcome.verdict == "killed" else f"{outcome.verdict}: {outcome.by}"
    return f"| {mutant.name} | `{mutant.within}` | {by} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--area", help="only the mutants of one file")
    parser.add_argument("--name", default="", help="only those with these words in their name")
    parser.add_argument("--changed", action="store_true", help="only those that are new or not as they were")
    parser.add_argument("--twenty", action="store_true", help="today's twenty, on checks that are taken to pass")
    parser.add_argument("--patterns", action="store_true", help="only see whether all can be put into the code")
    given = parser.parse_args()
    everything = mutants()
    chosen = [m for m in everything if given.area in (None, m.area) and given.name in m.name]
    if given.changed:
        chosen = [m for m in chosen if m.name not in known(everything)]
    chosen = twenty(everything, f"{datetime.now(UTC):%Y-%m-%d}") if given.twenty else chosen
    if "OMP_NUM_THREADS" not in os.environ:
        return subprocess.call([sys.executable, *sys.argv], env={**os.environ, "OMP_NUM_THREADS": "1"})
    import_everything()
    if given.patterns:
        all_places(SOURCES)
        jobs = {m.name: lambda m=m: put_in(m) or Outcome(verdict="put in") for m in chosen}
        found = dict(in_copies(jobs))
        left = {name: outcome for name, outcome in found.items() if outcome.verdict != "put in"}
    else:
        found = outcomes(chosen, baseline=not given.twenty)
        left = {name: outcome for name, outcome in found.items() if outcome.verdict in ("survived", "error")}
    for name, outcome in left.items():
        print(f"\n{outcome.verdict}: {name}\n{outcome.by}")
    print(", ".join(f"{n} {verdict}" for verdict, n in sorted(Counter(o.verdict for o in found.values()).items())))
    if not given.patterns and not given.twenty:
        write_tables(everything, found)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
