"""Figures of trainings as lines of files, so that an interrupted sweep continues and a finished one is free."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fairdp
from fairdp._files import write_file
from fairdp.experiments.sweeps.fits import Fit, Trained
from fairdp.experiments.sweeps.populations import Population, digest_of
from fairdp.streams import derived_key

# The packages that decide what a training gives; the rest of the program only shows, saves, checks and spreads it.
_DECIDING = (
    *("_scratch.py", "streams.py", "randomness.py", "releases.py", "config", "data", "metrics", "accounting"),
    *("certify", "frontier", "networks", "training", "methods", "run", "classifier.py", "commands/measuring.py"),
    "saved/diagnostics.py",
    *("experiments/sweeps/fits.py", "experiments/sweeps/shifts.py"),
)
# Of these: what no kept training comes by. Tables in memory, proposals, notebooks and reasons.
_NOT_DECIDING = ("data/encoder.py", "data/proposal.py", "run/notebook.py", "run/pipelines.py", "run/reason_words.py")

# Libraries that numbers come from.
_LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "dp-accounting")


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A line: what was trained, on which records and by which code, and what it reached."""

    fit: dict[str, Any]
    records: str
    code: str
    found: Trained

    @classmethod
    def of(cls, line: str | bytes) -> "Kept":
        """The training of a line; raises what JSON and a mapping raise if it is damaged."""
        record = json.loads(line)
        numbers, moved = dict(record["numbers"]), dict(record.get("moved", {}))
        found = Trained(numbers=numbers, moved=moved, seconds=float(record["seconds"]))
        return cls(fit=dict(record["fit"]), records=record["records"], code=record["code"], found=found)

    @property
    def key(self) -> str:
        """Another one for another training, other records or other code."""
        return json.dumps([self.fit, self.records, self.code], sort_keys=True, default=str)

    def line(self) -> bytes:
        """As it is written; numbers that are none, such as a ratio of zero rates, stay so, as Python writes them."""
        about = {"fit": self.fit, "records": self.records, "code": self.code, "seconds": self.found.seconds}
        moved = {"moved": self.found.moved} if self.found.moved else {}
        record = {**about, "numbers": self.found.numbers, **moved}
        return (json.dumps(record, separators=(",", ":"), default=str) + "\n").encode()


class Store:
    """A folder with a file for each data set, which has a line for each finished training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[Path, dict[str, Trained]] = {}

    def path(self, population: Population) -> Path:
        """Where the trainings on a data set are kept."""
        return self.folder / f"{population.dataset}.jsonl"

    def read(self, fit: Fit) -> Trained | None:
        """Figures of a training; None if they are not here, or of other records or code, or their line is damaged."""
        path = self.path(fit.population)
        if path not in self._known:
            self._known[path] = {kept.key: kept.found for kept in kept_in(path)}
        return self._known[path].get(_kept(fit).key)

    def write(self, fit: Fit, found: Trained) -> None:
        """Keep the figures of a training at the end of its file; a line that was cut off before it stays alone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        kept, path = _kept(fit, found), self.path(fit.population)
        with path.open("ab+") as stream:
            if stream.tell():
                stream.seek(-1, 2)
                if stream.read(1) != b"\n":
                    stream.write(b"\n")
            stream.write(kept.line())
        self._known.setdefault(path, {})[kept.key] = found

    def spent_on(self, population: Population) -> list[float]:
        """Budgets of all kept trainings on these records, whichever command or code they were for."""
        records = digest_of(population)
        return [
            kept.found["epsilon"]
            for path in sorted(self.folder.glob("*.jsonl"))
            for kept in kept_in(path)
            if kept.records == records and "epsilon" in kept.found.numbers
        ]


def kept_in(path: Path) -> Iterator[Kept]:
    """The trainings of a file, without damaged lines."""
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            yield Kept.of(line)


def rewrite(path: Path, trainings: Iterable[Kept]) -> None:
    """Replace a file in one step."""
    write_file(path, b"".join(kept.line() for kept in trainings))


def _kept(fit: Fit, found: Trained | None = None) -> Kept:
    found = found or Trained(numbers={})
    return Kept(fit=_described(fit), records=digest_of(fit.population), code=deciding_digest(), found=found)


def _described(fit: Fit) -> dict[str, Any]:
    """A training as plain values: what is not as usual, without the secret of the data holder."""
    population = {name: value for name, value in _unusual(fit.population).items() if name != "key"}
    return {**_unusual(fit), "population": population, "settings": dict(fit.settings)}


def _unusual(value: Fit | Population) -> dict[str, Any]:
    usual = {each.name: each.default for each in fields(value)}
    return {name: found for name, found in asdict(value).items() if found != usual[name]}


def key_of(fit: Fit) -> str:
    """Another one for other records, settings, code or libraries."""
    return hashlib.sha256(_kept(fit).key.encode()).hexdigest()[:24]


@lru_cache(maxsize=1)
def library_versions() -> dict[str, str]:
    """Versions of the libraries that numbers come from."""
    return {name: version(name) for name in _LIBRARIES}


def random_state_of(fit: Fit) -> int:
    """The seed itself in a study of public data; else one that no other records, settings or code have.

    Two models with the same noise, of other scales, of other records or by other code, would show what it hides. On a
    user's own table it follows from their secret.
    """
    key = fit.population.key
    if key is not None:
        return int.from_bytes(derived_key(key, f"noise of {key_of(fit)}"), "little")
    return fit.seed if fit.is_experiment else int(key_of(fit)[:16], 16)


@lru_cache(maxsize=1)
def code_digest() -> str:
    """SHA-256 of the modules of this package that a result may depend on."""
    home = Path(fairdp.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(home.rglob("*.py")):
        name = path.relative_to(home)
        if any(name.is_relative_to(part) for part in _DECIDING) and name.as_posix() not in _NOT_DECIDING:
            digest.update(name.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def deciding_digest() -> str:
    """What tells the code and the libraries of a training apart, in a few characters."""
    about = json.dumps([code_digest(), library_versions()], sort_keys=True)
    return hashlib.sha256(about.encode()).hexdigest()[:16]
