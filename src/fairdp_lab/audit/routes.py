"""Routes through the program that an audit records and replays, and the account that each release is held against.

A route takes a small table all the way to published files, as users of one method may. `Recorder` notes what leaves the
records on the way, `Replayer` holds another run against it, and `PrivacyClaim` says how far one record may move it.
"""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load
from scipy.stats import binom
from torch import Tensor, nn

from fairdp._io import json_bytes
from fairdp.accounting.mechanisms import LaplaceRelease
from fairdp.accounting.spent import CELLS, CENTRE, DIRECTION, FREQUENCIES, FRONTIER, RANKING, PrivacySpent
from fairdp.classifier import FairDPClassifier
from fairdp.data.grouped import split_by_own_coin
from fairdp.data.infer import infer_schema
from fairdp.data.tables import load_table
from fairdp.fitting import fit_source
from fairdp.ledger.ledger import Spending
from fairdp.methods import METHODS
from fairdp.own_loop import make_private_fair
from fairdp.parameters import METRICS
from fairdp.records import Source
from fairdp.releases import OPEN_DOMAIN, Release
from fairdp.run.fit import reader_for
from fairdp.run.plan import checked
from fairdp.tuning import tune

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
LOOK, SCORES, SIZES, READING = "look", "scores", "sizes", "reading"
# Sizes are counted over the training records alone, so that held-out records pay for looks and scores only.
HELD_OUT = (LOOK, SCORES)
SURVEYS = (FREQUENCIES, CENTRE, CELLS, DIRECTION, FRONTIER, RANKING)
TRAINING = (SIZES, "gradient", "statistics", "histogram", "polynomial", *SURVEYS)
# Distances are computed in double precision from the very numbers that were accounted.
_SLACK = 1 + 1e-9
# Below this part of what is accounted a move is rounding, as when another row stands in a matrix product.
ROUNDING = 1e-4
# Chance that a record that is sampled as accounted is in so many batches that it is reported.
_FALSE_ALARM = 1e-9
Found = tuple[str, str]
Files = Mapping[str, bytes]
N_FEATURES = IMAGE[1]
TEST_FRACTION = 0.1
FOLDER = "model"
# Trials differ in nothing that is accounted, so that each may be held against the same record.
GRID = {"learning_rate": [0.05, 0.5]}
EXPECTED_TRIALS = 2.0
Settings = Mapping[str, Any]
Grid = Mapping[str, Sequence[Any]]
# Sizes that somebody might have declared.
_DECLARED_SIZES = {"f": 60, "m": 50, "x": 30}
# High rates and few steps: the record by which two tables differ should often be in the batch.
_COMMON: dict[str, Any] = {
    "epsilon": 8.0,
    "sample_rate": 0.4,
    "certify_fraction": 0.35,
    # The cheapest to compute; all three are certified on one route.
    "certify_metrics": ("equal_opportunity",),
    "hidden": (6,),
    "n_members": 3,
    "n_draws": 5,
}
STEPS, QUICK_STEPS = 100, 20
_QUICK = {
    "dpsgd": ("undeclared", "own forward", "weights"),
    "fairdp": ("looks", "own loop", "group optimizers"),
    "raco_dp": ("layers",),
    "dp_fermi": ("parts",),
    "fairdp_frontier": ("arrays, two groups", "oriented gradients"),
}
_ALONE = "declared sizes, alone in a group"
# Of a report with private metrics, which may be published whole, what the clock and the place decide.
_NOT_COMPARED = ("seconds", "out")


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

    def arrays(self, shape: Shape = "table") -> tuple[NDArray[np.float64], NDArray[np.int64], list[str]]:
        """Inputs, labels and groups of the same people, as somebody holds them who works with arrays."""
        X = np.array([_features(row) for row in self.rows], dtype=np.float64)
        if shape != "table":
            X = (np.einsum("ni,nj->nij", X, X) if shape == "images" else X)[:, None]
        return X, np.array([label_of(row) for row in self.rows]), [group_of(row) for row in self.rows]


def group_of(row: Row) -> str:
    """The group that the schema gives a record."""
    return row[SENSITIVE] if row[SENSITIVE] in GROUPS else "x"


def label_of(row: Row) -> int:
    """The code of a record's label."""
    return int(row[LABEL] == POSITIVE)


def is_numeric(row: Row) -> bool:
    """True if whoever makes arrays could make numbers of this record."""
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


class Diverged(Exception):
    """A replayed run has left the path of the recorded one: what it does next depends on one record."""

    def __init__(self, release: str, found: str) -> None:
        super().__init__(f"{release}: {found}")
        self.release, self.found = release, found


class Move(NamedTuple):
    """Distance by which one record moved one release, before noise, in units of the noise.

    ``distance`` is the L1 distance over the scale of Laplace noise, and the L2 distance over the deviation of Gaussian
    noise.
    """

    place: int
    purpose: str
    law: str
    distance: float

    @property
    def name(self) -> str:
        """The release as people count."""
        return named(self.place, self.purpose)


def named(place: int, purpose: str) -> str:
    """A release by its place in the run, from 1, and its purpose."""
    return f"release {place + 1} ({purpose})"


class Recorder:
    """Notes every release of a run and lets it pass."""

    def __init__(self) -> None:
        self.releases: list[Release] = []

    def __call__(self, release: Release) -> NDArray[Any]:
        # Copies: what leaves may be changed in place by whoever receives it.
        copied = Release(
            purpose=release.purpose,
            law=release.law,
            scale=np.array(release.scale, dtype=np.float64),
            exact=np.array(release.exact),
            noisy=np.array(release.noisy),
        )
        self.releases.append(copied)
        return release.noisy


class Replayer:
    """Holds each release against the recorded one, notes how far it moved, and lets the recorded one leave.

    What was released before is thereby the same in both runs, as the analysis of adaptive composition has it.
    """

    def __init__(self, recorded: Sequence[Release]) -> None:
        self.recorded = recorded
        self.moves: list[Move] = []

    def __call__(self, release: Release) -> NDArray[Any]:
        place = len(self.moves)
        name = named(place, release.purpose)
        if place >= len(self.recorded):
            raise Diverged(name, f"one more than the {len(self.recorded)} releases of the recorded run")
        before = self.recorded[place]
        _check_same_form(name, before, release)
        self.moves.append(Move(place, release.purpose, release.law, _distance(before, release)))
        return before.noisy.copy()

    def check_complete(self) -> None:
        """Refuse a run that has ended early."""
        if len(self.moves) < len(self.recorded):
            missing = self.recorded[len(self.moves)]
            raise Diverged(named(len(self.moves), missing.purpose), "was not made: the run ended before it")


def _check_same_form(name: str, before: Release, release: Release) -> None:
    """Refuse anything but another exact value: purpose, law, shape and noise must not depend on records."""
    if (before.purpose, before.law) != (release.purpose, release.law):
        found = f"{release.purpose} with {release.law} noise in place of {before.purpose} with {before.law} noise"
        raise Diverged(name, found)
    shapes = np.shape(before.exact), np.shape(release.exact)
    is_open = OPEN_DOMAIN in (before.exact.dtype, release.exact.dtype)
    if is_open and (before.exact.dtype, before.noisy.dtype) != (release.exact.dtype, release.noisy.dtype):
        raise Diverged(name, "counts of whatever occurs in place of other counts")
    if not is_open and (shapes[0] != shapes[1] or np.shape(release.noisy) != shapes[0]):
        raise Diverged(name, f"has shape {shapes[1]} in place of {shapes[0]}")
    if not np.array_equal(before.scale, np.asarray(release.scale, dtype=np.float64)):
        largest = float(np.max(np.abs(np.asarray(release.scale) / before.scale - 1)))
        raise Diverged(name, f"the scale of the noise depends on the records: it differs by up to {largest:.2g} of it")


def _distance(before: Release, release: Release) -> float:
    if before.exact.dtype == OPEN_DOMAIN:
        moved = _moved_counts(before.exact, release.exact)
    else:
        moved = np.asarray(release.exact, dtype=np.float64) - np.asarray(before.exact, dtype=np.float64)
    if not moved.any():
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(moved == 0, 0.0, moved / before.scale)
    # A value that is not finite is hidden by no noise.
    total = np.abs(shares).sum() if before.law == "laplace" else np.sqrt(np.square(shares).sum())
    return float(total) if np.isfinite(total) else float("inf")


def _moved_counts(before: NDArray[np.void], after: NDArray[np.void]) -> NDArray[np.float64]:
    """Difference of each count; what only one of both names counts zero in the other."""
    counts: dict[tuple[int, str], int] = {(place, value): -count for place, value, count in before.tolist()}
    for place, value, count in after.tolist():
        counts[place, value] = counts.get((place, value), 0) + count
    return np.array(list(counts.values()), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class PrivacyClaim:
    """Distances that the privacy record allows a record of one group, in units of the noise.

    Parameters
    ----------
    step
        Squared L2 distance over all Gaussian releases of one step.
    sample_rate, n_steps
        Chance to be in a batch, and the number of steps of one trial.
    polynomial, histogram, sizes, looks
        L1 distance of Laplace releases, over the whole trial; for sizes with Gaussian noise the squared L2 distance.
        ``looks`` is that of all looks and of the scores together.
    queries
        Squared L2 distance of all Gaussian releases outside the steps.
    query
        The same of a single one, by what it is: whoever moves one further may not make up for it in another.
    reading
        Squared L2 distance of all counts of the columns of a table, for any record.
    searched
        Whether the run was a search, whose trials are accounted one by one.
    """

    step: float
    sample_rate: float
    n_steps: int
    polynomial: float
    histogram: float
    sizes: float
    looks: float
    queries: float
    query: Mapping[str, float]
    reading: float
    searched: bool

    @classmethod
    def of(cls, privacy: PrivacySpent, group: str, label: int) -> "PrivacyClaim":
        """For a record of this group and label."""
        name = group if group in privacy.mechanisms else f"{group}, label {label}"
        mechanism = privacy.mechanisms[name]
        surveys = 0.0 if isinstance(mechanism, LaplaceRelease) else mechanism.surveys_multiplier
        return cls(
            step=0.0 if isinstance(mechanism, LaplaceRelease) else mechanism.noise_multiplier**-2,
            sample_rate=mechanism.sample_rate,
            n_steps=mechanism.n_steps,
            polynomial=1 / mechanism.noise_multiplier if isinstance(mechanism, LaplaceRelease) else 0.0,
            histogram=privacy.histogram_epsilon,
            # A pure ε, or one over the squared deviation of Gaussian noise.
            sizes=privacy.counts_std**-2 if privacy.counts_std else privacy.counts_epsilon,
            looks=privacy.certify_epsilons.get(group, 0.0),
            queries=surveys**-2 if surveys else 0.0,
            query={what: std**-2 for what, std in privacy.surveys.items() if std},
            reading=privacy.reading.multiplier**-2 if privacy.reading else 0.0,
            searched=privacy.selection is not None,
        )

    def overspent(self, moves: Sequence[Move]) -> Iterator[Found]:
        """Releases that the record moved further than is accounted, each with what was found."""
        for trial in trials_of(moves) if self.searched else [moves]:
            yield from self._beyond_steps(trial)
            for purposes, allowed in (
                (("polynomial",), self.polynomial),
                (("histogram",), self.histogram),
                (HELD_OUT, self.looks),
            ):
                yield from _beyond([move for move in trial if move.purpose in purposes], allowed)
            yield from self._beyond_surveys([move for move in trial if move.purpose in SURVEYS])
            yield from _trained_and_held_out(trial)
        yield from _beyond([move for move in moves if move.purpose == SIZES], self.sizes)
        yield from _beyond([move for move in moves if move.purpose == READING], self.reading)

    def _beyond_steps(self, moves: Sequence[Move]) -> Iterator[Found]:
        steps = steps_of(moves)
        if len(steps) > self.n_steps:
            yield steps[self.n_steps][-1].name, f"one step more than the {self.n_steps} that are accounted"
        for step in steps:
            yield from _beyond(step, self.step)

    def _beyond_surveys(self, moves: Sequence[Move]) -> Iterator[Found]:
        for move in moves:
            yield from _beyond([move], self.query.get(move.purpose, 0.0))
        yield from _beyond(moves, self.queries)

    def in_batches(self, moves: Sequence[Move]) -> int:
        """In how many batches the record was: it moved the step by more than rounding."""
        limit = self.step * ROUNDING**2
        return sum(sum(move.distance**2 for move in step) > limit for step in steps_of(moves))

    def sampled_too_often(self, moves: Sequence[Move]) -> Iterator[Found]:
        """A record that is in more batches than its rate explains, at one false alarm in a billion."""
        n_steps, seen = len(steps_of(moves)), self.in_batches(moves)
        if seen and binom.sf(seen - 1, n_steps, self.sample_rate) < _FALSE_ALARM:
            yield (
                "sampling",
                f"in {seen} of {n_steps} batches, which a rate of {self.sample_rate:.3g} does not explain",
            )


def _beyond(moves: Sequence[Move], allowed: float) -> Iterator[Found]:
    """Report Laplace releases that move by more than this in all, or Gaussian ones by more than this squared."""
    if not moves:
        return
    if moves[0].law == "laplace":
        spent, unit = sum(move.distance for move in moves), "scales"
    else:
        spent, allowed = math.sqrt(sum(move.distance**2 for move in moves)), math.sqrt(allowed)
        unit = "deviations"
    if not spent <= allowed * _SLACK:
        yield moves[-1].name, f"one record moves it by {spent:.4g} {unit} of the noise, accounted are {allowed:.4g}"


def _trained_and_held_out(moves: Sequence[Move]) -> Iterator[Found]:
    """A group pays for training or for the certificate, whichever costs more: no record may be in both."""
    trained = any(move.distance for move in moves if move.purpose in TRAINING)
    counted = next((move for move in moves if move.purpose in HELD_OUT and move.distance), None)
    if trained and counted is not None:
        yield counted.name, "the record was held out and trained on, but its group pays for one of the two"


def steps_of(moves: Sequence[Move]) -> list[list[Move]]:
    """The releases of each step: statistics and the gradient that follows them were made from one sample."""
    found: list[list[Move]] = []
    is_open = False
    for move in moves:
        if move.purpose in ("statistics", "gradient"):
            if not is_open:
                found.append([])
            found[-1].append(move)
            is_open = move.purpose == "statistics"
    return found


def trials_of(moves: Sequence[Move]) -> list[Sequence[Move]]:
    """The releases of each trial of a search: every trial ends with its look, and the scores that may follow it."""
    after = [*(move.purpose for move in moves[1:]), ""]
    stops = [place + 1 for place, move in enumerate(moves) if move.purpose in HELD_OUT and after[place] != SCORES]
    return [moves[start:stop] for start, stop in pairwise([0, *stops])]


def files_of(folder: Path) -> dict[str, bytes]:
    """Contents of all files below a folder, by their paths in it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def differing_files(before: Files, after: Files) -> Iterator[Found]:
    """Files that differ, each with the first place where they do.

    A file that only names others by their hashes differs with them; it is reported where nothing else is.
    """
    found = [
        (f"file {name}", _first_difference(name, before.get(name), after.get(name)))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    hashes = ("$.files.", "$.about.model_sha256")
    yield from [each for each in found if each[0] != "file SHA256SUMS" and not each[1].startswith(hashes)] or found


def _first_difference(name: str, before: bytes | None, after: bytes | None) -> str:
    if before is None or after is None:
        return "is written for one of the two tables only"
    if name.endswith(".json"):
        return _path_of_difference(json.loads(before), json.loads(after)) or "differs in its spelling"
    if name.endswith(".safetensors"):
        return _differing_tensor(load(before), load(after))
    place = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(map(len, (before, after)))
    )
    return f"byte {place} differs"


def _differing_tensor(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    for name in sorted({*before, *after}):
        if name not in before or name not in after or before[name].shape != after[name].shape:
            return f"tensor {name!r} has another shape"
        if not np.array_equal(before[name], after[name], equal_nan=True):
            return (
                f"tensor {name!r} differs in {int((before[name] != after[name]).sum())} of {before[name].size} entries"
            )
    return "differs in its header"


def _path_of_difference(before: Any, after: Any, path: str = "$") -> str:
    """The first place where two JSON values differ, with both values there; empty if they are equal."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = list(dict.fromkeys([*before, *after]))
        inner = (_path_of_difference(before.get(name), after.get(name), f"{path}.{name}") for name in names)
    elif isinstance(before, list) and isinstance(after, list):
        pairs = enumerate(zip_longest(before, after))
        inner = (_path_of_difference(a, b, f"{path}[{place}]") for place, (a, b) in pairs)
    else:
        return (
            ""
            if before == after and type(before) is type(after)
            else f"{path} is {after!r} in place of {before!r}"[:160]
        )
    return next((found for found in inner if found), "")


class FitFile(Protocol):
    """Fits from a file as `fairdp fit` does, or `fairdp tune` with a grid, and saves; returns what else is public."""

    def __call__(
        self, table: Path, schema: Path | None, out: Path, settings: Settings, grid: Grid | None = None
    ) -> Files: ...


class Way(Protocol):
    """Takes a table all the way to files that may be published."""

    def __call__(self, table: Table, place: Path, settings: Settings) -> Files: ...


def fit_file(table: Path, schema: Path | None, out: Path, settings: Settings, grid: Grid | None = None) -> Files:
    """The fit of the command, with the functions of the library."""
    estimator = FairDPClassifier(**settings)
    reader = None
    if schema is None:
        resolved = checked(**estimator.get_params(deep=False))
        reader = reader_for(resolved, Spending(None, command="fit"), table.name)
    loaded = load_table(
        table,
        label=LABEL,
        sensitive=(SENSITIVE,),
        schema_path=schema,
        positive=POSITIVE,
        read=reader or infer_schema,
    )
    train, _ = split_by_own_coin(loaded.data, seed=0, share=TEST_FRACTION)
    options: dict[str, Any] = {
        "feature_schema": loaded.schema.to_dict(),
        "reading": None if reader is None else reader.reading,
    }
    if grid is None:
        estimator.fit_grouped(train, **options)
    else:
        estimator = tune(estimator, grid, train, expected_trials=EXPECTED_TRIALS, **options)
    estimator.save(out)
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
        shown = self.fit(path, schema if self.declared else None, out, settings, GRID if self.searched else None)
        return {**files_of(out), **shown}


@dataclass(frozen=True, kw_only=True)
class ByArrays:
    """From arrays, with `FairDPClassifier.fit`; somebody may have put two groups into one."""

    shape: Shape = "table"
    weighted: bool = False
    two_groups: bool = False

    def __call__(self, table: Table, place: Path, settings: Settings) -> Files:
        (X, y, sex), out = table.arrays(self.shape), place / FOLDER
        weights = 2 * np.array([float(row["weight"]) for row in table.rows]) if self.weighted else None
        estimator = FairDPClassifier(**settings)
        estimator.fit(X, y, sensitive_features=[self.group(name) for name in sex], sample_weight=weights)
        estimator.save(out)
        return files_of(out)

    def group(self, name: str) -> str:
        """The group of a record whom the table has in this one."""
        return GROUPS[0] if self.two_groups and name == GROUPS[2] else name


def by_own_loop(table: Table, place: Path, settings: Settings) -> Files:
    """From arrays, with `make_private_fair` and an optimiser of torch."""
    torch.manual_seed(0)
    loop = make_private_fair(layered(), table.arrays("sequences"), **settings)
    optimizer = torch.optim.SGD(loop.parameters(), lr=0.1, momentum=0.5)
    for _ in range(loop.n_steps):
        loop.backward()
        optimizer.step()
    loop.finish().save(place / FOLDER)
    return files_of(place / FOLDER)


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


@dataclass(frozen=True, kw_only=True)
class Route:
    """One way with its settings.

    Parameters
    ----------
    is_full
        Whether every kind of record is sent along; otherwise a few.
    lacks
        A group of which the table has no record, so that a neighbour may be alone in it.
    """

    name: str
    way: Way
    settings: Settings
    is_full: bool = False
    lacks: str = ""

    @property
    def reads_raw_cells(self) -> bool:
        """True if cells are read by the program, and not by whoever made the arrays."""
        return isinstance(self.way, ByFile)

    def group(self, name: str) -> str:
        """The group in which a record of this group of the table is trained on."""
        return self.way.group(name) if isinstance(self.way, ByArrays) else name


def routes_of(method: str, fit: FitFile, *, quick: bool = False) -> list[Route]:
    """The routes of a private method; of the quick ones each method has the file, and every other one method."""
    found = [
        Route(
            name=name,
            way=way,
            settings=_settings(method, quick, **settings),
            is_full=name == "file",
            lacks="x" * (name == _ALONE),
        )
        for name, way, settings in _routes(method, ByFile(fit=fit), ByFile(fit=fit, declared=False))
    ]
    return (
        [route for route in found if route.name == "file" or route.name in _QUICK.get(method, ())] if quick else found
    )


def route_of(method: str, name: str, fit: FitFile, *, quick: bool = False, **settings: Any) -> Route:
    """One route by its name, with other settings if some are given."""
    route = next(route for route in routes_of(method, fit) if route.name == name)
    n_steps = min(route.settings["n_steps"], QUICK_STEPS if quick else STEPS)
    return replace(route, settings={**route.settings, "n_steps": n_steps, **settings})


_Described = tuple[str, Way, dict[str, Any]]


def _routes(method: str, file: ByFile, undeclared: ByFile) -> Iterator[_Described]:
    about = METHODS[method]
    yield "file", file, {}
    yield "no certificate", file, {"certify_fraction": 0.0}
    yield "arrays", ByArrays(), {}
    yield _ALONE, file, {"group_sizes": _DECLARED_SIZES}
    if method == "dpsgd":
        # Of so few records most columns can be read only at such a price.
        yield "undeclared", undeclared, {"epsilon": 40.0}
        yield "undeclared search", ByFile(fit=file.fit, declared=False, searched=True), {"epsilon": 60.0}
        yield "all metrics", file, {"certify_metrics": None}
    if not about.closed_form:
        yield from _routes_by_steps(method, file)
    if about.takes_target:
        for parity in METRICS[1:]:
            yield parity, file, {"parity": parity}
    yield from _own_routes(method, file)


def _routes_by_steps(method: str, file: ByFile) -> Iterator[_Described]:
    about = METHODS[method]
    yield "logistic", file, {"model": "logistic"}
    yield "mlp", file, {"model": "mlp", "activation": "tanh"}
    yield "parts", file, {"max_physical_batch_size": 7}
    yield "weights", ByArrays(weighted=True), {"max_sample_weight": 2.0}
    yield "layers", ByArrays(shape="sequences"), {"module": layered, "n_steps": QUICK_STEPS}
    yield "images", ByArrays(shape="images"), {"model": "cnn", "n_steps": QUICK_STEPS}
    yield "own forward", ByArrays(), {"module": OwnForward, "n_steps": QUICK_STEPS}
    if about.is_one_run:
        yield "own loop", by_own_loop, {"n_members": 1, "n_steps": QUICK_STEPS}
    if about.has_iterates:
        # So few records meet hardly any bound, and looks go on only while they do.
        yield "looks", file, {"n_looks": 3, "require_tau": 0.9, "certify_metrics": ("demographic_parity",)}
    if method in ("dpsgd", "fairdp"):
        yield "search", ByFile(fit=file.fit, searched=True), {}


def _own_routes(method: str, file: ByFile) -> Iterator[_Described]:
    if method == "fairdp":
        yield "one head", file, {"n_members": 1}
        yield "a look that is missed", file, {"n_looks": 3, "require_tau": 0.3}
        yield "average noise", file, {"noise_allocation": "average"}
        yield "group optimizers", file, {"group_optimizers": True, "group_weights": {"f": 3, "m": 2, "x": 1}}
        yield "no bias", file, {"bias": False}
        yield "gibbs", file, {"predictor": "gibbs"}
        yield "smoothed", file, {"predictor": "smoothed"}
    if METHODS[method].joint:
        # Whatever steers the queries after the steps: targets, costs, and prices of one direction or of several.
        yield "positive rate", file, {"positive_rate": 0.4}
        yield "ratio", file, {"min_ratio": 0.8}
        yield "costs", file, {"cost_ratio": 2.0, "max_gap": 0.02}
        yield "arrays, two groups", ByArrays(two_groups=True), {}
        for parity in METRICS[1:]:
            yield f"two groups, {parity}", ByArrays(two_groups=True), {"parity": parity}
        yield "oriented gradients", ByArrays(shape="images"), {"n_steps": QUICK_STEPS}
    if method == "dp_is_sgd":
        yield "noisy sizes", file, {"group_sizes": None}
        yield "labels", file, {"group_sizes": None, "grouping": "attribute_and_label"}


def _settings(method: str, quick: bool, **own: Any) -> Settings:
    # Its rates follow from the sizes, and each has an account of its own, which takes a second.
    sizes = {"group_sizes": _DECLARED_SIZES} if method == "dp_is_sgd" else {}
    settings = {**_COMMON, **sizes, "method": method, "n_steps": QUICK_STEPS if quick else STEPS, **own}
    return {**settings, "n_steps": min(settings["n_steps"], QUICK_STEPS)} if quick else settings


def fit_as_command(table: Path, schema: Path | None, out: Path, settings: Settings, grid: Grid | None = None) -> Files:
    """Read, split, train, certify and save as the command does; returns what it prints for everybody."""
    source = Source(
        table=table,
        dataset=None,
        label=LABEL,
        positive=None,
        sensitive=(SENSITIVE,),
        schema=schema,
        test_fraction=TEST_FRACTION,
    )
    search = None
    if grid is not None:
        tried = {name: list(values) for name, values in grid.items()}
        search = {"grid": tried, "max_gap": 1.0, "expected_trials": EXPECTED_TRIALS}
    certified = bool(settings["certify_fraction"]) and math.isfinite(settings["epsilon"])
    report = fit_source(source, dict(settings), out=out, private_metrics=certified, search=search)
    if not certified:
        # Without private metrics the report holds exact ones, for the data holder only.
        return {}
    shown = {name: value for name, value in report.to_json().items() if name not in _NOT_COMPARED}
    return {"printed.json": json_bytes(shown)}
