"""Everything that can go wrong while a command runs, tried at every place where it can, and what was there afterwards.

    python tests/faults/run.py [--part NAME]

Everything is imported once; commands run in copies of this process, but for the real ones. Every row has a negative
control: the same on code with a mistake in it, which must be noticed. Writes results/faults.json and results/faults.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    # The sources beside the tests, whichever are installed.
    sys.path[:0] = [str(TESTS.parent / "src"), str(TESTS)]

from faults.counts import Count
from faults.files import count_files
from faults.pairs import count_pairs
from faults.points import count_points
from faults.real import count_real
from faults.scenarios import prepared
from faults.steady import remembering
from mutants.run import import_everything

RESULTS = TESTS.parent / "results"
COMMAND = "make faults"
Part = Callable[[Path], Iterable[Count]]
# Each takes a folder with the old model, and counts. Another kind of fault is another part.
PARTS: tuple[Part, ...] = (count_points, count_pairs, count_files, count_real)


def place_for_cases() -> Path | None:
    """Memory, where it serves as a disk: no kill of a process depends on how long a disk takes."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else None


def write_results(counts: list[Count], cpu_minutes: float) -> None:
    """Write counts; of what was not run now those of the last time stay."""
    path = RESULTS / "faults.json"
    earlier = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"counts": [], "cpu_minutes": 0.0}
    rows = {(row["kind"], row["what"]): Count(**row) for row in earlier["counts"]}
    rows |= {(count.kind, count.what): count for count in counts}
    content, page = tables(list(rows.values()), earlier["cpu_minutes"] + cpu_minutes)
    path.write_text(content, encoding="utf-8")
    path.with_suffix(".md").write_text(page, encoding="utf-8")


def tables(counts: list[Count], cpu_minutes: float) -> tuple[str, str]:
    """All counts as JSON, and as a page."""
    tried, failed = (sum(getattr(count, name) for count in counts) for name in ("tried", "failed"))
    plain = {
        "command": COMMAND,
        "good": all(count.good for count in counts),
        "tried": tried,
        "failed": failed,
        "cpu_minutes": round(cpu_minutes, 2),
        "counts": [asdict(count) for count in counts],
    }
    page = [
        f"# Faults\n\n{tried:,} faults, {failed} after which something did not hold. Made by `{COMMAND}`.\n",
        "| fault | in | tried | failed | the same with a mistake in the code | noticed |",
        "| --- | --- | ---: | ---: | --- | ---: |",
    ]
    page += [
        f"| {c.kind} | {c.what} | {c.tried:,} | {c.failed:,} | "
        f"{c.control} | {c.control_failed:,} of {c.control_tried:,} |"
        for c in counts
    ]
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n", "\n".join(page) + "\n"


def minutes_used() -> float:
    """Minutes of computing up to now, by this process and by those that it has started."""
    times = os.times()
    return (times.user + times.system + times.children_user + times.children_system) / 60


def counted(parts: Iterable[Part], before: Path) -> Iterator[Count]:
    """The counts of all parts, reported as they come."""
    for part in parts:
        for count in part(before):
            state, noticed = (
                "good" if count.good else "BAD ",
                f"negative control {count.control_failed} of {count.control_tried}",
            )
            print(f"{state} {count.kind}: {count.what}: {count.failed} of {count.tried} failed, {noticed}", flush=True)
            if count.first:
                print(f"     {count.first}", flush=True)
            yield count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="", help="only parts with this in their name; others stay as they are")
    given = parser.parse_args()
    if "OMP_NUM_THREADS" not in os.environ:
        return subprocess.call([sys.executable, *sys.argv], env={**os.environ, "OMP_NUM_THREADS": "1"})
    import_everything()
    parts = [part for part in PARTS if given.part in part.__name__]
    if not given.part:
        (RESULTS / "faults.json").unlink(missing_ok=True)
    new, minutes = list[Count](), 0.0
    with tempfile.TemporaryDirectory(dir=place_for_cases()) as folder, remembering():
        for count in counted(parts, prepared(Path(folder))):
            # As it comes: what was found stays if the campaign is ended.
            now = minutes_used()
            write_results([count], now - minutes)
            new, minutes = [*new, count], now
    tried, failed = (sum(getattr(count, name) for count in new) for name in ("tried", "failed"))
    print(f"{tried} faults, {failed} failed, {minutes:.1f} minutes of computing")
    return 0 if all(count.good for count in new) else 1


if __name__ == "__main__":
    sys.exit(main())
