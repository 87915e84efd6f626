"""One model by one worker and by many: the same bits, also when one of them is killed; and how much faster it is.

    python tests/workers/run.py [--part equal|killed|speed]

Real processes, started by torchrun. Writes results/workers.json and results/workers.md.
"""

import argparse
import hashlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(TESTS)]

from workers.launch import HERE, by_torchrun, environment

RESULTS = TESTS.parent / "results"
COMMAND = "make workers"
SIZES = (1, 2, 4, 8)
N_STEPS, N_KILLS = 400, 10
# Methods whose runs are killed, in turn, and the workers that they have.
KILLED = (("fairdp", 4), ("fairdp_frontier", 4), ("dpsgd_f", 8), ("raco_dp", 2))
Row = dict[str, Any]


def count_equal() -> Iterator[Row]:
    """Every method on Adult, by one process without torchrun and by 1, 2, 4 and 8 workers."""
    program = [str(HERE / "fits.py"), "--steps", str(N_STEPS)]
    start = time.monotonic()
    alone = json.loads(_run([sys.executable, *program]))
    print(f"alone: {len(alone)} methods in {time.monotonic() - start:.0f} s", flush=True)
    for size in SIZES:
        ended = by_torchrun(size, program, seconds=3600)
        found = json.loads(ended.out or "{}")
        for method, released in alone.items():
            differs = [name for name in released if found.get(method, {}).get(name) != released[name]]
            yield {"what": "equal", "method": method, "workers": size, "differs": differs}
        print(f"{size} workers: {ended.seconds:.0f} s", flush=True)


def count_killed() -> Iterator[Row]:
    """One process killed at a random step: started again by torchrun, and stopped and then continued by hand."""
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        place, alone = Path(folder), {}
        for number in range(2 * N_KILLS):
            method, size = KILLED[number // 2 % len(KILLED)]
            if method not in alone:
                _fit(place, method, f"alone-{method}")
                alone[method] = _digest(place / f"alone-{method}")
            rank, step = chance.randrange(size), chance.randrange(N_STEPS)
            row = _killed(place, f"{number}", method, size, rank, step, restarts=number % 2)
            yield {**row, "same": row.pop("digest") == alone[method]}


def _killed(place: Path, name: str, method: str, size: int, rank: int, step: int, *, restarts: int) -> Row:
    note, fit = place / f"note-{name}", _arguments(method, f"model-{name}", f"checkpoint-{name}")
    killing = [str(HERE / "killed.py"), str(rank), str(step), str(note)]
    # Every other pair of runs meets at a fixed port, as several hosts do.
    ended = by_torchrun(size, [*killing, *fit], restarts=restarts, static=bool(int(name) // 2 % 2), cwd=place)
    seconds = None if restarts else time.time() - float(note.read_text())
    if not restarts:
        by_torchrun(size, ["-m", "fairdp", *fit, "--resume"], cwd=place)
    row = {"what": "killed", "method": method, "workers": size, "rank": rank, "step": step, "restarts": restarts}
    row |= {"lines": len(ended.lines), "seconds_to_stop": seconds, "digest": _digest(place / f"model-{name}")}
    print(f"killed {method}, worker {rank} of {size} at step {step}: {ended.lines}", flush=True)
    return row


def measure_speed(n_rounds: int = 5) -> Iterator[Row]:
    """Steps of the CNN by one and by two workers of one thread each, in turn; and the messages of four."""
    program, found = [str(HERE / "speed.py")], {1: [], 2: []}
    for _ in range(n_rounds):
        found[1].append(json.loads(_run([sys.executable, *program])))
        found[2].append(json.loads(by_torchrun(2, program).out))
        print({size: round(rows[-1]["step"], 4) for size, rows in found.items()}, flush=True)
    steps = {size: statistics.median(row["step"] for row in rows) for size, rows in found.items()}
    four = json.loads(by_torchrun(4, [*program, "--steps", "12"]).out)
    yield {
        "what": "speed",
        "step_of_one": steps[1],
        "step_of_two": steps[2],
        "ratio": steps[1] / steps[2],
        "ratios": [one["step"] / two["step"] for one, two in zip(found[1], found[2], strict=True)],
        "parameters": four["parameters"],
        "reduction_of_two": statistics.median(row["reduction"] for row in found[2]),
        "reduction_of_four": four["reduction"],
    }


def _arguments(method: str, out: str, checkpoint: str | None = None) -> list[str]:
    about = ["fit", "--dataset", "adult", "--method", method, "--seed", "1", "--n-steps", str(N_STEPS), "--out", out]
    return about if checkpoint is None else [*about, "--checkpoint", checkpoint]


def _fit(place: Path, method: str, out: str) -> None:
    _run([sys.executable, "-m", "fairdp", *_arguments(method, out)], cwd=place)


def _run(command: list[str], cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, check=True)
    return done.stdout


def _digest(folder: Path) -> str:
    """All that a model's folder states, but for the day and the seconds."""
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes() if folder.exists() else b"")
    for name in ("certificate.json", "privacy.json"):
        if (folder / name).exists():
            digest.update((folder / name).read_bytes())
    return digest.hexdigest()


PARTS = {"equal": count_equal, "killed": count_killed, "speed": measure_speed}


def page(rows: list[Row]) -> str:
    """The rows as a page."""
    of = {what: [row for row in rows if row["what"] == what] for what in PARTS}
    lines = ["# Workers", "", f"Made by `{COMMAND}`: real processes, started by torchrun, one thread each.", ""]
    if of["equal"]:
        methods = dict.fromkeys(row["method"] for row in of["equal"])
        unequal = [row for row in of["equal"] if row["differs"]]
        lines += [
            f"Adult, {N_STEPS} steps, {len(methods)} methods: {', '.join(methods)}. By 1, 2, 4 and 8 workers, the same "
            "parameters, noisy counts, certificate and epsilon as by one process without torchrun: "
            f"{len(of['equal']) - len(unequal)} of {len(of['equal'])}.",
            "",
        ]
    if of["killed"]:
        again, stopped = ([row for row in of["killed"] if row["restarts"] == n] for n in (1, 0))
        slowest = max(row["seconds_to_stop"] for row in stopped)
        one_line = sum(row["lines"] == 1 for row in of["killed"])
        lines += [
            f"A worker killed at a random step: the same model, certificate and privacy record in "
            f"{sum(row['same'] for row in again)} of {len(again)} runs that torchrun started again, and in "
            f"{sum(row['same'] for row in stopped)} of {len(stopped)} that were continued later. All had stopped after "
            f"{slowest:.1f} seconds at most; {one_line} of {len(of['killed'])} said why in one line.",
            "",
            "| method | workers | killed | at step | started again | same | lines | seconds to stop |",
            "| --- | ---: | ---: | ---: | --- | --- | ---: | ---: |",
        ]
        for row in of["killed"]:
            seconds = "" if row["seconds_to_stop"] is None else f"{row['seconds_to_stop']:.1f}"
            how = "by torchrun" if row["restarts"] else "later"
            lines.append(
                f"| {row['method']} | {row['workers']} | {row['rank']} | {row['step']} | {how} | "
                f"{'yes' if row['same'] else 'no'} | {row['lines']} | {seconds} |"
            )
        lines.append("")
    return "\n".join([*lines, *(line for row in of["speed"] for line in (_speed(row), ""))])


def _speed(row: Row) -> str:
    one, two, told_two, told_four = (
        1e3 * row[name] for name in ("step_of_one", "step_of_two", "reduction_of_two", "reduction_of_four")
    )
    by_run = ", ".join(f"{ratio:.2f}" for ratio in row["ratios"])
    return (
        f"FairDP's CNN on faces ({row['parameters']:,} parameters), medians of runs in turn: a step takes {one:.0f} ms "
        f"by one worker and {two:.0f} ms by two, **{row['ratio']:.2f} times** as many steps (by run {by_run}). What "
        f"workers tell each other takes {told_two:.1f} ms of a step of two, {told_four:.1f} ms of a step of four."
    )


def main() -> int:
    """Run all parts, or one of them; of the others what was found before stays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=tuple(PARTS))
    chosen = parser.parse_args().part
    path = RESULTS / "workers.json"
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    for what, count in PARTS.items():
        if chosen in (None, what):
            rows = [row for row in rows if row["what"] != what] + list(count())
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(page(rows), encoding="utf-8")
    wrong = [row for row in rows if row.get("differs") or row.get("same") is False]
    print(f"{len(wrong)} of {len(rows)} rows are not as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
