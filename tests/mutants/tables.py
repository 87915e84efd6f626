"""What became of every mutant, as it is committed: for a program, and on a page."""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from mutants.changing import Mutant

RESULTS = Path(__file__).resolve().parents[2] / "results"
COMMAND = "make mutants"
# The area of the methods' mathematics.
FORMULAS = "formulas"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a mutant: ``killed``, ``killed by the time limit``, ``argued``, ``survived`` or ``error``."""

    verdict: str
    by: str = ""
    seconds: float = 0.0


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
        if json.loads(json.dumps(asdict(mutant))).items() <= row.items():
            found[mutant.name] = Outcome(verdict=row["verdict"], by=row["by"])
    return found


def tables(everything: list[Mutant], found: dict[str, Outcome]) -> tuple[str, str]:
    """All outcomes as JSON, and as a page."""
    counts = Counter(found[mutant.name].verdict for mutant in everything)
    summary = f"{len(everything)} mutants: " + ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
    rows = [
        {**asdict(mutant), "verdict": found[mutant.name].verdict, "by": found[mutant.name].by} for mutant in everything
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
    """How many mistakes in the mathematics of each method came to which verdict; their names begin with the method."""
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
    return f"| {mutant.name} | `{mutant.module.removeprefix('fairdp.')}` | {by} |"
