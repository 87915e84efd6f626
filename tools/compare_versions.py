"""Show that two versions of fairdp give the same figures, bit for bit: `compare_versions.py BASE [NEW]`.

Both run the cases of `run_figures.py` beside this file, whatever their own holds. Without NEW the checkout as it is
now, changes and all, is compared with BASE. Parts of a figure that only one version has are listed at the end. Exit
code 1: some figures differ; 2: there was nothing to compare.
"""

import argparse
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Figures = dict[str, Any]

CHECKOUT = Path(__file__).resolve().parents[1]
RUN_FIGURES = Path(__file__).resolve().with_name("run_figures.py")
ABSENT = "none"
MISSING = {"error": "no such case"}


def main() -> int:
    """Run both versions, print where they differ, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] + ".")
    parser.add_argument("base", metavar="BASE", help="commit to compare with")
    parser.add_argument("new", metavar="NEW", nargs="?", help="another commit; the checkout as it is if left out")
    parser.add_argument("--only", metavar="PATTERN", default="", help="regular expression that names must hold")
    arguments = parser.parse_args()
    # As an interrupt does, a request to end leaves through everything that cleans up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        base = stack.enter_context(worktree(arguments.base, scratch / "base"))
        new = CHECKOUT if arguments.new is None else stack.enter_context(worktree(arguments.new, scratch / "new"))
        return report(*figures_of(base, new, only=arguments.only, scratch=scratch))


@contextlib.contextmanager
def worktree(commit: str, folder: Path) -> Iterator[Path]:
    """The files of a commit, in a folder that git forgets again."""
    git = ["git", "-C", str(CHECKOUT), "worktree"]
    try:
        if subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit]).returncode:
            sys.exit(2)
        yield folder
    finally:
        if folder.exists():
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def figures_of(base: Path, new: Path, *, only: str, scratch: Path) -> tuple[Figures, Figures]:
    """Figures of two source trees, found at the same time where there are two cores."""
    files = scratch / "base.json", scratch / "new.json"
    with contextlib.ExitStack() as stack:
        running = []
        for tree, file in zip((base, new), files, strict=True):
            running.append(stack.enter_context(started(tree, only, file)))
            if (os.cpu_count() or 1) < 2:
                running[-1].wait()
        if any(process.wait() for process in running):
            sys.exit(2)
    before, after = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    return before, after


@contextlib.contextmanager
def started(tree: Path, only: str, file: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A run of the cases against a source tree, ended with everything it started if it is not waited for."""
    source = str(tree / "src")
    own = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "TMPDIR": str(file.parent)}
    check_found(source, file.parent, own)
    call = [sys.executable, str(RUN_FIGURES), f"--only={only}", "--out", str(file)]
    process = subprocess.Popen(call, env=own, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def check_found(source: str, folder: Path, environment: dict[str, str]) -> None:
    """Refuse to go on if Python would take the package from elsewhere: a version always equals itself."""
    call = [sys.executable, "-c", "import fairdp; print(fairdp.__file__)"]
    done = subprocess.run(call, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    if not Path(done.stdout.strip()).is_relative_to(source):
        print(f"fairdp is not taken from {source}, but from {done.stdout.strip() or 'nowhere'}.", file=sys.stderr)
        sys.exit(2)


def report(base: Figures, new: Figures) -> int:
    """Print one line for each difference, then how many cases differ; the exit code."""
    names = list(base | new)
    differing, alone = 0, set[str]()
    for name in names:
        before, after = base.get(name, MISSING), new.get(name, MISSING)
        before, after, own_parts = in_common(before, after)
        alone |= own_parts
        found = list(differences(before, after))
        differing += bool(found)
        for field, own, other in found:
            print(f"{name}: {field}: {own} → {other}")
        if "error" in before and not found:
            print(f"{name}: {error_of(before)} in both")
    if alone:
        print(f"only in one version: {', '.join(sorted(alone))}")
    print(f"{differing} of {len(names)} cases differ" if differing else f"{len(names)} cases, all equal")
    return int(differing > 0)


def in_common(base: Figures, new: Figures) -> tuple[Figures, Figures, set[str]]:
    """Both cases with the parts of a figure that both versions know, and the names of the others."""
    alone = set[str]()
    cases = dict(base), dict(new)
    for field in base.keys() & new.keys():
        before, after = base[field], new[field]
        if isinstance(before, dict) and isinstance(after, dict):
            alone |= {f"{field}.{part}" for part in before.keys() ^ after.keys()}
            for case, own in zip(cases, (before, after), strict=True):
                case[field] = {part: own[part] for part in own if part in before and part in after}
    return *cases, alone


def differences(base: Figures, new: Figures) -> Iterator[tuple[str, str, str]]:
    """Fields of a case that are not the same, with both values; of errors the type counts, not the wording."""
    if "error" in base or "error" in new:
        if error_of(base) != error_of(new):
            yield "error", base.get("error", ABSENT), new.get("error", ABSENT)
        return
    for field in base | new:
        before, after = (json.dumps(own[field]) if field in own else ABSENT for own in (base, new))
        if before != after:
            yield field, *shortened(before, after)


def error_of(figures: Figures) -> str:
    """Type of the error that a case ended with; nothing if it did not."""
    return str(figures.get("error", "")).partition(":")[0]


def shortened(before: str, after: str) -> tuple[str, str]:
    """Two texts from a little before the place where they part, and not much further."""
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    start, stop = max(0, same - 12), same + 30
    before, after = (
        ("…" if start else "") + text[start:stop] + ("…" if stop < len(text) else "") for text in (before, after)
    )
    return before, after


if __name__ == "__main__":
    sys.exit(main())
