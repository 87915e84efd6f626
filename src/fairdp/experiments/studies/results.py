"""What a study is given, what it returns, and the two files that are written from it."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fairdp._files import json_bytes, write_file
from fairdp.experiments.sweeps.fits import Fit, Row, Trained
from fairdp.experiments.sweeps.parallel import Result, Task, Workers, run_tasks
from fairdp.experiments.sweeps.store import Store
from fairdp.experiments.sweeps.training import train_all

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = TypeVar("Value")


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
        Who shares the work; a number stands for so many processes on this machine.
    say
        Where progress is told.
    store
        Where finished trainings are kept and found again; None: nowhere.
    datasets
        Data sets that a study of several is cut down to; none named: all of them.
    """

    quick: bool
    seed: int
    workers: int | Workers
    say: Callable[[str], None]
    store: Store | None = None
    datasets: tuple[str, ...] = ()

    def trained(self, fits: Sequence[Fit]) -> list[Trained]:
        """What every training reached, in order; those that are kept from before are not done again."""
        found = train_all(fits, store=self.store, workers=self._workers, say=self.say)
        return [found[fit] for fit in fits]

    def done(
        self, function: Callable[[Task, np.random.Generator], Result], tasks: Sequence[Task], *, what: str
    ) -> list[Result]:
        """Result of every task, in order; ``function`` is called with a task and its own generator."""
        return run_tasks(function, tasks, seed=self.seed, workers=self._workers, say=self.say, what=what)

    @property
    def _workers(self) -> Workers:
        return self.workers if isinstance(self.workers, Workers) else Workers(number=self.workers)


@dataclass(frozen=True)
class Findings:
    """Figures for programs, and the same as Markdown for readers.

    Parameters
    ----------
    figures
        Numbers for the JSON file.
    text
        Markdown.
    runs
        One flat row for each training, for the CSV file; none: no such file.
    drawings
        Pictures, by the end of their file names.
    """

    figures: Mapping[str, object]
    text: str
    runs: Sequence[Mapping[str, object]] = ()
    drawings: Mapping[str, "Figure"] = field(default_factory=dict)


def command_of(name: str, run: Run) -> str:
    """The command that makes the same results again."""
    chosen = f" --datasets {','.join(run.datasets)}" if run.datasets else ""
    return f"fairdp reproduce {name}{' --quick' if run.quick else ''}{chosen} --seed {run.seed}"


def record_of(name: str, shows: str, run: Run, findings: Findings, *, version: str) -> dict[str, object]:
    """The figures with where they come from."""
    origin = {"command": command_of(name, run), "version": version, "seed": run.seed, "quick": run.quick}
    return {"study": name, "shows": shows, **origin, **findings.figures}


def write_results(record: Mapping[str, object], findings: Findings, folder: Path) -> list[Path]:
    """Write ``NAME.json`` and ``NAME.md``, with ``NAME.csv`` and pictures where there are any; their paths."""
    made = f"Made by `{record['command']}` with fairdp {record['version']}, seed {record['seed']}."
    rough = " A quick run: too few draws for conclusions." if record["quick"] else ""
    name = str(record["study"])
    pictures = "".join(f"![{name}{end}]({name}{end}.svg)\n\n" for end in findings.drawings)
    text = f"# {name}\n\n{record['shows']}\n\n{made}{rough}\n\n{pictures}{findings.text}"
    contents = {f"{name}.json": json_bytes(record), f"{name}.md": text.encode()}
    if findings.runs:
        contents[f"{name}.csv"] = csv_bytes(findings.runs)
    for file, content in contents.items():
        write_file(folder / file, content)
    return [folder / file for file in contents] + _write_drawings(findings, folder, name)


def _write_drawings(findings: Findings, folder: Path, name: str) -> list[Path]:
    if not findings.drawings:
        return []
    # On use: most studies draw nothing.
    from fairdp.experiments.drawing import save_figure

    return [path for end, figure in findings.drawings.items() for path in save_figure(figure, folder, name + end)]


def csv_bytes(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Flat rows as CSV, numbers to six digits; a row may lack what others have."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items() if v is not None})
    return stream.getvalue().encode()


def table(lines: Sequence[Mapping[str, object]]) -> str:
    """A table in Markdown from lines by title; numbers with a decimal point are cut to what can be read.

    >>> print(table([{"data": "adult", "gap": 0.12345}]), end="")
    | data | gap |
    | --- | --- |
    | adult | 0.1235 |
    """
    titles = list(lines[0])
    rows = [titles, ["---"] * len(titles), *([_cell(line[title]) for title in titles] for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.2g}" if abs(value) < 0.001 else f"{value:.4f}"


def plain(rows: Iterable[Row]) -> list[dict[str, object]]:
    """Rows for the JSON file."""
    return [row.to_json() for row in rows]


def batched(values: Sequence[Value], size: int) -> list[Sequence[Value]]:
    """The values in parts of one size, such as the seeds of a setting."""
    return [values[start : start + size] for start in range(0, len(values), size)]
