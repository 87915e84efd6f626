"""The table of a month and any number of later ones, each with a count of what is not as it was declared."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

N_ROWS = 1500
# By column, as predictions report them.
Counts = dict[str, Counter[str]]


def this_month(n_rows: int = N_ROWS, seed: int = 0) -> pd.DataFrame:
    """Every kind of column: numbers, counts, dates, codes, words, an identifier and free text."""
    rng = np.random.default_rng(seed)
    # No month has more or less by chance alone.
    income = rng.lognormal(10, 1, n_rows).clip(3000, 200_000).round(2)
    since = (pd.Timestamp("2015-02-03") + pd.to_timedelta(rng.integers(0, 2000, n_rows), unit="D")).strftime("%Y-%m-%d")
    return pd.DataFrame(
        {
            "person": [f"p-{seed}-{i}" for i in range(n_rows)],
            "age": rng.integers(18, 80, n_rows),
            "income": income,
            "children": rng.integers(0, 5, n_rows),
            "job": rng.choice(["clerk", "driver", "nurse"], n_rows),
            "owner": rng.random(n_rows) < 0.3,
            "branch": [f"{code:03d}" for code in rng.integers(1, 9, n_rows)],
            "since": since,
            "sex": rng.choice(["f", "m"], n_rows),
            "approved": np.where(income > rng.lognormal(10, 0.5, n_rows), "yes", "no"),
        }
    )


@dataclass(frozen=True)
class Month:
    """A drifting table, and how many cells of each column are what."""

    frame: pd.DataFrame
    counts: Counts = field(default_factory=dict)

    @property
    def expected(self) -> dict[str, dict[str, int]]:
        return {column: dict(counts) for column, counts in self.counts.items() if counts}


_MISSING: list[Any] = [None, "", "NA", "nan", "NULL"]
_WORDS = ["much", "about 30", "-", "?", "12 years", "unbekannt"]
# Beyond the bounds that are proposed of this month.
_BEYOND: dict[str, list[Any]] = {
    "age": [-5, 150, 1e9, "inf"],
    "income": [-100, 1e12, "-inf"],
    "children": [9, 17, -1],
    "since": ["1950-01-01", "2099-12-31"],
}
_NEW: dict[str, list[Any]] = {
    "job": ["pilot", "Clerk", 7, 'é, "x"'],
    "owner": ["maybe", "yes", 2],
    "branch": ["099", "A1", "900"],
}
# Other ways to write what is declared, which are no drift at all.
_SAME: dict[str, Any] = {
    "age": lambda cell: f" {float(cell)} ",
    "children": lambda cell: f"{cell}.0",
    "job": lambda cell: f" {cell}",
    "owner": lambda cell: str(cell).upper(),
    "since": lambda cell: str(cell).replace("-", "/"),
}


def next_month(seed: int) -> Month:
    """New categories, missing values, ranges and types, columns more, less and in another order; by a seed."""
    rng = np.random.default_rng([1, seed])
    frame = this_month(int(rng.integers(40, 120)), seed=seed + 1).astype(object)
    counts: Counts = {}
    for name in ("age", "income", "children", "job", "owner", "branch", "since"):
        frame[name], counts[name] = _drifted(frame[name].tolist(), name, rng)
    if rng.random() < 0.3:
        frame["age"], counts["age"] = frame["age"].map(str), counts["age"]
    frame["note"] = "new column"
    # Neither group nor label is needed, and nobody looks at other columns.
    frame = frame.drop(columns=["sex", "approved", "person"][: rng.integers(0, 4)])
    return Month(frame[rng.permutation(frame.columns)], counts)


def _drifted(cells: list[Any], name: str, rng: np.random.Generator) -> tuple[list[Any], Counter[str]]:
    kinds = {"missing": _MISSING}
    kinds |= {"out_of_range": _BEYOND[name], "unreadable": _WORDS} if name in _BEYOND else {"undeclared": _NEW[name]}
    counts: Counter[str] = Counter()
    # Fewer than half are unreadable, in every column.
    shares = {kind: rng.choice([0, 0.05, 0.3, 0.45 if kind == "unreadable" else 0.9]) for kind in kinds}
    for place in range(len(cells)):
        kind = next((kind for kind in kinds if rng.random() < shares[kind]), None)
        if kind == "unreadable" and 2 * (counts[kind] + 1) > len(cells):
            kind = None
        if kind is not None:
            cells[place] = kinds[kind][rng.integers(len(kinds[kind]))]
            counts[kind] += 1
        elif name in _SAME and rng.random() < 0.2:
            cells[place] = _SAME[name](cells[place])
    return cells, counts


def written(month: Month, folder: Path, number: int) -> Path:
    """As CSV, or as Parquet with the text of each cell."""
    path = folder / f"month-{number}.{'parquet' if number % 2 else 'csv'}"
    if number % 2:
        texts = month.frame.map(lambda cell: None if cell is None else str(cell))
        texts.to_parquet(path)
    else:
        month.frame.to_csv(path, index=False)
    return path
