"""The small table that is audited, as a file on disk with its declared schema, and as arrays."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

# One raw record: the text of every cell, as it stands in the file.
Row = dict[str, str]

COLUMNS = ("code", "age", "income", "hours", "region", "joined", "city", "sex", "approved", "weight")
GROUPS = ("f", "m", "x")
SHARES = (0.42, 0.33, 0.25)
LABEL, SENSITIVE, POSITIVE = "approved", "sex", "yes"
# Every kind of column, each with what may go wrong in it. The weight is not an input.
SCHEMA: dict[str, Any] = {
    "label": LABEL,
    "positive": POSITIVE,
    "negative": "no",
    "sensitive": [{"name": SENSITIVE, "groups": list(GROUPS), "other": "x"}],
    "columns": [
        {"type": "categorical", "name": "code", "categories": ["1", "2", "3", "4", "5", "other"], "other": "other"},
        {"type": "numeric", "name": "age", "low": 17, "high": 90, "missing": "indicator"},
        {"type": "numeric", "name": "income", "low": -10000, "high": 1000000, "transform": "signed_log"},
        {"type": "binned", "name": "hours", "edges": [20, 35, 45]},
        {"type": "categorical", "name": "region", "categories": ["north", "south", "west", "?"]},
        {"type": "numeric", "name": "joined", "low": 10957, "high": 20000, "missing": "indicator"},
        {"type": "other_than", "name": "city", "value": "Main"},
    ],
    "declared": True,
}
IMAGE = (1, 8, 8)
Shape = Literal["table", "sequences", "images"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Raw records in the order of the file."""

    rows: tuple[Row, ...]

    def with_row(self, row: Row) -> "Table":
        """With one record more, at the end, so that the coins of all others are theirs still."""
        return Table(rows=(*self.rows, row))

    def write(self, path: Path) -> None:
        """The table as a CSV file."""
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(COLUMNS)
            writer.writerows([row[name] for name in COLUMNS] for row in self.rows)

    def arrays(self, shape: Shape = "table") -> "Arrays":
        """The same people as somebody holds them who works with arrays."""
        X = np.array([_features(row) for row in self.rows], dtype=np.float64)
        if shape != "table":
            X = (np.einsum("ni,nj->nij", X, X) if shape == "images" else X)[:, None]
        return Arrays(
            X=X,
            y=np.array([int(row[LABEL] == POSITIVE) for row in self.rows]),
            sex=[group_of(row) for row in self.rows],
            weights=np.array([float(row["weight"]) for row in self.rows]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrays:
    """Inputs, labels, groups and weights of the records."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    sex: list[str]
    weights: NDArray[np.float64]


def group_of(row: Row) -> str:
    """The group that the schema gives a record."""
    return row[SENSITIVE] if row[SENSITIVE] in GROUPS else "x"


def label_of(row: Row) -> int:
    """The code of a record's label."""
    return int(row[LABEL] == POSITIVE)


def is_numeric(row: Row) -> bool:
    """Whether whoever makes arrays could make numbers of this record."""
    try:
        _features(row)
    except ValueError:
        return False
    return True


def write_schema(path: Path) -> None:
    """The declared schema as a file."""
    path.write_text(json.dumps(SCHEMA))


def base_table(seed: int, *, n_rows: int = 240) -> Table:
    """People with codes such as 01, some missing values, and a label that follows from income and group."""
    rng = np.random.default_rng(seed)
    return Table(rows=tuple(typical_row(rng) for _ in range(n_rows)))


def typical_row(rng: np.random.Generator, group: str | None = None) -> Row:
    """One person like the others."""
    sex = str(rng.choice(GROUPS, p=SHARES)) if group is None else group
    income = float(rng.uniform(-5e3, 7e4))
    yes = rng.random() < 1 / (1 + np.exp(-(income - 3e4) / 1e4 - (sex == "m")))
    missing = rng.random(3) < 0.1
    return {
        "code": f"{rng.integers(1, 6):02d}",
        "age": "" if missing[0] else str(rng.integers(18, 90)),
        "income": f"{income:.2f}",
        "hours": str(rng.integers(10, 60)),
        "region": "" if missing[1] else str(rng.choice(["north", "south"])),
        "joined": "" if missing[2] else str(np.datetime64("2005-01-01") + int(rng.integers(6000))),
        "city": str(rng.choice(["Main", "Elsewhere"])),
        SENSITIVE: sex,
        LABEL: POSITIVE if yes else "no",
        "weight": f"{rng.random():.3f}",
    }


def _features(row: Row) -> Sequence[float]:
    age, income, hours = (float(row[name] or 0) for name in ("age", "income", "hours"))
    code = int(row["code"]) if row["code"].isdigit() else 9
    near = [age / 50 - 1, income / 3e4 - 1, hours / 30 - 1, code / 3 - 1]
    return [*near, float(row["region"] == "south"), float(row["city"] == "Main"), 1.0, float(not row["joined"])]
