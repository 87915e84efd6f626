"""The ways from raw records to a saved folder: a file on disk, arrays in Python, a loop of one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fairdp.audit.folders import Files, files_of
from fairdp.audit.tables import GROUPS, IMAGE, LABEL, POSITIVE, SENSITIVE, Shape, Table, write_schema
from fairdp.classifier import FairDPClassifier
from fairdp.data.inference import infer_schema
from fairdp.data.splits import split_by_own_coin
from fairdp.data.tables import load_table
from fairdp.ledger.spending import Spending
from fairdp.own_loop import make_private_fair
from fairdp.run.reading import reader_for
from fairdp.run.settings import RunSettings
from fairdp.tuning import tune

N_FEATURES = IMAGE[1]
TEST_FRACTION = 0.1
FOLDER = "model"
# Trials differ in nothing that is accounted, so that each may be held against the same record.
GRID = {"learning_rate": [0.05, 0.5]}
EXPECTED_TRIALS = 2.0

Settings = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class FileTask:
    """One fit from a file: what `fairdp fit` is given, and `fairdp tune` with a grid."""

    table: Path
    schema: Path | None
    out: Path
    settings: Settings
    grid: Mapping[str, Sequence[Any]] | None = None


class FitFile(Protocol):
    """Fits from a file and saves; returns what else may be shown to anybody, by name."""

    def __call__(self, task: FileTask) -> Files: ...


class Way(Protocol):
    """Takes a table all the way to files that may be published."""

    def __call__(self, table: Table, place: Path, settings: Settings) -> Files: ...


def fit_file(task: FileTask) -> Files:
    """What the command does, with the functions of the library."""
    estimator = FairDPClassifier(**task.settings)
    settings = RunSettings.of(**estimator.get_params(deep=False))
    reader = None
    if task.schema is None:
        reader = reader_for(settings, Spending(None, command="fit"), task.table.name)
    table = load_table(
        task.table,
        label=LABEL,
        sensitive=(SENSITIVE,),
        schema_path=task.schema,
        positive=POSITIVE,
        read=reader or infer_schema,
    )
    train, _ = split_by_own_coin(table.data, seed=0, share=TEST_FRACTION)
    options: dict[str, Any] = {
        "feature_schema": table.schema.to_dict(),
        "reading": None if reader is None else reader.reading,
    }
    if task.grid is None:
        estimator.fit_grouped(train, **options)
    else:
        estimator = tune(estimator, task.grid, train, expected_trials=EXPECTED_TRIALS, **options)
    estimator.save(task.out)
    return {}


@dataclass(frozen=True, kw_only=True)
class ByFile:
    """From a CSV file, with a declared schema or without."""

    fit: FitFile
    declared: bool = True
    searched: bool = False

    def __call__(self, table: Table, place: Path, settings: Settings) -> Files:
        path, schema, out = place / "people.csv", place / "schema.json", place / FOLDER
        table.write(path)
        write_schema(schema)
        grid = GRID if self.searched else None
        shown = self.fit(
            FileTask(table=path, schema=schema if self.declared else None, out=out, settings=settings, grid=grid)
        )
        return {**files_of(out), **shown}


@dataclass(frozen=True, kw_only=True)
class ByArrays:
    """From arrays, with `FairDPClassifier.fit`; somebody may have put two groups into one."""

    shape: Shape = "table"
    weighted: bool = False
    two_groups: bool = False

    def __call__(self, table: Table, place: Path, settings: Settings) -> Files:
        arrays, out = table.arrays(self.shape), place / FOLDER
        weights: dict[str, Any] = {"sample_weight": 2 * arrays.weights} if self.weighted else {}
        estimator = FairDPClassifier(**settings)
        groups = [self.group(name) for name in arrays.sex]
        estimator.fit(arrays.X, arrays.y, sensitive_features=groups, **weights)
        estimator.save(out)
        return files_of(out)

    def group(self, name: str) -> str:
        """The group of a record whom the table has in this one."""
        return GROUPS[0] if self.two_groups and name == GROUPS[2] else name


@dataclass(frozen=True, kw_only=True)
class ByOwnLoop:
    """From arrays, with `make_private_fair` and an optimiser of torch."""

    def __call__(self, table: Table, place: Path, settings: Settings) -> Files:
        arrays, out = table.arrays("sequences"), place / FOLDER
        torch.manual_seed(0)
        loop = make_private_fair(layered(), (arrays.X, arrays.y, arrays.sex), **settings)
        optimizer = torch.optim.SGD(loop.parameters(), lr=0.1, momentum=0.5)
        for _ in range(loop.n_steps):
            loop.backward()
            optimizer.step()
        loop.finish().save(out)
        return files_of(out)


def layered() -> nn.Module:
    """Layers that are differentiated through hooks."""
    return nn.Sequential(
        nn.Conv1d(1, 2, 3),
        nn.Tanh(),
        nn.Flatten(),
        nn.LayerNorm(2 * (N_FEATURES - 2)),
        nn.Linear(2 * (N_FEATURES - 2), 4),
        nn.ReLU(),
    )


class OwnForward(nn.Module):
    """A forward pass that nobody knows, so that every record is differentiated alone."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(N_FEATURES, 3) / 3)
        self.shift = nn.Parameter(torch.zeros(3))

    def forward(self, records: Tensor) -> Tensor:
        return torch.sin(records @ self.weight) * torch.exp(self.shift) + self.shift
