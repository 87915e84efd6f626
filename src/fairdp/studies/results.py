"""What a study is given, what it returns, and the two files that are written from it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairdp.files import json_bytes, write_file


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a study is run.

    Parameters
    ----------
    quick
        Far fewer draws: shows that the study works, and little else.
    seed
        Decides every random number; results do not depend on the number of workers.
    workers
        Processes that share the work.
    say
        Where progress is told.
    """

    quick: bool
    seed: int
    workers: int
    say: Callable[[str], None]


@dataclass(frozen=True)
class Findings:
    """Figures for programs, and the same as Markdown for readers."""

    figures: Mapping[str, Any]
    text: str


def command_of(name: str, run: Run) -> str:
    """The command that makes the same results again."""
    return f"fairdp reproduce {name}{' --quick' if run.quick else ''} --seed {run.seed}"


def record_of(name: str, shows: str, run: Run, findings: Findings, *, version: str) -> dict[str, Any]:
    """The figures with where they come from."""
    origin = {"command": command_of(name, run), "version": version, "seed": run.seed, "quick": run.quick}
    return {"study": name, "shows": shows, **origin, **findings.figures}


def write_results(record: Mapping[str, Any], findings: Findings, folder: Path) -> list[Path]:
    """Write ``NAME.json`` and ``NAME.md``; their paths."""
    made = f"Made by `{record['command']}` with fairdp {record['version']}, seed {record['seed']}."
    rough = " A quick run: too few draws for conclusions." if record["quick"] else ""
    text = f"# {record['study']}\n\n{record['shows']}\n\n{made}{rough}\n\n{findings.text}"
    paths = [folder / f"{record['study']}.json", folder / f"{record['study']}.md"]
    for path, content in zip(paths, (json_bytes(record), text.encode()), strict=True):
        write_file(path, content)
    return paths


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown; numbers with a decimal point are cut to what can be read."""
    lines = [headers, ["---"] * len(headers), *([_cell(value) for value in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.2g}" if abs(value) < 0.001 else f"{value:.4f}"
