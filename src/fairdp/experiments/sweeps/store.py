"""Figures of trainings in files of their own, so that an interrupted sweep continues and a finished one is free."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
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
    *("streams.py", "randomness.py", "releases.py", "config", "data", "metrics", "accounting", "certify", "frontier"),
    *("networks", "training", "methods", "run", "classifier.py", "commands/measuring.py"),
    *("experiments/sweeps/fits.py", "experiments/sweeps/shifts.py"),
)

# Libraries that numbers come from.
_LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "dp-accounting")


class Store:
    """A folder with one file for each training, named after the records, the settings and the code that made it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, fit: Fit) -> Path:
        """Where the figures of a training are kept."""
        return self.folder / f"{key_of(fit)}.json"

    def read(self, fit: Fit) -> Trained | None:
        """Figures of a training, None if they are not here or the file is damaged."""
        try:
            record = json.loads(self.path(fit).read_bytes())
            moved = record["figures"].pop("moved", {})
            return Trained(numbers=record["figures"], moved=moved, seconds=record["seconds"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def spent_on(self, population: Population) -> list[float]:
        """Budgets of all kept trainings on these records, whichever command they were for."""
        records, spent = digest_of(population), []
        for path in sorted(self.folder.glob("*.json")):
            with suppress(OSError, ValueError, TypeError, KeyError):
                record = json.loads(path.read_bytes())
                if record["records"] == records:
                    spent.append(float(record["figures"]["epsilon"]))
        return spent

    def write(self, fit: Fit, found: Trained) -> None:
        """Keep the figures of a training; the file is there as a whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        about = {"fit": _described(fit), "records": digest_of(fit.population), "seconds": found.seconds}
        record = {**about, "figures": {**found.numbers, **({"moved": found.moved} if found.moved else {})}}
        # JSON as Python writes it: a metric that is not a number, such as a ratio of zero rates, stays one.
        write_file(self.path(fit), (json.dumps(record, indent=1, default=str) + "\n").encode())


def key_of(fit: Fit) -> str:
    """Another one for other records, settings, code or libraries."""
    about = {
        "fit": _described(fit),
        "records": digest_of(fit.population),
        "code": code_digest(),
        "versions": library_versions(),
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()[:24]


def _described(fit: Fit) -> dict[str, Any]:
    """A training as plain values, without the secret of the data holder."""
    plain = asdict(fit)
    del plain["population"]["key"]
    return plain


@lru_cache(maxsize=1)
def library_versions() -> dict[str, str]:
    """Versions of the libraries that numbers come from."""
    return {name: version(name) for name in _LIBRARIES}


def random_state_of(fit: Fit) -> int:
    """The seed itself in a study of public data; else one that no other records, settings or code have.

    Two models with the same noise, of other scales, of other records or by other code, would show what it hides. On a
    user's own table it follows from their secret: the file's name is for everybody to see.
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
        if any(name.is_relative_to(part) for part in _DECIDING):
            digest.update(name.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
